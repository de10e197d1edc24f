"""Expectations as a TOML file: read strictly, and updated without loss of its comments."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.folders import set_aside
from tinyref.foreign import MAX_TOML, text_of_file, toml_table
from tinyref_conformance.expectations import Expectation, Expectations, Phase, Skip, Update
from tinyref_spec.kernel_case.files import write_text

SCHEMA = 1
_HEADER = re.compile(r"\s*\[")
_EXPECTED = re.compile(r"\s*\[\[\s*expected\s*\]\]")


def load(path: Path, device: str) -> Expectations:
    """Return the expectations in a file. Raises `UserError` with file, entry and error."""
    try:
        text = text_of_file(path, MAX_TOML)
    except OSError as error:
        raise UserError(f"expectations: cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"expectations: {path} is not TOML: {error}") from error
    return parse(text, path, device)


def parse(text: str, path: Path, device: str) -> Expectations:
    """Return the expectations in a text. Raises `UserError` as `load`; `path` names the text."""
    try:
        data = toml_table(text)
    except ValueError as error:
        raise UserError(f"expectations: {path} is not TOML: {error}") from error
    unknown = sorted(set(data) - {"schema", "device", "expected", "skip"})
    if unknown:
        raise UserError(f"expectations: {path}: unknown key {unknown[0]!r}")
    if data.get("schema") != SCHEMA or isinstance(data["schema"], bool):
        raise UserError(f"expectations: {path}: schema is {data.get('schema')!r}, not {SCHEMA}")
    if data.get("device") != device:
        raise UserError(
            f"expectations: {path} is for device {data.get('device')!r}, this run is on {device}"
        )
    return Expectations(
        device,
        tuple(_expectation(raw, where) for raw, where in _tables(data, "expected", path)),
        tuple(Skip(*_members(raw, where)) for raw, where in _tables(data, "skip", path)),
    )


def _tables(data: dict[str, Any], key: str, path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tables of one kind, each with words that say where it is."""
    entries = data.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(raw, dict) for raw in entries):
        raise UserError(f"expectations: {path}: write entries as [[{key}]]")
    for number, raw in enumerate(entries, 1):
        yield raw, f"{path}: entry {number} of [[{key}]]"


def _members(
    raw: dict[str, Any], where: str, *more: str
) -> tuple[str, str, str, datetime.date | None]:
    """Return the fields of a `Skip`: mandatory texts, some named by `more`, and the date."""
    keys = ("query", *more, "reason", "link")
    unknown = sorted(set(raw) - {*keys, "expires"})
    if unknown:
        accepted = ", ".join((*keys, "expires"))
        raise UserError(f"expectations: {where}: unknown key {unknown[0]!r}: use {accepted}")
    for key in keys:
        if not isinstance(raw.get(key), str) or not raw[key].strip():
            raise UserError(f"expectations: {where}: {key} is missing or empty: it is mandatory")
    check_link(raw["link"], where)
    return raw["query"], raw["reason"], raw["link"], _expiry(raw.get("expires"), where)


def _expectation(raw: dict[str, Any], where: str) -> Expectation:
    members = _members(raw, where, "phase")
    try:
        return Expectation(*members, phase=Phase(raw["phase"]))
    except ValueError as error:
        accepted = ", ".join(phase.value for phase in Phase)
        raise UserError(f"expectations: {where}: phase {raw['phase']!r}: use {accepted}") from error


def check_link(link: str, where: str) -> None:
    """Raise `UserError` unless `link` is a page that a person can open."""
    if not link.startswith(("https://", "http://", "docs/")):
        raise UserError(
            f"expectations: {where}: link {link!r}: use an https:// address, or an entry of a page "
            "of the project, such as docs/found.md#entry"
        )


def _expiry(value: Any, where: str) -> datetime.date | None:
    if value is None:
        return None
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise UserError(f"expectations: {where}: expires {value!r}: use a date like 2030-01-31")
    return value


def write(expectations: Expectations, path: Path) -> None:
    """Write the whole file. Raises `UserError` with a path that cannot be written."""
    write_text(path, _text(expectations))


def write_update(update: Update, path: Path) -> None:
    """Write an update into a file: unchanged entries keep their lines and comments.

    A comment right above an entry belongs to it. If the file's style does not allow such an update,
    a new file is written, and the old one is renamed.
    """
    if not path.exists():
        write(update.expectations, path)
        return
    before = path.read_bytes().decode()
    text = _updated_text(before.replace("\r\n", "\n"), update)
    if not _says(text, path, update.expectations):
        set_aside([path])
        text = _text(update.expectations)
    write_text(path, text.replace("\n", "\r\n") if "\r\n" in before else text)


def _says(text: str, path: Path, expectations: Expectations) -> bool:
    try:
        return parse(text, path, expectations.device) == expectations
    except UserError:
        return False


def _updated_text(text: str, update: Update) -> str:
    """Return the text with the changes of `update`; callers must check what the result means."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    blocks = _blocks(lines)
    if len(blocks) != len(update.old.entries):
        return ""
    updated: list[str] = []
    copied = 0
    for (start, stop), entry in zip(blocks, update.old.entries, strict=True):
        if entry in update.unchanged:
            continue
        updated += lines[copied:start]
        # The blank line after the entry goes too.
        copied = stop if stop == len(lines) or lines[stop].strip() else stop + 1
    updated += lines[copied:]
    for new in update.new:
        updated += ["\n", *_entry_lines(new)]
    return "".join(updated)


def _blocks(lines: list[str]) -> list[tuple[int, int]]:
    """Return the first line of each [[expected]], or of the comment above it, and its end."""
    headers = [number for number, line in enumerate(lines) if _HEADER.match(line)]
    blocks = []
    for header, following in itertools.pairwise([*headers, len(lines)]):
        if not _EXPECTED.match(lines[header]):
            continue
        start, stop = header, following
        while start and lines[start - 1].lstrip().startswith("#"):
            start -= 1
        while stop > header + 1 and _is_comment_or_blank(lines[stop - 1]):
            stop -= 1
        blocks.append((start, stop))
    return blocks


def _is_comment_or_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _text(expectations: Expectations) -> str:
    lines = [
        "# Known failures of one device: tinyref conform --expectations reads it, and\n",
        "# --update-expectations writes it. Every entry needs a reason and a link.\n",
        f"schema = {SCHEMA}\n",
        f"device = {_quote(expectations.device)}\n",
    ]
    entries: list[Expectation | Skip] = [*expectations.skips, *expectations.entries]
    for entry in entries:
        lines += ["\n", *_entry_lines(entry)]
    return "".join(lines)


def _entry_lines(entry: Expectation | Skip) -> list[str]:
    phase = [f"phase = {_quote(entry.phase.value)}\n"] if isinstance(entry, Expectation) else []
    lines = [
        "[[expected]]\n" if isinstance(entry, Expectation) else "[[skip]]\n",
        f"query = {_quote(entry.query)}\n",
        *phase,
        f"reason = {_quote(entry.reason)}\n",
        f"link = {_quote(entry.link)}\n",
    ]
    if entry.expires is not None:
        lines.append(f"expires = {entry.expires.isoformat()}\n")
    return lines


def _quote(text: str) -> str:
    # A JSON string of ASCII is a TOML basic string, except for surrogate pairs.
    if all(ord(letter) < 0x10000 for letter in text):
        return json.dumps(text).replace("\x7f", "\\u007f")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
