"""Rows whose kernels are compiled in one call: how many at a time.

A task of several rows has the kernels of all of them compiled before its first case begins. What
goes wrong in that is no verdict on a case: the rows are then given out again, without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Rows of a batch at first, and at most.
FIRST_ROWS = 4
MAX_ROWS = 64
# A batch should take about this long: long enough that its call counts little.
WANTED_SECONDS = 2.0
# After this many batches that took their worker with them there are no more.
MAX_DEATHS = 3


class Batches:
    """The size of batches in one run, larger or smaller as they are quick or slow.

    offered: whether the compiler takes many sources.
    """

    def __init__(self) -> None:
        self.offered = False
        self._rows = FIRST_ROWS
        self._deaths = 0

    @property
    def rows(self) -> int:
        """The number of rows in the next batch; 0 for none."""
        return self._rows if self.offered and self._deaths < MAX_DEATHS else 0

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
