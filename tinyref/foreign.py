"""Read foreign JSON, TOML and dataclasses in bounded time, with a check of every type.

All functions raise `ValueError` with a message that is safe for a terminal.
"""

from __future__ import annotations

import functools
import json
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tinyref.errors import printable

T = TypeVar("T")

# Levels of nested values; files of ours have ten.
MAX_NESTED = 64
MAX_TOML = 2**22
# tomllib takes n * n steps for a dotted key of n names.
LONGEST_TOML_LINE = 2**12

Check = Callable[[object], bool]


def unique_members(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with these members, as `object_pairs_hook` of the json module.

    Raises `ValueError` if a name occurs twice: two readers could choose different values.
    """
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the member {name[:80]!r} is there twice")
        members[name] = value
    return members


def json_value(text: object) -> Any:
    """Return the value of a JSON text; no object in it may have a member twice."""
    if not isinstance(text, str | bytes):
        raise ValueError(f"a {type(text).__name__}, expected is text")
    try:
        value = json.loads(text, object_pairs_hook=unique_members)
    except (ValueError, RecursionError) as error:
        raise ValueError(_reason(error)) from None
    check(value)
    return value


def text_of_file(path: Path, most: int) -> str:
    """Return the text of a file of at most `most` bytes, which may be a pipe or a device.

    Raises `OSError` if it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most} bytes")
    return data.decode("utf-8")


def toml_table(text: str) -> dict[str, Any]:
    """Return the table of a TOML text."""
    if len(text) > MAX_TOML:
        raise ValueError(f"{len(text)} characters, accepted are up to {MAX_TOML}")
    if max(map(len, text.splitlines()), default=0) > LONGEST_TOML_LINE:
        raise ValueError(f"a line of more than {LONGEST_TOML_LINE} characters")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(_reason(error)) from None
    check(table)
    return table


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return printable(" ".join(str(error).split()))[:300]


def check(value: object) -> None:
    """Raise `ValueError` for more than `MAX_NESTED` levels or an integer of more than 64 bits."""
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
    """Build the dataclass `kind` of `members` and check their types; lists become tuples.

    It checks texts, numbers, bools, enums, and tuples and mappings of them; members of other types
    are used unchecked.
    """
    if not isinstance(members, Mapping):
        raise ValueError(f"a {type(members).__name__}, expected is an object")
    # mypy confuses the hash of a class with the hash of its instances.
    checks = _checks(kind)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in members.items():
        if name not in checks:
            raise ValueError(printable(f"unknown member {str(name)[:80]!r}"))
        fits, is_tuple = checks[name]
        if not fits(value):
            raise ValueError(f"{name} is a {type(value).__name__}")
        values[name] = tuple(value) if is_tuple else value
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


@functools.cache
def _checks(kind: type) -> dict[str, tuple[Check, bool]]:
    """Return for each member the check of its type, and True if that type is a tuple."""
    hints = typing.get_type_hints(kind)
    return {
        name: (_check_of(hint), typing.get_origin(hint) is tuple) for name, hint in hints.items()
    }


def _check_of(hint: Any) -> Check:
    """Return the check of a declared type, made once because reports have many members."""
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        options = [_check_of(option) for option in typing.get_args(hint)]
        return lambda value: any(fits(value) for fits in options)
    if origin is tuple:
        fits_item = _check_of(typing.get_args(hint)[0])
        return lambda value: isinstance(value, list | tuple) and all(map(fits_item, value))
    if origin is not None:
        is_mapping = issubclass(origin, Mapping)
        return lambda value: not is_mapping or isinstance(value, Mapping)
    if hint is float or hint is int:
        # bool is a subclass of int only in Python.
        accepted = (int, float) if hint is float else (int,)
        return lambda value: isinstance(value, accepted) and not isinstance(value, bool)
    if not isinstance(hint, type):
        return lambda value: True
    return lambda value: isinstance(value, hint)
