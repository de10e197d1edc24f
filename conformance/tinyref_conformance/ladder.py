"""The ladder: which rungs are broken, and which cases are suppressed for that reason.

A case is suppressed only if a case or row that it names is broken or suppressed. Other failures on
lower rungs do not suppress it.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from tinyref_conformance.statuses import BROKEN, MEASURED, Status
from tinyref_spec.case import Rung


class RungState(Enum):
    """The state of a rung: its word in reports, its symbol, and its colour."""

    HOLDS = "holds", "✓", "pass"
    BROKEN = "broken", "✗", "fail"
    SUPPRESSED = "suppressed", "↑", "info"
    SKIPPED = "not required", "-", "none"
    INCOMPLETE = "incomplete", "?", "warn"
    EMPTY = "no cases", "·", "none"

    symbol: str
    tone: str

    def __new__(cls, word: str, symbol: str, tone: str) -> Self:
        state = object.__new__(cls)
        state._value_ = word
        state.symbol, state.tone = symbol, tone
        return state


@dataclass
class RungReport:
    """One rung with the number of cases by status, and of skipped ones by reason."""

    rung: Rung
    counts: Counter[Status] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)

    @property
    def state(self) -> RungState:
        """Return BROKEN if any case is broken; HOLDS if cases were measured and all are well."""
        seen = {status for status, count in self.counts.items() if count}
        if seen & BROKEN:
            return RungState.BROKEN
        if seen & {Status.MISSING, Status.NOT_RUN}:
            return RungState.INCOMPLETE
        if Status.SUPPRESSED in seen:
            return RungState.SUPPRESSED
        if seen & MEASURED:
            return RungState.HOLDS
        return RungState.SKIPPED if seen else RungState.EMPTY

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {status.value}" for status, count in self.counts.items())
        total = self.counts.total()
        cases = "case" if total == 1 else "cases"
        if self.skips.total() > total / 2:
            ((reason, count),) = self.skips.most_common(1)
            counts += f"; {count:,} skipped: {reason}"
        return f"{self.state.symbol} {self.rung.title:20} {total:>7,} {cases}: {counts}"


def climb(results: Iterable[tuple[Rung, Status]]) -> list[RungReport]:
    """Return every rung, lowest first, including those without cases."""
    reports = {rung: RungReport(rung) for rung in Rung}
    for rung, status in results:
        reports[rung].counts[status] += 1
    return list(reports.values())


class RungLines:
    """Counts results while they come in, and gives each complete rung once, from the ground up.

    left: the number of planned cases of each rung.
    """

    def __init__(self, left: Counter[Rung]) -> None:
        self._left = Counter(left)
        self._reports = deque(climb(()))

    def note(self, rung: Rung, status: Status, reason: str = "") -> None:
        """Count a case; a skipped one has a reason."""
        self._left[rung] -= 1
        for report in self._reports:
            if report.rung is rung:
                report.counts[status] += 1
                report.skips.update([reason] * (status is Status.SKIP))

    def complete(self) -> Iterator[RungReport]:
        """Yield the rungs that are complete now, without those that have no cases."""
        while self._reports and self._left[self._reports[0].rung] <= 0:
            report = self._reports.popleft()
            if report.counts:
                yield report


class Suppression:
    """Decides during a run which cases need not be run.

    `note` records a broken case, `note_suppressed` a suppressed one; `reason` then answers for
    others.
    """

    def __init__(self) -> None:
        # The broken case behind each case and row that is broken or suppressed.
        self._roots: dict[str, str] = {}
        self._broken: set[str] = set()

    def note(self, case: str, row: str) -> None:
        """Record that `case` is broken without an expectation, and its row with it."""
        self._broken |= {case, row}
        self._roots[case] = case
        self._roots.setdefault(row, case)

    def note_suppressed(self, case: str, row: str, reason: str) -> None:
        """Record that `case` was not run, so its dependants cannot be judged."""
        self._roots[case] = root_of(reason)
        self._roots.setdefault(row, root_of(reason))

    def reason(self, depends_on: Iterable[str]) -> str | None:
        """Return why a case that depends on these is not run; None if it is run."""
        for name in depends_on:
            if name in self._broken:
                return f"it depends on {name}, which is broken"
            if name in self._roots:
                return f"it depends on {name}, which is suppressed by {self._roots[name]}"
        return None


_REASON = re.compile(r"it depends on (\S+), which is (?:broken|suppressed by (\S+))")


def root_of(reason: str) -> str:
    """Return the broken case or row named in a reason of `Suppression`, else the reason itself."""
    match = _REASON.fullmatch(reason)
    return reason if match is None else match[2] or match[1]
