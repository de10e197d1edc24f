"""Test that foreign text is read in bounded work, and refused with one class of error."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyref import foreign
from tinyref.foreign import dataclass_from, json_value, toml_table

BAD_JSON = {
    "deep lists": "[" * 100_000,
    "closed deep lists": "[" * 500 + "]" * 500,
    "deep objects": '{"a":' * 100_000,
    "an integer of many digits": "9" * 100_000,
    "no text": None,
    "a number": 5,
    "no Unicode": b"\xff\xfe\xfd",
    "control characters": '"\x1b[2J"',
    "cut": '{"a": [1, 2',
    "a member twice": '{"a": 1, "b": {"c": 1, "c": 1}}',
}
BAD_TOML = {
    "deep lists": "a = " + "[" * 1000,
    "many deep lists": "\n".join(f"a{n} = {'[' * 200}{']' * 200}" for n in range(10)),
    "dotted keys": "a" + ".a" * 1500 + " = 1",
    "a long dotted key": "a" + ".a" * 100_000 + " = 1",
    "tables": "[" + "a." * 1000 + "a]",
    "an integer of many digits": "a = " + "9" * 4000,
    "one of many hexadecimal digits": "a = [0x" + "f" * 4000 + "]",
    "an integer on one line": "a = " + "9" * 100_000,
    "too long": "#\n" * 3_000_000,
    "control characters": "a = '\x1b[2J'",
    "no date": "a = 2021-99-99",
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json_is_a_value_error_in_plain_words(name: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011  the words are looked at below
        json_value(BAD_JSON[name])
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) <= 300


@pytest.mark.parametrize("name", BAD_TOML)
def test_bad_toml_is_a_value_error_in_plain_words(name: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011  the words are looked at below
        toml_table(BAD_TOML[name])
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) <= 300


def test_what_is_well_formed_is_what_the_library_reads() -> None:
    value = {"a": [1, 2.5, None, True, {"b": "c"}], "d": [[[[]]]]}
    assert json_value(json.dumps(value)) == value
    text = "a = 1\n[b.c]\nd = [[1], [2]]\ne = 2021-01-02\n[[f]]\ng = 'h'\n"
    assert toml_table(text) == tomllib.loads(text)


def test_long_lines_are_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(foreign.tomllib, "loads", lambda text: read.append(len(text)) or {})
    for name in ("a long dotted key", "too long", "an integer on one line"):
        with pytest.raises(ValueError, match="characters"):
            toml_table(BAD_TOML[name])
    assert read == []


def words(read: Callable[[Any], object], text: object) -> str:
    """Return the message for a text; raise errors other than `ValueError`."""
    try:
        read(text)
    except ValueError as error:
        return str(error)
    return ""


@settings(max_examples=200)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_a_value_or_a_value_error(text: str | bytes) -> None:
    assert words(json_value, text).isprintable()
    if isinstance(text, str):
        assert words(toml_table, text).isprintable()


@dataclass(frozen=True)
class Kept:
    name: str
    count: int = 0
    share: float | None = None
    lines: tuple[str, ...] = ()
    more: Mapping[str, Any] | None = None


def test_members_have_their_types() -> None:
    assert dataclass_from(Kept, {"name": "a"}) == Kept("a")
    members = {"name": "a", "count": 2, "share": 1, "lines": ["b"], "more": {"c": []}}
    assert dataclass_from(Kept, members) == Kept("a", 2, 1, ("b",), {"c": []})
    for wrong in (
        None,
        [],
        {},
        {"name": 1},
        {"name": None},
        {"name": "a", "count": True},
        {"name": "a", "count": 1.5},
        {"name": "a", "count": None},
        {"name": "a", "share": "1"},
        {"name": "a", "lines": "b"},
        {"name": "a", "lines": [1]},
        {"name": "a", "more": []},
        {"name": "a", "other": 1},
        {"name": "a", "\x1b[2J": 1},
    ):
        with pytest.raises(ValueError) as raised:  # noqa: PT011  the words are looked at below
            dataclass_from(Kept, wrong)
        assert str(raised.value).isprintable()
