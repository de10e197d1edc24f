"""The mixins of Tensor: one core, few mixins, and no class hides a name of another."""

import ast
from collections.abc import Iterator
from pathlib import Path

import tinyref.tensor
from tinyref import Tensor
from tinyref.tensor.core import TensorCore


def hidden_names(top: type) -> Iterator[str]:
    owner: dict[str, type] = {}
    for layer in reversed(top.__mro__[:-1]):
        for name in vars(layer):
            if name.startswith("__"):
                continue
            if name in owner:
                yield f"{layer.__name__}.{name} hides {owner[name].__name__}.{name}"
            owner[name] = layer


def test_no_class_hides_a_name_of_another() -> None:
    assert list(hidden_names(Tensor)) == []


def test_a_hidden_name_is_seen() -> None:
    class Higher(Tensor):
        def numel(self) -> int:
            """Another meaning."""
            return 0

    assert list(hidden_names(Higher)) == ["Higher.numel hides TensorCore.numel"]


def test_few_mixins_share_one_core() -> None:
    mixins = Tensor.__mro__[1 : Tensor.__mro__.index(TensorCore)]
    assert all(issubclass(mixin, TensorCore) for mixin in mixins)
    assert len(mixins) <= 10
    assert type(Tensor) is type


def private_accesses(text: str) -> Iterator[str]:
    """Yield every `x._name` of a module, where x is neither `self` nor `cls`."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not (is_own or node.attr.startswith("__")):
            yield ast.unparse(node)


def test_private_names_of_tensors_are_used_in_the_core_alone() -> None:
    modules = Path(tinyref.tensor.__path__[0]).glob("*.py")
    others = [path for path in modules if path.name != "core.py"]
    accesses = [name for path in others for name in private_accesses(path.read_text())]
    # An assignment is undone by what is above the module that computes.
    assert accesses == ["cast(Assigned, value.tensor)._undo"]
    assert list(private_accesses("x._value.node")) == ["x._value"]
