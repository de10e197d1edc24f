"""Equations of bits, bools, comparisons and selections."""

from __future__ import annotations

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import BINARY, UNARY, Ops
from tinyref_fuzz.generate.equivalent.arithmetic import complement
from tinyref_fuzz.generate.equivalent.transformation import Domain, Draw, of_node

_UNSIGNED_OF = {
    dtypes.int8: dtypes.uint8,
    dtypes.int16: dtypes.uint16,
    dtypes.int32: dtypes.uint32,
    dtypes.int64: dtypes.uint64,
}
OTHER_SIGN: dict[DType, DType] = _UNSIGNED_OF | {
    unsigned: signed for signed, unsigned in _UNSIGNED_OF.items()
}


# --- bits ---------------------------------------------------------------------------------------


@of_node("de-morgan", Domain.BITS, Ops.AND, Ops.OR)
def de_morgan(node: UOp, draw: Draw) -> UOp | None:
    """x & y = ~(~x | ~y) and x | y = ~(~x & ~y)."""
    x, y = node.src
    dual = Ops.OR if node.op is Ops.AND else Ops.AND
    return complement(build.binary(dual, complement(x), complement(y)))


@of_node("xor-by-or", Domain.INTEGER, Ops.XOR)
def xor_by_or(node: UOp, draw: Draw) -> UOp | None:
    """x ^ y = (x | y) - (x & y)."""
    x, y = node.src
    return build.sub(build.either(x, y), build.both(x, y))


# --- comparisons --------------------------------------------------------------------------------


@of_node("unequal-by-order", Domain.EXACT, Ops.CMPNE)
def unequal_by_order(node: UOp, draw: Draw) -> UOp | None:
    """x != y = (x < y) | (y < x)."""
    x, y = node.src
    return build.either(UOp(Ops.CMPLT, node.dtype, (x, y)), UOp(Ops.CMPLT, node.dtype, (y, x)))


@of_node("less-by-max", Domain.EXACT, Ops.CMPLT)
def less_by_max(node: UOp, draw: Draw) -> UOp | None:
    """x < y = (max(x, y) != x)."""
    x, y = node.src
    return UOp(Ops.CMPNE, node.dtype, (build.maximum(x, y), x))


@of_node("less-by-other-sign", Domain.INTEGER, Ops.CMPLT)
def less_by_other_sign(node: UOp, draw: Draw) -> UOp | None:
    """x < y = (bits(x) ^ 2**(width - 1) < bits(y) ^ 2**(width - 1)) in the type of other sign."""
    other = OTHER_SIGN.get(node.src[0].dtype)
    if other is None or other not in draw.dtypes:
        return None
    highest = build.const(other, 1 << (other.bits - 1))
    moved = (build.binary(Ops.XOR, build.bitcast(side, other), highest) for side in node.src)
    return build.less(*moved)


# --- selections ---------------------------------------------------------------------------------


@of_node("select-lifted", Domain.EVERY, *sorted(UNARY | BINARY, key=lambda op: op.value))
def select_lifted(node: UOp, draw: Draw) -> UOp | None:
    """(a where c else b) + y = (a + y) where c else (b + y); so every op."""
    for at, source in enumerate(node.src):
        if source.op is Ops.WHERE:
            condition, *choices = source.src
            sides = (
                node.replace(src=(*node.src[:at], choice, *node.src[at + 1 :]))
                for choice in choices
            )
            return build.where(condition, *sides)
    return None


@of_node("select-by-mask", Domain.INTEGER, Ops.WHERE)
def select_by_mask(node: UOp, draw: Draw) -> UOp | None:
    """a where c else b = (a & -c) | (b & (c - 1))."""
    condition, x, y = node.src
    chosen = UOp(Ops.CAST, node.dtype, (condition,))
    return build.either(
        build.both(x, build.unary(Ops.NEG, chosen)), build.both(y, build.sub(chosen, 1))
    )
