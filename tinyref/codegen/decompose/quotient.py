"""FDIV, RECIP and SQRT, correctly rounded, of basic operations.

Newton's iteration gives a quotient or a root that is wrong by a few units of its last place. The
remainder that it leaves is small, so integers that wrap hold it exactly, and it says by how much to
correct: the digits after that are those of long division. The rounding is then one of integers,
also where the result is subnormal. Source of the plan: Markstein, "IA-64 and Elementary Functions",
2000, chapters 8 and 9, with wrapping products in the place of the fused multiply-add.
"""

from __future__ import annotations

from tinyref.codegen.decompose.formats import (
    FLOAT32,
    FLOAT64,
    Format,
    exclusive_or,
    like,
    magnitude,
    round_off,
    shift_left,
    shift_right,
)
from tinyref.uops.build import (
    add,
    bitcast,
    both,
    cast,
    either,
    less,
    mul,
    not_equal,
    sub,
    where,
)
from tinyref.uops.node import UOp

# The quotient has so many bits more than the significand, or one more than that: with what is lost
# folded into the last one, they round as the infinite quotient does.
_SPARE = 2


def divide(x: UOp, y: UOp, form: Format) -> UOp:
    """x / y rounded to nearest even, with the special cases of IEEE 754."""
    x_size, y_size = magnitude(x, form), magnitude(y, form)
    x_exponent, x_digits = _parts(x_size, form)
    y_exponent, y_digits = _parts(y_size, form)
    quotient = _long_quotient(x_digits, y_digits, form)
    one_more = cast(
        less(like(quotient, (2 << (form.fraction_bits + _SPARE)) - 1), quotient), form.signed
    )
    field = add(add(sub(x_exponent, y_exponent), form.bias - 1), one_more)
    bits = _round_quotient(quotient, field, add(one_more, _SPARE), form)
    sign = both(exclusive_or(bitcast(x, form.word), bitcast(y, form.word)), form.sign_bit)
    # Where a side is zero, infinite or NaN, the order of the two says what the result is.
    infinite = where(less(y_size, x_size), like(x, float("inf")), float("nan"))
    special = where(less(x_size, y_size), 0.0, infinite)
    is_usual = both(_is_usual(x_size), _is_usual(y_size))
    unsigned = where(is_usual, bits, bitcast(special, form.word))
    return bitcast(either(unsigned, sign), form.dtype)


def _is_usual(size: UOp) -> UOp:
    """Neither zero nor infinite nor NaN."""
    return both(less(like(size, 0.0), size), less(size, float("inf")))


def _normalise(size: UOp, form: Format) -> tuple[UOp, UOp]:
    """(is subnormal, bits of the number or of what makes it normal)."""
    is_subnormal = less(size, form.smallest_normal)
    scaled = where(is_subnormal, mul(size, 2.0**form.subnormal_scale), size)
    return is_subnormal, bitcast(scaled, form.word)


def _parts(size: UOp, form: Format) -> tuple[UOp, UOp]:
    """The exponent field, as if there were no subnormals, and the whole significand."""
    is_subnormal, bits = _normalise(size, form)
    field = bitcast(shift_right(bits, form.fraction_bits), form.signed)
    field = where(is_subnormal, add(field, -form.subnormal_scale), field)
    return field, either(both(bits, form.implicit_one - 1), form.implicit_one)


def _unit(digits: UOp, form: Format) -> UOp:
    """The float from 1 to 2 that has the given significand."""
    return bitcast(add(digits, (form.bias - 1) << form.fraction_bits), form.dtype)


def _inverse(y: UOp, form: Format) -> UOp:
    """1 / y to a few ULPs for a `y` from 1 to 2, where 24/17 - 8/17 y is within a 17th."""
    inverse = sub(24.0 / 17.0, mul(y, 8.0 / 17.0))
    for _ in range(3 if form is FLOAT32 else 4):
        inverse = mul(inverse, sub(2.0, mul(y, inverse)))
    return inverse


