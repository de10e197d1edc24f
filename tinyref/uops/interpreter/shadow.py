"""Who touched which element since the last barrier: how the sanitizer finds races.

Two different work-items race when they touch one element, at least one of them writes, and no
barrier of their group lies between. A barrier orders the items of one group only, so items of
different groups race wherever in the launch they meet. Writing the same value is a race as well:
no memory model here promises anything for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
# What a race report needs: a mask over the accesses, and who each of them met.
Report = Callable[[npt.NDArray[np.bool_], Ints], None]

NOBODY = 0
# Readers are kept as a work-item (1 and up), as several of one group (-1 - group), or as this.
MANY_GROUPS = np.iinfo(np.int64).min
# Work-items of a group that has all of them.
ALL = np.iinfo(np.int64).max


class Shadow:
    """The last writer and the readers of every element of one memory.

    Work-items are numbered from 1 over the whole launch, group by group. `epochs` is False for a
    program without barriers, where time does not matter.
    """

    def __init__(self, size: int, group_size: int, epochs: bool) -> None:
        self.group_size = group_size
        self.writer: Ints = np.zeros(size, np.int64)
        self.reader: Ints | None = None
        self.writer_epoch = np.zeros(size, np.int64) if epochs else None
        self.reader_epoch: Ints | None = None

    @classmethod
    def of_turns(cls, size: int) -> Shadow:
        """Where turns of loops are the work-items.

        They are like items of one group that no barrier separates, but for the beginning and the
        end of a loop.
        """
        return cls(size, ALL, True)

    def _group_of(self, who: Ints) -> Ints:
        return np.where(who > 0, (who - 1) // self.group_size, -1 - who)

    def _still_counts(self, past: Ints, past_epoch: Ints, items: Ints, epoch: Ints | int) -> Ints:
        """Where an earlier access is not ordered before `items` now."""
        other_group = self._group_of(past) != self._group_of(items)
        unordered: Ints = (past_epoch == epoch) | other_group | (past == MANY_GROUPS)
        return unordered

    def read(self, index: Ints, items: Ints, epoch: Ints | int, report: Report) -> None:
        """Notes that `items` read the elements `index` (flat arrays), and reports races."""
        writer = self.writer.take(index)
        conflict = (writer != NOBODY) & (writer != items)
        if self.writer_epoch is not None:
            conflict &= self._still_counts(writer, self.writer_epoch[index], items, epoch)
        if conflict.any():
            report(conflict, writer)
        self._note_readers(index, items, epoch)

    def _note_readers(self, index: Ints, items: Ints, epoch: Ints | int) -> None:
        if self.reader is None:
            self.reader = np.zeros_like(self.writer)
            self.reader_epoch = None if self.writer_epoch is None else np.zeros_like(self.writer)
        group = self._group_of(items)
        before = self.reader.take(index)
        same_group = self._group_of(before) == group
        replaces = (before == NOBODY) | (before == items)
        if self.reader_epoch is not None:
            is_old = self.reader_epoch[index] != epoch
            replaces |= is_old & same_group & (before != MANY_GROUPS)
            self.reader_epoch[index] = epoch
        joined = np.where(same_group & (before != MANY_GROUPS), -1 - group, MANY_GROUPS)
        after = np.where(replaces, items, joined)
        self.reader[index] = after
        # Several items of this very access may share an element: only one of them was kept.
        kept = self.reader.take(index)
        lost = kept != after
        if lost.any():
            same_group = self._group_of(kept[lost]) == group[lost]
            shared = np.where(
                same_group & (kept[lost] != MANY_GROUPS), -1 - group[lost], MANY_GROUPS
            )
            np.minimum.at(self.reader, index[lost], shared)

    def write(self, index: Ints, items: Ints, epoch: Ints | int, report: Report) -> None:
        """Notes that `items` write the elements `index` (flat arrays), and reports races."""
        writer = self.writer.take(index)
        conflict = (writer != NOBODY) & (writer != items)
        if self.writer_epoch is not None:
            conflict &= self._still_counts(writer, self.writer_epoch[index], items, epoch)
            self.writer_epoch[index] = epoch
        if conflict.any():
            report(conflict, writer)
        if self.reader is not None:
            self._check_readers(index, items, epoch, report)
        self.writer[index] = items
        kept = self.writer.take(index)
        twice = kept != items
        if twice.any():
            report(twice, kept)

    def _check_readers(self, index: Ints, items: Ints, epoch: Ints | int, report: Report) -> None:
        if self.reader is None:
            return
        reader = self.reader.take(index)
        conflict = (reader != NOBODY) & (reader != items)
        if self.reader_epoch is not None:
            conflict &= self._still_counts(reader, self.reader_epoch[index], items, epoch)
        if conflict.any():
            report(conflict, reader)
