"""The catalogue: all rows and cases of the suite, by id or by query."""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tinyref.errors import UserError
from tinyref.garbage import collection_paused
from tinyref_spec.case import Case, Profile, Row, Rung

# The first word of the ids of rows, and a folder whose `rows.py` returns them.
LEVELS = ("memory", "kernel", "isa", "tensor", "system", "model")


@functools.cache
@collection_paused()
def _rows_of(level: str) -> tuple[Row, ...]:
    """Return the rows of one of `LEVELS`, without loading the others."""
    return tuple(importlib.import_module(f"tinyref_spec.{level}.rows").rows())


@functools.cache
def _rows_at(levels: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the rows of some levels, in the order of the ladder."""
    return tuple(sorted((row for level in levels for row in _rows_of(level)), key=_rung))


def _rung(row: Row) -> Rung:
    return row.rung


def _levels_of(row_or_case_id: str) -> tuple[str, ...]:
    """Return the level with which an id begins; none if it begins with another word."""
    return tuple(level for level in LEVELS if row_or_case_id.startswith(f"{level}."))


def all_rows() -> tuple[Row, ...]:
    """Return every row, in the order of the ladder; ids are unique."""
    return _rows_at(LEVELS)


def rows(profile: Profile = Profile.QUICK) -> Iterator[Row]:
    """Yield the rows that have cases in `profile`, in the order of the ladder."""
    for row in all_rows():
        if row.cases(profile):
            yield row


def matches(case_id: str, query: str) -> bool:
    """Return True if a query names this id: the id itself, or a prefix up to a dot or colon.

    Both may hold the wildcards of a glob.
    """
    if any(character in query for character in "*?["):
        return any(fnmatchcase(case_id, query + tail) for tail in ("", ".*", ":*"))
    return case_id == query or (
        case_id.startswith(query) and case_id[len(query) : len(query) + 1] in (".", ":")
    )


def _may_match(row_id: str, query: str) -> bool:
    """Return False if no case of the row can match, by what comes before the first wildcard."""
    fixed = query
    for character in "*?[":
        fixed = fixed.partition(character)[0]
    return row_id.startswith(fixed) or fixed.startswith(row_id)


def cases(profile: Profile = Profile.QUICK, query: str = "*") -> list[Case]:
    """Return the cases of `profile` that any of the comma-separated queries names."""
    queries = [part.strip() for part in query.split(",") if part.strip()]
    asked = (level for level in LEVELS if any(_may_match(level, part) for part in queries))
    return [
        case
        for row in _rows_at(tuple(asked))
        if any(_may_match(row.id, part) for part in queries)
        for case in row.cases(profile)
        if any(part == "*" or matches(case.id, part) for part in queries)
    ]


def find(case_id: str) -> Case:
    """Return the case with this id, of either profile. Raises `UserError` for an unknown id."""
    for row in _rows_at(_levels_of(case_id)):
        if case_id.startswith((f"{row.id}.", f"{row.id}:")):
            for case in row.cases(Profile.FULL):
                if case.id == case_id:
                    return case
    raise UserError(f"case: unknown id {case_id!r}: {_advice(case_id)}")


def find_row(row_id: str) -> Row:
    """Return the row with this id, or the row of this case. Raises `UserError` for another id."""
    known = _rows_by_id(_levels_of(row_id))
    row = known.get(row_id)
    return known[find(row_id).row] if row is None else row


@functools.cache
def _rows_by_id(levels: tuple[str, ...]) -> dict[str, Row]:
    return {row.id: row for row in _rows_at(levels)}


def _advice(case_id: str) -> str:
    parts = case_id.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        near = [row for row in all_rows() if row.id == prefix or row.id.startswith(f"{prefix}.")]
        if near:
            examples = [case.id for case in near[0].cases(Profile.QUICK)[:3]]
            return f"ids near it are {', '.join(examples)}"
    return "ids begin with isa, memory, kernel, tensor, system or model"


@functools.cache
def suite_hash() -> str:
    """Return the SHA-256 of sources and stored cases, which identifies the suite."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    stored = (*root.glob("regressions/*.json"), *root.glob("fuzzed/*.json"))
    for path in sorted([*root.rglob("*.py"), *stored]):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()
