"""Equations that compute in another type and come back."""

from __future__ import annotations

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.equivalent.logic import OTHER_SIGN
from tinyref_fuzz.generate.equivalent.transformation import Domain, Draw, of_node

# What the low bits of these are, the low bits of the operands decide.
MODULAR = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.AND, Ops.OR, Ops.XOR)


def holds_all_of(wide: DType, narrow: DType) -> bool:
    """Whether `wide` is another type that has every value of `narrow`."""
    if wide is narrow or wide is dtypes.index:
        return False
    if narrow.is_bool:
        return True
    if wide.is_bool or (narrow.is_float and not wide.is_float):
        return False
    if wide.is_float:
        fits = _digits(wide) >= _digits(narrow)
        if not narrow.is_float:
            # The smallest integer is a power of two, and the largest lies below the next one.
            return fits and 2 ** (wide.exponent_bits - 1) > narrow.bits
        return fits and wide.exponent_bits >= narrow.exponent_bits
    return int(wide.minimum) <= int(narrow.minimum) and int(wide.maximum) >= int(narrow.maximum)


def _digits(dtype: DType) -> int:
    if dtype.is_float:
        return dtype.mantissa_bits + 1
    return dtype.bits if dtype.is_unsigned else dtype.bits - 1


def _pick(draw: Draw, candidates: list[DType]) -> DType | None:
    ordered = sorted(candidates, key=lambda dtype: dtype.name)
    return draw.tape.pick(ordered) if ordered else None


@of_node("cast-and-back", Domain.EVERY)
def cast_and_back(node: UOp, draw: Draw) -> UOp | None:
    """x = cast(cast(x)) through a type with all its values."""
    computing = [dtype for dtype in draw.dtypes if dtype not in dtypes.fp8s]
    wide = _pick(draw, [dtype for dtype in computing if holds_all_of(dtype, node.dtype)])
    return None if wide is None else build.cast(build.cast(node, wide), node.dtype)


@of_node("bool-by-number", Domain.BOOL)
def bool_by_number(node: UOp, draw: Draw) -> UOp | None:
    """x = (cast(x) != 0)."""
    number = _pick(draw, [dtype for dtype in draw.dtypes if dtype.is_int])
    return None if number is None else build.not_equal(build.cast(node, number), 0)


@of_node("compute-wider", Domain.INTEGER, *MODULAR)
def compute_wider(node: UOp, draw: Draw) -> UOp | None:
    """x + y = narrow(wide(x) + wide(y)); so -, *, &, |, ^."""
    wider = [dtype for dtype in draw.dtypes if dtype.is_int and dtype.bits > node.dtype.bits]
    wide = _pick(draw, wider)
    if wide is None:
        return None
    sources = tuple(build.cast(source, wide) for source in node.src)
    return build.cast(UOp(node.op, wide, sources), node.dtype)


@of_node("compute-other-sign", Domain.INTEGER, *MODULAR)
def compute_other_sign(node: UOp, draw: Draw) -> UOp | None:
    """x + y = bits(bits(x) + bits(y)) in the type of other sign; so -, *, &, |, ^."""
    other = OTHER_SIGN.get(node.dtype)
    if other is None or other not in draw.dtypes:
        return None
    sources = tuple(build.bitcast(source, other) for source in node.src)
    return build.bitcast(UOp(node.op, other, sources), node.dtype)
