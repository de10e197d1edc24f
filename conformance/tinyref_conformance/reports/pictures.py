"""The charts of the page, as numbers: accuracy by row, time by operation, clauses by family.

The template makes plain SVG of them, which needs no other file and no script.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tinyref.dtype import dtype_from_name
from tinyref_conformance.report import Report, RowResult
from tinyref_conformance.statuses import MEASURED, Status
from tinyref_spec.accuracy import SIDE, Accuracy, range_of_bin

# Number of rows in the chart: enough for the inexact ones of most devices.
DRAWN = 400
OPERATIONS = 20
# Columns of a histogram of distances: 0, 1, 2, up to 4, ..., up to 1024, more.
COLUMNS = 13
HEIGHT = 40
_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ULP")


@dataclass(frozen=True)
class Drawn:
    """The accuracy of one row.

    share: the used part of what is allowed, None if only the exact result is. histogram,
    over_range: paths in a box `HEIGHT` high, 6 for a column. operand: the dtype of the range.
    """

    id: str
    median: str
    p99: str
    worst: str
    limit: str
    used: str
    width: int
    is_over: bool
    at: str
    histogram: str
    over_range: str
    operand: str


@dataclass(frozen=True)
class ChartBar:
    """A named bar; its width is in percent of the longest."""

    name: str
    words: str
    width: float


@dataclass(frozen=True)
class ClauseGroup:
    """The clauses whose labels begin alike.

    holds, broken, open: their numbers; a clause is open if no case of it was measured. not_held:
    label and sentence of those that are not shown to hold.
    """

    name: str
    holds: int
    broken: int
    open: int
    not_held: Sequence[tuple[str, str, str]]

    @property
    def total(self) -> int:
        return self.holds + self.broken + self.open


def ulp_limit(rule: str) -> float | None:
    """Return the limit in ULP that an error rule states; None if it has a derived bound."""
    limit = _LIMIT.search(rule)
    if limit:
        return float(limit[1])
    return 0.0 if rule.startswith("Exact") and "bound" not in rule else None


def drawn_rows(report: Report) -> tuple[list[Drawn], int, int]:
    """Return inexact rows, nearest to their limit first; the number of others; of exact ones."""
    measured = [row for row in report.rows if row.accuracy.histogram]
    inexact = [row for row in measured if set(row.accuracy.histogram) != {0}]
    inexact.sort(key=lambda row: -_share(row))
    return (
        [_drawn(row) for row in inexact[:DRAWN]],
        max(len(inexact) - DRAWN, 0),
        len(measured) - len(inexact),
    )


def _share(row: RowResult) -> float:
    """Return the used part of what is allowed; infinite if only the exact result is allowed."""
    share = row.accuracy.share
    return math.inf if share is None or math.isnan(share) else share


def _drawn(row: RowResult) -> Drawn:
    share, limit = _share(row), ulp_limit(row.error_rule)
    accuracy = row.accuracy
    return Drawn(
        row.id,
        ulp(accuracy.quantile(0.5)),
        ulp(row.p99_ulp),
        ulp(row.max_ulp),
        "derived" if limit is None else ulp(limit),
        f"{share:.0%}" if share <= 1 else "over",
        round(min(share, 1) * 100),
        share > 1,
        row.worst_input,
        histogram_path(accuracy),
        range_path(accuracy),
        _operand(accuracy),
    )


def ulp(value: float | None) -> str:
    """Return a distance in few characters."""
    if value is None or value == math.inf:
        return "" if value is None else "∞"
    return f"{value:.3g}" if value < 1e5 else f"{value:.0e}"


def histogram_path(accuracy: Accuracy) -> str:
    """Return columns of the logarithm of counts, so that 1 of a million is visible."""
    counts = [0] * COLUMNS
    for column, count in accuracy.histogram.items():
        counts[min(column, COLUMNS - 1)] += count
    most = math.log2(1 + max(counts))
    return "".join(
        _column(column, 6, math.log2(1 + count) / most * HEIGHT)
        for column, count in enumerate(counts)
        if count
    )


def range_path(accuracy: Accuracy) -> str:
    """Return columns of the logarithm of the largest distance, by operand, lowest first."""
    heights = {at: min(math.log2(1 + most), 64.0) for at, most in accuracy.by_operand.items()}
    highest = max(heights.values(), default=0.0)
    return "".join(
        _column(column, 3, height / highest * HEIGHT)
        for column, height in sorted(heights.items())
        if height
    )


def _column(number: int, step: int, height: float) -> str:
    tall = max(round(height), 1)
    return f"M{number * step} {HEIGHT}v-{tall}h{step - 1}v{tall}z"


def _operand(accuracy: Accuracy) -> str:
    """Return the range of operands with the worst result, in words."""
    if not accuracy.operand:
        return ""
    worst = max(accuracy.by_operand, key=lambda at: accuracy.by_operand[at])
    low, high = range_of_bin(worst, dtype_from_name(accuracy.operand))
    sign = "-" if worst < SIDE else ""
    return f"worst from {sign}{low:.0e} to {sign}{high:.0e}, {accuracy.operand}"


def time_bars(report: Report) -> tuple[list[ChartBar], list[ChartBar]]:
    """Return seconds by rung, and those of the operations that took the longest."""
    by_rung: dict[str, float] = defaultdict(float)
    by_op: dict[str, float] = defaultdict(float)
    for row in report.rows:
        by_rung[row.rung.title] += row.seconds
        by_op[f"{row.level} {row.op}"] += row.seconds
    longest = sorted(by_op, key=lambda name: -by_op[name])[:OPERATIONS]
    return _bars(by_rung), _bars({name: by_op[name] for name in longest})


def _bars(seconds: dict[str, float]) -> list[ChartBar]:
    most = max(seconds.values(), default=0.0) or 1.0
    return [
        ChartBar(name, f"{value:.2f} s", round(value / most * 100, 1))
        for name, value in seconds.items()
    ]


def clause_families(report: Report) -> list[ClauseGroup]:
    """Return the clauses that rows of the run check, by family, and if they hold."""
    sentences: dict[str, str] = {}
    seen: dict[str, set[Status]] = defaultdict(set)
    for row in report.rows:
        for label, sentence in zip(row.clauses, row.clause_sentences, strict=True):
            sentences[label] = sentence
            seen[label] |= {status for status, count in row.counts.items() if count}
    families: dict[str, list[str]] = defaultdict(list)
    for label in sentences:
        families[label.partition(".")[0]].append(label)
    return [_family(name, labels, seen, sentences) for name, labels in families.items()]


def _family(
    name: str, labels: Sequence[str], seen: dict[str, set[Status]], sentences: dict[str, str]
) -> ClauseGroup:
    states = {label: _state(seen[label]) for label in labels}
    count = list(states.values()).count
    not_held = [(label, state, sentences[label]) for label, state in states.items() if state]
    return ClauseGroup(name, count(""), count("broken"), count("not measured"), not_held)


def _state(statuses: set[Status]) -> str:
    """Return the state of a clause; empty if it holds."""
    if any(status.is_failure and status is not Status.MISSING for status in statuses):
        return "broken"
    return "" if statuses & MEASURED else "not measured"
