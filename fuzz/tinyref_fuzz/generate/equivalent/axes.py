"""Equations of whole kernels: the same elements in another order, shape or surrounding."""

from __future__ import annotations

from tinyref.algebra.kernel_shape import is_one, reduced_axes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ViewArg
from tinyref.views.build import tracker_of
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.equivalent.moving import (
    along,
    move_all_views,
    rank_of,
    trackers,
)
from tinyref_fuzz.generate.equivalent.transformation import Domain, Draw, of_kernel

Axes = tuple[int, ...]


def _same_axes(axes: Axes) -> Axes:
    return axes


@of_kernel("permute-axes", Domain.EXACT)
def permute_axes(sink: UOp, draw: Draw) -> UOp | None:
    """The axes of all views in another order."""
    rank = rank_of(sink)
    if rank < 2:
        return None
    turn = draw.tape.between(1, rank - 1)
    order = (*range(turn, rank), *range(turn))
    place = {axis: at for at, axis in enumerate(order)}
    return move_all_views(
        sink,
        lambda tracker: tracker.permute(order),
        lambda axes: tuple(place[axis] for axis in axes),
    )


@of_kernel("merge-axes", Domain.EXACT)
def merge_axes(sink: UOp, draw: Draw) -> UOp | None:
    """Two neighbouring axes as one in all views."""
    shapes = [tracker.shape for tracker in trackers(sink)]
    reduces = [node for node in sink.toposort() if node.op is Ops.REDUCE]
    choices: list[int] = []
    for axis in range(rank_of(sink) - 1):
        pairs = {shape[axis : axis + 2] for shape in shapes} - {(1, 1)}
        together = all(
            (axis in reduced_axes(node)) == (axis + 1 in reduced_axes(node)) for node in reduces
        )
        sizes = [size for pair in pairs for size in pair]
        if len(pairs) <= 1 and together and all(isinstance(size, int) for size in sizes):
            choices.append(axis)
    if not choices:
        return None
    axis = draw.tape.pick(choices)

    def merge(tracker: ShapeTracker) -> ShapeTracker:
        outer, inner = tracker.shape[axis : axis + 2]
        size = outer * inner if isinstance(outer, int) and isinstance(inner, int) else 1
        return tracker.reshape((*tracker.shape[:axis], size, *tracker.shape[axis + 2 :]))

    return move_all_views(
        sink, merge, lambda axes: tuple(at - (at > axis) for at in axes if at != axis + 1)
    )


@of_kernel("flip-axis", Domain.EXACT)
def flip_axis(sink: UOp, draw: Draw) -> UOp | None:
    """An axis of all views run backwards, in loads and stores."""
    long = [
        axis
        for axis in range(rank_of(sink))
        if any(not is_one(tracker.shape[axis]) for tracker in trackers(sink))
    ]
    if not long:
        return None
    axis = draw.tape.pick(long)
    return move_all_views(sink, lambda tracker: tracker.flip((axis,)), _same_axes)


@of_kernel("pad-axis", Domain.EVERY)
def pad_axis(sink: UOp, draw: Draw) -> UOp | None:
    """An axis that is not reduced padded in all views: nothing is stored there."""
    all_trackers = trackers(sink)
    reduced = {axis for node in sink.toposort() for axis in reduced_axes(node)}
    stored = [
        tracker_of(store.src[0]) for store in sink.src if isinstance(store.src[0].arg, ViewArg)
    ]
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

    return move_all_views(sink, pad, _same_axes)


@of_kernel("reorder-stores", Domain.EVERY)
def reorder_stores(sink: UOp, draw: Draw) -> UOp | None:
    """The stores of a kernel in another order."""
    if len(sink.src) < 2:
        return None
    turn = draw.tape.between(1, len(sink.src) - 1)
    return sink.replace(src=(*sink.src[turn:], *sink.src[:turn]))
