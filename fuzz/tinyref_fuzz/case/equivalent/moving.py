"""Moving the views below a value, so that the value is seen through a movement."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tinyref.algebra.kernel_shape import is_one, kernel_shape
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker

Move = Callable[[ShapeTracker], ShapeTracker]
Bounds = tuple[tuple[int, int], ...]


def reduced_axes(node: UOp) -> tuple[int, ...]:
    """The axes of a REDUCE of a kernel AST; () of any other node."""
    return node.arg.axes if isinstance(node.arg, ReduceArg) else ()


def moved(value: UOp, move: Move, axis: int) -> UOp:
    """`value` with every view that varies along `axis` moved.

    What a REDUCE inside has already reduced over `axis` no longer varies along it, and stays.
    """

    def needs(node: UOp) -> Iterable[UOp]:
        return () if axis in reduced_axes(node) else node.src

    done: dict[UOp, UOp] = {}
    for node in toposort((value,), needs):
        if axis in reduced_axes(node):
            done[node] = node
            continue
        src = tuple(done[source] for source in node.src)
        new = node if src == node.src else node.replace(src=src)
        if isinstance(new.arg, ViewArg) and not is_one(new.arg.tracker.shape[axis]):
            new = new.replace(arg=ViewArg(move(new.arg.tracker)))
        done[node] = new
    return done[value]


def moved_everywhere(
    sink: UOp, move: Move, axes: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> UOp:
    """The whole kernel with every view moved, and the axes of every REDUCE renamed by `axes`."""
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        src = tuple(done[source] for source in node.src)
        new = node if src == node.src else node.replace(src=src)
        if isinstance(new.arg, ViewArg):
            new = new.replace(arg=ViewArg(move(new.arg.tracker)))
        elif isinstance(new.arg, ReduceArg):
            new = new.replace(arg=ReduceArg(new.arg.op, tuple(sorted(axes(new.arg.axes)))))
        done[node] = new
    return done[sink]


def trackers(sink: UOp) -> list[ShapeTracker]:
    """The trackers of all views of a kernel, those of its VALIDs too."""
    return [node.arg.tracker for node in sink.toposort() if isinstance(node.arg, ViewArg)]


def rank_of(sink: UOp) -> int:
    """The number of axes that all views of a kernel have; 0 without views."""
    return next((len(tracker.shape) for tracker in trackers(sink)), 0)


def known_size(value: UOp, axis: int) -> int | None:
    """The size of `value` along `axis` where it is a number."""
    shape = kernel_shape(value)
    size = shape[axis] if axis < len(shape) else None
    return size if isinstance(size, int) else None


def reads_written(value: UOp, written: frozenset[int]) -> bool:
    """Whether a load below `value` reads what the kernel also writes: its view must stay."""
    return any(node.op is Ops.LOAD and slot_of(node) in written for node in value.toposort())


def along(rank: int, axis: int, low: int, high: int) -> Bounds:
    """Bounds for a pad: (low, high) along `axis`, nothing along the others."""
    return tuple((low, high) if at == axis else (0, 0) for at in range(rank))


def cut(tracker: ShapeTracker, axis: int, begin: int, end: int) -> ShapeTracker:
    """The positions from `begin` to `end` of one axis."""
    return tracker.shrink(
        tuple((begin, end) if at == axis else (0, size) for at, size in enumerate(tracker.shape))
    )
