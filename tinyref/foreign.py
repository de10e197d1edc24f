"""What others wrote: JSON and TOML read in bounded work, and members of the types that they have.

All raise `ValueError` alone, in words that a terminal can take.
"""

from __future__ import annotations

import json
import tomllib
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from tinyref.errors import printable

T = TypeVar("T")

# Values within values: what we write has ten.
MAX_NESTED = 64
MAX_TOML = 2**22
# A dotted key of n names costs the library n * n steps.
LONGEST_TOML_LINE = 2**12

_HINTS: dict[type, dict[str, Any]] = {}


def json_value(text: object) -> Any:
    """The value that a JSON text holds."""
    if not isinstance(text, str | bytes):
        raise ValueError(f"a {type(text).__name__}, expected is text")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(_reason(error)) from None
    check(found)
    return found


def toml_table(text: str) -> dict[str, Any]:
    """The table that a TOML text holds."""
    if len(text) > MAX_TOML:
        raise ValueError(f"{len(text)} characters, accepted are up to {MAX_TOML}")
    if max(map(len, text.splitlines()), default=0) > LONGEST_TOML_LINE:
        raise ValueError(f"a line of more than {LONGEST_TOML_LINE} characters")
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(_reason(error)) from None
    check(found)
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return printable(" ".join(str(error).split()))[:300]


def check(value: object) -> None:
    """Raises `ValueError` for what nests more than `MAX_NESTED` deep, and for huge integers."""
    level = [value]
    for _ in range(MAX_NESTED + 1):
        if any(isinstance(item, int) and abs(item) >= 2**64 for item in level):
            raise ValueError("an integer of more than 64 bits")
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict | list):
                inner += item.values() if isinstance(item, dict) else item
        if not inner:
            return
        level = inner
    raise ValueError("nested too deeply")


def dataclass_from(kind: type[T], members: object) -> T:
    """The dataclass `kind` of `members`, each of its declared type; lists become tuples.

    Members of other types than texts, numbers, bools, enums, and tuples and mappings of those, are
    taken as they are.
    """
    if not isinstance(members, Mapping):
        raise ValueError(f"a {type(members).__name__}, expected is an object")
    hints = _hints(kind)
    found: dict[str, Any] = {}
    for name, value in members.items():
        if name not in hints:
            raise ValueError(printable(f"there is no member {str(name)[:80]!r}"))
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} is a {type(value).__name__}")
        is_tuple = typing.get_origin(hints[name]) is tuple
        found[name] = tuple(value) if is_tuple else value
    try:
        return kind(**found)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]


def _fits(value: object, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in typing.get_args(hint))
    if origin is tuple:
        inner = typing.get_args(hint)[0]
        return isinstance(value, list | tuple) and all(_fits(item, inner) for item in value)
    if origin is not None:
        return isinstance(value, Mapping) or not issubclass(origin, Mapping)
    if hint is float or hint is int:
        # A bool is an int to Python alone.
        accepted = (int, float) if hint is float else (int,)
        return isinstance(value, accepted) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)
