"""Case ids are queries: an id names one case, a prefix or a glob a set, commas join several.

A prefix ends at a border of the id, and a glob may be of a prefix: `isa.*.float32` names every case
of every row that it names.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Iterable

EVERYTHING = "*"
_BORDERS = (".", ":")


def matches(query: str, case_id: str) -> bool:
    """True where a part of `query` is the id or a prefix that ends at a border, or a glob of one.

    The id may be that of a row, too.
    """
    return any(_is_matched(part, case_id) for part in parts(query))


@functools.lru_cache(maxsize=64)
def parts(query: str) -> tuple[str, ...]:
    """What the commas of a query separate."""
    return tuple(part.strip() for part in query.split(","))


def unmatched_parts(query: str, ids: Iterable[str]) -> list[str]:
    """The parts of `query` that match none of the ids."""
    left = [*parts(query)]
    for each in ids:
        if not left:
            break
        left = [part for part in left if not _is_matched(part, each)]
    return left


def _is_matched(part: str, case_id: str) -> bool:
    if part == EVERYTHING:
        return True
    return bool(part) and _pattern(part).match(case_id) is not None


@functools.lru_cache(maxsize=4096)
def _pattern(part: str) -> re.Pattern[str]:
    globs = [part, f"{part}*" if part.endswith(_BORDERS) else f"{part}[.:]*"]
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs))
