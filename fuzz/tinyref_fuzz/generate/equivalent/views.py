"""Equations of views: the same elements in another order, in pieces, padded, or in an image."""

from __future__ import annotations

from tinyref.algebra.semantics import reduce_identity
from tinyref.algebra.shapes import is_one, kernel_shape, reduced_axes
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.schedule.images import with_image
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of
from tinyref_fuzz.generate.equivalent.moving import (
    along,
    cut_axis,
    known_size,
    move_all_views,
    move_views,
    rank_of,
    reads_written,
    trackers,
)
from tinyref_fuzz.generate.equivalent.transformation import (
    TransformationChoices,
    equation,
    every_type,
)

# --- whole kernels --------------------------------------------------------------------------------


@equation("permute-axes", every_type, Ops.SINK, moves=True)
def permute_axes(sink: UOp, draw: TransformationChoices) -> UOp | None:
    """The axes of all views may be permuted together."""
    rank = rank_of(sink)
    if rank < 2:
        return None
    turn = draw.tape.between(1, rank - 1)
    order = (*range(turn, rank), *range(turn))
    new_axis = {axis: at for at, axis in enumerate(order)}
    return move_all_views(
        sink,
        lambda tracker: tracker.permute(order),
        lambda axes: tuple(new_axis[axis] for axis in axes),
    )


@equation("flip-axis", every_type, Ops.SINK, moves=True)
def flip_axis(sink: UOp, draw: TransformationChoices) -> UOp | None:
    """An axis of all views may run backwards, in loads and stores."""
    all_trackers = trackers(sink)
    long = [
        axis
        for axis in range(rank_of(sink))
        if any(not is_one(tracker.shape[axis]) for tracker in all_trackers)
    ]
    if not long:
        return None
    axis = draw.tape.pick(long)
    return move_all_views(sink, lambda tracker: tracker.flip((axis,)), lambda axes: axes)


@equation("pad-axis", every_type, Ops.SINK, moves=True)
def pad_axis(sink: UOp, draw: TransformationChoices) -> UOp | None:
    """An axis that no REDUCE reduces may be padded in all views: nothing is stored there."""
    all_trackers = trackers(sink)
    reduced = {axis for node in sink.toposort() for axis in reduced_axes(node)}
    stored = [tracker_of(store.src[0]) for store in sink.src]
    free = [
        axis
        for axis in range(rank_of(sink))
        if axis not in reduced
        and all(isinstance(tracker.shape[axis], int) for tracker in all_trackers)
        and any(not is_one(tracker.shape[axis]) for tracker in stored)
    ]
    if not free:
        return None
    axis = draw.tape.pick(free)
    bounds = along(rank_of(sink), axis, draw.tape.between(0, 2), draw.tape.between(1, 3))

    def pad(tracker: ShapeTracker) -> ShapeTracker:
        return tracker if is_one(tracker.shape[axis]) else tracker.pad(bounds)

    return move_all_views(sink, pad, lambda axes: axes)


# --- loads ----------------------------------------------------------------------------------------


@equation("load-in-parts", every_type, Ops.LOAD, moves=True)
def load_in_parts(node: UOp, draw: TransformationChoices) -> UOp | None:
    """x[v] = x[v cut to i < k] where i < k else x[v cut to k <= i]."""
    view = node.src[0]
    if slot_of(node) in draw.written or not isinstance(view.arg, ViewArg):
        return None
    tracker = tracker_of(view)
    sizes = [
        (axis, size)
        for axis, size in enumerate(tracker.shape)
        if isinstance(size, int) and size > 1
    ]
    if not sizes:
        return None
    axis, size = draw.tape.pick(sizes)
    middle = draw.tape.between(1, size - 1)
    rank = len(tracker.shape)

    def part(whole: ShapeTracker, begin: int, end: int) -> ShapeTracker:
        return cut_axis(whole, axis, begin, end).pad(along(rank, axis, begin, size - end))

    def through(part: ShapeTracker) -> UOp:
        return node.replace(src=(view.replace(arg=ViewArg(part)),))

    is_below = build.valid(part(ShapeTracker.from_shape(tracker.shape), 0, middle))
    low, high = part(tracker, 0, middle), part(tracker, middle, size)
    return build.where(is_below, through(low), through(high))


