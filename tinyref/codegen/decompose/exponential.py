"""EXP2 and LOG2 as polynomials on one octave.

The plan is that of Cody and Waite, "Software Manual for the Elementary Functions", 1980: an exact
reduction by the exponent, a polynomial, and an exact or once-rounded way back. The bounds on the
errors that `tests/codegen/test_decompose_elementary.py` holds are close to 1 ULP.
"""

from __future__ import annotations

from tinyref.codegen.decompose.formats import (
    Format,
    horner,
    like,
    shift_left,
    shift_right,
    split_exponent,
)
from tinyref.codegen.decompose.polynomials import EXPONENTIAL, LOGARITHM
from tinyref.uops.build import add, bitcast, cast, less, mul, not_equal, sub, where
from tinyref.uops.node import UOp


def exp2(x: UOp, form: Format) -> UOp:
    """2^x: 0 for -inf, inf for inf, NaN for NaN, subnormal results rounded once."""
    return power_of_two(clamped_exponent(x, form), None, form)


def clamped_exponent(x: UOp, form: Format) -> UOp:
    """`x` between exponents that give 0 and infinity; a NaN stays."""
    lowest = -float(form.bias + form.fraction_bits + 1)
    highest = float(form.bias + 1)
    raised = where(less(x, lowest), lowest, x)
    return where(less(like(x, highest), raised), highest, raised)


def power_of_two(high: UOp, low: UOp | None, form: Format) -> UOp:
    """2^(high + low) for a clamped `high` and a `low` of less than an ULP of it.

    The nearest integer n to `high` is found by adding a number so large that its ULP is 1: the low
    bits of the sum are then n plus twice the bias. 2^n is a product of two powers, as it may be
    below the smallest normal number or above the largest: the halves of those low bits are the
    exponent fields of both.
    """
    shifter = like(high, 1.5 * 2.0**form.fraction_bits + 2 * form.bias)
    shifted = add(high, shifter)
    fraction = sub(high, sub(shifted, shifter))
    if low is not None:
        fraction = add(fraction, low)
    value = add(mul(horner(fraction, EXPONENTIAL[form.dtype]), fraction), 1.0)
    bits = bitcast(shifted, form.word)
    # What the shift by one leaves of the shifter's own bits, the shift to the left pushes out.
    first = shift_right(bits, 1)
    second = sub(bits, first)
    for half in (first, second):
        value = mul(value, bitcast(shift_left(half, form.fraction_bits), form.dtype))
    return value


def log2(x: UOp, form: Format) -> UOp:
    """The logarithm to base 2: -inf for both zeros, NaN below them, inf for inf, exact for 2^n.

    log2(m * 2^e) == e + (f + (f / 2 + f * P(f))) with f = m - 1: f and its half are exact, and what
    rounds, the product, is small beside them.
    """
    exponent, m = split_exponent(x, form)
    f = add(m, -1.0)
    product = mul(f, horner(f, LOGARITHM[form.dtype]))
    fraction = add(f, add(mul(f, 0.5), product))
    value = add(cast(exponent, form.dtype), fraction)
    at_most_zero = where(not_equal(x, 0.0), like(x, float("nan")), float("-inf"))
    value = where(less(like(x, 0.0), x), value, at_most_zero)
    # Neither infinity nor a NaN is below infinity: they are their own logarithms.
    return where(less(x, float("inf")), value, x)
