"""Batches: the number of rows whose kernels are compiled in one call.

All kernels of a task of several rows are compiled before its first case begins. A failed batch
never fails a case: its rows are then run one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Rows of a batch at first, and at most.
FIRST_ROWS = 4
MAX_ROWS = 64
# A batch should take about this long, so that the cost of the call itself is small.
TARGET_SECONDS = 2.0
# No more batches are formed after this many workers died over one.
MAX_DEATHS = 3


class Batches:
    """The size of batches in one run: larger if they are quick, smaller if they are slow.

    offered: True if the compiler takes many sources. fixed_rows: the number of rows of each batch,
    if the device says it.
    """

    def __init__(self) -> None:
        self.offered = False
        self.fixed_rows = 0
        self._rows = FIRST_ROWS
        self._deaths = 0

    @property
    def rows(self) -> int:
        """Return the number of rows in the next batch; 0 for none."""
        return (self.fixed_rows or self._rows) if self.offered and self._deaths < MAX_DEATHS else 0

    def on_prepared(self, message: Mapping[str, Any]) -> None:
        """Make the next batch larger if this one compiled quickly, smaller if it was slow."""
        seconds = float(message["seconds"])
        if seconds < TARGET_SECONDS / 2:
            self._rows = min(2 * self._rows, MAX_ROWS)
        elif seconds > TARGET_SECONDS:
            self._rows = max(self._rows // 2, 1)

    def on_death(self) -> None:
        """Record that a worker died over a batch."""
        self._deaths += 1
        self._rows = FIRST_ROWS
