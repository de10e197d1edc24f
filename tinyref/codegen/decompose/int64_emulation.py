"""Arithmetic of 64-bit integers as pairs of uint32: (low, high)."""

from __future__ import annotations

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.formats import exclusive_or, like, shift_left, shift_right
from tinyref.codegen.decompose.products import multiply_high
from tinyref.dtype import dtypes
from tinyref.uops.build import (
    add,
    binary,
    bitcast,
    both,
    cast,
    const,
    either,
    equal,
    less,
    mul,
    not_equal,
    sub,
    where,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

WORD = dtypes.uint32
_TURN = 2.0**32

# The low and the high word.
Words = tuple[UOp, UOp]


def constant(value: int, lanes: int) -> Words:
    """A Python integer modulo 2^64."""
    word = WORD.vec(lanes)
    return const(word, value & 0xFFFFFFFF), const(word, (value >> 32) & 0xFFFFFFFF)


def signed_high(x: Words) -> UOp:
    """The high word as int32: it has the sign."""
    return bitcast(x[1], dtypes.int32)


def ones_if_negative(x: Words) -> UOp:
    """A word of ones where `x` is below zero as a signed number, else of zeros."""
    return bitcast(shift_right(signed_high(x), 31), WORD)


def plus(x: Words, y: Words) -> Words:
    """x + y; a low word that is less than one of its summands has carried."""
    low = add(x[0], y[0])
    carry = cast(less(low, x[0]), WORD)
    return low, add(add(x[1], y[1]), carry)


def minus(x: Words, y: Words) -> Words:
    """x - y."""
    borrow = cast(less(x[0], y[0]), WORD)
    return sub(x[0], y[0]), sub(sub(x[1], y[1]), borrow)


def times(x: Words, y: Words, capabilities: Capabilities) -> Words:
    """x * y: of the four products of words, the highest is lost."""
    high = multiply_high(x[0], y[0], capabilities)
    return mul(x[0], y[0]), add(add(high, mul(x[0], y[1])), mul(x[1], y[0]))


def negated(x: Words) -> Words:
    """-x."""
    return minus(constant(0, x[0].dtype.lanes), x)


def choose(condition: UOp, x: Words, y: Words) -> Words:
    """`x` where `condition` holds, else `y`."""
    return where(condition, x[0], y[0]), where(condition, x[1], y[1])


def is_less(x: Words, y: Words, is_signed: bool) -> UOp:
    """x < y: the high words decide, unless they are equal."""
    high = (signed_high(x), signed_high(y)) if is_signed else (x[1], y[1])
    return either(less(*high), both(equal(x[1], y[1]), less(x[0], y[0])))


def differ(x: Words, y: Words) -> UOp:
    """x != y."""
    return either(not_equal(x[0], y[0]), not_equal(x[1], y[1]))


def is_zero(x: Words) -> UOp:
    """x == 0."""
    return equal(either(x[0], x[1]), 0)


def shifted_left(x: Words, count: UOp | int) -> Words:
    """x << count for a word from 0 to 63."""
    low, high = x
    if isinstance(count, int):
        if count >= 32:
            return like(low, 0), shift_left(low, count - 32)
        if count == 0:
            return x
        return shift_left(low, count), either(shift_left(high, count), shift_right(low, 32 - count))
    near, back, is_far = _count_parts(count)
    moved = shift_left(low, near)
    # Two shifts make the whole width where the count is 0.
    joined = either(shift_left(high, near), shift_right(shift_right(low, 1), back))
    return where(is_far, 0, moved), where(is_far, moved, joined)


def shifted_right(x: Words, count: UOp | int, is_signed: bool) -> Words:
    """x >> count for a word from 0 to 63: arithmetic where signed."""
    low, high = x
    fill = ones_if_negative(x) if is_signed else like(low, 0)
    if isinstance(count, int):
        if count >= 32:
            return _high_shifted(high, count - 32, is_signed), fill
        if count == 0:
            return x
        joined = either(shift_right(low, count), shift_left(high, 32 - count))
        return joined, _high_shifted(high, count, is_signed)
    near, back, is_far = _count_parts(count)
    moved = _high_shifted(high, near, is_signed)
    joined = either(shift_right(low, near), shift_left(shift_left(high, 1), back))
    return where(is_far, moved, joined), where(is_far, fill, moved)


def _count_parts(count: UOp) -> tuple[UOp, UOp, UOp]:
    """The shift within a word, what it lacks to 31, and whether it goes beyond a word."""
    near = both(count, 31)
    return near, exclusive_or(near, 31), not_equal(both(count, 32), 0)


def _high_shifted(high: UOp, count: UOp | int, is_signed: bool) -> UOp:
    if not is_signed:
        return shift_right(high, count)
    return bitcast(shift_right(bitcast(high, dtypes.int32), count), WORD)


# Conversions


def from_integer(x: UOp) -> Words:
    """A bool or an integer of at most 32 bits."""
    if x.dtype.is_bool or x.dtype.is_unsigned:
        low = cast(x, WORD)
        return low, like(low, 0)
    wide = cast(x, dtypes.int32)
    return bitcast(wide, WORD), bitcast(shift_right(wide, 31), WORD)


def from_float(x: UOp) -> Words:
    """A float32 or float64 truncated; what is out of range gives any value."""
    negative = less(x, 0.0)
    size = where(negative, mul(x, -1.0), x)
    words = _from_size(size)
    return choose(negative, negated(words), words)


def _from_size(size: UOp) -> Words:
    """A float that is not negative: both parts are exact."""
    high = cast(mul(size, 1 / _TURN), WORD)
    rest = sub(size, mul(cast(high, size.dtype.scalar), _TURN))
    return cast(rest, WORD), high


def to_double(x: Words, is_signed: bool) -> UOp:
    """float64, rounded once: each word is exact."""
    high = signed_high(x) if is_signed else x[1]
    upper = mul(cast(high, dtypes.float64), _TURN)
    return add(upper, cast(x[0], dtypes.float64))


def to_single(x: Words, is_signed: bool, is_odd: bool = False) -> UOp:
    """float32, rounded to nearest even; `is_odd` rounds to odd, for a float that rounds again.

    The highest 32 bits, with what is lost in the last of them, round as the whole does.
    """
    negative = less(signed_high(x), 0) if is_signed else None
    size = x if negative is None else choose(negative, negated(x), x)
    low, high = size
    # Without every bit that has a higher neighbour, a conversion cannot round up to the next
    # power of two: its exponent is the place of the highest bit.
    sparse = cast(both(high, exclusive_or(shift_right(high, 1), 0xFFFFFFFF)), dtypes.float32)
    place = sub(shift_right(bitcast(sparse, WORD), 23), 127)
    is_wide = not_equal(high, 0)
    count = where(is_wide, sub(31, place), 0)
    moved_low, moved_high = shifted_left(size, both(count, 31))
    lost = cast(not_equal(moved_low, 0), WORD)
    digits = where(is_wide, either(moved_high, lost), low)
    if is_odd:
        few = either(shift_right(digits, 8), cast(not_equal(both(digits, 0xFF), 0), WORD))
        digits = where(less(digits, 1 << 24), digits, shift_left(few, 8))
    # 2^(32 - count), or 1: an exponent field and nothing else.
    field = where(is_wide, sub(127 + 32, count), 127)
    value = mul(cast(digits, dtypes.float32), bitcast(shift_left(field, 23), dtypes.float32))
    return value if negative is None else where(negative, mul(value, -1.0), value)


def to_int32_or_end(x: Words) -> UOp:
    """A signed `x` as int32: beyond its range the end that is nearer."""
    low = bitcast(x[0], dtypes.int32)
    ones = ones_if_negative(x)
    fits = equal(bitcast(shift_right(low, 31), WORD), x[1])
    return where(fits, low, bitcast(exclusive_or(ones, 0x7FFFFFFF), dtypes.int32))


# Division

# How much a quotient of floats is made smaller, so that no rounding on the way makes it too large.
_MODESTY = 1 - 2.0**-20


def divided(x: Words, y: Words, is_signed: bool, capabilities: Capabilities) -> tuple[Words, Words]:
    """(quotient, remainder) towards zero; by zero both are 0."""
    by_zero = is_zero(y)
    divisor = (where(by_zero, 1, y[0]), y[1])
    if not is_signed:
        quotient, remainder = _unsigned_divided(x, divisor, capabilities)
    else:
        x_negative, y_negative = (less(signed_high(side), 0) for side in (x, divisor))
        quotient, remainder = _unsigned_divided(
            choose(x_negative, negated(x), x),
            choose(y_negative, negated(divisor), divisor),
            capabilities,
        )
        is_negative = binary(Ops.XOR, x_negative, y_negative)
        quotient = choose(is_negative, negated(quotient), quotient)
        remainder = choose(x_negative, negated(remainder), remainder)
    nothing = constant(0, x[0].dtype.lanes)
    return choose(by_zero, nothing, quotient), remainder


def _unsigned_divided(x: Words, y: Words, capabilities: Capabilities) -> tuple[Words, Words]:
    """Long division by digits of about 19 bits: quotients of floats that are never too large.

    After four digits less than two divisors are left.
    """
    inverse = UOp(Ops.FDIV, dtypes.float32.vec(x[0].dtype.lanes), (_one(x), _rough(y)))
    inverse = mul(inverse, _MODESTY)
    quotient = constant(0, x[0].dtype.lanes)
    rest = x
    for _ in range(4):
        digit = _from_size(mul(_rough(rest), inverse))
        quotient = plus(quotient, digit)
        rest = minus(rest, times(digit, y, capabilities))
    is_left = binary(Ops.CMPNE, is_less(rest, y, False), True)
    one = constant(1, x[0].dtype.lanes)
    quotient = choose(is_left, plus(quotient, one), quotient)
    return quotient, choose(is_left, minus(rest, y), rest)


def _one(x: Words) -> UOp:
    return const(dtypes.float32.vec(x[0].dtype.lanes), 1.0)


def _rough(x: Words) -> UOp:
    """`x` as a float32 that is off by at most 2^-23 of it."""
    return add(mul(cast(x[1], dtypes.float32), _TURN), cast(x[0], dtypes.float32))
