"""Kernels that choose elements by an index: a sum of which every term but one is 0.

`sum over i of (x[i] where i == k else 0)` is x[k]. A device may see such a reduce as one load at a
computed place; a place outside of the axis gives the identity of the reduce, and reads nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref.algebra import semantics
from tinyref.dtype import ConstType, DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.ranges import iota
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store
from tinyref_spec.measure import run_exact

F32, I32, I64 = dtypes.float32, dtypes.int32, dtypes.int64
NAN, INF = float("nan"), float("inf")
Values = Sequence[ConstType]


@dataclass(frozen=True)
class Gather:
    """A kernel with its inputs by slot, from 1 on, and what it stores, flat."""

    value: UOp
    shape: tuple[int, ...]
    inputs: tuple[tuple[DType, Values], ...]
    expected: Values
    bindings: dict[str, int] = field(default_factory=dict)

    @property
    def kernel(self) -> UOp:
        """The kernel that stores it to slot 0."""
        return kernel_of(self.value, *self.shape)


def one_hot_reduce(
    counter: UOp,
    index: UOp,
    value: UOp,
    axes: tuple[int, ...] = (1,),
    op: Ops = Ops.ADD,
) -> UOp:
    """`value` where the counter is the index, else the identity of `op`, reduced."""
    identity = build.const(value.dtype, semantics.reduce_identity(op, value.dtype))
    return build.reduce(op, build.where(build.equal(counter, index), value, identity), axes)


def along(
    axis: int, *shape: sint, move: Callable[[ShapeTracker], ShapeTracker] = lambda t: t
) -> UOp:
    """The numbers along `axis` of `shape`, after a movement of the numbers."""
    ones = tuple(size if other == axis else 1 for other, size in enumerate(shape))
    return iota(move(shaped(shape[axis])).reshape(ones).expand(shape))


def repeated_load(
    slot: int, dtype: DType, axes: tuple[int, ...], *shape: sint, size: int = 0
) -> UOp:
    """A row-major buffer that has `axes` of `shape`, and is repeated along the others."""
    ones = tuple(extent if other in axes else 1 for other, extent in enumerate(shape))
    tracker = shaped(*ones).expand(shape)
    return load(slot, dtype, tracker)


# --- one index ------------------------------------------------------------------------------------

TABLE = (10.0, 20.0, 30.0, 40.0)


def simple(index_type: DType, places: Values, expected: Values) -> Gather:
    """Elements of four, by an index of any type."""
    count = len(places)
    index = repeated_load(1, index_type, (0,), count, 4)
    counter = build.cast(along(1, count, 4), index_type)
    value = one_hot_reduce(counter, index, repeated_load(2, F32, (1,), count, 4))
    return Gather(value, (count, 1), ((index_type, places), (F32, TABLE)), expected)


def row_wise(places: Values, table: Values, expected: Values) -> Gather:
    """Rows of two of a table."""
    count, rows = len(places), len(table) // 2
    shape = (count, rows, 2)
    index = repeated_load(1, I32, (0,), *shape)
    value = one_hot_reduce(along(1, *shape), index, repeated_load(2, F32, (1, 2), *shape))
    return Gather(value, (count, 1, 2), ((I32, places), (F32, table)), expected)


def by_reduce(op: Ops, dtype: DType, table: Values, expected: Values) -> Gather:
    """The elements at 1, 3 and 9, which is outside, of four, by a reduce."""
    index = repeated_load(1, I32, (0,), 3, 4)
    value = one_hot_reduce(along(1, 3, 4), index, repeated_load(2, dtype, (1,), 3, 4), op=op)
    return Gather(value, (3, 1), ((I32, (1, 3, 9)), (dtype, table)), expected)


def moved_range(
    move: Callable[[ShapeTracker], ShapeTracker], size: int, expected: Values
) -> Gather:
    """The places of 0 to 9 in a moved range: its elements are 10, 11, 12 ..."""
    index = repeated_load(1, I32, (0,), 10, size)
    ten = build.add(along(1, 10, size), 10)
    value = one_hot_reduce(along(1, 10, size, move=move), index, ten)
    return Gather(value, (10, 1), ((I32, range(10)),), expected)


INDICES: dict[str, Gather] = {
    "inside": simple(I32, (2, 0, 3, 3), (30.0, 10.0, 40.0, 40.0)),
    "outside": simple(I32, (4, -1, 2**31 - 1, -(2**31), 1), (0.0, 0.0, 0.0, 0.0, 20.0)),
    "int8": simple(dtypes.int8, (3, -1, 127, -128), (40.0, 0.0, 0.0, 0.0)),
    "uint8": simple(dtypes.uint8, (3, 255, 4, 0), (40.0, 0.0, 0.0, 10.0)),
    "int16": simple(dtypes.int16, (1, -32768, 32767), (20.0, 0.0, 0.0)),
    "uint16": simple(dtypes.uint16, (1, 65535), (20.0, 0.0)),
    "uint32": simple(dtypes.uint32, (2, 2**32 - 1, 2**31), (30.0, 0.0, 0.0)),
    # The low 32 bits of these are places.
    "int64": simple(I64, (1, 2**32 + 1, -(2**32) + 2, -(2**63), 3), (20.0, 0.0, 0.0, 0.0, 40.0)),
    "uint64": simple(dtypes.uint64, (1, 2**63, 2**64 - 1, 2**32), (20.0, 0.0, 0.0, 0.0)),
    "rows": row_wise((1, 5, 0), (1.0, 2.0, 3.0, 4.0), (3.0, 4.0, 0.0, 0.0, 1.0, 2.0)),
    "unseen": row_wise((1, -1), (NAN, INF, 3.0, -INF, NAN, NAN), (3.0, -INF, 0.0, 0.0)),
    "special": row_wise((1, 0), (NAN, -0.0, INF, -0.0), (INF, 0.0, NAN, 0.0)),
    "maximum": by_reduce(Ops.MAX, F32, (1.0, -0.0, 2.0, -5.0), (-0.0, -5.0, -INF)),
    "product": by_reduce(Ops.MUL, F32, (1.0, -0.0, 2.0, -5.0), (-0.0, -5.0, 1.0)),
    "maximum_of_integers": by_reduce(Ops.MAX, I32, (1, -7, 2, 5), (-7, 5, -(2**31))),
    "maximum_of_bools": by_reduce(
        Ops.MAX, dtypes.bool, (False, True, True, False), (True, False, False)
    ),
    "sum_of_integers": by_reduce(Ops.ADD, dtypes.int8, (1, -128, 2, 127), (-128, 127, 0)),
    "float16": by_reduce(Ops.ADD, dtypes.float16, (1.0, 0.5, 2.0, 65504.0), (0.5, 65504.0, 0.0)),
    "flipped": moved_range(lambda t: t.flip((0,)), 4, (13, 12, 11, 10, 0, 0, 0, 0, 0, 0)),
    # The numbers of a matrix by columns: no single view shows them, and the reduce stays a loop.
    "transposed": moved_range(
        lambda t: shaped(3, 4).permute((1, 0)).reshape((12,)),
        12,
        (10, 13, 16, 19, 11, 14, 17, 20, 12, 15),
    ),
    "part": moved_range(
        lambda t: shaped(9).shrink(((3, 7),)), 4, (0, 0, 0, 10, 11, 12, 13, 0, 0, 0)
    ),
}


# --- indices and values that are computed ---------------------------------------------------------


def _moved_counter() -> Gather:
    """The counter has something added to it, on the other side something is taken away."""
    shape = (3, 5)
    first, second = repeated_load(1, I32, (0,), *shape), repeated_load(2, I32, (0,), *shape)
    counter = build.sub(build.add(along(1, *shape), 7), first)
    value = one_hot_reduce(counter, second, repeated_load(3, I32, (1,), *shape))
    inputs = ((I32, (7, 5, 9)), (I32, (2, 2, 2)), (I32, (11, 12, 13, 14, 15)))
    return Gather(value, (3, 1), inputs, (13, 11, 15))


def _mirrored() -> Gather:
    """4 - i == k."""
    shape = (5, 5)
    counter = build.sub(build.const(I32, 4), along(1, *shape))
    value = one_hot_reduce(counter, along(0, *shape), repeated_load(1, I32, (1,), *shape))
    return Gather(value, (5, 1), ((I32, (1, 2, 3, 4, 5)),), (5, 4, 3, 2, 1))


def _negated() -> Gather:
    """-(i + a) == k, in which a is loaded: the place is -k - a."""
    shape = (3, 5)
    first, second = repeated_load(1, I32, (0,), *shape), repeated_load(2, I32, (0,), *shape)
    counter = build.unary(Ops.NEG, build.add(along(1, *shape), first))
    value = one_hot_reduce(counter, second, repeated_load(3, I32, (1,), *shape))
    inputs = ((I32, (0, 1, -2)), (I32, (-3, -1, 3)), (I32, (11, 12, 13, 14, 15)))
    return Gather(value, (3, 1), inputs, (14, 11, 0))


def _chosen_after_another() -> Gather:
    """0 where a row is hidden, else x at i == k: the choice is inside another one."""
    shape = (3, 4)
    hidden = repeated_load(1, dtypes.bool, (0,), *shape)
    here = build.equal(along(1, *shape), repeated_load(2, I32, (0,), *shape))
    chosen = build.where(here, repeated_load(3, I32, (1,), *shape), 0)
    total = build.reduce(Ops.ADD, build.where(hidden, build.const(I32, 0), chosen), (1,))
    inputs = ((dtypes.bool, (False, True, False)), (I32, (2, 2, 4)), (I32, (5, 6, 7, 8)))
    return Gather(total, (3, 1), inputs, (7, 0, 0))


def _swapped() -> Gather:
    """0 where i != k, else x."""
    shape = (2, 3)
    differs = build.not_equal(repeated_load(1, I32, (0,), *shape), along(1, *shape))
    value = build.where(differs, build.const(F32, 0.0), repeated_load(2, F32, (1,), *shape))
    total = build.reduce(Ops.ADD, value, (1,))
    return Gather(total, (2, 1), ((I32, (2, 7)), (F32, (1.0, NAN, 3.0))), (3.0, 0.0))


def _widened() -> Gather:
    """A sum of float16 in float32: the cast is around the choice."""
    shape = (2, 3)
    here = build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape))
    value = build.where(here, repeated_load(2, dtypes.float16, (1,), *shape), 0.0)
    total = build.reduce(Ops.ADD, build.cast(value, F32), (1,))
    return Gather(total, (2, 1), ((I32, (1, -1)), (dtypes.float16, (1.0, 0.5, NAN))), (0.5, 0.0))


def _expression() -> Gather:
    """a[k] * b[k] + i, with an index that is computed."""
    shape = (3, 4)
    index = build.sub(build.mul(repeated_load(1, I32, (0,), *shape), 2), 1)
    product = build.mul(repeated_load(2, I32, (1,), *shape), repeated_load(3, I32, (1,), *shape))
    value = one_hot_reduce(along(1, *shape), index, build.add(product, along(1, *shape)))
    inputs = ((I32, (1, 2, 0)), (I32, (1, 2, 3, 4)), (I32, (5, 6, 7, 8)))
    return Gather(value, (3, 1), inputs, (13, 35, 0))


def _constant_place() -> Gather:
    """The element at a place that is known."""
    counter = iota(shaped(3))
    value = one_hot_reduce(counter, build.const(I32, 2), repeated_load(1, F32, (0,), 3), axes=(0,))
    return Gather(value, (1,), ((F32, (NAN, NAN, 6.0)),), (6.0,))


def _one_hot_product() -> Gather:
    """Integers times 0 or 1: the product is 0 wherever the factor is."""
    shape = (3, 4, 2)
    hot = build.cast(build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape)), I32)
    total = build.reduce(Ops.ADD, build.mul(hot, repeated_load(2, I32, (1, 2), *shape)), (1,))
    inputs = ((I32, (3, 4, 0)), (I32, range(10, 18)))
    return Gather(total, (3, 1, 2), inputs, (16, 17, 0, 0, 10, 11))


def _constant_value() -> Gather:
    """How many places there are: 1 for each that exists, summed once more."""
    shape = (3, 4, 5)
    here = one_hot_reduce(
        along(1, *shape), repeated_load(1, I32, (0,), *shape), build.const(I32, 1)
    )
    total = build.reduce(Ops.ADD, here, (2,))
    return Gather(total, (3, 1, 1), ((I32, (3, 4, 0)),), (5, 0, 5))


def _symbolic(value: int) -> Gather:
    """An axis of a symbolic size: what is past its end is outside."""
    n = build.variable("n", 1, 6)
    index = repeated_load(1, I32, (0,), 4, n)
    element = repeated_load(2, I32, (1,), 4, n, size=6)
    found = one_hot_reduce(along(1, 4, n), index, element)
    inputs = ((I32, (0, 2, 5, -1)), (I32, (1, 2, 3, 4, 5, 6)))
    expected = [number + 1 if 0 <= number < value else 0 for number in (0, 2, 5, -1)]
    return Gather(found, (4, 1), inputs, expected, {"n": value})


def _padded() -> Gather:
    """x with two zeros before it."""
    tracker = shaped(3).pad(((2, 0),)).reshape((1, 5)).expand((4, 5))
    index = repeated_load(1, I32, (0,), 4, 5)
    value = one_hot_reduce(along(1, 4, 5), index, load(2, F32, tracker))
    return Gather(
        value, (4, 1), ((I32, (1, 2, 4, 5)), (F32, (7.0, 8.0, 9.0))), (0.0, 7.0, 9.0, 0.0)
    )


def _masked_counter(edges: tuple[int, int], table: Values, expected: Values) -> Gather:
    """A counter that is 0 in its first and last row, at all places; the others are as `edges` say.

    Where all are padded alike it is a choice in every row; else an index of 0 takes a whole row.
    """
    around = ((1, 1), (0, 0))
    rows = 4 - sum(edges)
    there = ((edges[0], edges[1]), (0, 0))
    counter = iota(shaped(1, 4).expand((2, 4)).pad(around))
    index = load(1, I32, shaped(rows, 1).expand((rows, 4)).pad(there))
    value = load(2, I32, shaped(1, 4).expand((rows, 4)).pad(there))
    places = (2, 0, 3, 0)[edges[0] : 4 - edges[1]]
    return Gather(
        one_hot_reduce(counter, index, value), (4, 1), ((I32, places), (I32, table)), expected
    )


def _shown_in_one_row() -> Gather:
    """A counter that the first row alone shows; index and elements have no rows of their own.

    In the other rows it is 0 at every place, and so is the index, which nothing hides there.
    """
    counter = iota(shaped(1, 4).pad(((0, 2), (0, 0))))
    element = repeated_load(2, I32, (1,), 1, 4)
    value = one_hot_reduce(counter, repeated_load(1, I32, (0,), 1, 4), element)
    return Gather(value, (3, 1), ((I32, (0,)), (I32, (1, 2, 4, 8))), (1, 15, 15))


EXPRESSIONS: dict[str, Callable[[], Gather]] = {
    "moved_counter": _moved_counter,
    "mirrored": _mirrored,
    "negated": _negated,
    "chosen_after_another": _chosen_after_another,
    "swapped": _swapped,
    "widened": _widened,
    "expression": _expression,
    "constant_place": _constant_place,
    "one_hot_product": _one_hot_product,
    "constant_value": _constant_value,
    "padded": _padded,
    "padded_around": functools.partial(_masked_counter, (1, 1), (1, 2, 4, 8), (0, 1, 8, 0)),
    # In the last row the counter is 0 at every place, and so is the index.
    "padded_before": functools.partial(_masked_counter, (1, 0), (1, 2, 4, 8), (0, 1, 8, 15)),
    "padded_nowhere": functools.partial(_masked_counter, (0, 0), (1, 2, 4, 8), (0, 1, 8, 15)),
    "shown_in_one_row": _shown_in_one_row,
    "symbolic.1": functools.partial(_symbolic, 1),
    "symbolic.3": functools.partial(_symbolic, 3),
    "symbolic.6": functools.partial(_symbolic, 6),
}


# --- several in one kernel ------------------------------------------------------------------------


def _pair() -> Gather:
    """x[i, j] by one reduce over both axes."""
    shape = (4, 2, 3)
    rows = build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape))
    columns = build.equal(along(2, *shape), repeated_load(2, I32, (0,), *shape))
    element = repeated_load(3, I32, (1, 2), *shape)
    value = build.where(build.both(rows, columns), element, 0)
    total = build.reduce(Ops.ADD, value, (1, 2))
    inputs = ((I32, (0, 1, 1, 2)), (I32, (2, 0, 3, 1)), (I32, (1, 2, 3, 4, 5, 6)))
    return Gather(total, (4, 1, 1), inputs, (3, 4, 0, 0))


def _nested() -> Gather:
    """x[y[k]]: y is chosen inside the index of x, on an axis of its own."""
    shape = (4, 3, 5)
    inner = one_hot_reduce(
        along(1, *shape), repeated_load(1, I32, (0,), *shape), repeated_load(2, I32, (1,), *shape)
    )
    value = one_hot_reduce(
        along(2, 4, 1, 5), inner, repeated_load(3, I32, (2,), 4, 1, 5), axes=(2,)
    )
    inputs = ((I32, (2, 0, 1, 9)), (I32, (4, -1, 0)), (I32, (11, 12, 13, 14, 15)))
    # Outside of y the place is 0.
    return Gather(value, (4, 1, 1), inputs, (11, 15, 0, 11))


def _side_by_side() -> Gather:
    """x[i] + y[j] on one axis, of different indices."""
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


def _beside_a_loop() -> Gather:
    """x[k] - sum of x, which loops over the axis that the other chooses from."""
    shape = (3, 4)
    element = repeated_load(2, I32, (1,), *shape)
    first = one_hot_reduce(along(1, *shape), repeated_load(1, I32, (0,), *shape), element)
    value = build.sub(first, build.reduce(Ops.ADD, element, (1,)))
    return Gather(value, (3, 1), ((I32, (0, 3, 4)), (I32, (1, 2, 3, 4))), (-9, -6, -10))


def _summed() -> Gather:
    """The sum of the rows that an index names: axes of both kinds in one reduce."""
    shape = (3, 4, 2)
    here = build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape))
    value = build.where(here, repeated_load(2, F32, (1, 2), *shape), 0.0)
    total = build.reduce(Ops.ADD, value, (0, 1))
    inputs = ((I32, (3, 1, 3)), (F32, (NAN, NAN, 1.0, 2.0, NAN, NAN, 5.0, 6.0)))
    return Gather(total, (1, 1, 2), inputs, (11.0, 14.0))


def _multiplied() -> Gather:
    """Rows that an index names, times a matrix."""
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
    """The sum of the row that an index names: a loop inside what is chosen."""
    shape = (3, 2, 4)
    sums = build.reduce(Ops.ADD, repeated_load(2, I32, (1, 2), *shape), (2,))
    value = one_hot_reduce(along(1, 3, 2, 1), repeated_load(1, I32, (0,), 3, 2, 1), sums)
    inputs = ((I32, (1, 0, 2)), (I32, (1, 2, 3, 4, 5, 6, 7, 8)))
    return Gather(value, (3, 1, 1), inputs, (26, 10, 0))


def _by_a_maximum() -> Gather:
    """The index is the result of a loop."""
    place = build.reduce(Ops.MAX, repeated_load(1, I32, (0,), 3, 1), (0,))
    counter = iota(shaped(1, 4))
    value = one_hot_reduce(counter, place, repeated_load(2, I32, (1,), 1, 4))
    return Gather(value, (1, 1), ((I32, (0, 2, 1)), (I32, (5, 6, 7, 8))), (7,))


def _one_by_the_other(is_last: bool) -> Gather:
    """x[k, k + 1]: the place on one axis is found by the position on the other."""
    shape = (2, 4, 5)
    here = build.equal(along(1, *shape), repeated_load(1, I32, (0,), *shape))
    beside = build.equal(along(2, *shape), build.add(along(1, *shape), 1))
    both = build.both(here, beside) if is_last else build.both(beside, here)
    value = build.where(both, repeated_load(2, I32, (1, 2), *shape), 0)
    inputs = ((I32, (2, 7)), (I32, range(100, 120)))
    return Gather(build.reduce(Ops.ADD, value, (1, 2)), (2, 1, 1), inputs, (113, 0))


TOGETHER: dict[str, Callable[[], Gather]] = {
    "pair": _pair,
    "nested": _nested,
    "side_by_side": _side_by_side,
    "beside_a_loop": _beside_a_loop,
    "summed": _summed,
    "multiplied": _multiplied,
    "of_a_sum": _of_a_sum,
    "by_a_maximum": _by_a_maximum,
    "by_the_one_before": functools.partial(_one_by_the_other, True),
    "by_the_one_after": functools.partial(_one_by_the_other, False),
}


def arrays_of(gather: Gather) -> list[np.ndarray]:
    """The inputs of a gather, as arrays."""
    return [np.array(list(values), numpy_dtype(dtype)) for dtype, values in gather.inputs]


def all_gathers() -> dict[str, Gather]:
    """Every gather of the tables."""
    computed = {**EXPRESSIONS, **TOGETHER}
    return {**INDICES, **{name: make() for name, make in computed.items()}}


def _run(gather: Gather, case_id: str, device: DeviceUnderTest) -> Measurement:
    expected = np.array(list(gather.expected), numpy_dtype(gather.value.dtype))
    inputs = [None, *arrays_of(gather)]
    return run_exact(case_id, device, gather.kernel, inputs, [expected], gather.bindings)


def _in_place(case_id: str, device: DeviceUnderTest) -> Measurement:
    """x += table[k]: a chosen element next to a load of what is written."""
    shape = (3, 4)
    found = one_hot_reduce(
        along(1, *shape), repeated_load(1, I32, (0,), *shape), repeated_load(2, I32, (1,), *shape)
    )
    target = shaped(3, 1)
    old = load(0, I32, target)
    kernel = build.sink(store(0, build.add(old, found), target))
    data = [np.array(x, np.int32) for x in ([1, 2, 3], [3, 0, -5], [10, 20, 30, 2**31 - 1])]
    return run_exact(case_id, device, kernel, list(data), [np.array([-(2**31), 12, 3], np.int32)])


def _checks(names: Sequence[str]) -> list[Check]:
    gathers = all_gathers()
    return [Check(name, functools.partial(_run, gathers[name])) for name in names]


def rows() -> Iterator[Row]:
    """Rows of kernels that choose elements."""
    tables: dict[str, tuple[str, list[str], tuple[DType, ...]]] = {}
    needed = {
        dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.uint32, I64,
        dtypes.uint64, dtypes.float16, dtypes.bool,
    }  # fmt: skip
    plain: dict[tuple[DType, ...], list[str]] = {}
    for name, gather in all_gathers().items():
        found = {dtype for dtype, _ in gather.inputs} & needed
        plain.setdefault(tuple(sorted(found, key=lambda dtype: dtype.name)), []).append(name)
    for special, names in plain.items():
        suffix = "_".join(dtype.name for dtype in special) or "int32"
        sentence = (
            "A reduce that chooses one term by an index gives that term, and the identity where "
            "the index is outside."
        )
        tables[suffix] = (sentence, names, special)
    for suffix, (sentence, names, special) in tables.items():
        yield make_row(
            f"kernel.gather.{suffix}",
            sentence,
            clauses=("kernel.gather", "isa.reduce", "kernel.iota"),
            rung=Rung.LOOP,
            op="REDUCE",
            dtype=I32,
            uses=(I32, F32, *special),
            checks=functools.partial(_checks, names),
        )
    yield make_row(
        "kernel.gather.in_place",
        "A kernel may add a chosen element to what it writes.",
        clauses=("kernel.gather", "kernel.global"),
        rung=Rung.LOOP,
        op="REDUCE",
        dtype=I32,
        checks={"add": _in_place},
    )
