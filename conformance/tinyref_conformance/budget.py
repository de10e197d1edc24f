"""A run of limited time: the order of its cases, any beginning of which says as much as it can."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from tinyref_conformance.plan import PlannedRow
from tinyref_spec.ladder import TOGETHER

_COMMON = ("float32", "int32")


def telling_order(rows: Iterable[PlannedRow]) -> list[tuple[str, list[str]]]:
    """Rows with some of their cases, the most telling first; each case is there once.

    First come the cases that others rest on, rung by rung. Then there are rounds, each rung by
    rung: in the first one case of one row of each feature (a rung's rows of one op, or of one kind
    of kernel), in each later one a case of the next row of each feature, and one case more of each
    row that was there before. So a feature is looked at in one dtype before any is looked at in
    two, and in two places of the tables before any is gone through.
    """
    rows = list(rows)
    rested_on = {name for row in rows for case in row.cases for name in case.depends_on}
    # All others are quicker where it has been shown.
    rested_on.add(TOGETHER)
    rounds: dict[int, list[tuple[str, list[str]]]] = defaultdict(list)
    places = _places(rows)
    for row in rows:
        first = [case.id for case in row.cases if case.id in rested_on or row.id in rested_on]
        if first:
            rounds[-1].append((row.id, first))
        later = [case.id for case in row.cases if case.id not in first]
        for number, case_id in enumerate(later):
            rounds[places[row.id] + number].append((row.id, [case_id]))
    return [part for number in sorted(rounds) for part in rounds[number]]


def _places(rows: list[PlannedRow]) -> dict[str, int]:
    """The how many-th each row is among those of its feature: the dtypes of most programs first."""
    rows_of_feature: Counter[tuple[int, str]] = Counter()
    places = {}
    for row in sorted(rows, key=lambda row: row.row.dtype not in _COMMON):
        feature = (int(row.rung), feature_of(row))
        places[row.id] = rows_of_feature[feature]
        rows_of_feature[feature] += 1
    return places


def feature_of(row: PlannedRow) -> str:
    """What a row is about, whatever its dtype: its id without the parts that name dtypes."""
    dtype = row.row.dtype
    parts = [part for part in row.id.split(".") if part != dtype]
    return ".".join(parts[:3])
