"""Small graphs for tests of the scheduler."""

from __future__ import annotations

from tinyref.dtype import DType, dtypes
from tinyref.lazy import graph
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


def empty(*shape: int, dtype: DType = dtypes.float32) -> UOp:
    """Return memory that nothing has written yet."""
    return graph.new_buffer("PYTHON", shape, dtype)


def add(x: UOp, y: UOp) -> UOp:
    return graph.alu(Ops.ADD, x, y)


def mul(x: UOp, y: UOp) -> UOp:
    return graph.alu(Ops.MUL, x, y)


def plus(x: UOp, amount: float) -> UOp:
    return add(x, graph.constant(amount, x.dtype))


def total(x: UOp, *axes: int) -> UOp:
    return graph.reduce(Ops.ADD, x, axes)
