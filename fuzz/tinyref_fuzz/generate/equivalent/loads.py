"""Equations of loads: the same elements through other views, masks and pieces."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ViewArg
from tinyref.views.build import tracker_of
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
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


def _another_form(tracker: ShapeTracker, draw: Draw) -> ShapeTracker:
    """The same mapping through one view more, which no simplification has merged."""
    shape = tracker.shape
    choice = draw.tape.below(3)
    if choice == 1:
        axes = tuple(range(len(shape)))
        outer = View.contiguous(shape).flip(axes)
        return ShapeTracker((*tracker.flip(axes).views, outer))
    if choice == 2 and len(shape) > 1:
        order = tuple(range(len(shape)))[::-1]
        turned = tracker.permute(order)
        return ShapeTracker((*turned.views, View.contiguous(turned.shape).permute(order)))
    return ShapeTracker((*tracker.views, View.contiguous(shape)))


@of_node("view-twice", Domain.EVERY, Ops.LOAD)
def view_twice(node: UOp, draw: Draw) -> UOp | None:
    """x[v] = x[w][u] where u shows w as v."""
    tracker = _tracker(node, draw)
    return None if tracker is None else _through(node, _another_form(tracker, draw))


@of_node("load-twice", Domain.EVERY, Ops.LOAD)
def load_twice(node: UOp, draw: Draw) -> UOp | None:
    """x = x where x != 0 else x, the second loaded anew."""
    tracker = _tracker(node, draw)
    if tracker is None:
        return None
    again = _through(node, _another_form(tracker, draw))
    return build.where(build.not_equal(node, 0), node, again)


@of_node("load-where-valid", Domain.EVERY, Ops.LOAD)
def load_where_valid(node: UOp, draw: Draw) -> UOp | None:
    """x[v] = x[v] where v is valid else 0."""
    valid = UOp(Ops.VALID, dtypes.bool, (), node.src[0].arg)
    return build.where(valid, node, 0)


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
