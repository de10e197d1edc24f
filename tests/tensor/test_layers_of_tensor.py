"""The layers of Tensor: a name that one layer gives must mean the same in all layers above."""

from collections.abc import Iterator
from pathlib import Path

import tinyref.tensor
from tinyref import Tensor

# Basic indexing is carried on by indexing with tensors, which calls it.
CARRIED_ON = {"__getitem__", "_assignment_target"}


def _redefined(top: type) -> Iterator[str]:
    owner: dict[str, type] = {}
    for layer in reversed(top.__mro__[:-1]):
        for name in vars(layer):
            if name.startswith("__") and name not in CARRIED_ON:
                continue
            if name in owner and name not in CARRIED_ON:
                yield f"{layer.__name__}.{name} hides {owner[name].__name__}.{name}"
            owner[name] = layer


def _imports_for_types(folder: Path) -> list[str]:
    """The modules that import something which the import linter does not see."""
    return [path.name for path in folder.rglob("*.py") if "TYPE_CHECKING" in path.read_text()]


def test_no_module_needs_an_upper_one_for_its_types() -> None:
    assert _imports_for_types(Path(tinyref.tensor.__file__).parent) == []


def test_an_import_for_types_is_seen(tmp_path: Path) -> None:
    (tmp_path / "lower.py").write_text("from typing import TYPE_CHECKING\n")
    assert _imports_for_types(tmp_path) == ["lower.py"]


def test_no_floor_hides_a_name_of_another() -> None:
    assert list(_redefined(Tensor)) == []


def test_a_hidden_name_is_seen() -> None:
    class Higher(Tensor):
        def _looked_up(self) -> None:  # type: ignore[override]
            """Another meaning."""

    assert list(_redefined(Higher)) == ["Higher._looked_up hides Lookup._looked_up"]
