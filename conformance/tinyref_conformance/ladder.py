"""The ladder: which rung is broken, and what that suppresses.

A broken rung of the foundation (open, allocate and copy) suppresses everything above it: nothing
measured there would mean anything. Above it a case is suppressed only by a row that it names, when
that row is broken or is itself suppressed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tinyref_conformance.statuses import BROKEN, MEASURED, Status
from tinyref_spec.case import Rung

FOUNDATION = tuple(rung for rung in Rung if rung <= Rung.MEMORY)


class RungState(Enum):
    """How one rung came out; the value is the word that reports use."""

    HOLDS = "holds"
    BROKEN = "broken"
    SUPPRESSED = "suppressed"
    SKIPPED = "not owed"
    INCOMPLETE = "incomplete"
    EMPTY = "no cases"


@dataclass
class RungReport:
    """One rung with the number of cases by status."""

    rung: Rung
    counts: Counter[Status] = field(default_factory=Counter)

    @property
    def state(self) -> RungState:
        """Broken as soon as one case is; it holds when something was measured and all is well."""
        seen = {status for status, count in self.counts.items() if count}
        if seen & BROKEN:
            return RungState.BROKEN
        if Status.MISSING in seen:
            return RungState.INCOMPLETE
        if Status.SUPPRESSED in seen:
            return RungState.SUPPRESSED
        if seen & MEASURED:
            return RungState.HOLDS
        return RungState.SKIPPED if seen else RungState.EMPTY


def climb(results: Iterable[tuple[Rung, Status]]) -> list[RungReport]:
    """Every rung from the ground up, also those without cases."""
    reports = {rung: RungReport(rung) for rung in Rung}
    for rung, status in results:
        reports[rung].counts[status] += 1
    return list(reports.values())


def first_broken(reports: Iterable[RungReport]) -> Rung | None:
    """The lowest broken rung: where a person who brings up a device looks first."""
    for report in reports:
        if report.state is RungState.BROKEN:
            return report.rung
    return None


class Suppression:
    """Decides, while results come in, what is not worth running any more.

    `reason` answers for a case; `note` learns that a row (on its rung) is broken, and
    `note_suppressed` that one is suppressed.
    """

    def __init__(self) -> None:
        self._broken_rows: dict[str, Rung] = {}
        self._suppressed_rows: set[str] = set()

    def note(self, row: str, rung: Rung) -> None:
        """`row` has a case that is broken and that no expectation covers."""
        self._broken_rows.setdefault(row, rung)

    def note_suppressed(self, row: str) -> None:
        """`row` was not run, so nothing that stands on it can be judged either."""
        self._suppressed_rows.add(row)

    def reason(self, rung: Rung, depends_on: Iterable[str]) -> str | None:
        """Why a case on `rung` is not run, in one sentence; None where it is to be run."""
        below = [(low, row) for row, low in self._broken_rows.items() if low < rung]
        foundation = min((pair for pair in below if pair[0] in FOUNDATION), default=None)
        if foundation is not None:
            low, row = foundation
            return f"the rung '{low.title}' below is broken, at {row}"
        for row in depends_on:
            if row in self._broken_rows:
                return f"it depends on {row}, which is broken"
            if row in self._suppressed_rows:
                return f"it depends on {row}, which is suppressed"
        return None
