"""The catalogue: every row and case of the suite, found by id or by query."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tinyref.errors import UserError
from tinyref.garbage import collection_paused
from tinyref_spec.case import Case, Profile, Row


@functools.cache
@collection_paused()
def all_rows() -> tuple[Row, ...]:
    """Every row, in the order of the ladder; ids are unique."""
    from tinyref_spec.isa import rows as isa
    from tinyref_spec.kernel import planned
    from tinyref_spec.kernel import rows as kernel
    from tinyref_spec.memory import rows as memory
    from tinyref_spec.model import rows as model
    from tinyref_spec.system import rows as system
    from tinyref_spec.tensor import rows as tensor

    plain = [*memory.rows(), *kernel.rows()]
    below = [*plain, *isa.rows(), *planned.rows_of(plain), *tensor.rows()]
    found = [*below, *system.rows(), *model.rows()]
    return tuple(sorted(found, key=lambda row: row.rung))


def rows(profile: Profile = Profile.QUICK) -> Iterator[Row]:
    """The rows that have cases in `profile`, in the order of the ladder."""
    for row in all_rows():
        if row.cases(profile):
            yield row


def matches(case_id: str, query: str) -> bool:
    """Whether a query names this id: the id itself, or a prefix up to a dot or colon.

    Both may hold the wildcards of a glob.
    """
    if any(character in query for character in "*?["):
        return any(fnmatchcase(case_id, query + tail) for tail in ("", ".*", ":*"))
    return case_id == query or (
        case_id.startswith(query) and case_id[len(query) : len(query) + 1] in (".", ":")
    )


def _may_match(row_id: str, query: str) -> bool:
    """Whether a case of the row can match: compares what comes before the first wildcard."""
    fixed = query
    for character in "*?[":
        fixed = fixed.partition(character)[0]
    return row_id.startswith(fixed) or fixed.startswith(row_id)


def cases(profile: Profile = Profile.QUICK, query: str = "*") -> list[Case]:
    """The cases of `profile` that any of the comma-separated queries names; may be empty."""
    queries = [part.strip() for part in query.split(",") if part.strip()]
    return [
        case
        for row in all_rows()
        if any(_may_match(row.id, part) for part in queries)
        for case in row.cases(profile)
        if any(part == "*" or matches(case.id, part) for part in queries)
    ]


def find(case_id: str) -> Case:
    """The case with this id, of either profile. Raises `UserError` that names the nearest row."""
    for row in all_rows():
        if case_id.startswith((f"{row.id}.", f"{row.id}:")):
            for case in row.cases(Profile.FULL):
                if case.id == case_id:
                    return case
    raise UserError(f"case: unknown id {case_id!r}: {_advice(case_id)}")


def find_row(row_id: str) -> Row:
    """The row with this id, or the row of this case. Raises `UserError` for another id."""
    found = _rows_by_id().get(row_id)
    return _rows_by_id()[find(row_id).row] if found is None else found


@functools.cache
def _rows_by_id() -> dict[str, Row]:
    return {row.id: row for row in all_rows()}


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
    """SHA-256 over sources and regressions here: what a certificate names the suite by."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted([*root.rglob("*.py"), *root.glob("regressions/*.json")]):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()
