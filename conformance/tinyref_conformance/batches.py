"""Which cases have their kernels compiled together, in which worker, and how many at a time.

A worker that is given a row is told which rows it will be given next: it finds out what kernels
they need, and has them compiled in one call. Those rows are reserved for it. What goes wrong in
that is no verdict on a case: the rows are then done one by one, as they are without this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tinyref_conformance.workers import Task, WorkerProcess

# So many rows are told at first, and at most.
FIRST_ROWS = 4
MAX_ROWS = 64
# A batch should take about so long: long enough that its call counts little.
WANTED_SECONDS = 2.0
# After so many batches that took their worker with them there are no more.
MAX_DEATHS = 3


class Batches:
    """Chooses batches for one run, larger or smaller as they are quick or slow.

    offered: whether the compiler takes many sources.
    """

    def __init__(self) -> None:
        self.offered = False
        self._rows = FIRST_ROWS
        self._deaths = 0

    def choose(self, first: Task, ready: Iterable[Task]) -> list[Task]:
        """The tasks that are prepared together with `first`, and that; none where it is."""
        if first.is_prepared or not self.offered or self._deaths >= MAX_DEATHS:
            return []
        found = [first]
        for task in ready:
            if len(found) == self._rows:
                break
            if not task.is_prepared:
                found.append(task)
        for task in found:
            task.is_prepared = True
        return found

    def on_prepared(self, message: Mapping[str, Any]) -> None:
        """A batch is compiled: the next one is larger if that was quick, smaller if it was slow."""
        seconds = float(message["seconds"])
        if seconds < WANTED_SECONDS / 2:
            self._rows = min(2 * self._rows, MAX_ROWS)
        elif seconds > WANTED_SECONDS:
            self._rows = max(self._rows // 2, 1)

    def on_death(self) -> None:
        """A worker died over a batch."""
        self._deaths += 1
        self._rows = FIRST_ROWS


def returned(worker: WorkerProcess) -> list[Task]:
    """The tasks that were reserved for a worker that died, to be given to others.

    After a death over their batch they are in none again.
    """
    found = [replace(task, is_prepared=bool(worker.batch)) for task in worker.reserved]
    worker.reserved.clear()
    return found
