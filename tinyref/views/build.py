"""Nodes with views: a view of a buffer, and the tracker of a node that has one."""

from __future__ import annotations

from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ViewArg
from tinyref.views.shape_tracker import ShapeTracker


def view(slot: int, dtype: DType, size: int, tracker: ShapeTracker) -> UOp:
    """Buffer `slot` of `size` elements as `tracker` shows it."""
    buffer = build.define_global(slot, dtype, size)
    return UOp(Ops.VIEW, buffer.dtype, (buffer,), ViewArg(tracker))


def tracker_of(node: UOp) -> ShapeTracker:
    """The tracker of a VIEW, VALID or IOTA."""
    if not isinstance(node.arg, ViewArg):
        raise TypeError(f"{node.op.name} has no view")
    return node.arg.tracker
