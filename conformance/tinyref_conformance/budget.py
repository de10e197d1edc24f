"""Runs of limited time: the order in which cases tell most, wherever the run ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from tinyref_conformance.plan import PlannedRow
from tinyref_spec.ladder import TOGETHER

_COMMON = ("float32", "int32")


def telling_order(rows: Iterable[PlannedRow]) -> list[tuple[str, list[str]]]:
    """Return rows with some of their cases, in the order in which they tell most.

    Cases that others depend on come first, rung by rung. Rounds follow, each rung by rung. A
    feature is one op, or one kind of kernel, on one rung. The first round has one case of one row
    of each feature. Each later round adds a row to each feature, and a case to each row of earlier
    rounds. So every feature is tested in one dtype before any is tested in two.
    """
    rows = list(rows)
    rested_on = {name for row in rows for case in row.cases for name in case.depends_on}
    # If it holds, all other cases are compiled faster.
    rested_on.add(TOGETHER)
    rounds: dict[int, list[tuple[str, list[str]]]] = defaultdict(list)
    ranks = _ranks(rows)
    for row in rows:
        first = [case.id for case in row.cases if case.id in rested_on or row.id in rested_on]
        if first:
            rounds[-1].append((row.id, first))
        later = [case.id for case in row.cases if case.id not in first]
        for number, case_id in enumerate(later):
            rounds[ranks[row.id] + number].append((row.id, [case_id]))
    return [part for number in sorted(rounds) for part in rounds[number]]


def _ranks(rows: list[PlannedRow]) -> dict[str, int]:
    """Return the position of each row among those of its feature, the commonest dtypes first."""
    rows_of_feature: Counter[tuple[int, str]] = Counter()
    ranks = {}
    for row in sorted(rows, key=lambda row: row.row.dtype not in _COMMON):
        feature = (int(row.rung), feature_of(row))
        ranks[row.id] = rows_of_feature[feature]
        rows_of_feature[feature] += 1
    return ranks


def feature_of(row: PlannedRow) -> str:
    """Return the subject of a row without its dtype: parts of its id that name no dtype."""
    dtype = row.row.dtype
    parts = [part for part in row.id.split(".") if part != dtype]
    return ".".join(parts[:3])
