"""POW as 2^(y * log2|x|) with the logarithm and the product in sums of two floats.

A result near the largest float has an exponent of some bits, and those are digits that a logarithm
of one float would lack. Two floats have them to spare, in float32 and float64 alike (Dekker, "A
floating-point technique for extending the available precision", 1971). The special cases are those
of IEEE 754-2019, section 9.2.1, and of C17, annex F.10.4.4.
"""

from __future__ import annotations

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.exponential import clamped_exponent, power_of_two
from tinyref.codegen.decompose.formats import (
    Format,
    exclusive_or,
    horner,
    like,
    magnitude,
    split_exponent,
)
from tinyref.codegen.decompose.polynomials import AREA, THIRD, TWO_OVER_LN_2
from tinyref.codegen.decompose.products import (
    Pair,
    fast_two_sum,
    halves,
    multiply_pairs,
    two_product,
)
from tinyref.uops.build import (
    add,
    bitcast,
    both,
    cast,
    either,
    equal,
    less,
    logical_not,
    mul,
    not_equal,
    sub,
    where,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


def power(x: UOp, y: UOp, form: Format, capabilities: Capabilities) -> UOp:
    """x^y with every special case of IEEE 754; NaN for a negative x and a y with a fraction."""
    size = magnitude(x, form)
    value = _power_of_magnitude(size, y, form, capabilities)
    # Zero and infinity have no finite logarithm: they stay, or become each other.
    is_zero = equal(x, 0.0)
    is_end = either(is_zero, equal(size, float("inf")))
    stays_or_not = where(not_equal(less(y, 0.0), is_zero), like(x, 0.0), float("inf"))
    value = where(is_end, stays_or_not, value)
    is_whole, is_odd = _parity(y, form, capabilities)
    sign = both(bitcast(x, form.word), where(is_odd, like(bitcast(x, form.word), form.sign_bit), 0))
    value = bitcast(exclusive_or(bitcast(value, form.word), sign), form.dtype)
    # -inf and -0.0 have powers for every y.
    has_none = both(less(x, 0.0), logical_not(either(is_whole, is_end)))
    is_nan = either(not_equal(x, x), not_equal(y, y))
    value = where(either(has_none, is_nan), float("nan"), value)
    return where(either(equal(y, 0.0), equal(x, 1.0)), 1.0, value)


def _parity(y: UOp, form: Format, capabilities: Capabilities) -> tuple[UOp, UOp]:
    """Whether `y` is an integer (an infinity is), and whether it is an odd one."""
    size = magnitude(y, form)
    ones = 2.0**form.fraction_bits
    # In the octave from there on the ULP is 1, and the last bit of a float is that of the integer.
    has_fraction_bits = less(size, ones)
    if capabilities.reassociates_floats:
        # A sum and a difference with the same number would be nothing.
        integer = cast(where(has_fraction_bits, size, 0.0), form.signed)
        is_equal = equal(cast(integer, form.dtype), size)
        bits = where(has_fraction_bits, integer, bitcast(size, form.signed))
        is_whole = either(logical_not(has_fraction_bits), is_equal)
        is_last = not_equal(both(bits, 1), 0)
        return is_whole, both(is_last, both(less(size, 2 * ones), is_whole))
    whole = where(has_fraction_bits, add(size, ones), size)
    is_whole = either(
        logical_not(has_fraction_bits),
        equal(sub(whole, ones), size),
    )
    last = not_equal(both(bitcast(whole, form.word), 1), 0)
    is_odd = both(last, both(less(whole, 2 * ones), is_whole))
    return is_whole, is_odd


def _power_of_magnitude(size: UOp, y: UOp, form: Format, capabilities: Capabilities) -> UOp:
    """`size`^y for a positive finite `size`: 0 and infinity where that is out of range."""
    logarithm = _log2_pair(size, form)
    # The logarithm nearest to 0 is that of the floats beside 1: y beyond this limit is as good as
    # infinite, and one that cannot overflow the product.
    limit = 2.0 ** (2 * form.fraction_bits)
    y = where(less(like(y, limit), y), limit, y)
    y = where(less(y, -limit), -limit, y)
    product, error = two_product(logarithm[0], y, form)
    high, low = fast_two_sum(product, add(error, mul(logarithm[1], y)))
    clamped = clamped_exponent(high, form)
    low = where(not_equal(clamped, high), 0.0, low)
    return power_of_two(clamped, low, form, capabilities)


def _log2_pair(x: UOp, form: Format) -> Pair:
    """log2 of a positive finite `x` as a sum of two floats; the relative error is about 2^-1.4p.

    log2(m * 2^e) == e + 2 / ln 2 * atanh(s) with s = (m - 1) / (m + 1).
    """
    exponent, m = split_exponent(x, form)
    s = _area_argument(m, form)
    s_high, s_low = halves(s[0], form)
    square = mul(s[0], s[0])
    error = sub(mul(s_high, s_high), square)
    error = add(error, mul(mul(s_high, s_low), 2.0))
    error = add(error, mul(s_low, s_low))
    z = (square, add(error, mul(mul(s[0], s[1]), 2.0)))
    # atanh(s) / s == 1 + z * (1/3 + z * P(z)): the further terms need no second float.
    third = THIRD[form.dtype]
    tail = mul(horner(square, AREA[form.dtype]), square)
    total, rest = fast_two_sum(like(square, third[0]), tail)
    factor = multiply_pairs(z, (total, add(rest, third[1])), form)
    total, rest = fast_two_sum(like(square, 1.0), factor[0])
    area = multiply_pairs(s, (total, add(rest, factor[1])), form)
    scale = TWO_OVER_LN_2[form.dtype]
    fraction = multiply_pairs(area, (like(square, scale[0]), like(square, scale[1])), form)
    high, low = fast_two_sum(cast(exponent, form.dtype), fraction[0])
    return fast_two_sum(high, add(low, fraction[1]))


def _area_argument(m: UOp, form: Format) -> Pair:
    """(m - 1) / (m + 1) as a sum of two floats: one division, and its remainder."""
    numerator = add(m, -1.0)
    denominator = add(m, 1.0)
    lost = sub(m, add(denominator, -1.0))
    inverse = UOp(Ops.FDIV, m.dtype, (like(m, 1.0), denominator))
    quotient = mul(numerator, inverse)
    product, error = two_product(quotient, denominator, form)
    remainder = sub(sub(numerator, product), add(error, mul(quotient, lost)))
    return fast_two_sum(quotient, mul(remainder, inverse))
