"""The tracker of a node that has a view."""

from __future__ import annotations

from tinyref.uops.node import UOp
from tinyref.uops.payload import ViewArg
from tinyref.views.shape_tracker import ShapeTracker


def tracker_of(node: UOp) -> ShapeTracker:
    """The tracker of a VIEW, VALID or IOTA."""
    if not isinstance(node.arg, ViewArg):
        raise TypeError(f"{node.op.name} has no view")
    return node.arg.tracker
