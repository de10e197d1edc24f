"""One-hot reduces that become loads, beyond the rows of the suite; tests/optimise runs them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_spec.kernel.gathers import (
    F32,
    I32,
    NAN,
    Gather,
    along,
    one_hot_reduce,
    repeated_load,
)
from tinyref_spec.kernels.notation import load, shaped

# --- indices and values that are computed ---------------------------------------------------------


def _chosen_after_another() -> Gather:
    """Return 0 where a row is hidden, else x at i == k: one choice inside another."""
    shape = (3, 4)
    hidden = repeated_load(1, dtypes.bool, (0,), *shape)
    here = build.equal(along(1, *shape), repeated_load(2, I32, (0,), *shape))
    chosen = build.where(here, repeated_load(3, I32, (1,), *shape), 0)
    total = build.reduce(Ops.ADD, build.where(hidden, build.const(I32, 0), chosen), (1,))
    inputs = ((dtypes.bool, (False, True, False)), (I32, (2, 2, 4)), (I32, (5, 6, 7, 8)))
    return Gather(total, (3, 1), inputs, (7, 0, 0))


def _swapped() -> Gather:
    """Return 0 where i != k, else x."""
    shape = (2, 3)
    differs = build.not_equal(repeated_load(1, I32, (0,), *shape), along(1, *shape))
    value = build.where(differs, build.const(F32, 0.0), repeated_load(2, F32, (1,), *shape))
    total = build.reduce(Ops.ADD, value, (1,))
    return Gather(total, (2, 1), ((I32, (2, 7)), (F32, (1.0, NAN, 3.0))), (3.0, 0.0))


def _widened() -> Gather:
    """Return a float32 sum of a float16 choice: the cast is around the choice."""
    shape = (2, 3)
    here = build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape))
    value = build.where(here, repeated_load(2, dtypes.float16, (1,), *shape), 0.0)
    total = build.reduce(Ops.ADD, build.cast(value, F32), (1,))
    return Gather(total, (2, 1), ((I32, (1, -1)), (dtypes.float16, (1.0, 0.5, NAN))), (0.5, 0.0))


def _constant_place() -> Gather:
    """Return the element at a constant index."""
    counter = build.iota(shaped(3))
    value = one_hot_reduce(counter, build.const(I32, 2), repeated_load(1, F32, (0,), 3), axes=(0,))
    return Gather(value, (1,), ((F32, (NAN, NAN, 6.0)),), (6.0,))


def _one_hot_product() -> Gather:
    """Return integers times 0 or 1: the product is 0 where the factor is 0."""
    shape = (3, 4, 2)
    hot = build.cast(build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape)), I32)
    total = build.reduce(Ops.ADD, build.mul(hot, repeated_load(2, I32, (1, 2), *shape)), (1,))
    inputs = ((I32, (3, 4, 0)), (I32, range(10, 18)))
    return Gather(total, (3, 1, 2), inputs, (16, 17, 0, 0, 10, 11))


def _constant_value() -> Gather:
    """Return the number of indices that are in range, summed over one more axis."""
    shape = (3, 4, 5)
    here = one_hot_reduce(
        along(1, *shape), repeated_load(1, I32, (0,), *shape), build.const(I32, 1)
    )
    total = build.reduce(Ops.ADD, here, (2,))
    return Gather(total, (3, 1, 1), ((I32, (3, 4, 0)),), (5, 0, 5))


def _padded() -> Gather:
    """Return x with two zeros before it."""
    tracker = shaped(3).pad(((2, 0),)).reshape((1, 5)).expand((4, 5))
    index = repeated_load(1, I32, (0,), 4, 5)
    value = one_hot_reduce(along(1, 4, 5), index, load(2, F32, tracker))
    return Gather(
        value, (4, 1), ((I32, (1, 2, 4, 5)), (F32, (7.0, 8.0, 9.0))), (0.0, 7.0, 9.0, 0.0)
    )


def _shown_in_one_row() -> Gather:
    """Return a choice by a counter that only the first row has.

    In the other rows the counter is 0. So is the index, which like the elements has no row axis.
    """
    counter = build.iota(shaped(1, 4).pad(((0, 2), (0, 0))))
    element = repeated_load(2, I32, (1,), 1, 4)
    value = one_hot_reduce(counter, repeated_load(1, I32, (0,), 1, 4), element)
    return Gather(value, (3, 1), ((I32, (0,)), (I32, (1, 2, 4, 8))), (1, 15, 15))


EXPRESSIONS: dict[str, Callable[[], Gather]] = {
    "chosen_after_another": _chosen_after_another,
    "swapped": _swapped,
    "widened": _widened,
    "constant_place": _constant_place,
    "one_hot_product": _one_hot_product,
    "constant_value": _constant_value,
    "padded": _padded,
    "shown_in_one_row": _shown_in_one_row,
}


# --- several in one kernel ------------------------------------------------------------------------


def _pair() -> Gather:
    """Return x[i, j] by one reduce over both axes."""
    shape = (4, 2, 3)
    rows = build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape))
    columns = build.equal(along(2, *shape), repeated_load(2, I32, (0,), *shape))
    element = repeated_load(3, I32, (1, 2), *shape)
    value = build.where(build.both(rows, columns), element, 0)
    total = build.reduce(Ops.ADD, value, (1, 2))
    inputs = ((I32, (0, 1, 1, 2)), (I32, (2, 0, 3, 1)), (I32, (1, 2, 3, 4, 5, 6)))
    return Gather(total, (4, 1, 1), inputs, (3, 4, 0, 0))


def _side_by_side() -> Gather:
    """Return x[i] + y[j] on one axis, with different indices."""
    shape = (3, 4)
    first = one_hot_reduce(
        along(1, *shape), repeated_load(1, I32, (0,), *shape), repeated_load(2, I32, (1,), *shape)
    )
    second = one_hot_reduce(
        along(1, *shape), repeated_load(3, I32, (0,), *shape), repeated_load(4, I32, (1,), *shape)
    )
    inputs = (
        (I32, (0, 1, 4)),
        (I32, (1, 2, 3, 4)),
        (I32, (3, -1, 2)),
        (I32, (10, 20, 30, 40)),
    )
    return Gather(build.add(first, second), (3, 1), inputs, (41, 2, 30))


def _summed() -> Gather:
    """Return the sum of the rows that an index selects: axes of both kinds in one reduce."""
    shape = (3, 4, 2)
    here = build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape))
    value = build.where(here, repeated_load(2, F32, (1, 2), *shape), 0.0)
    total = build.reduce(Ops.ADD, value, (0, 1))
    inputs = ((I32, (3, 1, 3)), (F32, (NAN, NAN, 1.0, 2.0, NAN, NAN, 5.0, 6.0)))
    return Gather(total, (1, 1, 2), inputs, (11.0, 14.0))


def _multiplied() -> Gather:
    """Return the rows that an index selects, times a matrix."""
    shape = (2, 3, 2, 2)
    here = along(1, *shape)
    row = one_hot_reduce(
        here, repeated_load(1, I32, (0,), *shape), repeated_load(2, I32, (1, 2), *shape)
    )
    product = build.mul(row, repeated_load(3, I32, (2, 3), 2, 1, 2, 2))
    total = build.reduce(Ops.ADD, product, (2,))
    inputs = ((I32, (2, 0)), (I32, (1, 2, 3, 4, 5, 6)), (I32, (1, 10, 100, 1000)))
    return Gather(total, (2, 1, 1, 2), inputs, (605, 6050, 201, 2010))


def _of_a_sum() -> Gather:
    """Return the sum of the row that an index selects: a loop inside the chosen value."""
    shape = (3, 2, 4)
    sums = build.reduce(Ops.ADD, repeated_load(2, I32, (1, 2), *shape), (2,))
    value = one_hot_reduce(along(1, 3, 2, 1), repeated_load(1, I32, (0,), 3, 2, 1), sums)
    inputs = ((I32, (1, 0, 2)), (I32, (1, 2, 3, 4, 5, 6, 7, 8)))
    return Gather(value, (3, 1, 1), inputs, (26, 10, 0))


def _by_a_maximum() -> Gather:
    """Return a choice whose index is the result of a loop."""
    index = build.reduce(Ops.MAX, repeated_load(1, I32, (0,), 3, 1), (0,))
    counter = build.iota(shaped(1, 4))
    value = one_hot_reduce(counter, index, repeated_load(2, I32, (1,), 1, 4))
    return Gather(value, (1, 1), ((I32, (0, 2, 1)), (I32, (5, 6, 7, 8))), (7,))


def _one_by_the_other(is_last: bool) -> Gather:
    """Return x[k, k + 1]: the position on one axis determines the index on the other."""
    shape = (2, 4, 5)
    here = build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape))
    beside = build.equal(along(2, *shape), build.add(along(1, *shape), 1))
    both = build.both(here, beside) if is_last else build.both(beside, here)
    value = build.where(both, repeated_load(2, I32, (1, 2), *shape), 0)
    inputs = ((I32, (2, 7)), (I32, range(100, 120)))
    return Gather(build.reduce(Ops.ADD, value, (1, 2)), (2, 1, 1), inputs, (113, 0))


TOGETHER: dict[str, Callable[[], Gather]] = {
    "pair": _pair,
    "side_by_side": _side_by_side,
    "summed": _summed,
    "multiplied": _multiplied,
    "of_a_sum": _of_a_sum,
    "by_a_maximum": _by_a_maximum,
    "by_the_one_before": functools.partial(_one_by_the_other, True),
    "by_the_one_after": functools.partial(_one_by_the_other, False),
}
