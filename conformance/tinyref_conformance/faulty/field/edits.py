"""Helpers of edits that several modules of field faults share."""

from __future__ import annotations

from tinyref.uops.node import UOp
from tinyref.uops.payload import ConstArg


def constant_value(node: UOp) -> int | float | None:
    """Return the value of a constant, None for every other node."""
    return node.arg.value if isinstance(node.arg, ConstArg) else None