def _long_quotient(x: UOp, y: UOp, form: Format) -> UOp:
    """floor(x * 2^(f + 1 + spare) / y) for significands, with a last bit of 1 if that is inexact.

    It has f + 1 + spare bits, or one more.
    """
    count = form.fraction_bits + 1 + _SPARE
    y_unit = _unit(y, form)
    inverse = _inverse(y_unit, form)
    estimate = mul(mul(_unit(x, form), inverse), 2.0**count)
    quotient = bitcast(cast(estimate, form.signed), form.word)
    remainder = bitcast(sub(shift_left(x, count), mul(quotient, y)), form.signed)
    # The estimate is off by less than 2^6 units, so that the remainder fits a word.
    per_unit = mul(inverse, 2.0**-form.fraction_bits)
    units = bitcast(cast(mul(cast(remainder, form.dtype), per_unit), form.signed), form.word)
    quotient = add(quotient, units)
    remainder = sub(remainder, bitcast(mul(units, y), form.signed))
    divisor = bitcast(y, form.signed)
    is_low = less(sub(divisor, 1), remainder)
    is_high = less(remainder, 0)
    quotient = where(is_low, add(quotient, 1), where(is_high, sub(quotient, 1), quotient))
    leaves = both(not_equal(remainder, 0), not_equal(remainder, divisor))
    return either(quotient, cast(leaves, form.word))


def _round_quotient(quotient: UOp, field: UOp, drop: UOp, form: Format) -> UOp:
    """The bits of a float of this exponent field whose digits are `quotient` but for the last."""
    below = sub(1, field)
    is_subnormal = less(like(field, 0), below)
    # Beyond `most` nothing is left, not even by rounding.
    most = form.fraction_bits + _SPARE + 3
    count = add(drop, where(is_subnormal, below, 0))
    count = where(less(count, most), count, most)
    digits = round_off(quotient, bitcast(count, form.word))
    # No field is so large that its word wraps.
    base = where(is_subnormal, 0, sub(field, 1))
    bits = add(digits, shift_left(bitcast(base, form.word), form.fraction_bits))
    return where(less(bits, form.infinity), bits, form.infinity)


def square_root(x: UOp, form: Format) -> UOp:
    """sqrt(x) rounded to nearest even: NaN below zero, -0.0 for -0.0."""
    is_subnormal, bits = _normalise(x, form)
    field = shift_right(bits, form.fraction_bits)
    # The bias is odd: an even field is an odd exponent, and the root is one of twice the digits.
    odd = exclusive_or(both(field, 1), 1)
    digits = either(both(bits, form.implicit_one - 1), form.implicit_one)
    octave = shift_left(odd, form.fraction_bits)
    value = bitcast(add(add(digits, (form.bias - 1) << form.fraction_bits), octave), form.dtype)
    root = _root_digits(value, shift_left(digits, odd), form)
    halved = shift_right(sub(add(field, form.bias), odd), 1)
    offset = where(is_subnormal, like(field, form.subnormal_scale // 2 + 1), 1)
    bits = add(root, shift_left(sub(halved, offset), form.fraction_bits))
    usual = bitcast(bits, form.dtype)
    special = where(less(x, 0.0), float("nan"), x)
    return where(_is_usual(x), usual, special)


# What the halved bits of a float are taken from for a first guess at 1 / sqrt(x): Lomont, "Fast
# inverse square root", 2003.
_GUESS = {FLOAT32.dtype: 0x5F375A86, FLOAT64.dtype: 0x5FE6EB50C7B537A9}


def _root_digits(value: UOp, digits: UOp, form: Format) -> UOp:
    """The nearest integer to the root of digits * 2^f, for the float `value` = digits / 2^f < 4."""
    inverse = bitcast(
        sub(_GUESS[form.dtype], shift_right(bitcast(value, form.word), 1)), form.dtype
    )
    half = mul(value, 0.5)
    for _ in range(3 if form is FLOAT32 else 4):
        inverse = mul(inverse, sub(1.5, mul(mul(half, inverse), inverse)))
    root = mul(value, inverse)
    root = add(root, mul(mul(inverse, 0.5), sub(value, mul(root, root))))
    found = cast(mul(root, 2.0**form.fraction_bits), form.signed)
    # (n - 1/2)^2 < square <= (n + 1/2)^2 for the nearest n: no integer is as far as the quarters.
    square = bitcast(shift_left(digits, form.fraction_bits), form.signed)
    rest = sub(square, mul(found, found))
    is_low = less(found, rest)
    is_high = less(rest, sub(1, found))
    nearest = where(is_low, add(found, 1), where(is_high, sub(found, 1), found))
    return bitcast(nearest, form.word)
