"""EXP2 and LOG2 as polynomials on one octave.

The plan is that of Cody and Waite, "Software Manual for the Elementary Functions", 1980: an exact
reduction by the exponent, a polynomial, and an exact or once-rounded way back. The bounds on the
errors that `tests/codegen/test_decompose_elementary.py` holds are close to 1 ULP.
"""

from __future__ import annotations

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.formats import (
    Format,
    like,
    polynomial,
    round_off,
    shift_left,
    shift_right,
    split_exponent,
)
from tinyref.codegen.decompose.polynomials import EXPONENTIAL, LOGARITHM
from tinyref.uops.build import add, bitcast, both, cast, either, less, mul, not_equal, sub, where
from tinyref.uops.node import UOp


def exp2(x: UOp, form: Format, capabilities: Capabilities) -> UOp:
    """2^x: 0 for -inf, inf for inf, NaN for NaN, subnormal results rounded once."""
    return power_of_two(clamped_exponent(x, form), None, form, capabilities)


def clamped_exponent(x: UOp, form: Format) -> UOp:
    """`x` between exponents that give 0 and infinity; a NaN stays."""
    lowest = -float(form.bias + form.fraction_bits + 1)
    highest = float(form.bias + 1)
    raised = where(less(x, lowest), lowest, x)
    return where(less(like(x, highest), raised), highest, raised)


def power_of_two(high: UOp, low: UOp | None, form: Format, capabilities: Capabilities) -> UOp:
    """2^(high + low) for a clamped `high` and a `low` of less than an ULP of it."""
    if capabilities.reassociates_floats:
        return _power_by_bits(high, low, form)
    return _power_by_products(high, low, form)


def _power_by_products(high: UOp, low: UOp | None, form: Format) -> UOp:
    """`power_of_two` by adding and subtracting a number so large that its ULP is 1.

    That finds the nearest integer n to `high`: the low bits of the sum are n plus twice the bias.
    2^n is a product of two powers, as it may be below the smallest normal number or above the
    largest: the halves of those low bits are the exponent fields of both.
    """
    shifter = like(high, 1.5 * 2.0**form.fraction_bits + 2 * form.bias)
    shifted = add(high, shifter)
    fraction = sub(high, sub(shifted, shifter))
    value = _power_of_fraction(fraction, low, form)
    bits = bitcast(shifted, form.word)
    # What the shift by one leaves of the shifter's own bits, the shift to the left pushes out.
    first = shift_right(bits, 1)
    second = sub(bits, first)
    for half in (first, second):
        value = mul(value, bitcast(shift_left(half, form.fraction_bits), form.dtype))
    return value


def _power_by_bits(high: UOp, low: UOp | None, form: Format) -> UOp:
    """The same with conversions and integers, through which no float arithmetic passes.

    Where sums are transformed, adding and subtracting the large number is nothing, and the product
    of the two powers may come first and overflow.
    """
    half = where(less(high, 0.0), like(high, -0.5), 0.5)
    whole = cast(add(high, half), form.signed)
    fraction = sub(high, cast(whole, form.dtype))
    value = bitcast(_power_of_fraction(fraction, low, form), form.signed)
    # A little below or above 1, so that the exponent field is at least the bias less one.
    field = add(shift_right(value, form.fraction_bits), whole)
    beyond = 2 * form.bias + 1
    normal = add(value, shift_left(whole, form.fraction_bits))
    normal = where(less(field, beyond), normal, form.infinity)
    digits = either(both(value, form.implicit_one - 1), form.implicit_one)
    # Beyond `most` nothing is left, not even by rounding.
    most = form.fraction_bits + 2
    lost = sub(1, field)
    count = where(less(lost, 1), 1, where(less(lost, most), lost, most))
    subnormal = round_off(bitcast(digits, form.word), bitcast(count, form.word))
    result = where(less(field, 1), subnormal, bitcast(normal, form.word))
    bits = bitcast(high, form.word)
    is_nan = less(like(bits, form.infinity), both(bits, form.sign_bit - 1))
    return bitcast(where(is_nan, bits, result), form.dtype)


def _power_of_fraction(fraction: UOp, low: UOp | None, form: Format) -> UOp:
    """2^(fraction + low) for a `fraction` of at most a half."""
    if low is not None:
        fraction = add(fraction, low)
    return add(mul(polynomial(fraction, EXPONENTIAL[form.dtype]), fraction), 1.0)


def log2(x: UOp, form: Format) -> UOp:
    """The logarithm to base 2: -inf for both zeros, NaN below them, inf for inf, exact for 2^n.

    log2(m * 2^e) == e + (f + (f / 2 + f * P(f))) with f = m - 1: f and its half are exact, and what
    rounds, the product, is small beside them.
    """
    exponent, m = split_exponent(x, form)
    f = add(m, -1.0)
    product = mul(f, polynomial(f, LOGARITHM[form.dtype]))
    fraction = add(f, add(mul(f, 0.5), product))
    value = add(cast(exponent, form.dtype), fraction)
    at_most_zero = where(not_equal(x, 0.0), like(x, float("nan")), float("-inf"))
    value = where(less(like(x, 0.0), x), value, at_most_zero)
    # Neither infinity nor a NaN is below infinity: they are their own logarithms.
    return where(less(x, float("inf")), value, x)
