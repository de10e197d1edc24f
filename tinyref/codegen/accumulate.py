"""Reduces become accumulators: a start value, loops, and an update at the end of each iteration."""

from __future__ import annotations

import itertools

from tinyref.algebra.semantics import reduce_identity
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, ReduceArg


def accumulate(root: UOp) -> UOp:
    """Replace every REDUCE(value, *ranges) of an indexed kernel by DEFINE_ACC and UPDATE_ACC.

    Accumulators are named acc0, acc1, ... in the order in which they are first needed. Raises
    `UserError` for a REDUCE that still names axes.
    """
    if all(node.op is not Ops.REDUCE for node in root.toposort()):
        return root
    numbers = itertools.count()

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if not isinstance(node.arg, ReduceArg):
            return None
        if node.arg.axes:
            raise UserError(f"REDUCE over axes {node.arg.axes}: lower the kernel first")
        return _accumulator(f"acc{next(numbers)}", node, node.arg.op, src)

    return rebuild(root, change)


def _is_zero(node: UOp) -> bool:
    return isinstance(node.arg, ConstArg) and node.arg.value == 0


def _accumulator(name: str, node: UOp, op: Ops, src: tuple[UOp, ...]) -> UOp:
    value, ranges = src[0], src[1:]
    start = build.const(node.dtype, reduce_identity(op, node.dtype))
    accumulator = build.accumulator(name, start, *ranges)
    if op is Ops.ADD and value.op is Ops.WMMA:
        chained = _chained_on(value, accumulator)
        if chained is not None:
            return build.update(accumulator, chained)
    # The new value is the second operand. MAX returns a NaN of either operand.
    if op is Ops.ADD and value.op is Ops.WHERE and _is_zero(value.src[2]):
        # A sum that starts at +0 is never -0, so a zero does not change it. Without the zero, a
        # masked product and its sum may be one operation.
        total = build.add(accumulator, value.src[1])
        return build.update(accumulator, build.where(value.src[0], total, accumulator))
    total = UOp(op, node.dtype, (accumulator, value))
    return build.update(accumulator, total)


def _chained_on(product: UOp, accumulator: UOp) -> UOp | None:
    """Add a chain of tile products to `accumulator`; return None if it does not begin at 0."""
    chain = [product]
    while chain[-1].src[2].op is Ops.WMMA:
        chain.append(chain[-1].src[2])
    if not _is_zero(chain[-1].src[2]):
        return None
    total = accumulator
    for tile in reversed(chain):
        total = tile.replace(src=(*tile.src[:2], total))
    return total
