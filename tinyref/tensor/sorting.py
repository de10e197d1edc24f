"""Orders of elements: by counting what comes before on a short axis, by a network on a long one.

Both keep equal elements in their order. The network is the bitonic sorter of Batcher ("Sorting
networks and their applications", AFIPS 1968), several steps in each kernel. It sorts words of 64
bits, the key above the number of the element: so no two are equal, and an exchange is a minimum
and a maximum. Position p of a row is (high, low): its `low` bits are the last ones. A step on one
bit of p compares neighbours along an axis of size 2. Words are stored so that neighbours in memory
differ in a bit that no step of the kernel is on: (high, low) for steps on high bits, (low, high)
for those on low ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tinyref.algebra.symbolic import product
from tinyref.dtype import dtypes
from tinyref.tensor.arguments import fixed
from tinyref.tensor.core import constant_like, reshape
from tinyref.tensor.movement import bits_as, count_to, cut_axis, pad_with
from tinyref.tensor.reduction import Reduction, looked_up, reduced_last
from tinyref.uops.ops import Ops

T = TypeVar("T", bound=Reduction)

# Steps of one kernel: 2 ** 3 elements are exchanged in registers.
STEPS = 3
# At least so many bits of the position are high ones, for vectors in kernels of low ones.
HIGH_BITS = 4
KEY_BITS = 32
# Up to here n * n comparisons in one kernel take less time than the launches of a network.
COUNTED = 1024


@dataclass(frozen=True)
class Merge:
    """Steps of one kernel within the merge of blocks of 2 ** `stage`: on bits first to last."""

    stage: int
    first: int
    last: int


def sort_keys(x: T) -> T:
    """Integers of 32 or 64 bits that are in the same order as the elements."""
    if x.dtype.itemsize < 4:
        wide = dtypes.float32 if x.dtype.is_float else dtypes.int32
        return sort_keys(x.cast(wide))
    if not x.dtype.is_float:
        return x
    word = dtypes.int32 if x.dtype is dtypes.float32 else dtypes.int64
    # As integers floats of one sign are in order already, the negative ones in reverse.
    words = bits_as(x.eq(0).where(0, x), word)
    ordered = words.lt(0).where(words.bitwise_xor(word.maximum), words)
    return x.isnan().where(word.maximum, ordered)


def sorted_order(x: T, size: int, count: int) -> T:
    """The places of the first `count` of the sorted keys (..., size), as int32."""
    if size <= COUNTED:
        return counted_order(x, size, count)
    shape = x.shape[:-1]
    order = network_order(reshape(x, (product(shape), size)), size)
    return reshape(cut_axis(order, 1, 0, count), (*shape, count))


def counted_order(x: T, size: int, count: int) -> T:
    """By rank: the number of keys that are smaller, or equal and before."""
    numbers = count_to(x, size)
    mine, other = x.unsqueeze(-1), x.unsqueeze(-2)
    is_before = numbers.lt(numbers.unsqueeze(-1))
    precedes = other.lt(mine).bitwise_or(other.eq(mine).bitwise_and(is_before))
    rank = reduced_last(precedes.cast(dtypes.int32), Ops.ADD)
    has_rank = count_to(x, count).unsqueeze(-1).eq(rank.unsqueeze(-2))
    return reduced_last(has_rank.where(numbers, 0), Ops.ADD)


def network_order(x: T, size: int) -> T:
    """The places (rows, size) of the sorted keys (rows, size), int32, equal ones in order.

    Keys of 64 bits are sorted by their lower halves, then by the upper ones.
    """
    halves = key_halves(x)
    order = order_of_words(halves[0], size)
    for half in halves[1:]:
        after = order_of_words(looked_up(half.unsqueeze(-2), order), size)
        order = looked_up(order.unsqueeze(-2), after)
    return order


def key_halves(x: T) -> list[T]:
    """The keys as int64 in the range of int32, of 64 bits the lower half first."""
    half = 1 << (KEY_BITS - 1)
    if x.dtype.itemsize == 4:
        wide = x.cast(dtypes.int64)
        return [wide if x.dtype is dtypes.int32 else wide.sub(half)]
    lower = x.bitwise_and((1 << KEY_BITS) - 1).cast(dtypes.int64).sub(half)
    upper = x.rshift(KEY_BITS).cast(dtypes.int64)
    return [lower, upper if x.dtype is dtypes.int64 else upper.sub(half)]


def order_of_words(x: T, size: int) -> T:
    """Return the places of sorted keys of 32 bits, by words that hold key and number."""
    rows = fixed(x.shape, "sort")[0]
    bits = max((size - 1).bit_length(), HIGH_BITS + 1)
    total = 1 << bits
    low = (bits - HIGH_BITS) // STEPS * STEPS or bits - HIGH_BITS
    high_size, low_size = total >> low, 1 << low
    # What fills the row comes last: no key is larger, and no number.
    keys = pad_with(x, ((0, 0), (0, total - size)), (1 << (KEY_BITS - 1)) - 1)
    words = keys.lshift(KEY_BITS).bitwise_or(count_to(x, total).cast(dtypes.int64))
    words = reshape(words, (rows, high_size, low_size)).permute((0, 2, 1)).contiguous()
    steps = merges(bits, low)
    for place, merge in enumerate(steps):
        after = steps[place + 1].first < low if place + 1 < len(steps) else False
        words = merged_words(words, merge, bits, low, turned=after != (merge.first < low))
    numbers = reshape(words.bitwise_and((1 << KEY_BITS) - 1), (rows, total))
    return cut_axis(numbers, 1, 0, size).cast(dtypes.int32)


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


def merged_words(x: T, merge: Merge, bits: int, low: int, *, turned: bool) -> T:
    """Words (rows, low, high), of steps on high bits (rows, high, low), after the steps.

    `turned`: the two axes are exchanged in the result.
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
    # Stored before its axes are joined: those of size 2 remain axes of the kernel.
    if not turned:
        return reshape(words.contiguous(), (rows, outer, inner))
    order = (0, 4 + twos - 1, *range(1, 4 + twos - 1))
    return reshape(words.permute(order).contiguous(), (rows, inner, outer))


def is_falling(x: T, merge: Merge, low: int, lead: int, inner: int) -> T:
    """Whether a block is merged in falling order, so that with the next it is bitonic."""
    if merge.first < low <= merge.stage:
        return bit_of_numbers(x, inner, merge.stage - low)
    ones = (lead, *(1,) * (merge.first - merge.last + 3))
    return reshape(bit_of_numbers(x, lead, merge.stage - merge.first - 1), ones)


def bit_of_numbers(x: T, size: int, bit: int) -> T:
    """Whether the bit is set, of the numbers up to `size`."""
    return count_to(x, size).bitwise_and(1 << bit).ne(0)
