"""An error of tinyref is of the class that Python itself would raise."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyref
from tinyref import Context, Device, Tensor, TinyJit, Variable, dtypes, nn
from tinyref.errors import (
    DeviceError,
    TinyrefError,
    UserError,
    UserIndexError,
    UserLookupError,
    UserStateError,
    UserTypeError,
    VerifyError,
    explain_error,
)
from tinyref.nn.state import load_state_dict, safe_load, safe_save


def square() -> Tensor:
    return Tensor([[1.0, 2.0], [3.0, 4.0]])


def row() -> Tensor:
    return Tensor([1, 2, 3])


def image() -> Tensor:
    return Tensor.zeros(1, 2, 3, 3)


Table = dict[str, Callable[[], Any]]
VALUES: Table = {
    "ragged": lambda: Tensor([[1], [2, 3]]),
    "too large": lambda: Tensor([300], dtype=dtypes.uint8),
    "negative size": lambda: Tensor.zeros(-1),
    "arange step": lambda: Tensor.arange(0, 10, 0),
    "linspace steps": lambda: Tensor.linspace(0, 1, -3),
    "slice step": lambda: square()[::0],
    "reshape": lambda: square().reshape(3),
    "two holes": lambda: square().reshape(-1, -1),
    "permute": lambda: square().permute(0, 0),
    "expand": lambda: square().expand(3, 3),
    "shrink": lambda: square().shrink(((0, 3), (0, 1))),
    "shrink pair": lambda: square().shrink(((0, 1, 2), (0, 1))),
    "pad mode": lambda: square().pad((1, 1), mode="foo"),
    "axis twice": lambda: square().sum((0, 0)),
    "broadcast": lambda: square() + row(),
    "cat": lambda: square().cat(row()),
    "split": lambda: square().split([1, 3]),
    "bitcast": lambda: Tensor([1, 2, 3], dtype="int8").bitcast("int16"),
    "dot": lambda: square().dot(Tensor([1.0, 2.0, 3.0])),
    "einsum sizes": lambda: Tensor.einsum("ij,jk", square(), Tensor.zeros(3, 3)),
    "conv2d": lambda: image().conv2d(Tensor.zeros(1, 3, 2, 2)),
    "window": lambda: square().max_pool2d((9, 9)),
    "dropout": lambda: square().dropout(3),
    "shift": lambda: row() << 40,
    "item": lambda: square().item(),
    "backward": lambda: square().backward(),
    "replace": lambda: square().replace(row()),
    "write": lambda: square().__setitem__(0, Tensor([1.0, 2.0, 3.0])),
    "topk": lambda: square().topk(9),
    "rearrange": lambda: square().rearrange("a b -> c"),
    "randint": lambda: Tensor.randint(2, low=3, high=1),
    "classes": lambda: square().cross_entropy(row()),
    "reduction": lambda: square().cross_entropy(Tensor([0, 1]), reduction="foo"),
    "devices twice": lambda: square().shard(("CPU:0", "CPU:0")),
    "bounds": lambda: Variable("a", 5, 0),
    "bind": lambda: Variable("a", 0, 5).bind(9),
    "flag": lambda: Context(DEBUG=99),
    "Linear sizes": lambda: nn.Linear(0, 3),
    "Linear input": lambda: nn.Linear(3, 3)(square()),
    "Conv2d groups": lambda: nn.Conv2d(3, 4, 3, groups=2),
    "LayerNorm": lambda: nn.LayerNorm(3)(square()),
    "rate": lambda: nn.optim.SGD([square()], lr=-1),
    "state shapes": lambda: load_state_dict(
        nn.Linear(2, 2), {"weight": square(), "bias": square()}
    ),
    "lanes": lambda: dtypes.float32.vec(3),
}
TYPES: Table = {
    "truth": lambda: bool(square()),
    "add": lambda: row() + "a",
    "radd": lambda: "a" + row(),
    "compare": lambda: row() < "a",
    "matmul": lambda: row() @ 3,
    "data": lambda: Tensor(object()),
    "data of list": lambda: Tensor([1, "a"]),
    "array": lambda: Tensor(np.array(["a"])),
    "dtype": lambda: Tensor([1], dtype=3),
    "no element type": lambda: Tensor([1], dtype=dtypes.void),
    "device": lambda: Tensor([1], device=3),
    "requires_grad": lambda: Tensor([1], requires_grad=True),
    "index text": lambda: square()["a"],
    "index float": lambda: square()[1.0],
    "index elements": lambda: square()[Tensor([0.5])],
    "size": lambda: Tensor.zeros(2.5),
    "full": lambda: Tensor.full((2,), "a"),
    "arange": lambda: Tensor.arange("a"),
    "linspace": lambda: Tensor.linspace(0, "a", 3),
    "axis": lambda: square().sum("a"),
    "shrink": lambda: square().shrink(3),
    "pad": lambda: square().pad("a"),
    "cat": lambda: square().cat(3),
    "gather": lambda: square().gather(0, 3),
    "mask": lambda: square().masked_fill(square(), 1),
    "einsum": lambda: Tensor.einsum(3, square()),
    "conv2d": lambda: image().conv2d(3),
    "dropout": lambda: square().dropout("a"),
    "invert": lambda: ~square(),
    "negate bool": lambda: -Tensor([True]),
    "integer power": lambda: row().pow(-1),
    "len": lambda: len(Tensor(1)),
    "iter": lambda: iter(Tensor(1)),
    "backward of integers": lambda: row().backward(),
    "assign": lambda: square().assign(row()),
    "rearrange": lambda: square().rearrange(3),
    "rand": lambda: Tensor.rand(2, dtype="int32"),
    "keyword": lambda: Tensor.rand(2, foo=1),
    "classes": lambda: square().nll_loss(Tensor([0.5, 0.5])),
    "shard": lambda: square().shard("CPU"),
    "variable": lambda: Variable(3, 0, 5),
    "bind": lambda: Variable("a", 0, 5).bind("x"),
    "TinyJit": lambda: TinyJit(3),
    "Device": lambda: Device[3],
    "flag": lambda: Context(DEBUG=None),
    "Linear": lambda: nn.Linear("a", 3),
    "Embedding": lambda: nn.Embedding(3, 4)(square()),
    "params": lambda: nn.optim.SGD(3),
    "rate": lambda: nn.optim.SGD([square()], lr="a"),
    "state": lambda: load_state_dict(nn.Linear(2, 2), 3),
    "safe_save": lambda: safe_save({"a": 3}, "x"),
    "safe_load": lambda: safe_load(3),
    "safe_load dtype": lambda: safe_load(square()),
}
INDICES: Table = {
    "integer": lambda: square()[5],
    "too many": lambda: square()[0, 0, 0],
    "array": lambda: square()[np.array([9])],
    "mask": lambda: square()[np.array([True, False, True])],
    "write": lambda: square().__setitem__(5, 1),
    "sum": lambda: square().sum(5),
    "permute": lambda: square().permute(0, 2),
    "squeeze": lambda: square().squeeze(5),
    "gather": lambda: square().gather(5, Tensor([[0]])),
    "size": lambda: square().size(5),
    "shard": lambda: square().shard(("CPU:0", "CPU:1"), axis=5),
}
NAMES: Table = {
    "dtype": lambda: Tensor([1], dtype="foo"),
    "cast": lambda: square().cast("foo"),
    "device": lambda: Device["NOPE"],
    "number of a device": lambda: Device["CPU:x"],
    "to": lambda: square().to("NOPE"),
    "flag": lambda: Context(FOO=3),
    "state": lambda: load_state_dict(nn.Linear(2, 2), {}),
}
STATES: Table = {
    "no gradient": lambda: nn.optim.Adam([square()]).step(),
    "nothing recorded": lambda: square().sum().backward(),
}
ATTRIBUTES: Table = {
    "tensor": lambda: Tensor.zeros(2).foo,  # type: ignore[attr-defined]
    "module": lambda: tinyref.foo,  # type: ignore[attr-defined]
}
TABLES: dict[type[Exception], Table] = {
    ValueError: VALUES,
    TypeError: TYPES,
    IndexError: INDICES,
    LookupError: NAMES,
    RuntimeError: STATES,
}
OWN = {
    ValueError: UserError,
    TypeError: UserTypeError,
    IndexError: UserIndexError,
    LookupError: UserLookupError,
    RuntimeError: UserStateError,
}
CASES = [
    pytest.param(kind, call, id=f"{kind.__name__}-{name}")
    for kind, table in TABLES.items()
    for name, call in table.items()
]


@pytest.mark.parametrize(("kind", "call"), CASES)
def test_a_wrong_call_raises_the_class_of_python(
    kind: type[Exception], call: Callable[[], Any]
) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert type(raised.value) is OWN[kind], "nothing between: a wrong value is no TypeError"


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_unknown_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match="foo"):
        ATTRIBUTES[name]()


def test_the_message_is_plain() -> None:
    with pytest.raises(LookupError) as raised:
        Device["NOPE"]
    assert str(raised.value).startswith("device: unknown device 'NOPE'")


ATTACK = "\x1b[2J\x9b\r\x07\ud800"
SHOWN = "\\x1b[2J\\x9b\\r\\x07\\ud800"


def test_no_error_and_no_repr_has_control_characters(tmp_path: Path) -> None:
    for error in (
        UserError(f"a{ATTACK}\nb"),
        UserLookupError(f"a{ATTACK}\nb"),
        VerifyError(f"a{ATTACK}\nb", "", "", ""),
        DeviceError(f"a{ATTACK}\nb", "words"),
    ):
        assert str(error).startswith(f"a{SHOWN}\nb")
    with pytest.raises(LookupError) as raised:
        load_state_dict({}, {f"a{ATTACK}": square()})
    assert SHOWN in str(raised.value)
    path = tmp_path / "a\x1b[2J"
    path.write_bytes(b"x")
    assert "a\\x1b[2J" in repr(Tensor(path))


def test_an_error_without_words_is_explained_by_where_it_was_raised() -> None:
    def raised(words: str) -> UserError:
        with pytest.raises(UserError) as caught:
            raise UserError(words)
        return caught.value

    first, place, _ = explain_error(raised("")).split("\n")
    assert first.rstrip() == "UserError:"
    assert place.endswith("in raised")
    assert explain_error(raised("shape: too large")) == "shape: too large"


@pytest.mark.parametrize("kind", OWN.values())
def test_each_is_a_user_error_and_no_other_class_of_python(kind: type[UserError]) -> None:
    assert issubclass(kind, UserError)
    assert issubclass(kind, TinyrefError)
    builtin = next(python for python, own in OWN.items() if own is kind)
    others = {TypeError, IndexError, LookupError, RuntimeError, AttributeError, OSError} - {builtin}
    assert not [other for other in others if issubclass(kind, other)] or builtin is IndexError


# What a message says, and the class that says the same.
WORDS = (
    ("__name__}", {"UserTypeError", "argument_error"}),
    (" is outside axis", {"UserIndexError"}),
    (": unknown ", {"UserLookupError", "UserTypeError"}),
)
ROOMS = ("tensor", "nn", "lazy", "contract.py", "device.py", "config.py", "dtype.py", "engine")


def raises() -> Iterator[tuple[str, str, str]]:
    """Where, class and text of each raise of a user error."""
    package = Path(tinyref.__file__).parent
    for room in ROOMS:
        place = package / room
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            for node in ast.walk(ast.parse(path.read_text())):
                if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                    continue
                name = ast.unparse(node.exc.func)
                if name.startswith("User") or name == "argument_error":
                    where = f"{path.relative_to(package)}:{node.lineno}"
                    # The name of another error says nothing about an argument.
                    yield where, name, ast.unparse(node.exc).replace("type(error).__name__", "")


def test_the_class_fits_the_message() -> None:
    found = list(raises())
    assert len(found) > 200
    wrong = [
        f"{where}: {name} for {text}"
        for where, name, text in found
        for word, accepted in WORDS
        if word in text and name not in accepted
    ]
    assert not wrong, "\n".join(wrong)