# --- reduces --------------------------------------------------------------------------------------


def _op(node: UOp) -> Ops:
    assert isinstance(node.arg, ReduceArg), "the node is a REDUCE"
    return node.arg.op


def _long_axis(node: UOp, draw: TransformationChoices) -> tuple[int, int] | None:
    """Return a drawn axis of a REDUCE with at least two known positions, and their number.

    Returns None if the views below may not be moved.
    """
    if reads_written(node.src[0], draw.written):
        return None
    sizes = [(axis, known_size(node.src[0], axis)) for axis in reduced_axes(node)]
    long = [(axis, size) for axis, size in sizes if size is not None and size >= 2]
    return draw.tape.pick(long) if long else None


@equation("reduce-by-axes", every_type, Ops.REDUCE, moves=True)
def reduce_by_axes(node: UOp, draw: TransformationChoices) -> UOp | None:
    """sum over i, j = sum over i of sum over j."""
    axes = reduced_axes(node)
    if len(axes) < 2:
        return None
    first = draw.tape.pick(axes)
    rest = tuple(axis for axis in axes if axis != first)
    return build.reduce(_op(node), build.reduce(_op(node), node.src[0], (first,)), rest)


@equation("reduce-halves", every_type, Ops.REDUCE, moves=True)
def reduce_halves(node: UOp, draw: TransformationChoices) -> UOp | None:
    """sum of x = sum of x[:k] + sum of x[k:]; also *, max."""
    long = _long_axis(node, draw)
    if long is None:
        return None
    axis, size = long
    middle = draw.tape.between(1, size - 1)
    low = move_views(node.src[0], lambda tracker: cut_axis(tracker, axis, 0, middle), axis)
    high = move_views(node.src[0], lambda tracker: cut_axis(tracker, axis, middle, size), axis)
    axes = reduced_axes(node)
    parts = (build.reduce(_op(node), part, axes) for part in (low, high))
    return UOp(_op(node), node.dtype, tuple(parts))


@equation("reduce-padded", every_type, Ops.REDUCE, moves=True)
def reduce_padded(node: UOp, draw: TransformationChoices) -> UOp | None:
    """sum of x over i < n = sum of (x where i < n else 0) over i < n + k; also *, max."""
    long = _long_axis(node, draw)
    if long is None:
        return None
    axis, _ = long
    low, high = draw.tape.between(0, 2), draw.tape.between(1, 3)
    value = node.src[0]
    shape = kernel_shape(value)
    bounds = along(len(shape), axis, low, high)
    padded = move_views(value, lambda tracker: tracker.pad(bounds), axis)
    inside = build.valid(ShapeTracker.from_shape(shape).pad(bounds))
    identity = build.const(node.dtype, reduce_identity(_op(node), node.dtype))
    return node.replace(src=(build.where(inside, padded, identity),))


# --- images ---------------------------------------------------------------------------------------


def as_image(sink: UOp, draw: TransformationChoices) -> UOp | None:
    """Rewrite a load as an image load: x[4 i + j] = lane j of texel i of x seen as an image."""
    loads = [node for node in sink.toposort() if _may_be_image(node, draw)]
    if not loads or draw.capabilities is None:
        return None
    try:
        kernel = with_image(sink, draw.tape.pick(loads))
        # Only after lanes are chosen is it known whether all accesses are of whole texels.
        compile_kernel(kernel, draw.capabilities)
    except UserError:
        return None
    except Exception:
        # This is a fault, not a refusal: the judge will meet it and attribute it.
        return kernel
    return kernel


def _may_be_image(node: UOp, draw: TransformationChoices) -> bool:
    return (
        node.op is Ops.LOAD
        and node.dtype in (dtypes.float32, dtypes.float16)
        and node.dtype in draw.dtypes
        and slot_of(node) not in draw.written
    )
