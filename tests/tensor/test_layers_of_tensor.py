"""The layers of Tensor: a name that one layer gives must mean the same in all layers above."""

from collections.abc import Iterator

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


def test_no_floor_hides_a_name_of_another() -> None:
    assert list(_redefined(Tensor)) == []


def test_a_hidden_name_is_seen() -> None:
    class Higher(Tensor):
        def _looked_up(self) -> None:  # type: ignore[override]
            """Another meaning."""

    assert list(_redefined(Higher)) == ["Higher._looked_up hides Lookup._looked_up"]
