"""The tracker of a node that has a view."""

from __future__ import annotations

from tinyref.uops.node import UOp
from tinyref.uops.payload import Payload, ViewArg
from tinyref.views.shape_tracker import ShapeTracker


def tracker_of(view: UOp | Payload) -> ShapeTracker:
    """The tracker of a VIEW, VALID or IOTA, or of its payload."""
    payload = view.arg if isinstance(view, UOp) else view
    if isinstance(payload, ViewArg) and isinstance(payload.tracker, ShapeTracker):
        return payload.tracker
    raise TypeError(f"{view!r} has no view")
