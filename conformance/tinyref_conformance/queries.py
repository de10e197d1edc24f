"""Queries on case ids: an id names one case, a prefix or glob several; commas join queries.

A prefix ends at a `.` or `:` of the id. A glob may also match a prefix: `isa.*.float32` matches
every case of every row that it matches.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Iterable

EVERYTHING = "*"
_BORDERS = (".", ":")


def matches(query: str, case_id: str) -> bool:
    """Return True if a part of `query` is the id, a prefix that ends at a border, or a glob of one.

    `case_id` may also be the id of a row.
    """
    return any(_is_matched(part, case_id) for part in parts(query))


@functools.lru_cache(maxsize=64)
def parts(query: str) -> tuple[str, ...]:
    """Return the parts of a query between its commas."""
    return tuple(part.strip() for part in query.split(","))


def unmatched_parts(query: str, ids: Iterable[str]) -> list[str]:
    """Return the parts of `query` that match none of the ids."""
    left = [*parts(query)]
    for name in ids:
        if not left:
            break
        left = [part for part in left if not _is_matched(part, name)]
    return left


def _is_matched(part: str, case_id: str) -> bool:
    if part == EVERYTHING:
        return True
    return bool(part) and _pattern(part).match(case_id) is not None


@functools.lru_cache(maxsize=4096)
def _pattern(part: str) -> re.Pattern[str]:
    globs = [part, f"{part}*" if part.endswith(_BORDERS) else f"{part}[.:]*"]
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs))
