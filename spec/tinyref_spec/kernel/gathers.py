"""Kernels that choose elements by an index: a sum in which all terms but one are 0.

`sum over i of (x[i] where i == k else 0)` is x[k]. A device may turn such a reduce into one load at
a computed index. An index outside of the axis gives the identity of the reduce, and reads nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref.algebra import semantics
from tinyref.dtype import ConstType, DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernels.notation import kernel_of, load, shaped
from tinyref_spec.measure import run_exact

F32, I32, I64 = dtypes.float32, dtypes.int32, dtypes.int64
NAN, INF = float("nan"), float("inf")
Values = Sequence[ConstType]


@dataclass(frozen=True)
class Gather:
    """A kernel, its inputs by slot from 1 on, and its output, flat."""

    value: UOp
    shape: tuple[int, ...]
    inputs: tuple[tuple[DType, Values], ...]
    expected: Values
    bindings: dict[str, int] = field(default_factory=dict)

    @property
    def kernel(self) -> UOp:
        """Return the kernel that stores the value to slot 0."""
        return kernel_of(self.value, *self.shape)


def one_hot_reduce(
    counter: UOp,
    index: UOp,
    value: UOp,
    axes: tuple[int, ...] = (1,),
    op: Ops = Ops.ADD,
) -> UOp:
    """Return `value` if the counter is the index, else the identity of `op`, reduced."""
    identity = build.const(value.dtype, semantics.reduce_identity(op, value.dtype))
    return build.reduce(op, build.where(build.equal(counter, index), value, identity), axes)


def along(axis: int, *shape: sint) -> UOp:
    """Return the numbers along `axis` of `shape`."""
    ones = tuple(size if other == axis else 1 for other, size in enumerate(shape))
    return build.iota(shaped(shape[axis]).reshape(ones).expand(shape))


def repeated_load(slot: int, dtype: DType, axes: tuple[int, ...], *shape: sint) -> UOp:
    """Return a row-major buffer that has `axes` of `shape`, repeated along the others."""
    ones = tuple(extent if other in axes else 1 for other, extent in enumerate(shape))
    tracker = shaped(*ones).expand(shape)
    return load(slot, dtype, tracker)


# --- one index ------------------------------------------------------------------------------------

TABLE = (10.0, 20.0, 30.0, 40.0)


def simple(index_type: DType, places: Values, expected: Values) -> Gather:
    """Return elements of four, by an index of any type."""
    count = len(places)
    index = repeated_load(1, index_type, (0,), count, 4)
    counter = build.cast(along(1, count, 4), index_type)
    value = one_hot_reduce(counter, index, repeated_load(2, F32, (1,), count, 4))
    return Gather(value, (count, 1), ((index_type, places), (F32, TABLE)), expected)


def row_wise(places: Values, table: Values, expected: Values) -> Gather:
    """Return rows of two elements of a table."""
    count, rows = len(places), len(table) // 2
    shape = (count, rows, 2)
    index = repeated_load(1, I32, (0,), *shape)
    value = one_hot_reduce(along(1, *shape), index, repeated_load(2, F32, (1, 2), *shape))
    return Gather(value, (count, 1, 2), ((I32, places), (F32, table)), expected)


def by_reduce(op: Ops, dtype: DType, table: Values, expected: Values) -> Gather:
    """Return the elements at 1, 3 and 9 (outside) of four, by a reduce."""
    index = repeated_load(1, I32, (0,), 3, 4)
    value = one_hot_reduce(along(1, 3, 4), index, repeated_load(2, dtype, (1,), 3, 4), op=op)
    return Gather(value, (3, 1), ((I32, (1, 3, 9)), (dtype, table)), expected)


def _symbolic(value: int) -> Gather:
    """Return elements of an axis of symbolic size; indices past its end are outside."""
    n = build.variable("n", 1, 6)
    index = repeated_load(1, I32, (0,), 4, n)
    element = repeated_load(2, I32, (1,), 4, n)
    result = one_hot_reduce(along(1, 4, n), index, element)
    inputs = ((I32, (0, 2, 5, -1)), (I32, (1, 2, 3, 4, 5, 6)))
    expected = [number + 1 if 0 <= number < value else 0 for number in (0, 2, 5, -1)]
    return Gather(result, (4, 1), inputs, expected, {"n": value})


def _nested() -> Gather:
    """Return x[y[k]]: the index of x is itself chosen, on an axis of its own."""
    shape = (4, 3, 5)
    inner = one_hot_reduce(
        along(1, *shape), repeated_load(1, I32, (0,), *shape), repeated_load(2, I32, (1,), *shape)
    )
    value = one_hot_reduce(
        along(2, 4, 1, 5), inner, repeated_load(3, I32, (2,), 4, 1, 5), axes=(2,)
    )
    inputs = ((I32, (2, 0, 1, 9)), (I32, (4, -1, 0)), (I32, (11, 12, 13, 14, 15)))
    # An index outside of y gives index 0.
    return Gather(value, (4, 1, 1), inputs, (11, 15, 0, 11))


INDICES: dict[str, Gather] = {
    "inside": simple(I32, (2, 0, 3, 3), (30.0, 10.0, 40.0, 40.0)),
    "outside": simple(I32, (4, -1, 2**31 - 1, -(2**31), 1), (0.0, 0.0, 0.0, 0.0, 20.0)),
    "int8": simple(dtypes.int8, (3, -1, 127, -128), (40.0, 0.0, 0.0, 0.0)),
    "uint8": simple(dtypes.uint8, (3, 255, 4, 0), (40.0, 0.0, 0.0, 10.0)),
    "int16": simple(dtypes.int16, (1, -32768, 32767), (20.0, 0.0, 0.0)),
    "uint16": simple(dtypes.uint16, (1, 65535), (20.0, 0.0)),
    "uint32": simple(dtypes.uint32, (2, 2**32 - 1, 2**31), (30.0, 0.0, 0.0)),
    # The low 32 bits of these are valid indices.
    "int64": simple(I64, (1, 2**32 + 1, -(2**32) + 2, -(2**63), 3), (20.0, 0.0, 0.0, 0.0, 40.0)),
    "uint64": simple(dtypes.uint64, (1, 2**63, 2**64 - 1, 2**32), (20.0, 0.0, 0.0, 0.0)),
    "rows": row_wise((1, 5, 0), (1.0, 2.0, 3.0, 4.0), (3.0, 4.0, 0.0, 0.0, 1.0, 2.0)),
    "unseen": row_wise((1, -1), (NAN, INF, 3.0, -INF, NAN, NAN), (3.0, -INF, 0.0, 0.0)),
    "special": row_wise((1, 0), (NAN, -0.0, INF, -0.0), (INF, 0.0, NAN, 0.0)),
    "maximum": by_reduce(Ops.MAX, F32, (1.0, -0.0, 2.0, -5.0), (-0.0, -5.0, -INF)),
    "symbolic.3": _symbolic(3),
    "nested": _nested(),
}


def arrays_of(gather: Gather) -> list[np.ndarray]:
    """Return the inputs of a gather, as arrays."""
    return [np.array(list(values), numpy_dtype(dtype)) for dtype, values in gather.inputs]


def _run(gather: Gather, case_id: str, device: DeviceUnderTest) -> Measurement:
    expected = np.array(list(gather.expected), numpy_dtype(gather.value.dtype))
    inputs = [None, *arrays_of(gather)]
    return run_exact(case_id, device, gather.kernel, inputs, [expected], gather.bindings)


def _checks(names: Sequence[str]) -> list[Check]:
    return [Check(name, functools.partial(_run, INDICES[name])) for name in names]


def rows() -> Iterator[Row]:
    """Yield a row for each type of an index."""
    by_type: dict[DType, list[str]] = {}
    for name, gather in INDICES.items():
        by_type.setdefault(gather.inputs[0][0], []).append(name)
    for dtype, names in by_type.items():
        yield make_row(
            f"kernel.gather.{dtype.name}",
            "A reduce that chooses one term by an index gives that term, or the identity if the "
            "index is outside.",
            clauses=("kernel.gather", "isa.reduce", "kernel.iota"),
            rung=Rung.LOOP,
            op="REDUCE",
            dtype=dtype,
            uses=(I32, F32, dtype),
            checks=functools.partial(_checks, names),
        )
