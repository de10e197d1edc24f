"""What a device is known to get wrong: one TOML file per device, strict in both directions.

An entry has a query, a phase, a reason and a link (all mandatory) and may expire. A case that an
entry covers and that passes is an UnexpectedPass; an entry that covers nothing is a problem.
"""

from __future__ import annotations

import datetime
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref_conformance import queries
from tinyref_conformance.statuses import Status

SCHEMA = 1


class Phase(Enum):
    """When a case goes wrong: before the launch, during it, or in its answer."""

    COMPILE = "compile"
    RUN = "run"
    ACCURACY = "accuracy"


@dataclass(frozen=True)
class Expectation:
    """One known failure; `expires` is the first day on which it no longer counts."""

    query: str
    phase: Phase
    reason: str
    link: str
    expires: datetime.date | None = None

    def is_expired(self, today: datetime.date) -> bool:
        return self.expires is not None and today >= self.expires


_KEYS = frozenset({"query", "phase", "reason", "link", "expires"})


@dataclass(frozen=True)
class Expectations:
    """The entries for one device; empty where there is no file."""

    device: str
    entries: tuple[Expectation, ...] = ()

    def final(
        self, case_id: str, status: Status, phase: str, today: datetime.date
    ) -> tuple[Status, str]:
        """The status with the expectations applied, and the sentence that explains a change."""
        entries = [entry for entry in self.entries if queries.matches(entry.query, case_id)]
        if status in (Status.FAIL, Status.CRASH, Status.TIMEOUT):
            return _final_of_failure(status, phase, entries, today)
        live = [entry for entry in entries if not entry.is_expired(today)]
        if status in (Status.PASS, Status.UNSUPPORTED) and live:
            return Status.UNEXPECTED_PASS, f"expected to fail: {live[0].reason} ({live[0].link})"
        return status, ""

    def unused(self, case_ids: Iterable[str]) -> list[Expectation]:
        """Entries that name none of the cases."""
        ids = list(case_ids)
        return [
            entry
            for entry in self.entries
            if not any(queries.matches(entry.query, case_id) for case_id in ids)
        ]


def _final_of_failure(
    status: Status, phase: str, entries: Sequence[Expectation], today: datetime.date
) -> tuple[Status, str]:
    covering = [entry for entry in entries if entry.phase.value == phase]
    for entry in covering:
        if not entry.is_expired(today):
            return Status.EXPECTED_FAIL, f"expected: {entry.reason} ({entry.link})"
    if covering:
        return status, f"its expectation expired on {covering[0].expires}: {covering[0].reason}"
    if entries:
        return status, f"expected to fail in phase {entries[0].phase.value}, not in {phase}"
    return status, ""


