"""Sorting: by counting smaller elements on a short axis, by a sorting network on a long one.

The first few elements of a sorted axis are selected instead, one after the other. All three are
stable: equal elements stay in order. The network is the bitonic sorter of Batcher
("Sorting networks and their applications", AFIPS 1968), with several steps in each kernel. It sorts
64-bit words: the key in the upper half, the number of the element in the lower half. So no two
words are equal, and an exchange is a minimum and a maximum.

The bits of a position p in a row are split into (high, low). A step on one bit of p compares
neighbours along an axis of size 2. Neighbours in memory must differ in a bit that no step of the
kernel uses. So words are stored as (high, low) for steps on high bits, and as (low, high) for steps
on low bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tinyref.algebra.symbolic import product
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.lazy.shards import first_device
from tinyref.tensor.arguments import fixed
from tinyref.tensor.core import constant_like, reshape
from tinyref.tensor.movement import bits_as, count_to, cut_axis, laid_out, pad_with
from tinyref.tensor.reduction import Reduction, looked_up, reduced_last
from tinyref.uops.ops import Ops

T = TypeVar("T", bound=Reduction)

# The steps of one kernel: 2 ** 3 elements are exchanged in registers.
STEPS = 3
# The minimum number of high bits. They are the vectors in kernels with steps on low bits.
HIGH_BITS = 4
KEY_BITS = 32
# Up to this size, n * n comparisons in one kernel take less time than the launches of a network.
# Without work-items that compare side by side, this holds up to a number of comparisons.
COUNTED = 1024
COUNTED_STEPS = 1 << 14
# The cost of a pass of a selection, in passes of a sort: it is a kernel of its own.
PASSES_PER_SELECTION = 4


@dataclass(frozen=True)
class Merge:
    """The steps of one kernel."""

    stage: int  # The steps are part of the merge to blocks of 2 ** stage elements.
    first: int  # The highest bit with a step.
    last: int  # The lowest bit with a step.


def sort_keys(x: T) -> T:
    """Return integers of 32 or 64 bits in the same order as the elements."""
    if x.dtype.itemsize < 4:
        wide = dtypes.float32 if x.dtype.is_float else dtypes.int32
        return sort_keys(x.cast(wide))
    if not x.dtype.is_float:
        return x
    word = dtypes.int32 if x.dtype is dtypes.float32 else dtypes.int64
    # As integers, the bits of positive floats are in order, those of negative floats in reverse.
    words = bits_as(x.eq(0).where(0, x), word)
    ordered = words.lt(0).where(words.bitwise_xor(word.maximum), words)
    return x.isnan().where(word.maximum, ordered)


def sorted_order(x: T, size: int, count: int) -> T:
    """Return the indices of the first `count` of the sorted keys (..., size), as int32."""
    shape, elements = x.shape[:-1], product(x.shape)
    is_few = not isinstance(elements, int) or size * elements <= COUNTED_STEPS
    is_counted = size <= COUNTED and (is_few or not Device.runs_loops(first_device(x.device)))
    # Counting takes a pass for each element, and a network a pass for each of its steps.
    bits = (size - 1).bit_length()
    passes = size if is_counted else (bits * (bits + 1) // 2 << bits) // size
    if x.dtype.itemsize == 4 and PASSES_PER_SELECTION * count <= passes:
        return selected_order(x, size, count)
    if is_counted:
        return counted_order(x, size, count)
    order = network_order(reshape(x, (product(shape), size)), size)
    return reshape(cut_axis(order, 1, 0, count), (*shape, count))


def selected_order(x: T, size: int, count: int) -> T:
    """Select the smallest of the words, then the smallest of those that are larger, and so on.

    A word has the key in the upper half, and in the lower half the number of the element.
    """
    (keys,) = key_halves(x)
    numbers = count_to(x, size).cast(dtypes.int64)
    # A reduce finds the largest, so the words are in reverse order.
    words = keys.lshift(KEY_BITS).bitwise_or(numbers).bitwise_not().contiguous()
    chosen = [reduced_last(words, Ops.MAX)]
    for _ in range(1, count):
        is_left = words.lt(chosen[-1].unsqueeze(-1))
        left = is_left.where(words, words.dtype.minimum)
        chosen.append(reduced_last(left, Ops.MAX))
    parts = [word.bitwise_not().unsqueeze(-1) for word in chosen]
    order = laid_out(x, parts, x.ndim - 1)
    return order.bitwise_and((1 << KEY_BITS) - 1).cast(dtypes.int32)


def counted_order(x: T, size: int, count: int) -> T:
    """Sort by rank: the number of keys that are smaller, or equal and earlier."""
    numbers = count_to(x, size)
    mine, other = x.unsqueeze(-1), x.unsqueeze(-2)
    is_before = numbers.lt(numbers.unsqueeze(-1))
    precedes = other.lt(mine).bitwise_or(other.eq(mine).bitwise_and(is_before))
    rank = reduced_last(precedes.cast(dtypes.int32), Ops.ADD)
    has_rank = count_to(x, count).unsqueeze(-1).eq(rank.unsqueeze(-2))
    return reduced_last(has_rank.where(numbers, 0), Ops.ADD)


def network_order(x: T, size: int) -> T:
    """Return the indices (rows, size) that sort the keys (rows, size), as int32. This is stable.

    Keys of 64 bits are sorted by their lower halves, then by their upper halves.
    """
    halves = key_halves(x)
    order = order_of_words(halves[0], size)
    for half in halves[1:]:
        after = order_of_words(looked_up(half.unsqueeze(-2), order), size)
        order = looked_up(order.unsqueeze(-2), after)
    return order


def key_halves(x: T) -> list[T]:
    """Return the keys as int64 in the range of int32; for 64-bit keys, the lower half first."""
    half = 1 << (KEY_BITS - 1)
    if x.dtype.itemsize == 4:
        wide = x.cast(dtypes.int64)
        return [wide if x.dtype is dtypes.int32 else wide.sub(half)]
    lower = x.bitwise_and((1 << KEY_BITS) - 1).cast(dtypes.int64).sub(half)
    upper = x.rshift(KEY_BITS).cast(dtypes.int64)
    return [lower, upper if x.dtype is dtypes.int64 else upper.sub(half)]


def order_of_words(x: T, size: int) -> T:
    """Return the indices that sort 32-bit keys, by sorting words of key and number."""
    rows = fixed(x.shape, "sort")[0]
    bits = max((size - 1).bit_length(), HIGH_BITS + 1)
    total = 1 << bits
    low = (bits - HIGH_BITS) // STEPS * STEPS or bits - HIGH_BITS
    high_size, low_size = total >> low, 1 << low
    # The padding of a row sorts last: no key is larger, and no number.
    keys = pad_with(x, ((0, 0), (0, total - size)), (1 << (KEY_BITS - 1)) - 1)
    words = keys.lshift(KEY_BITS).bitwise_or(count_to(x, total).cast(dtypes.int64))
    words = reshape(words, (rows, high_size, low_size)).permute((0, 2, 1)).contiguous()
    steps = merges(bits, low)
    for number, merge in enumerate(steps, 1):
        is_next_low = steps[number].first < low if number < len(steps) else False
        words = merged_words(words, merge, bits, low, turned=is_next_low != (merge.first < low))
    numbers = reshape(words.bitwise_and((1 << KEY_BITS) - 1), (rows, total))
    return cut_axis(numbers, 1, 0, size).cast(dtypes.int32)


def merges(bits: int, low: int) -> list[Merge]:
    """Return all steps for 2 ** `bits` elements. The last `low` bits are the low ones."""
    result = []
    for stage in range(1, bits + 1):
        first = stage - 1
        while first >= 0:
            last = low + (first - low) // STEPS * STEPS if first >= low else first // STEPS * STEPS
            result.append(Merge(stage, first, last))
            first = last - 1
    return result


def merged_words(x: T, merge: Merge, bits: int, low: int, *, turned: bool) -> T:
    """Apply the steps to words (rows, low, high) for low bits, (rows, high, low) for high bits.

    turned: swap the last two axes of the result.
    """
    rows, outer, inner = fixed(x.shape, "sort")
    offset = 0 if merge.first < low else low
    first, last = merge.first - offset, merge.last - offset
    lead = outer >> (first + 1)
    twos = first - last + 1
    words = reshape(x, (rows, lead, *(2,) * twos, 1 << last, inner))
    is_second = count_to(x, 2).ne(0)
    if merge.first == merge.stage - 1:
        was_falling = reshape(is_second, (2, *(1,) * (twos + 1)))
        falls = is_falling(x, merge, low, lead, inner)
        if merge.stage == 1:
            turns = falls
        elif merge.stage == bits:
            turns = was_falling
        else:
            turns = was_falling.ne(falls)
        words = words.bitwise_xor(turns.where(-1, constant_like(x, 0, x.dtype)))
    for axis in range(2, 2 + twos):
        other = words.flip((axis,))
        is_later = reshape(is_second, (2, *(1,) * (twos - axis + 3)))
        words = words.lt(other).ne(is_later).where(words, other)
    # Store before joining the axes: so the axes of size 2 stay axes of the kernel.
    if not turned:
        return reshape(words.contiguous(), (rows, outer, inner))
    order = (0, 4 + twos - 1, *range(1, 4 + twos - 1))
    return reshape(words.permute(order).contiguous(), (rows, inner, outer))


def is_falling(x: T, merge: Merge, low: int, lead: int, inner: int) -> T:
    """Return bools: True for a block merged in falling order. With the next it is bitonic."""
    if merge.first < low <= merge.stage:
        return bit_of_numbers(x, inner, merge.stage - low)
    ones = (lead, *(1,) * (merge.first - merge.last + 3))
    return reshape(bit_of_numbers(x, lead, merge.stage - merge.first - 1), ones)


def bit_of_numbers(x: T, size: int, bit: int) -> T:
    """Return for each number below `size` if this bit is set."""
    return count_to(x, size).bitwise_and(1 << bit).ne(0)
