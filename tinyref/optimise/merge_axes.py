"""Neighbouring axes of a kernel become one where all of its views allow it: fewer, longer loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tinyref.algebra.shapes import is_one, kernel_shape, reduced_axes
from tinyref.algebra.symbolic import lift, lowest, product
from tinyref.uops.node import UOp, rebuild, sint
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of

Runs = list[list[int]]
Label = TypeVar("Label")


def merge_axes(ast: UOp) -> UOp:
    """The same kernel with every pair of neighbouring axes merged that no view keeps apart.

    Two axes only merge where the same REDUCEs go over both of them.
    """
    return merge_within(ast, reducers(ast))[0]


def reducers(ast: UOp) -> list[frozenset[UOp]]:
    """The REDUCEs that go over each axis."""
    order = ast.toposort()
    rank = next((len(kernel_shape(n)) for n in order if isinstance(n.arg, ViewArg)), 0)
    return [frozenset(node for node in order if axis in reduced_axes(node)) for axis in range(rank)]


def merge_within(ast: UOp, labels: Sequence[Label]) -> tuple[UOp, list[Label]]:
    """`ast` with neighbouring axes of equal label merged, and the labels of what is left."""
    order = ast.toposort()
    trackers = list({tracker_of(n): None for n in order if isinstance(n.arg, ViewArg)})
    runs: Runs = []
    for axis in range(len(labels)):
        if runs and labels[axis] == labels[runs[-1][0]]:
            wider = [*runs[:-1], [*runs[-1], axis]]
            rest = [[later] for later in range(axis + 1, len(labels))]
            if all(_stays_simple(tracker, wider + rest, axis) for tracker in trackers):
                runs = wider
                continue
        runs.append([axis])
    if len(runs) == len(labels):
        return ast, list(labels)
    return _with_runs(ast, runs), [labels[run[0]] for run in runs]


def _merged_shape(tracker: ShapeTracker, runs: Runs) -> tuple[sint, ...]:
    # Axes after those of the kernel take their positions from values.
    placed = tracker.shape[runs[-1][-1] + 1 :]
    return (*(product(tracker.shape[axis] for axis in run) for run in runs), *placed)


def _stays_simple(tracker: ShapeTracker, runs: Runs, axis: int) -> bool:
    # A value that varies along one of the axes alone would need a size between the two.
    if is_one(tracker.shape[axis - 1]) != is_one(tracker.shape[axis]):
        return False
    merged = _merged_shape(tracker, runs)
    # Of sizes that are never negative a product may be one of which that is not proved.
    if any(lowest(lift(size)) < 0 for size in merged):
        return False
    return len(tracker.reshape(merged).views) <= len(tracker.views)


def _with_runs(ast: UOp, runs: Runs) -> UOp:
    place = {axis: number for number, run in enumerate(runs) for axis in run}

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if isinstance(node.arg, ViewArg):
            tracker = tracker_of(node)
            return node.replace(src=src, arg=ViewArg(tracker.reshape(_merged_shape(tracker, runs))))
        if isinstance(node.arg, ReduceArg):
            axes = sorted({place[axis] for axis in node.arg.axes})
            return node.replace(src=src, arg=ReduceArg(node.arg.op, tuple(axes)))
        return None

    return rebuild(ast, change)