def load(path: Path, device: str) -> Expectations:
    """Reads the file strictly. Raises `UserError` naming the file, the entry and what is wrong."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"expectations: cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"expectations: {path} is not TOML: {error}") from error
    unknown = sorted(set(data) - {"schema", "device", "expected"})
    if unknown:
        raise UserError(f"expectations: {path}: unknown key {unknown[0]!r}")
    if data.get("schema") != SCHEMA:
        raise UserError(f"expectations: {path}: schema is {data.get('schema')!r}, not {SCHEMA}")
    if data.get("device") != device:
        raise UserError(
            f"expectations: {path} is for device {data.get('device')!r}, this run is on {device}"
        )
    entries = data.get("expected", [])
    if not isinstance(entries, list):
        raise UserError(f"expectations: {path}: write entries as [[expected]]")
    return Expectations(
        device, tuple(_entry(raw, f"{path}: entry {i + 1}") for i, raw in enumerate(entries))
    )


def _entry(raw: Any, where: str) -> Expectation:
    if not isinstance(raw, dict):
        raise UserError(f"expectations: {where}: write entries as [[expected]]")
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        accepted = ", ".join(sorted(_KEYS))
        raise UserError(f"expectations: {where}: unknown key {unknown[0]!r}: use {accepted}")
    texts = {}
    for key in ("query", "phase", "reason", "link"):
        value = raw.get(key)
        if not isinstance(value, str) or not value.strip():
            raise UserError(f"expectations: {where}: {key} is missing or empty: it is mandatory")
        texts[key] = value
    check_link(texts["link"], where)
    return Expectation(
        texts["query"],
        _phase(texts["phase"], where),
        texts["reason"],
        texts["link"],
        _expiry(raw.get("expires"), where),
    )


def _phase(text: str, where: str) -> Phase:
    try:
        return Phase(text)
    except ValueError as error:
        accepted = ", ".join(phase.value for phase in Phase)
        raise UserError(f"expectations: {where}: phase {text!r}: use {accepted}") from error


def check_link(link: str, where: str) -> None:
    """Raises `UserError` unless `link` leads to a page that a person can open."""
    if not link.startswith(("https://", "http://")):
        raise UserError(f"expectations: {where}: link {link!r}: use an https:// address")


def _expiry(value: Any, where: str) -> datetime.date | None:
    if value is None:
        return None
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise UserError(f"expectations: {where}: expires {value!r}: use a date like 2030-01-31")
    return value


@dataclass(frozen=True)
class Observed:
    """A case of a finished run as the update sees it: before expectations were applied."""

    case_id: str
    row: str
    status: Status
    phase: str

    @property
    def fails(self) -> bool:
        return self.status in (Status.FAIL, Status.CRASH, Status.TIMEOUT)


def updated(
    old: Expectations, observed: Sequence[Observed], reason: str, link: str
) -> Expectations:
    """The entries that make this run come out as expected, in one pass.

    Entries whose cases all still fail stay as they are; others are narrowed to the cases that
    fail, or dropped; entries whose cases were not part of the run stay. New failures get `reason`
    and `link`, one entry for a whole row where all of it fails in the same phase.
    """
    kept: list[Expectation] = []
    covered: set[str] = set()
    for entry in old.entries:
        named = [case for case in observed if queries.matches(entry.query, case.case_id)]
        failing = [case for case in named if case.fails and case.phase == entry.phase.value]
        decided = [case for case in named if case.status is not Status.SUPPRESSED]
        if len(failing) == len(decided):
            kept.append(entry)
        else:
            kept.extend(
                Expectation(query, entry.phase, entry.reason, entry.link, entry.expires)
                for query, _ in _queries(failing, observed)
            )
        covered |= {case.case_id for case in failing}
    new = [case for case in observed if case.fails and case.case_id not in covered]
    kept.extend(
        Expectation(query, Phase(phase), reason, link) for query, phase in _queries(new, observed)
    )
    return Expectations(old.device, tuple(kept))


def _queries(failing: Sequence[Observed], observed: Sequence[Observed]) -> list[tuple[str, str]]:
    """Queries with phases that name exactly the failing cases, whole rows by their id."""
    by_row: dict[tuple[str, str], list[str]] = {}
    for case in failing:
        by_row.setdefault((case.row, case.phase), []).append(case.case_id)
    sizes: dict[str, int] = {}
    for case in observed:
        sizes[case.row] = sizes.get(case.row, 0) + 1
    found: list[tuple[str, str]] = []
    for (row, phase), ids in by_row.items():
        whole = len(ids) == sizes[row] and all(queries.matches(row, name) for name in ids)
        if whole and not any(other != row and queries.matches(row, other) for other in sizes):
            found.append((row, phase))
        else:
            found.extend((name, phase) for name in ids)
    return found


def write(expectations: Expectations, path: Path) -> None:
    """Writes the file anew. Raises `UserError` naming a path that cannot be written."""
    lines = [
        "# Known failures of one device: tinyref conform --expectations reads it, and",
        "# --update-expectations writes it. Every entry needs a reason and a link.",
        f"schema = {SCHEMA}",
        f"device = {_quoted(expectations.device)}",
    ]
    for entry in expectations.entries:
        lines += ["", "[[expected]]", f"query = {_quoted(entry.query)}"]
        lines += [f"phase = {_quoted(entry.phase.value)}", f"reason = {_quoted(entry.reason)}"]
        lines += [f"link = {_quoted(entry.link)}"]
        if entry.expires is not None:
            lines += [f"expires = {entry.expires.isoformat()}"]
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"expectations: cannot write {path}: {error.strerror}") from error


def _quoted(text: str) -> str:
    # A JSON string of ASCII is a TOML basic string, but for the code points that JSON pairs up.
    if all(ord(letter) < 0x10000 for letter in text):
        return json.dumps(text).replace("\x7f", "\\u007f")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
