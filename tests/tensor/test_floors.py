"""The floors of Tensor: names that one floor gives must mean the same on all floors above."""

from collections.abc import Iterator

from tinyref import Tensor

# Basic indexing is carried on by indexing with tensors, which calls it.
CARRIED_ON = {"__getitem__", "_aimed_at"}


def _redefined(top: type) -> Iterator[str]:
    owner: dict[str, type] = {}
    for floor in reversed(top.__mro__[:-1]):
        for name in vars(floor):
            if name.startswith("__") and name not in CARRIED_ON:
                continue
            if name in owner and name not in CARRIED_ON:
                yield f"{floor.__name__}.{name} hides {owner[name].__name__}.{name}"
            owner[name] = floor


def test_no_floor_hides_a_name_of_another() -> None:
    assert list(_redefined(Tensor)) == []


def test_a_hidden_name_is_seen() -> None:
    class Higher(Tensor):
        def _looked_up(self) -> None:  # type: ignore[override]
            """Another meaning."""

    assert list(_redefined(Higher)) == ["Higher._looked_up hides Lookup._looked_up"]
