"""Neighbouring axes of a kernel become one where all of its views allow it: fewer, longer loops."""

from __future__ import annotations

from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.uops.shape_tracker import ShapeTracker
from tinyref.uops.symbolic import product

Groups = list[list[int]]


def merge_axes(ast: UOp) -> UOp:
    """The same kernel with every pair of neighbouring axes merged that no view keeps apart.

    An axis that is reduced only merges with one that is reduced too.
    """
    order = ast.toposort()
    trackers = [node.arg.tracker for node in order if isinstance(node.arg, ViewArg)]
    if not trackers:
        return ast
    reduced: set[int] = set()
    for node in order:
        if node.op is Ops.REDUCE and isinstance(node.arg, ReduceArg):
            reduced.update(node.arg.axes)
    groups: Groups = []
    for axis in range(len(trackers[0].shape)):
        if groups and (axis in reduced) == (groups[-1][0] in reduced):
            wider = [*groups[:-1], [*groups[-1], axis]]
            rest = [[later] for later in range(axis + 1, len(trackers[0].shape))]
            if all(_stays_simple(tracker, wider + rest) for tracker in trackers):
                groups = wider
                continue
        groups.append([axis])
    if len(groups) == len(trackers[0].shape):
        return ast
    return _rebuilt(order, groups)


def _merged_shape(tracker: ShapeTracker, groups: Groups) -> tuple[sint, ...]:
    return tuple(product(tracker.shape[axis] for axis in group) for group in groups)


def _stays_simple(tracker: ShapeTracker, groups: Groups) -> bool:
    return len(tracker.reshape(_merged_shape(tracker, groups)).views) <= len(tracker.views)


def _rebuilt(order: list[UOp], groups: Groups) -> UOp:
    place = {axis: number for number, group in enumerate(groups) for axis in group}
    done: dict[UOp, UOp] = {}
    for node in order:
        argument = node.arg
        if isinstance(argument, ViewArg):
            tracker = argument.tracker
            argument = ViewArg(tracker.reshape(_merged_shape(tracker, groups)))
        elif node.op is Ops.REDUCE and isinstance(argument, ReduceArg):
            axes = sorted({place[axis] for axis in argument.axes})
            argument = ReduceArg(argument.op, tuple(axes))
        done[node] = UOp(node.op, node.dtype, tuple(done[source] for source in node.src), argument)
    return done[order[-1]]
