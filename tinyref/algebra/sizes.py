"""What + - * // and % of sizes compute, and what a division asks of the variables."""

from __future__ import annotations

from tinyref.algebra.constraints import divisions, require
from tinyref.algebra.symbolic import (
    Extent,
    Undecided,
    as_node,
    as_size,
    lift,
    lower,
    lowest,
    normalise,
    split,
)
from tinyref.dtype import dtypes
from tinyref.uops.node import UOp, sint, use_arithmetic
from tinyref.uops.ops import Ops


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


use_arithmetic(arithmetic)
