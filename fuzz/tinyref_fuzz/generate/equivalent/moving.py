"""Move the views below a value: the value is then seen through a movement."""

from __future__ import annotations

from collections.abc import Callable

from tinyref.algebra.shapes import is_one, kernel_shape, reduced_axes
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of

Move = Callable[[ShapeTracker], ShapeTracker]
Bounds = tuple[tuple[int, int], ...]


def move_views(value: UOp, move: Move, axis: int) -> UOp:
    """Return `value` with every view that varies along `axis` moved.

    A value that an inner REDUCE has reduced over `axis` no longer varies along it, and stays.
    """

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if isinstance(node.arg, ViewArg) and not is_one(node.arg.tracker.shape[axis]):
            return node.replace(src=src, arg=ViewArg(move(tracker_of(node))))
        return None

    stays = {node: node for node in value.toposort() if axis in reduced_axes(node)}
    return rebuild(value, change, stays)


def move_all_views(
    sink: UOp, move: Move, axes: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> UOp:
    """Return the kernel with all views moved, and with `axes` applied to the axes of each REDUCE.

    A REDUCE without remaining axes is removed.
    """

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if isinstance(node.arg, ViewArg):
            return node.replace(src=src, arg=ViewArg(move(tracker_of(node))))
        if isinstance(node.arg, ReduceArg):
            remaining = tuple(sorted(axes(node.arg.axes)))
            if not remaining:
                return src[0]
            return node.replace(src=src, arg=ReduceArg(node.arg.op, remaining))
        return None

    return rebuild(sink, change)


def trackers(sink: UOp) -> list[ShapeTracker]:
    """Return the trackers of all views of a kernel, including those of its VALIDs."""
    return [tracker_of(node) for node in sink.toposort() if isinstance(node.arg, ViewArg)]


def rank_of(sink: UOp) -> int:
    """Return the number of axes that all views of a kernel have; 0 without views."""
    return next((len(tracker.shape) for tracker in trackers(sink)), 0)


def known_size(value: UOp, axis: int) -> int | None:
    """Return the size of `value` along `axis` if it is a number."""
    shape = kernel_shape(value)
    size = shape[axis] if axis < len(shape) else None
    return size if isinstance(size, int) else None


def reads_written(value: UOp, written: frozenset[int]) -> bool:
    """Return True if a load below `value` reads a written slot: its view must stay."""
    return any(node.op is Ops.LOAD and slot_of(node) in written for node in value.toposort())


def along(rank: int, axis: int, low: int, high: int) -> Bounds:
    """Return the bounds of a pad: (low, high) along `axis`, nothing along the others."""
    return tuple((low, high) if at == axis else (0, 0) for at in range(rank))


def cut_axis(tracker: ShapeTracker, axis: int, begin: int, end: int) -> ShapeTracker:
    """Return the positions from `begin` to `end` of one axis."""
    return tracker.shrink(
        tuple((begin, end) if at == axis else (0, size) for at, size in enumerate(tracker.shape))
    )
