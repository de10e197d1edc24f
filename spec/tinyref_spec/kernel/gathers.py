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


def _expression() -> Gather:
    """a[k] * b[k] + i, with an index that is computed."""
    shape = (3, 4)
    index = build.sub(build.mul(repeated_load(1, I32, (0,), *shape), 2), 1)
    product = build.mul(repeated_load(2, I32, (1,), *shape), repeated_load(3, I32, (1,), *shape))
    value = one_hot_reduce(along(1, *shape), index, build.add(product, along(1, *shape)))
    inputs = ((I32, (1, 2, 0)), (I32, (1, 2, 3, 4)), (I32, (5, 6, 7, 8)))
    return Gather(value, (3, 1), inputs, (13, 35, 0))


def _symbolic(value: int) -> Gather:
    """An axis of a symbolic size: what is past its end is outside."""
    n = build.variable("n", 1, 6)
    index = repeated_load(1, I32, (0,), 4, n)
    element = repeated_load(2, I32, (1,), 4, n, size=6)
    found = one_hot_reduce(along(1, 4, n), index, element)
    inputs = ((I32, (0, 2, 5, -1)), (I32, (1, 2, 3, 4, 5, 6)))
    expected = [number + 1 if 0 <= number < value else 0 for number in (0, 2, 5, -1)]
    return Gather(found, (4, 1), inputs, expected, {"n": value})


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


def _beside_a_loop() -> Gather:
    """x[k] - sum of x, which loops over the axis that the other chooses from."""
    shape = (3, 4)
    element = repeated_load(2, I32, (1,), *shape)
    first = one_hot_reduce(along(1, *shape), repeated_load(1, I32, (0,), *shape), element)
    value = build.sub(first, build.reduce(Ops.ADD, element, (1,)))
    return Gather(value, (3, 1), ((I32, (0, 3, 4)), (I32, (1, 2, 3, 4))), (-9, -6, -10))


COMPUTED: dict[str, Callable[[], Gather]] = {
    "expression": _expression,
    "padded_around": functools.partial(_masked_counter, (1, 1), (1, 2, 4, 8), (0, 1, 8, 0)),
    # In the last row the counter is 0 at every place, and so is the index.
    "padded_before": functools.partial(_masked_counter, (1, 0), (1, 2, 4, 8), (0, 1, 8, 15)),
    "padded_nowhere": functools.partial(_masked_counter, (0, 0), (1, 2, 4, 8), (0, 1, 8, 15)),
    "symbolic.1": functools.partial(_symbolic, 1),
    "symbolic.3": functools.partial(_symbolic, 3),
    "symbolic.6": functools.partial(_symbolic, 6),
    "nested": _nested,
    "beside_a_loop": _beside_a_loop,
}


def arrays_of(gather: Gather) -> list[np.ndarray]:
    """The inputs of a gather, as arrays."""
    return [np.array(list(values), numpy_dtype(dtype)) for dtype, values in gather.inputs]


def all_gathers() -> dict[str, Gather]:
    """Every gather of the tables."""
    return {**INDICES, **{name: make() for name, make in COMPUTED.items()}}


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
