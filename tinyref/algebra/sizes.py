"""What + - * // and % of sizes compute, what a division asks of variables, and how sizes read."""

from __future__ import annotations

from tinyref.algebra.constraints import divisions, require
from tinyref.algebra.symbolic import (
    Extent,
    Undecided,
    as_node,
    as_size,
    describe,
    lift,
    lower,
    lowest,
    normalise,
    split,
)
from tinyref.dtype import dtypes
from tinyref.uops.node import UOp, sint, use_algebra
from tinyref.uops.ops import ALU, Ops


def arithmetic(sign: str, left: object, right: object) -> sint:
    """`left sign right` of sizes, for one of + - * // %; the last two round down.

    Raises `UserError` for what is no size, and for a division by what is below 1, or of what is
    negative, except where it leaves no remainder: with the values bound now, or for some value.
    """
    first, second = (lift(as_size(operand, f"size {sign}")) for operand in (left, right))
    if sign == "+":
        return lower(first + second)
    if sign == "-":
        return lower(first - second)
    if sign == "*":
        return lower(first * second)
    return _divide_if_possible(sign, first, second)


def _divide_if_possible(sign: str, first: Extent, second: Extent) -> sint:
    """A division, also one that is only possible for the values that variables are bound to."""
    try:
        if lowest(second) >= 1:
            quotient, rest = split(first, second)
            return lower(quotient if sign == "//" else rest)
    except Undecided:
        pass
    sources = (as_node(lower(first)), as_node(lower(second)))
    found = UOp(Ops.IDIV if sign == "//" else Ops.MOD, dtypes.index, sources)
    require(divisions([found], "size"))
    return normalise(found)


_OPS_OF_SIZES = ALU | {Ops.CONST, Ops.DEFINE_VAR, Ops.BIND}


def size_text(node: UOp) -> str | None:
    """Return the text of a size over symbolic variables, such as `n=3`; None for another node."""
    if node.dtype is not dtypes.index:
        return None
    ops = {part.op for part in node.toposort()}
    return describe(node) if Ops.DEFINE_VAR in ops and ops <= _OPS_OF_SIZES else None


use_algebra(arithmetic, size_text)
