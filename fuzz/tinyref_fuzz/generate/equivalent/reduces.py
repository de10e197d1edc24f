"""Equations of reduces: taken apart, put together, widened, padded, run backwards."""

from __future__ import annotations

import math

from tinyref.algebra.kernel_shape import is_one, kernel_shape, reduced_axes
from tinyref.algebra.semantics import reduce_identity
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.equivalent.moving import (
    along,
    cut_axis,
    known_size,
    move_all_views,
    move_views,
    reads_written,
)
from tinyref_fuzz.generate.equivalent.transformation import Domain, Draw, of_node

MAX_COPIES = 6


def _op(node: UOp) -> Ops:
    return node.arg.op if isinstance(node.arg, ReduceArg) else Ops.SINK


def _long_axis(node: UOp, draw: Draw, least: int) -> tuple[int, int] | None:
    """A drawn axis of a REDUCE with at least `least` known positions, and their number.

    None where the views below may not be moved.
    """
    if reads_written(node.src[0], draw.written):
        return None
    sizes = [(axis, known_size(node.src[0], axis)) for axis in reduced_axes(node)]
    long = [(axis, size) for axis, size in sizes if size is not None and size >= least]
    return draw.tape.pick(long) if long else None


def _partly(op: Ops, value: UOp, over: UOp) -> UOp | None:
    """`value` reduced over the axes of the REDUCE `over`, along some of which it may not vary.

    None where its copies along those cannot be counted, or there are none.
    """
    axes = reduced_axes(over)
    shape = kernel_shape(value)
    varying = tuple(axis for axis in axes if shape and not is_one(shape[axis]))
    copies = 1
    for axis in set(axes) - set(varying):
        size = known_size(over.src[0], axis)
        if not size:
            return None
        copies *= size
    reduced = build.reduce(op, value, varying) if varying else value
    if copies == 1 or op is Ops.MAX:
        return reduced
    return build.mul(reduced, copies) if op is Ops.ADD else None


# --- one loop or several ------------------------------------------------------------------------


@of_node("reduce-by-axes", Domain.EXACT, Ops.REDUCE)
def reduce_by_axes(node: UOp, draw: Draw) -> UOp | None:
    """sum over i, j = sum over i of sum over j."""
    axes = reduced_axes(node)
    if len(axes) < 2:
        return None
    first = draw.tape.pick(axes)
    rest = tuple(axis for axis in axes if axis != first)
    return build.reduce(_op(node), build.reduce(_op(node), node.src[0], (first,)), rest)


@of_node("reduce-joined", Domain.EXACT, Ops.REDUCE)
def reduce_joined(node: UOp, draw: Draw) -> UOp | None:
    """sum over i of sum over j = sum over i, j."""
    inner = node.src[0]
    if inner.op is not Ops.REDUCE or _op(inner) is not _op(node):
        return None
    if set(reduced_axes(inner)) & set(reduced_axes(node)):
        return None
    axes = (*reduced_axes(inner), *reduced_axes(node))
    return build.reduce(_op(node), inner.src[0], axes)


@of_node("reduce-halves", Domain.EXACT, Ops.REDUCE)
def reduce_halves(node: UOp, draw: Draw) -> UOp | None:
    """sum of x = sum of x[:k] + sum of x[k:]; so *, max."""
    found = _long_axis(node, draw, 2)
    if found is None:
        return None
    axis, size = found
    middle = draw.tape.between(1, size - 1)
    low = move_views(node.src[0], lambda tracker: cut_axis(tracker, axis, 0, middle), axis)
    high = move_views(node.src[0], lambda tracker: cut_axis(tracker, axis, middle, size), axis)
    axes = reduced_axes(node)
    parts = (build.reduce(_op(node), part, axes) for part in (low, high))
    return UOp(_op(node), node.dtype, tuple(parts))


# --- other ways through the loop ----------------------------------------------------------------


@of_node("reduce-backwards", Domain.EXACT, Ops.REDUCE)
def reduce_backwards(node: UOp, draw: Draw) -> UOp | None:
    """sum of x[i] = sum of x[n - 1 - i]; so *, max."""
    found = _long_axis(node, draw, 2)
    if found is None:
        return None
    axis = found[0]
    turned = move_views(node.src[0], lambda tracker: tracker.flip((axis,)), axis)
    return node.replace(src=(turned,))


@of_node("reduce-padded", Domain.EXACT, Ops.REDUCE)
def reduce_padded(node: UOp, draw: Draw) -> UOp | None:
    """sum of x over i < n = sum of (x where i < n else 0) over i < n + k; so *, max."""
    found = _long_axis(node, draw, 0)
    if found is None or found[1] == 1:
        return None
    axis, _ = found
    low, high = draw.tape.between(0, 2), draw.tape.between(1, 3)
    value = node.src[0]
    shape = kernel_shape(value)
    bounds = along(len(shape), axis, low, high)
    padded = move_views(value, lambda tracker: tracker.pad(bounds), axis)
    inside = build.valid(ShapeTracker.from_shape(shape).pad(bounds))
    identity = build.const(node.dtype, reduce_identity(_op(node), node.dtype))
    return node.replace(src=(build.where(inside, padded, identity),))


