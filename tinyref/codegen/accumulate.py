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
    """The indexed kernel `root` with every REDUCE(value, *ranges) as DEFINE_ACC and UPDATE_ACC.

    Accumulators are named acc0, acc1, ... in the order in which they are first needed. Raises
    `UserError` for a REDUCE that still names axes.
    """
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
        on_top = _on_top_of(value, accumulator)
        if on_top is not None:
            return build.update(accumulator, on_top)
    # The new value is the second operand: a MAX that keeps a NaN keeps it on either side.
    total = UOp(op, node.dtype, (accumulator, value))
    return build.update(accumulator, total)


def _on_top_of(product: UOp, accumulator: UOp) -> UOp | None:
    """Products of tiles, one on top of the other, with `accumulator` below; None if it is not 0."""
    chain = [product]
    while chain[-1].src[2].op is Ops.WMMA:
        chain.append(chain[-1].src[2])
    if not _is_zero(chain[-1].src[2]):
        return None
    total = accumulator
    for each in reversed(chain):
        total = each.replace(src=(*each.src[:2], total))
    return total
