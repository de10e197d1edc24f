"""Queries on case ids: an id names one case, a prefix or glob several; commas join queries.

A prefix ends at a `.` or `:` of the id. A glob may also match a prefix: `isa.*.float32` matches
every case of every row that it matches. `rung:gates` names the cases of a rung.
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
    names, globs = _sorted_parts(query)
    return not names.isdisjoint(_prefixes(case_id)) or any(
        _is_matched(glob, case_id) for glob in globs
    )


@functools.lru_cache(maxsize=64)
def _sorted_parts(query: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the ids and prefixes of a query, and its globs.

    A query may name thousands of cases: they are looked up, not compared one by one.
    """
    globs = tuple(part for part in parts(query) if any(sign in part for sign in "*?["))
    return frozenset(parts(query)) - {*globs, ""}, globs


def _prefixes(case_id: str) -> list[str]:
    """Return the id, and its beginnings before and after each border."""
    ends = [at for at, sign in enumerate(case_id) if sign in _BORDERS]
    return [case_id, *(case_id[: at + more] for at in ends for more in (0, 1))]


@functools.lru_cache(maxsize=64)
def parts(query: str) -> tuple[str, ...]:
    """Return the parts of a query between its commas."""
    return tuple(part.strip() for part in query.split(","))


def unmatched_parts(query: str, ids: Iterable[str]) -> list[str]:
    """Return the parts of `query` that match none of the ids."""
    names, globs = _sorted_parts(query)
    left = dict.fromkeys(parts(query))
    for case_id in ids:
        if not left:
            break
        for name in names.intersection(_prefixes(case_id)):
            left.pop(name, None)
        for glob in globs:
            if glob in left and _is_matched(glob, case_id):
                del left[glob]
    return list(left)


def _is_matched(part: str, case_id: str) -> bool:
    if part == EVERYTHING:
        return True
    return bool(part) and _pattern(part).match(case_id) is not None


@functools.lru_cache(maxsize=4096)
def _pattern(part: str) -> re.Pattern[str]:
    globs = [part, f"{part}*" if part.endswith(_BORDERS) else f"{part}[.:]*"]
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs))
