"""Case ids are queries: an id names one case, a prefix or a glob a set, commas join several."""

from __future__ import annotations

import fnmatch

EVERYTHING = "*"
_BORDERS = (".", ":")


def matches(query: str, case_id: str) -> bool:
    """True where a part of `query` is the id, a prefix that ends at a border, or a glob of it."""
    if query == EVERYTHING:
        return True
    return any(_matches_part(part.strip(), case_id) for part in query.split(","))


def _matches_part(query: str, case_id: str) -> bool:
    if not query or query == case_id:
        return bool(query)
    if case_id.startswith(query) and (query.endswith(_BORDERS) or case_id[len(query)] in _BORDERS):
        return True
    return fnmatch.fnmatchcase(case_id, query)
