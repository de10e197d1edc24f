"""Members of JSON from any source: each has its type, and is within its limits.

All functions raise `UserError` with the position of the error, what was expected and what was
found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tinyref.errors import UserError
from tinyref.formats.payload_fields import refuse

Json = dict[str, Any]

LONGEST_TEXT = 20_000
LONGEST_WORD = 200
LARGEST_NUMBER = 1 << 128


def read_object(value: object, where: str, names: Collection[str] | None = None) -> Json:
    """Return an object; with `names`, it must have exactly these members."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise refuse(where, "an object", value)
    if names is not None:
        for name in sorted(set(names) - value.keys()):
            raise UserError(f"{where}: expected a member {name!r}, got none")
        for name in sorted(value.keys() - set(names)):
            raise refuse(where, f"only the members {', '.join(sorted(names))}", name)
    return dict(value)


def read_list(value: object, most: int, where: str) -> list[object]:
    """Return a list of at most `most` entries."""
    if not isinstance(value, list):
        raise refuse(where, "a list", value)
    if len(value) > most:
        raise UserError(f"{where}: expected at most {most} entries, got {len(value)}")
    return value


def read_text(value: object, where: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text of at most `longest` characters that can be written as UTF-8."""
    if not isinstance(value, str) or len(value) > longest:
        raise refuse(where, f"a text of at most {longest} characters", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{where}: expected a text, got half of a character") from None
    return value


def read_word(value: object, where: str) -> str:
    """Return a short text of one line."""
    text = read_text(value, where, LONGEST_WORD)
    if not text.isprintable():
        raise refuse(where, "a text of one line", value)
    return text


def read_number(value: object, where: str, low: int = 0) -> int:
    """Return an integer that is at least `low`."""
    if type(value) is not int or not low <= value < LARGEST_NUMBER:
        raise UserError(f"{where}: expected an integer from {low} to 2**128 - 1")
    return value


def read_bindings(value: object, most: int, where: str) -> dict[str, int]:
    """Return the values of at most `most` variables, by name in alphabetical order."""
    items = read_object(value, where)
    if len(items) > most:
        raise UserError(f"{where}: expected at most {most}, got {len(items)}")
    return {
        read_word(name, where): read_number(items[name], f"{where}.{name}", -LARGEST_NUMBER)
        for name in sorted(items)
    }


def read_version(value: Mapping[str, object], schema: str, version: int, where: str) -> None:
    """Refuse a document that is not of `schema` and `version`."""
    if value.get("schema") != schema:
        raise refuse(f"{where}, schema", repr(schema), value.get("schema"))
    number = value.get("version")
    if type(number) is not int or number != version:
        accepted = f"{version} (a newer one needs a newer tinyref)"
        raise refuse(f"{where}, version", accepted, number)
