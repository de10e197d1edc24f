"""An estimate of the time left, from the times of finished cases and the costs of rungs.

Costs of rungs differ by a factor of 100, and rungs run one after another. So an average over
finished cases says nothing about the others.
"""

from __future__ import annotations

from collections import Counter

from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung

# Milliseconds of a quick case and its kernels on the CPU device; only the proportions count.
COSTS: dict[Rung, float] = {
    Rung.OPEN: 0.5,
    Rung.MEMORY: 0.6,
    Rung.STORE: 7.1,
    Rung.ONE_ALU: 8.2,
    Rung.INDEX: 8.6,
    Rung.ALU: 1.1,
    Rung.CAST: 1.1,
    Rung.GATE: 6.9,
    Rung.VECTOR: 7.5,
    Rung.LOOP: 6.0,
    Rung.GROUP: 7.0,
    Rung.OPTIMISED: 5.5,
    Rung.MATMUL: 10.9,
    Rung.TENSOR: 10.4,
    Rung.AUTOGRAD: 22.1,
    Rung.JIT: 31.4,
    Rung.MODEL: 88.2,
}
# The cost of a rung in this table weighs as much as this many measured cases.
PRIOR_CASES = 15
# There is no estimate before this many cases and seconds.
LEAST_CASES = 50
LEAST_SECONDS = 1.0
# A library is too slow for the time limit if this many cases do not end, the first of a run.
SLOW_CASES = 3


class SlowStart:
    """The first cases of a run, as long as all of them exceed the time limit."""

    def __init__(self) -> None:
        self.cases: list[str] = []
        self._is_over = False

    def is_too_slow(self, record: Record) -> bool:
        """Return True at the last of `SLOW_CASES` cases that all took too long."""
        self._is_over = self._is_over or record.status is not Status.TIMEOUT
        if not self._is_over:
            self.cases.append(record.case)
        return not self._is_over and len(self.cases) == SLOW_CASES

    def words(self, seconds: float) -> str:
        """Return the problem in words; `seconds` is the time limit of a case."""
        return (
            f"too slow here: none of the first {SLOW_CASES} cases ended within {seconds:g} s of "
            "processor time; --timeout gives them more"
        )


class TimeLeft:
    """Estimates how long the remaining cases take; `jobs` run at a time.

    left: the number of cases still to run, by rung.
    """

    def __init__(self, left: Counter[Rung], jobs: int) -> None:
        self._left = left
        self._jobs = jobs
        self._done: Counter[Rung] = Counter()
        self._seconds: dict[Rung, float] = {}

    def note(self, rung: Rung, seconds: float) -> None:
        """Record the seconds of a case, including all that its worker did for it before."""
        self._done[rung] += 1
        self._seconds[rung] = self._seconds.get(rung, 0.0) + seconds

    def drop(self, rung: Rung) -> None:
        """Record that a case has run, or will not run."""
        self._left[rung] -= 1

    def seconds(self) -> float | None:
        """Return the seconds that are left; None while too little is known."""
        seconds = sum(self._seconds.values())
        if sum(self._done.values()) < LEAST_CASES or seconds < LEAST_SECONDS:
            return None
        costs = sum(count * COSTS[rung] for rung, count in self._done.items())
        todo = sum(
            count * self._expected(rung, seconds / costs)
            for rung, count in self._left.items()
            if count > 0
        )
        return todo / self._jobs

    def _expected(self, rung: Rung, scale: float) -> float:
        """Return the seconds of a case of a rung; few measured cases are weighed with its cost."""
        seconds = self._seconds.get(rung, 0.0) + PRIOR_CASES * scale * COSTS[rung]
        return seconds / (self._done[rung] + PRIOR_CASES)


def left_text(left: float | None) -> str:
    """Return the time left in words, rounded."""
    if left is None:
        return ""
    return f", about {left:.0f} s left" if left < 100 else f", about {left / 60:.0f} min left"
