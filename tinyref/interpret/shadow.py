"""Shadow memory: the accesses to each element since the last barrier, from which races are found.

Two different work-items race if they access one element, at least one of them writes, and no
barrier of their group is between. A barrier orders the items of one group only, so accesses of
different groups race anywhere in a launch. Two writes of the same value are a race as well: the
memory models of devices do not define their result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
# A function that reports races: a mask over the accesses, and the other work-item of each access.
Report = Callable[[npt.NDArray[np.bool_], Ints], None]

NOBODY = 0
# Readers are stored as a work-item (1 and up), as several of one group (-1 - group), or as this.
MANY_GROUPS = np.iinfo(np.int64).min
# The group size if all work-items are one group.
ALL = np.iinfo(np.int64).max


class Shadow:
    """The last writer and the readers of every element of one memory.

    Work-items are numbered from 1 over the whole launch, group by group. `epochs` is False for a
    program without barriers, where the order of accesses does not matter.
    """

    def __init__(self, size: int, group_size: int, epochs: bool) -> None:
        self.group_size = group_size
        self.writer: Ints = np.zeros(size, np.int64)
        self.reader: Ints | None = None
        self.writer_epoch = np.zeros(size, np.int64) if epochs else None
        self.reader_epoch: Ints | None = None

    @classmethod
    def of_iterations(cls, size: int) -> Shadow:
        """Return a shadow whose work-items are iterations of loops.

        They are like items of one group. Only the beginning and the end of a loop separate them,
        as barriers do.
        """
        return cls(size, ALL, True)

    def _group_of(self, items: Ints) -> Ints:
        return (items - 1) // self.group_size

    def _group_of_readers(self, who: Ints) -> Ints:
        """Return the group of readers; for `MANY_GROUPS` a number that no group has."""
        return np.where(who > 0, self._group_of(who), -1 - who)

    def _report_conflicts(
        self,
        past: Ints,
        past_epoch: Ints | None,
        index: Ints,
        items: Ints,
        epoch: Ints | int,
        report: Report,
    ) -> None:
        """Report accesses of `items` to elements that `past` accessed before, without a barrier.

        past: the earlier work-item for each access. past_epoch: the epoch of the earlier access to
        each element; None if there are no barriers.
        """
        conflict = (past != NOBODY) & (past != items)
        if past_epoch is not None and conflict.any():
            is_now = past_epoch.take(index) == epoch
            conflict &= is_now | (self._group_of_readers(past) != self._group_of(items))
        if conflict.any():
            report(conflict, past)

    def read(self, index: Ints, items: Ints, epoch: Ints | int, report: Report) -> None:
        """Record that `items` read the elements `index` (flat arrays), and report races."""
        writer = self.writer.take(index)
        self._report_conflicts(writer, self.writer_epoch, index, items, epoch, report)
        self._note_readers(index, items, epoch)

    def _note_readers(self, index: Ints, items: Ints, epoch: Ints | int) -> None:
        if self.reader is None:
            self.reader = np.zeros_like(self.writer)
            self.reader_epoch = None if self.writer_epoch is None else np.zeros_like(self.writer)
        before = self.reader.take(index)
        after = self._joined(before, index, items, epoch)
        if self.reader_epoch is not None:
            self.reader_epoch[index] = epoch
        self.reader[index] = after
        # Several items of this access may share an element; the array then holds only one of them.
        stored = self.reader.take(index)
        lost = stored != after
        if lost.any():
            group = self._group_of(items[lost])
            same_group = self._group_of_readers(stored[lost]) == group
            shared = np.where(same_group, -1 - group, MANY_GROUPS)
            np.minimum.at(self.reader, index[lost], shared)

    def _joined(self, before: Ints, index: Ints, items: Ints, epoch: Ints | int) -> Ints:
        """Return the readers of each element: `before` joined with `items`."""
        replaces = (before == NOBODY) | (before == items)
        # Most elements have no other readers, or readers of many groups already.
        if (replaces | (before == MANY_GROUPS)).all():
            return np.where(replaces, items, MANY_GROUPS)
        group = self._group_of(items)
        is_own_group = self._group_of_readers(before) == group
        if self.reader_epoch is not None:
            replaces |= (self.reader_epoch.take(index) != epoch) & is_own_group
        return np.where(replaces, items, np.where(is_own_group, -1 - group, MANY_GROUPS))

    def write(self, index: Ints, items: Ints, epoch: Ints | int, report: Report) -> None:
        """Record that `items` write the elements `index` (flat arrays), and report races."""
        writer = self.writer.take(index)
        self._report_conflicts(writer, self.writer_epoch, index, items, epoch, report)
        if self.reader is not None:
            reader = self.reader.take(index)
            self._report_conflicts(reader, self.reader_epoch, index, items, epoch, report)
        if self.writer_epoch is not None:
            self.writer_epoch[index] = epoch
        self.writer[index] = items
        stored = self.writer.take(index)
        twice = stored != items
        if twice.any():
            report(twice, stored)
