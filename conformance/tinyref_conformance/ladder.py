"""The ladder: which rung is broken, and what that suppresses.

A case is suppressed only by the cases and rows that it names, when those are broken or suppressed
themselves: what else fails below it says nothing about it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from tinyref_conformance.statuses import BROKEN, MEASURED, Status
from tinyref_spec.case import Rung


class RungState(Enum):
    """How one rung came out: the word that reports use, a symbol, and the colour family."""

    HOLDS = "holds", "✓", "pass"
    BROKEN = "broken", "✗", "fail"
    SUPPRESSED = "suppressed", "↑", "info"
    SKIPPED = "not owed", "-", "none"
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
    """One rung with the number of cases by status."""

    rung: Rung
    counts: Counter[Status] = field(default_factory=Counter)

    @property
    def state(self) -> RungState:
        """Broken as soon as one case is; it holds when something was measured and all is well."""
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


def climb(results: Iterable[tuple[Rung, Status]]) -> list[RungReport]:
    """Every rung from the ground up, also those without cases."""
    reports = {rung: RungReport(rung) for rung in Rung}
    for rung, status in results:
        reports[rung].counts[status] += 1
    return list(reports.values())


class Suppression:
    """Decides, while results come in, what is not worth running any more.

    `reason` answers for a case; `note` learns that a case of a row is broken, `note_suppressed`
    that one is suppressed.
    """

    def __init__(self) -> None:
        # Each with the broken case that is the reason.
        self._roots: dict[str, str] = {}
        self._broken: set[str] = set()

    def note(self, case: str, row: str) -> None:
        """`case` is broken and no expectation covers it, so its row is broken too."""
        self._broken |= {case, row}
        self._roots[case] = case
        self._roots.setdefault(row, case)

    def note_suppressed(self, case: str, row: str, reason: str) -> None:
        """`case` was not run, so nothing that stands on it or its row can be judged either."""
        self._roots[case] = root_of(reason)
        self._roots.setdefault(row, root_of(reason))

    def reason(self, depends_on: Iterable[str]) -> str | None:
        """Why a case that stands on these is not run, in one sentence; None where it is to run."""
        for name in depends_on:
            if name in self._broken:
                return f"it depends on {name}, which is broken"
            if name in self._roots:
                return f"it depends on {name}, which is suppressed by {self._roots[name]}"
        return None


_REASON = re.compile(r"it depends on (\S+), which is (?:broken|suppressed by (\S+))")


def root_of(reason: str) -> str:
    """The case or row whose failure is behind a reason of `Suppression`; else the reason itself."""
    match = _REASON.fullmatch(reason)
    return reason if match is None else match[2] or match[1]
