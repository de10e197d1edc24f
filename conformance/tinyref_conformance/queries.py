"""Case ids are queries: an id names one case, a prefix or a glob names a set."""

from __future__ import annotations

import fnmatch

EVERYTHING = "*"
_BORDERS = (".", ":")


def matches(query: str, case_id: str) -> bool:
    """True where `query` is the id, a prefix of it that ends at a border, or a glob of it."""
    if query in (EVERYTHING, case_id):
        return True
    if case_id.startswith(query) and (query.endswith(_BORDERS) or case_id[len(query)] in _BORDERS):
        return True
    return fnmatch.fnmatchcase(case_id, query)
