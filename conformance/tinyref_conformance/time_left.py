"""How long a run will still take, from what its cases took and from how costly others are.

The rungs differ by a hundredfold, and come one after the other: an average over what is done says
nothing about what is left. A case takes the time of the host (which builds and lowers graphs), that
of its kernels (which are compiled and launched the first time) and a time of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung


@dataclass(frozen=True)
class Cost:
    """What a case of a rung takes on average: milliseconds of the host, and new kernels."""

    host: float
    kernels: float


# Of the quick profile on the CPU device, on one core of 2026; only their proportions count.
COSTS: dict[Rung, Cost] = {
    Rung.OPEN: Cost(0.5, 0.0),
    Rung.MEMORY: Cost(0.6, 0.0),
    Rung.STORE: Cost(3.0, 0.83),
    Rung.ONE_ALU: Cost(4.0, 0.84),
    Rung.INDEX: Cost(4.5, 0.83),
    Rung.ALU: Cost(0.9, 0.05),
    Rung.CAST: Cost(0.7, 0.08),
    Rung.GATE: Cost(2.1, 0.97),
    Rung.VECTOR: Cost(2.8, 0.95),
    Rung.LOOP: Cost(1.9, 0.83),
    Rung.GROUP: Cost(2.0, 1.0),
    Rung.OPTIMISED: Cost(2.9, 0.52),
    Rung.MATMUL: Cost(7.3, 0.72),
    Rung.TENSOR: Cost(7.2, 0.65),
    Rung.AUTOGRAD: Cost(15.5, 1.31),
    Rung.JIT: Cost(19.4, 2.4),
    Rung.MODEL: Cost(69.0, 3.85),
}
# What is known beforehand of a rung weighs as much as so many cases of it.
PRIOR_CASES = 15
# A machine is at most so much slower than that of the costs, as far as its first cases tell.
SLOWEST_HOST = 16.0
# Before so many cases and seconds there is nothing to go by.
LEAST_CASES = 50
LEAST_SECONDS = 1.0
# A library is too slow for the limit where this many cases do not end, the first ones of a run.
SLOW_CASES = 3


class SlowStart:
    """The first cases of a run, as long as none of them ends within its time."""

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
        """Return the problem in words; `seconds` is the limit of a case."""
        return (
            f"too slow here: none of the first {SLOW_CASES} cases ended within {seconds:g} s of "
            "the processor; --timeout gives them more"
        )


@dataclass(frozen=True)
class _Model:
    """host: how much slower it is than that of the costs; case, kernel: seconds of each."""

    host: float
    case: float
    kernel: float

    def seconds(self, cost: Cost) -> float:
        return self.host * cost.host / 1000 + self.case + self.kernel * cost.kernels


@dataclass(frozen=True)
class _Sums:
    """What cases took, how many there were, and what host and kernels count for by their costs."""

    seconds: float
    cases: int
    host: float
    kernels: float

    @property
    def slowness(self) -> float:
        """How much slower than that of the costs the host is at most."""
        return self.seconds / self.host if self.host else math.inf

    def beyond(self, host: float) -> float:
        """The seconds that a host so slow does not explain."""
        return max(self.seconds - host * self.host, 0.0)


class TimeLeft:
    """Learns what cases take and says how long the others will; `jobs` run at a time.

    left: the cases that are to run, by rung.
    """

    def __init__(self, left: Counter[Rung], jobs: int) -> None:
        self._left = left
        self._jobs = jobs
        self._done: Counter[Rung] = Counter()
        self._seconds: dict[Rung, float] = {}

    def note(self, rung: Rung, seconds: float) -> None:
        """A case took so long: of its worker, with all that the worker did for it before."""
        self._done[rung] += 1
        self._seconds[rung] = self._seconds.get(rung, 0.0) + seconds

    def drop(self, rung: Rung) -> None:
        """A case has run, or will not."""
        self._left[rung] -= 1

    def seconds(self) -> float | None:
        """The seconds that are left; None while too little is known."""
        seconds = sum(self._seconds.values())
        if sum(self._done.values()) < LEAST_CASES or seconds < LEAST_SECONDS:
            return None
        model = self._fit()
        todo = sum(
            count * self._expected(rung, model) for rung, count in self._left.items() if count > 0
        )
        return todo / self._jobs

    def _expected(self, rung: Rung, model: _Model) -> float:
        """Seconds of a case: what those of its rung took, and until then what is to be expected."""
        seconds = self._seconds.get(rung, 0.0) + PRIOR_CASES * model.seconds(COSTS[rung])
        return seconds / (self._done[rung] + PRIOR_CASES)

    def _fit(self) -> _Model:
        """What the rungs without kernels and those with kernels say of host, cases and kernels."""
        plain = self._sums(has_kernels=False)
        with_kernels = self._sums(has_kernels=True)
        # What is over may be of a slow host or of slow kernels, which nobody can tell apart by it:
        # the middle is never far off.
        slowness = min(SLOWEST_HOST, *(each.slowness for each in (plain, with_kernels)))
        host = math.sqrt(max(slowness, 1.0))
        case = plain.beyond(host) / plain.cases if plain.cases else 0.0
        kernel = with_kernels.beyond(host) - with_kernels.cases * case
        return _Model(host, case, kernel / with_kernels.kernels if kernel > 0 else 0.0)

    def _sums(self, has_kernels: bool) -> _Sums:
        """Over the rungs that are begun and have kernels, or have none."""
        rungs = [rung for rung in self._done if bool(COSTS[rung].kernels) is has_kernels]
        return _Sums(
            sum(self._seconds[rung] for rung in rungs),
            sum(self._done[rung] for rung in rungs),
            sum(self._done[rung] * COSTS[rung].host for rung in rungs) / 1000,
            sum(self._done[rung] * COSTS[rung].kernels for rung in rungs),
        )


def left_text(left: float | None) -> str:
    """Return the time left as one says it, without a false precision."""
    if left is None:
        return ""
    return f", about {left:.0f} s left" if left < 100 else f", about {left / 60:.0f} min left"
