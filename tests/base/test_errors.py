"""Test that an error of tinyref has the class that Python itself would raise.

The rows tensor.refuse have more refused calls; here are some of each class and folder.
"""

from __future__ import annotations

from collections.abc import Callable
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
from tinyref.nn.state import load_state_dict, safe_save


def square() -> Tensor:
    return Tensor([[1.0, 2.0], [3.0, 4.0]])


def row() -> Tensor:
    return Tensor([1, 2, 3])


def image() -> Tensor:
    return Tensor.zeros(1, 2, 3, 3)


Table = dict[str, Callable[[], Any]]
VALUES: Table = {
    "ragged": lambda: Tensor([[1], [2, 3]]),
    "negative size": lambda: Tensor.zeros(-1),
    "reshape": lambda: square().reshape(3),
    "axis twice": lambda: square().sum((0, 0)),
    "dropout": lambda: square().dropout(3),
    "replace": lambda: square().replace(row()),
    "devices twice": lambda: square().shard(("CPU:0", "CPU:0")),
    "flag": lambda: Context(DEBUG=99),
    "Linear sizes": lambda: nn.Linear(0, 3),
    "state shapes": lambda: load_state_dict(
        nn.Linear(2, 2), {"weight": square(), "bias": square()}
    ),
    "lanes": lambda: dtypes.float32.vec(3),
}
TYPES: Table = {
    "truth": lambda: bool(square()),
    "add": lambda: row() + "a",
    "data": lambda: Tensor(object()),
    "dtype": lambda: Tensor([1], dtype=3),
    "index text": lambda: square()["a"],
    "size": lambda: Tensor.zeros(2.5),
    "cat": lambda: square().cat(3),
    "len": lambda: len(Tensor(1)),
    "keyword": lambda: Tensor.rand(2, foo=1),
    "variable": lambda: Variable(3, 0, 5),
    "bind": lambda: Variable("a", 0, 5).bind("x"),
    "TinyJit": lambda: TinyJit(3),
    "Device": lambda: Device[3],
    "params": lambda: nn.optim.SGD(3),
    "safe_save": lambda: safe_save({"a": 3}, "x"),
}
INDICES: Table = {
    "integer": lambda: square()[5],
    "array": lambda: square()[np.array([9])],
    "write": lambda: square().__setitem__(5, 1),
    "sum": lambda: square().sum(5),
    "gather": lambda: square().gather(5, Tensor([[0]])),
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

    first, location, _ = explain_error(raised("")).split("\n")
    assert first.rstrip() == "UserError:"
    assert location.endswith("in raised")
    assert explain_error(raised("shape: too large")) == "shape: too large"


@pytest.mark.parametrize("kind", OWN.values())
def test_each_is_a_user_error_and_no_other_class_of_python(kind: type[UserError]) -> None:
    assert issubclass(kind, UserError)
    assert issubclass(kind, TinyrefError)
    builtin = next(python for python, own in OWN.items() if own is kind)
    others = {TypeError, IndexError, LookupError, RuntimeError, AttributeError, OSError} - {builtin}
    assert not [other for other in others if issubclass(kind, other)] or builtin is IndexError


# A message, and the class with the same meaning.
