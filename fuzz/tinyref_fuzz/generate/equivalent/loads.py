"""Equations of loads: the same elements through other views, masks and pieces."""

from __future__ import annotations

from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ViewArg
from tinyref.views.build import tracker_of
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.equivalent.moving import along, cut_axis
from tinyref_fuzz.generate.equivalent.transformation import Domain, Draw, of_node


def _tracker(load: UOp, draw: Draw) -> ShapeTracker | None:
    """The tracker of a LOAD whose view may be changed."""
    view = load.src[0]
    if slot_of(load) in draw.written or not isinstance(view.arg, ViewArg):
        return None
    return tracker_of(view)


def _through(load: UOp, tracker: ShapeTracker) -> UOp:
    return load.replace(src=(load.src[0].replace(arg=ViewArg(tracker)),))


@of_node("load-in-parts", Domain.EVERY, Ops.LOAD)
def load_in_parts(node: UOp, draw: Draw) -> UOp | None:
    """x[v] = x[v cut to i < k] where i < k else x[v cut to k <= i]."""
    tracker = _tracker(node, draw)
    if tracker is None:
        return None
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
    low = cut_axis(tracker, axis, 0, middle).pad(along(rank, axis, 0, size - middle))
    high = cut_axis(tracker, axis, middle, size).pad(along(rank, axis, middle, 0))
    everything = ShapeTracker.from_shape(tracker.shape)
    below = cut_axis(everything, axis, 0, middle).pad(along(rank, axis, 0, size - middle))
    is_below = build.valid(below)
    return build.where(is_below, _through(node, low), _through(node, high))
