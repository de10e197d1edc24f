"""One node of the tensor graph by its op and payload, through the builder of that op."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.dtype import DType
from tinyref.lazy import graph
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, CASTS, Ops
from tinyref.uops.payload import (
    BoundsArg,
    CopyArg,
    FlipArg,
    Payload,
    PermuteArg,
    ReduceArg,
    ShapeArg,
)


def build_node(op: Ops, arg: Payload, dtype: DType | None, sources: Sequence[UOp]) -> UOp | None:
    """The node for `op`, folded as its builder does; None for an op that has no builder here.

    dtype: the target of a cast. Raises `UserError` as the builders do.
    """
    if op in CASTS and dtype is not None:
        make = graph.cast if op is Ops.CAST else graph.bitcast
        return make(sources[0], dtype)
    if op in ALU:
        return graph.alu(op, *sources)
    match op:
        case Ops.DETACH:
            return graph.detach(sources[0])
        case Ops.CONTIGUOUS:
            return graph.contiguous(sources[0])
        case Ops.ASSIGN:
            return graph.assign(*sources)
    return _with_payload(op, arg, sources)


def _with_payload(op: Ops, arg: Payload, sources: Sequence[UOp]) -> UOp | None:
    match arg:
        case ShapeArg(shape) if op is Ops.IOTA:
            return graph.iota(shape[0])
        case ShapeArg(shape):
            reshaping = graph.reshape if op is Ops.RESHAPE else graph.expand
            return reshaping(sources[0], shape)
        case PermuteArg(order):
            return graph.permute(sources[0], order)
        case BoundsArg(bounds):
            resizing = graph.pad if op is Ops.PAD else graph.shrink
            return resizing(sources[0], bounds)
        case FlipArg(axes):
            return graph.flip(sources[0], axes)
        case ReduceArg(reducing, axes):
            return graph.reduce(reducing, sources[0], axes)
        case CopyArg(device):
            return graph.copy(sources[0], device)
    return None