def _repeat_along(value: UOp, draw: Draw, copies: int) -> tuple[UOp, int] | None:
    """`value` repeated along an axis of size 1 that nothing below it varies along, and the axis."""
    shape = kernel_shape(value)
    nodes = value.toposort()
    free = [
        axis
        for axis, size in enumerate(shape)
        if is_one(size) and not any(axis in reduced_axes(node) for node in nodes)
    ]
    if not free or reads_written(value, draw.written):
        return None
    axis = draw.tape.pick(free)

    def expand(tracker: ShapeTracker) -> ShapeTracker:
        shape = tracker.shape
        return tracker.expand((*shape[:axis], copies, *shape[axis + 1 :]))

    return move_all_views(value, expand, lambda axes: axes), axis


@of_node("max-of-copies", Domain.EVERY)
def max_of_copies(node: UOp, draw: Draw) -> UOp | None:
    """x = max of n copies of x."""
    found = _repeat_along(node, draw, draw.tape.between(2, MAX_COPIES))
    return None if found is None else build.reduce(Ops.MAX, found[0], (found[1],))


# --- through the operands -----------------------------------------------------------------------


@of_node("sum-apart", Domain.INTEGER, Ops.REDUCE)
def split_sum(node: UOp, draw: Draw) -> UOp | None:
    """sum of x + y = sum of x + sum of y; so -."""
    inner = node.src[0]
    if _op(node) is not Ops.ADD or inner.op not in (Ops.ADD, Ops.SUB):
        return None
    x, y = (_partly(Ops.ADD, source, node) for source in inner.src)
    return None if x is None or y is None else build.binary(inner.op, x, y)


@of_node("sums-together", Domain.EXACT, Ops.ADD, Ops.MUL, Ops.MAX)
def sums_together(node: UOp, draw: Draw) -> UOp | None:
    """sum of x + sum of y = sum of (x + y); so *, max."""
    left, right = node.src
    for side in (left, right):
        if side.op is not Ops.REDUCE or _op(side) is not node.op:
            return None
    if left.arg != right.arg or kernel_shape(left.src[0]) != kernel_shape(right.src[0]):
        return None
    return left.replace(src=(UOp(node.op, node.dtype, (left.src[0], right.src[0])),))


@of_node("sum-scaled", Domain.INTEGER, Ops.REDUCE)
def sum_scaled(node: UOp, draw: Draw) -> UOp | None:
    """sum of x * y = (sum of x) * y, y the same for all terms."""
    inner = node.src[0]
    if _op(node) is not Ops.ADD or inner.op is not Ops.MUL:
        return None
    axes = reduced_axes(node)
    for x, y in (inner.src, inner.src[::-1]):
        shape = kernel_shape(y)
        if all(is_one(shape[axis]) for axis in axes if shape):
            total = _partly(Ops.ADD, x, node)
            return None if total is None else build.mul(total, y)
    return None


# --- in another type ----------------------------------------------------------------------------


@of_node("reduce-wider", Domain.INTEGER, Ops.REDUCE)
def reduce_wider(node: UOp, draw: Draw) -> UOp | None:
    """sum of x = narrow(sum of wide(x)); so *, max."""
    wider = [dtype for dtype in draw.dtypes if _holds_all_of(dtype, node.dtype)]
    if not wider or _has_no_positions(node):
        return None
    wide = draw.tape.pick(sorted(wider, key=lambda dtype: dtype.name))
    total = build.reduce(_op(node), build.cast(node.src[0], wide), reduced_axes(node))
    return build.cast(total, node.dtype)


def _holds_all_of(wide: DType, narrow: DType) -> bool:
    """Return True if `wide` is another integer type that has every value of `narrow`."""
    if wide is narrow or not wide.is_int or wide is dtypes.index:
        return False
    return int(wide.minimum) <= int(narrow.minimum) and int(wide.maximum) >= int(narrow.maximum)


def _has_no_positions(node: UOp) -> bool:
    """Whether a REDUCE may go over nothing: the identity of MAX differs between types."""
    sizes = [known_size(node.src[0], axis) for axis in reduced_axes(node)]
    return any(size is None or size == 0 for size in sizes)


@of_node("any-by-count", Domain.BOOL, Ops.REDUCE)
def any_by_count(node: UOp, draw: Draw) -> UOp | None:
    """max of bools = (their number != 0)."""
    sizes = [known_size(node.src[0], axis) for axis in reduced_axes(node)]
    known = [size for size in sizes if size is not None]
    if dtypes.int32 not in draw.dtypes or len(known) < len(sizes) or math.prod(known) >= 2**31:
        return None
    count = build.reduce(Ops.ADD, build.cast(node.src[0], dtypes.int32), reduced_axes(node))
    return build.not_equal(count, 0)
