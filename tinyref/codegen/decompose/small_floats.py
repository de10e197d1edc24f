"""float16, bfloat16 and fp8 on devices that lack them: integers in memory, float32 arithmetic.

A small float is stored as its bits, in an unsigned integer of its size. Copies, selects and
bitcasts move bits. An arithmetic op widens its operands to float32, which is exact, computes, and
rounds back to nearest even. For +, *, / and sqrt this is the correctly rounded result, also for
subnormals: float32 has more than twice the significant bits plus two (Figueroa, "When is double
rounding innocuous?", 1995).
"""

from __future__ import annotations

import math

from tinyref.algebra.bounds import bounds
from tinyref.arrays import np
from tinyref.codegen.decompose.formats import exclusive_or, round_off, shift_left, shift_right
from tinyref.dtype import ConstType, DType, PtrDType, as_const, dtypes, numpy_dtype, pointer
from tinyref.errors import UserError
from tinyref.uops.build import (
    add,
    bitcast,
    both,
    cast,
    const,
    either,
    less,
    mul,
    not_equal,
    where,
)
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import scalar_of, storage_dtype

WIDE = dtypes.float32
WORD = dtypes.uint32
_WIDE_BIAS = 127
_WIDE_INFINITY = 0x7F800000


def emulate_small_floats(root: UOp, emulated: frozenset[DType]) -> UOp:
    """Replace the scalar types in `emulated` by the integers of `storage_dtype`.

    Reduces are accumulators by now, so every step of a sum rounds. Raises `UserError` for a REDUCE
    of an emulated type, and for any other op that is not emulated.
    """

    def transform(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        touched = (node, *node.src)
        if not any(scalar_of(touching.dtype) in emulated for touching in touched):
            return None
        replacement = _of_node(node, src, emulated)
        if replacement is None:
            raise UserError(f"{node.op.name} of {node.dtype.name}: this type is only emulated here")
        return replacement

    return rebuild(root, transform)


# Conversions


def widen(bits: UOp, source: DType) -> UOp:
    """Return the float32 value of `bits`, which are a `source`; always exact."""
    word = cast(bits, WORD)
    if source.exponent_bits == WIDE.exponent_bits:
        return bitcast(shift_left(word, WIDE.mantissa_bits - source.mantissa_bits), WIDE)
    sign = shift_left(both(word, 1 << (source.bits - 1)), 32 - source.bits)
    magnitude = both(word, (1 << (source.bits - 1)) - 1)
    rebias = (_WIDE_BIAS - _bias(source)) << WIDE.mantissa_bits
    normal = add(shift_left(magnitude, WIDE.mantissa_bits - source.mantissa_bits), rebias)
    smallest = 2.0 ** (1 - _bias(source) - source.mantissa_bits)
    subnormal = bitcast(mul(cast(magnitude, WIDE), smallest), WORD)
    result = where(less(magnitude, 1 << source.mantissa_bits), subnormal, normal)
    special = add(normal, rebias)
    if source is dtypes.fp8e4m3:
        # This type has no infinity; the bits of its only NaN are ones.
        special = const(normal.dtype, _bits(math.nan, WIDE))
    result = where(less(magnitude, _first_special(source)), result, special)
    return bitcast(either(result, sign), WIDE)


def narrow(value: UOp, target: DType) -> UOp:
    """Return the bits of the float32 `value` rounded once, to nearest even, to the small `target`.

    Too large a value becomes infinity, or NaN in fp8e4m3, which has no infinity. NaNs stay NaNs.
    """
    word = bitcast(value, WORD)
    sign = both(shift_right(word, 32 - target.bits), 1 << (target.bits - 1))
    magnitude = both(word, 0x7FFFFFFF)
    drop = WIDE.mantissa_bits - target.mantissa_bits
    if target.exponent_bits == WIDE.exponent_bits:
        rounded = round_off(magnitude, const(word.dtype, drop))
    else:
        rounded = _narrow_range(magnitude, target, drop)
    nan = _bits(math.nan, target)
    result = where(less(const(word.dtype, _WIDE_INFINITY), magnitude), nan, rounded)
    return cast(either(result, sign), storage_dtype(target))


def _narrow_range(magnitude: UOp, target: DType, drop: int) -> UOp:
    """Narrow a magnitude to a target with fewer exponent bits: it may overflow or be subnormal."""
    rebias = _WIDE_BIAS - _bias(target)
    word = magnitude.dtype
    normal = round_off(
        add(magnitude, -(rebias << WIDE.mantissa_bits)),
        const(word, drop),
    )
    beyond = _first_special(target)
    normal = where(less(normal, beyond), normal, beyond)
    exponent = shift_right(magnitude, WIDE.mantissa_bits)
    significand = either(both(magnitude, (1 << WIDE.mantissa_bits) - 1), 1 << WIDE.mantissa_bits)
    # A subnormal loses one more bit for each step of the exponent below the smallest normal one.
    # Beyond `most` only zero remains. Counts that do not occur are tested too.
    most = WIDE.mantissa_bits + 2
    lost = add(mul(exponent, -1), rebias + 1 + drop)
    lost = where(less(add(lost, -1), most), lost, most)
    subnormal = round_off(significand, lost)
    is_subnormal = less(magnitude, (rebias + 1) << WIDE.mantissa_bits)
    return where(is_subnormal, subnormal, normal)


def _wide_from_double(value: UOp) -> UOp:
    """Return a float64 as a float32 rounded to odd: narrowing it again is like one rounding.

    Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
    """
    nearest = cast(value, WIDE)
    back = cast(nearest, dtypes.float64)
    zero = const(value.dtype, 0.0)
    positive = less(zero, value)
    too_far = either(both(positive, less(value, back)), both(less(value, zero), less(back, value)))
    bits = bitcast(nearest, WORD)
    toward_zero = where(too_far, add(bits, -1), bits)
    # An infinity equals its float32; a NaN differs from everything, itself included.
    is_inexact = both(not_equal(value, back), not_equal(not_equal(value, value), True))
    return bitcast(where(is_inexact, either(toward_zero, 1), bits), WIDE)


# Beyond 2^24 not every integer is a float32. Up to 2^39, up to 2^54 and beyond, low bits are
# dropped until 10 to 24 bits are left.
_INTEGER_STEPS = (24, 39, 54)
_DROPPED_BELOW = 9


def _wide_from_integer(value: UOp, target: DType) -> UOp:
    """Return an integer as a float32 that narrows to `target` as the integer itself would."""
    dtype = value.dtype
    if target.exponent_bits < WIDE.exponent_bits:
        # The target is infinite long before 2^24, and up to 2^24 every integer is a float32.
        return cast(value, WIDE)
    result = value
    least, most = bounds(value)
    largest = max(-least, most)
    for bits in _INTEGER_STEPS:
        threshold = 1 << bits
        if largest <= threshold:
            break
        # The last of ten bits represents all lower bits: bfloat16 has eight, and one rounds.
        last = threshold >> _DROPPED_BELOW
        sticky = where(not_equal(both(value, last - 1), 0), const(dtype, last), 0)
        odd = either(both(value, -last), sticky)
        is_large = less(const(dtype, threshold), value)
        if not dtype.is_unsigned:
            is_large = either(is_large, less(value, -threshold))
        result = where(is_large, odd, result)
    return cast(result, WIDE)


def _bias(dtype: DType) -> int:
    return (1 << (dtype.exponent_bits - 1)) - 1


def _first_special(dtype: DType) -> int:
    """Return the lowest bits of a magnitude that is not finite: infinity, or the NaN of fp8e4m3."""
    if dtype is dtypes.fp8e4m3:
        return 0x7F
    return ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits


def _bits(value: ConstType, dtype: DType) -> int:
    """Return the bits of a constant as an unsigned integer; a NaN is the positive quiet one."""
    if isinstance(value, float) and math.isnan(value):
        quiet = 1 << (dtype.mantissa_bits - 1)
        return 0x7F if dtype is dtypes.fp8e4m3 else _first_special(dtype) | quiet
    array = np.array(as_const(value, dtype), np.float64).astype(numpy_dtype(dtype))
    return int(array.view(f"u{dtype.itemsize}"))


# The replacement of each node


def _of_node(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp | None:
    """Return the node on bits, or in float32 and rounded back; None for an op without an arm."""
    scalar = node.dtype.scalar
    match node.op:
        case Ops.CONST if isinstance(node.arg, ConstArg):
            return const(storage_dtype(node.dtype), _bits(node.arg.value, scalar))
        case Ops.DEFINE_GLOBAL | Ops.DEFINE_LOCAL if isinstance(node.dtype, PtrDType):
            memory = pointer(storage_dtype(node.dtype.base), node.dtype.size, node.dtype.space)
            return UOp(node.op, memory, src, node.arg)
        case Ops.INDEX | Ops.AFTER:
            return UOp(node.op, src[0].dtype, src, node.arg)
        case Ops.BARRIER | Ops.STORE:
            return node.replace(src=src)
        case Ops.LOAD | Ops.WHERE | Ops.VECTORIZE | Ops.GEP | Ops.DEFINE_ACC | Ops.UPDATE_ACC:
            # These choose, copy or store values, so they are the same on bits.
            return UOp(node.op, storage_dtype(node.dtype), src, node.arg)
        case Ops.CMPLT | Ops.CMPNE:
            return UOp(node.op, node.dtype, _all_wide(node, src, emulated))
        case Ops.NEG:
            return exclusive_or(src[0], 1 << (scalar.bits - 1))
        case Ops.MAX:
            left, right = (widen(x, scalar) for x in src)
            return where(less(left, right), src[1], src[0])
        case Ops.MULACC:
            # x * y + z, rounded to the small type after each of the two.
            x, y, z = (widen(source, scalar) for source in src)
            return narrow(add(widen(narrow(mul(x, y), scalar), scalar), z), scalar)
        case Ops.BITCAST:
            return bitcast(src[0], storage_dtype(scalar) if scalar in emulated else scalar)
        case Ops.CAST:
            return _cast(node, src, emulated)
    if node.op not in ALU:
        return None
    wide = UOp(node.op, WIDE.vec(node.dtype.lanes), _all_wide(node, src, emulated), node.arg)
    return narrow(wide, scalar)


def _all_wide(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> tuple[UOp, ...]:
    """Return the new sources `src` of a node, as float32 if their type is emulated."""
    return tuple(
        widen(x, old.dtype.scalar) if old.dtype.scalar in emulated else x
        for x, old in zip(src, node.src, strict=True)
    )


def _cast(node: UOp, src: tuple[UOp, ...], emulated: frozenset[DType]) -> UOp:
    have, want = node.src[0].dtype.scalar, node.dtype.scalar
    value = src[0]
    if have is want:
        return value
    if have in emulated:
        value, have = widen(value, have), WIDE
    if want not in emulated:
        return cast(value, want)
    if have is dtypes.float64:
        value = _wide_from_double(value)
    elif have.is_int:
        value = _wide_from_integer(value, want)
    elif have.is_bool:
        return where(value, const(storage_dtype(node.dtype), _bits(1.0, want)), 0)
    return narrow(cast(value, WIDE), want)
