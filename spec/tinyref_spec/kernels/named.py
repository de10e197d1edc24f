"""The kernels that have more than one user. The first slots are the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyref.dtype import ConstType, DType
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec.kernels.notation import (
    kernel_of,
    largest,
    left,
    load,
    right,
    shaped,
    store,
    total,
)

# --- without reduces ----------------------------------------------------------------------------


def constant(dtype: DType, value: ConstType, *shape: int) -> UOp:
    """Return one constant in all of the output."""
    return kernel_of(build.const(dtype, value), *shape)


def elementwise(compute: Callable[..., UOp], sources: Sequence[DType], *shape: int) -> UOp:
    """Return out[i] = compute(in1[i], in2[i], ...), with an input for each dtype of `sources`."""
    operands = [load(slot, dtype, shape) for slot, dtype in enumerate(sources, start=1)]
    return kernel_of(compute(*operands), *shape)


def copied(dtype: DType, tracker: ShapeTracker, size: int | None = None) -> UOp:
    """Return out = a view of the input, which has `size` elements."""
    return kernel_of(load(1, dtype, tracker, size), *tracker.shape)


def transposed(dtype: DType, rows: int, columns: int) -> UOp:
    """Return out[i, j] = x[j, i]; the output has `rows` rows."""
    return copied(dtype, shaped(columns, rows).permute((1, 0)))


def add_in_place(dtype: DType, *shape: int) -> UOp:
    """Return out[i] += x[i]."""
    return kernel_of(build.add(load(0, dtype, shape), load(1, dtype, shape)), *shape)


# --- reduces ------------------------------------------------------------------------------------


def reduced_shape(shape: Sequence[sint], axes: Sequence[int]) -> tuple[sint, ...]:
    """Return the shape after a reduce, whose axes stay as size 1."""
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))


def reduction(op: Ops, dtype: DType, shape: Sequence[sint], *axes: int) -> UOp:
    """Return a reduce of all of one input over axes: ADD, MUL or MAX."""
    return reduced_view(op, dtype, shaped(*shape), *axes)


def reduced_view(op: Ops, dtype: DType, tracker: ShapeTracker, *axes: int) -> UOp:
    """Return a reduce over axes of a view of one input."""
    value = build.reduce(op, load(1, dtype, tracker), axes)
    return kernel_of(value, *reduced_shape(tracker.shape, axes))


def padded_sum(dtype: DType, rows: int, columns: int, before: int, after: int) -> UOp:
    """Return the sums of rows that a view pads on both sides."""
    padded = shaped(rows, columns).pad(((0, 0), (before, after)))
    return reduced_view(Ops.ADD, dtype, padded, 1)


def maximum_minus_sum(dtype: DType, rows: int, columns: int) -> UOp:
    """Return out[i] = max_k x[i, k] - sum_k x[i, k]: two reduces in one loop."""
    x = load(1, dtype, (rows, columns))
    return kernel_of(build.sub(largest(x, 1), total(x, 1)), rows, 1)


def sum_and_maximum(dtype: DType, rows: int, columns: int) -> UOp:
    """Return out0[i] = sum_k x[i, k] and out1[i] = max_k x[i, k]."""
    x = load(2, dtype, (rows, columns))
    return build.sink(store(0, total(x, 1), (rows, 1)), store(1, largest(x, 1), (rows, 1)))


def sum_of_maxima(dtype: DType, rows: int, columns: int, depth: int) -> UOp:
    """Return out[i] = sum_j max_k x[i, j, k]."""
    x = load(1, dtype, (rows, columns, depth))
    return kernel_of(total(largest(x, 2), 1), rows, 1, 1)


# --- matrix products ----------------------------------------------------------------------------


def multiplied(a: UOp, b: UOp, axis: int = 2, within: DType | None = None) -> UOp:
    """Return the sum over `axis` of a * b, each cast to `within` first."""
    wide = within or a.dtype
    return total(build.mul(build.cast(a, wide), build.cast(b, wide)), axis)


def matmul(
    rows: sint,
    columns: sint,
    inner: sint,
    dtype: DType,
    within: DType | None = None,
    result: DType | None = None,
    is_transposed: bool = False,
) -> UOp:
    """Return out[i, j] = sum over k of a[i, k] * b[k, j], or transposed of a[i, k] * b[j, k].

    within: the dtype of the products and of their sum, by default `dtype`. result: the dtype of the
    output, by default `within`.
    """
    sizes = (rows, columns, inner)
    a = load(1, dtype, left(*sizes))
    b = load(2, dtype, right(*sizes, is_transposed=is_transposed))
    value = multiplied(a, b, 2, within)
    return kernel_of(build.cast(value, result or value.dtype), rows, columns, 1)
