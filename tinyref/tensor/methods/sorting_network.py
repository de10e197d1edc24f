"""A sorting network for long axes: Batcher's bitonic sorter ("Sorting networks and their
applications", AFIPS 1968), several steps in each kernel.

What is sorted are words of 64 bits, the key above the number of the element: so no two are equal,
equal keys stay in order, and an exchange is a minimum and a maximum. Position p of a row is (high,
low): its `low` bits are the last ones. A step on one bit of p compares neighbours along an axis of
size 2. Words are stored so that neighbours in memory differ in a bit that no step of the kernel is
on: (high, low) for steps on high bits, (low, high) for those on low ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tinyref.dtype import dtypes
from tinyref.tensor.arguments import fixed
from tinyref.tensor.methods.scans import Scans

# Steps of one kernel: 2 ** 3 elements are exchanged in registers.
STEPS = 3
# At least so many bits of the position are high ones, for vectors in kernels of low ones.
HIGH_BITS = 4
KEY_BITS = 32


@dataclass(frozen=True)
class Merge:
    """Steps of one kernel within the merge of blocks of 2 ** `stage`: on bits first to last."""

    stage: int
    first: int
    last: int


def merges(bits: int, low: int) -> list[Merge]:
    """All steps for 2 ** `bits` elements, of which `low` bits are low."""
    found = []
    for stage in range(1, bits + 1):
        first = stage - 1
        while first >= 0:
            last = low + (first - low) // STEPS * STEPS if first >= low else first // STEPS * STEPS
            found.append(Merge(stage, first, last))
            first = last - 1
    return found


class SortingNetwork(Scans):
    """Orders of keys."""

    __slots__ = ()

    def _network_order(self, size: int) -> Self:
        """The places (rows, size) of the sorted keys (rows, size), int32, equal ones in order.

        Keys of 64 bits are sorted by their lower halves, then by the upper ones.
        """
        halves = self._key_halves()
        order = halves[0]._order_of_words(size)
        for half in halves[1:]:
            after = half.unsqueeze(-2)._looked_up(order)._order_of_words(size)
            order = order.unsqueeze(-2)._looked_up(after)
        return order

    def _key_halves(self) -> list[Self]:
        """The keys as int64 in the range of int32, of 64 bits the lower half first."""
        half = 1 << (KEY_BITS - 1)
        if self.dtype.itemsize == 4:
            wide = self._cast(dtypes.int64)
            return [wide if self.dtype is dtypes.int32 else wide.sub(half)]
        lower = self.bitwise_and((1 << KEY_BITS) - 1)._cast(dtypes.int64).sub(half)
        upper = self.rshift(KEY_BITS)._cast(dtypes.int64)
        return [lower, upper if self.dtype is dtypes.int64 else upper.sub(half)]

    def _order_of_words(self, size: int) -> Self:
        rows = fixed(self.shape, "sort")[0]
        bits = max((size - 1).bit_length(), HIGH_BITS + 1)
        total = 1 << bits
        low = (bits - HIGH_BITS) // STEPS * STEPS or bits - HIGH_BITS
        high_size, low_size = total >> low, 1 << low
        # What fills the row comes last: no key is larger, and no number.
        keys = self._pad_with_value(((0, 0), (0, total - size)), (1 << (KEY_BITS - 1)) - 1)
        words = keys.lshift(KEY_BITS).bitwise_or(self._count_to(total)._cast(dtypes.int64))
        words = words._reshape((rows, high_size, low_size))._permute((0, 2, 1)).contiguous()
        steps = merges(bits, low)
        for place, merge in enumerate(steps):
            after = steps[place + 1].first < low if place + 1 < len(steps) else False
            words = words._merged(merge, bits, low, turned=after != (merge.first < low))
        numbers = words.bitwise_and((1 << KEY_BITS) - 1)._reshape((rows, total))
        return numbers._part(1, 0, size)._cast(dtypes.int32)

    def _merged(self, merge: Merge, bits: int, low: int, *, turned: bool) -> Self:
        """Words (rows, low, high), of steps on high bits (rows, high, low), after the steps.

        `turned`: the two axes are exchanged in the result.
        """
        rows, outer, inner = fixed(self.shape, "sort")
        offset = 0 if merge.first < low else low
        first, last = merge.first - offset, merge.last - offset
        lead = outer >> (first + 1)
        twos = first - last + 1
        words = self._reshape((rows, lead, *(2,) * twos, 1 << last, inner))
        is_second = self._count_to(2).ne(0)
        if merge.first == merge.stage - 1:
            was_falling = is_second._reshape((2, *(1,) * (twos + 1)))
            is_falling = self._is_falling(merge, low, lead, inner)
            if merge.stage == 1:
                turns = is_falling
            elif merge.stage == bits:
                turns = was_falling
            else:
                turns = was_falling.ne(is_falling)
            words = words.bitwise_xor(turns.where(-1, self._constant(0, self.dtype)))
        for axis in range(2, 2 + twos):
            other = words._flip((axis,))
            is_later = is_second._reshape((2, *(1,) * (twos - axis + 3)))
            words = words.lt(other).ne(is_later).where(words, other)
        # Stored before its axes are joined: those of size 2 remain axes of the kernel.
        if not turned:
            return words.contiguous()._reshape((rows, outer, inner))
        order = (0, 4 + twos - 1, *range(1, 4 + twos - 1))
        return words._permute(order).contiguous()._reshape((rows, inner, outer))

    def _is_falling(self, merge: Merge, low: int, lead: int, inner: int) -> Self:
        """Whether a block is merged in falling order, so that with the next it is bitonic."""
        if merge.first < low <= merge.stage:
            return self._bit(inner, merge.stage - low)
        ones = (lead, *(1,) * (merge.first - merge.last + 3))
        return self._bit(lead, merge.stage - merge.first - 1)._reshape(ones)

    def _bit(self, size: int, bit: int) -> Self:
        """Whether the bit is set, of the numbers up to `size`."""
        return self._count_to(size).bitwise_and(1 << bit).ne(0)
