"""How long a call takes: by the wall, or by the processor's time of a call on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
# A run shorter than this says more about the clock than about the work.
LEAST_SECONDS = 0.05


def clock_of(threads: int) -> Clock:
    """On one thread the time of the processor: what else the machine does is no part of it."""
    return time.process_time if threads == 1 else time.perf_counter


def seconds_of_call(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Seconds of one call, over enough calls to measure; the first is not counted."""
    run()
    count = 1
    while True:
        start = clock()
        for _ in range(count):
            run()
        taken = clock() - start
        if taken >= LEAST_SECONDS:
            return taken / count
        count = max(count + 1, int(count * min(LEAST_SECONDS / max(taken, 1e-9) * 1.2, 100)))
