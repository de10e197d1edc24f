"""IDIV and MOD: by constants as products if a division is slow, and guarded if one traps.

Let m be 2^(w + s) / d, rounded up. The quotient by d is the high word of the product with m,
shifted right by s. Granlund and Montgomery, "Division by invariant integers using multiplication",
1994, and Warren, "Hacker's Delight", chapter 10, say when this is exact for every dividend.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.algebra.bounds import bounds
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.formats import exclusive_or, like, multiply_high, shift_right
from tinyref.dtype import DType, Kind, dtypes
from tinyref.uops.build import (
    add,
    binary,
    bitcast,
    both,
    cast,
    const,
    either,
    equal,
    mul,
    not_equal,
    sub,
    where,
)
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg

UNSIGNED: dict[DType, DType] = {
    dtypes.int8: dtypes.uint8,
    dtypes.int16: dtypes.uint16,
    dtypes.int32: dtypes.uint32,
    dtypes.int64: dtypes.uint64,
}


@dataclass(frozen=True)
class Multiplier:
    """A factor with x / d == (x * factor) >> (width + shift) for every x below 2^precision.

    The factor may have width + 1 bits.
    """

    factor: int
    shift: int


def multiplier(divisor: int, width: int, precision: int) -> Multiplier:
    """Return the smallest multiplier for a `divisor` of at least 2.

    Source: Granlund and Montgomery, figure 6.2. Any factor between `low` and `high` is exact. Both
    may lose low bits as long as they differ.
    """
    shift = (divisor - 1).bit_length()
    low = (1 << (width + shift)) // divisor
    high = ((1 << (width + shift)) + (1 << (width + shift - precision))) // divisor
    while low >> 1 < high >> 1 and shift > 0:
        low >>= 1
        high >>= 1
        shift -= 1
    return Multiplier(high, shift)


def divide_by_constants(root: UOp, capabilities: Capabilities) -> UOp:
    """Replace divisions of integers by constants by products, shifts and sums.

    Divisions of `index` values stay, because their type is not chosen yet. Divisions by 0 stay,
    and divisions whose unsigned type the device lacks.
    """

    def transform(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if node.op is Ops.CAST and node.dtype.scalar is dtypes.index:
            return _position(node.src[0], src[0], capabilities)
        if node.op not in (Ops.IDIV, Ops.MOD) or node.dtype.scalar is dtypes.index:
            return None
        divisor = src[1].arg
        if not isinstance(divisor, ConstArg):
            return None
        word = UNSIGNED.get(node.dtype.scalar, node.dtype.scalar)
        value = int(divisor.value)
        if value == 0 or word not in capabilities.dtypes:
            return None
        quotient = _quotient(src[0], value, capabilities)
        if node.op is Ops.IDIV:
            return quotient
        return like(src[0], 0) if abs(value) == 1 else _remainder(src[0], value, quotient)

    return rebuild(root, transform)


def _position(before: UOp, value: UOp, capabilities: Capabilities) -> UOp | None:
    """Return `value`, the replacement of `before`, as an index of a type that holds its range.

    The ranges of the products and sums of a division may be the whole range of their type.
    """
    low, high = bounds(before)
    for dtype in (dtypes.int32, dtypes.int64):
        if dtype in capabilities.dtypes and dtype.minimum <= low and high <= dtype.maximum:
            if bounds(value) == (low, high):
                return None
            held = cast(value, dtype)
            # Otherwise sums with it would need 64 bits, which a device may lack.
            held = both(held, (1 << high.bit_length()) - 1) if low >= 0 else held
            return cast(held, dtypes.index)
    return None


def _remainder(x: UOp, divisor: int, quotient: UOp) -> UOp:
    """Return x - quotient * divisor; the low bits of an unsigned `x` for a power of two."""
    if x.dtype.is_unsigned and divisor & (divisor - 1) == 0:
        return both(x, divisor - 1)
    return sub(x, mul(quotient, divisor))


def _quotient(x: UOp, divisor: int, capabilities: Capabilities) -> UOp:
    """Return x / divisor towards zero. MIN / -1 is MIN."""
    if x.dtype.kind is not Kind.SIGNED:
        return unsigned_quotient(x, divisor, bounds(x)[1], capabilities)
    if abs(divisor) == 1:
        return x if divisor == 1 else mul(x, -1)
    quotient = _signed_quotient(x, abs(divisor), capabilities)
    return quotient if divisor > 0 else mul(quotient, -1)


def unsigned_quotient(x: UOp, divisor: int, largest: int, capabilities: Capabilities) -> UOp:
    """Return x / divisor for an unsigned `x` of at most `largest` and a divisor of at least 1."""
    if divisor & (divisor - 1) == 0:
        return shift_right(x, divisor.bit_length() - 1)
    width = x.dtype.bits
    reciprocal = multiplier(divisor, width, max(largest.bit_length(), 1))
    beyond = 1 << width
    if reciprocal.factor < beyond:
        high = multiply_high(x, like(x, reciprocal.factor), capabilities)
        return shift_right(high, reciprocal.shift)
    if divisor % 2 == 0:
        # A shorter dividend never needs a factor of width + 1 bits.
        twos = (divisor & -divisor).bit_length() - 1
        half = shift_right(x, twos)
        return unsigned_quotient(half, divisor >> twos, largest >> twos, capabilities)
    high = multiply_high(x, like(x, reciprocal.factor - beyond), capabilities)
    # (x + high) >> shift, without the carry that the sum may have.
    return shift_right(add(shift_right(sub(x, high), 1), high), reciprocal.shift - 1)


def _signed_quotient(x: UOp, size: int, capabilities: Capabilities) -> UOp:
    """Return x / size towards zero for a positive `size`."""
    dtype = x.dtype.scalar
    word = UNSIGNED[dtype]
    low, high = bounds(x)
    if low >= 0:
        return bitcast(unsigned_quotient(bitcast(x, word), size, high, capabilities), dtype)
    if size & (size - 1) == 0:
        return _shifted_quotient(x, size.bit_length() - 1)
    # The magnitude of MIN fits the unsigned type.
    sign = shift_right(x, dtype.bits - 1)
    magnitude = bitcast(sub(exclusive_or(x, sign), sign), word)
    largest = max(-low, high)
    quotient = bitcast(unsigned_quotient(magnitude, size, largest, capabilities), dtype)
    return sub(exclusive_or(quotient, sign), sign)


def _shifted_quotient(x: UOp, count: int) -> UOp:
    """Return x / 2^count towards zero: a shift rounds down, so 2^count - 1 is added if x < 0."""
    more = both(shift_right(x, x.dtype.bits - 1), (1 << count) - 1)
    return shift_right(add(x, more), count)


def guard_divisions(root: UOp) -> UOp:
    """Replace the divisor by 1 where a division may trap according to the value ranges.

    The results follow the op table: x / 0 and x mod 0 are 0, MIN / -1 is MIN, MIN mod -1 is 0.
    """
    if not any(node.op in (Ops.IDIV, Ops.MOD) for node in root.toposort()):
        return root
    return rebuild(root, _guard)


def _guard(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
    if node.op not in (Ops.IDIV, Ops.MOD):
        return None
    dividend, divisor = src
    low, high = bounds(divisor)
    may_be_zero = low <= 0 <= high
    may_overflow = (
        node.dtype.kind is Kind.SIGNED
        and low <= -1 <= high
        and bounds(dividend)[0] == node.dtype.minimum
    )
    if not may_be_zero and not may_overflow:
        return None
    traps = equal(divisor, 0) if may_be_zero else None
    if may_overflow:
        overflow = both(equal(divisor, -1), equal(dividend, const(node.dtype, node.dtype.minimum)))
        traps = overflow if traps is None else either(traps, overflow)
    if traps is None:
        return None
    result = binary(node.op, dividend, where(traps, 1, divisor))
    if node.op is Ops.IDIV and may_be_zero:
        return where(not_equal(divisor, 0), result, 0)
    return result
