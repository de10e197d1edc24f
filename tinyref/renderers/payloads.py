"""What the renderers read off a node, checked."""

from __future__ import annotations

from typing import TypeVar

from tinyref.dtype import DType, PtrDType
from tinyref.errors import UserError
from tinyref.uops.node import UOp

T = TypeVar("T")


def payload_of(node: UOp, kind: type[T]) -> T:
    """The payload of `node`. Raises `UserError` when it is not a `kind`."""
    if not isinstance(node.arg, kind):
        raise UserError(f"{node.op.name}: needs a payload {kind.__name__}, got {node.arg!r}")
    return node.arg


def element_of(node: UOp) -> DType:
    """The type of the elements that `node` points to. Raises `UserError` for no pointer."""
    if not isinstance(node.dtype, PtrDType):
        raise UserError(f"{node.op.name}: {node.dtype.name} is not a pointer")
    return node.dtype.base
