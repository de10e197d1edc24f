"""EXP2, LOG2, SIN, POW, FDIV and SQRT, made of basic operations.

EXP2 and LOG2 follow Cody and Waite, "Software Manual for the Elementary Functions", 1980. They
reduce by the exponent, which is exact, compute a polynomial, and round the result at most once. The
bounds on the errors in `tests/codegen/test_decompose_elementary.py` are close to 1 ULP.

POW is 2^(y * log2|x|), with the logarithm and the product as sums of two floats. The exponent of a
large result has several bits, which a logarithm of one float would lack in its fraction. Two floats
have bits to spare, in float32 and in float64 (Dekker, "A floating-point technique for extending the
available precision", 1971). The special cases follow IEEE 754-2019, section 9.2.1, and C17, annex
F.10.4.4.

SIN has two exact reductions to an eighth of a turn, and one polynomial. Up to `NEAR`, the nearest
multiple of pi / 2 is subtracted in parts whose products are exact, as in Cody and Waite. A larger
argument is an integer times a power of two. In its product with 2/pi, only the bits around the
point matter. Higher bits count whole turns, and much lower bits do not change the rounding. So the
exponent chooses the words of 2/pi that meet the point, and they are multiplied as integers. Source:
Payne and Hanek, "Radian reduction for trigonometric functions", 1983. This takes three quarters of
the operations. A device that can skip what no lane selects (`renderers/rare.py`) computes sines of
small arguments in a quarter of the time.

FDIV and SQRT are correctly rounded. Newton's iteration gives a quotient or a root that is wrong by
a few units in the last place. Its remainder is small, so wrapping integers represent it exactly.
Long division of the remainder gives the correction and the digits after it. The result is then
rounded as an integer, also if it is subnormal. Source: Markstein, "IA-64 and Elementary
Functions", 2000, chapters 8 and 9, with wrapping products instead of the fused multiply-add.
"""

from __future__ import annotations

import functools
import math

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.formats import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    exclusive_or,
    fast_two_sum,
    halves,
    horner,
    like,
    magnitude,
    multiply_high,
    multiply_pairs,
    polynomial,
    round_off,
    shift_left,
    shift_right,
    split_exponent,
    two_product,
    wide_product,
)
from tinyref.codegen.decompose.polynomials import (
    AREA,
    COSINE,
    EXPONENTIAL,
    HALF_PI,
    LOGARITHM,
    NEAR,
    PI,
    SINE,
    THIRD,
    TWO_OVER_LN_2,
    TWO_OVER_PI,
    TWO_OVER_PI_BITS,
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


def exp2(x: UOp, form: Format, capabilities: Capabilities) -> UOp:
    """Return 2^x: 0 for -inf, inf for inf, NaN for NaN, subnormal results rounded once."""
    return power_of_two(clamped_exponent(x, form), None, form, capabilities)


def clamped_exponent(x: UOp, form: Format) -> UOp:
    """Clamp `x` between exponents that give 0 and infinity; a NaN stays."""
    lowest = -float(form.bias + form.fraction_bits + 1)
    highest = float(form.bias + 1)
    raised = where(less(x, lowest), lowest, x)
    return where(less(like(x, highest), raised), highest, raised)


def power_of_two(high: UOp, low: UOp | None, form: Format, capabilities: Capabilities) -> UOp:
    """Return 2^(high + low) for a clamped `high` and a `low` of less than an ULP of it."""
    if capabilities.reassociates_floats:
        return _power_by_bits(high, low, form)
    return _power_by_products(high, low, form)


def _power_by_products(high: UOp, low: UOp | None, form: Format) -> UOp:
    """Return `power_of_two` by adding and subtracting a number so large that its ULP is 1.

    This finds the integer n that is nearest to `high`: the low bits of the sum are n plus twice the
    bias. 2^n may be below the smallest normal number or above the largest, so it is a product of
    two powers. The halves of these low bits are the exponent fields of both.
    """
    shifter = like(high, 1.5 * 2.0**form.fraction_bits + 2 * form.bias)
    shifted = add(high, shifter)
    fraction = sub(high, sub(shifted, shifter))
    value = _power_of_fraction(fraction, low, form)
    bits = bitcast(shifted, form.word)
    # The shift to the left removes the bits of the shifter that the shift by one leaves.
    first = shift_right(bits, 1)
    second = sub(bits, first)
    for half in (first, second):
        value = mul(value, bitcast(shift_left(half, form.fraction_bits), form.dtype))
    return value


def _power_by_bits(high: UOp, low: UOp | None, form: Format) -> UOp:
    """Return `power_of_two` from conversions and integers, without sums that may be transformed.

    If sums are reassociated, adding and subtracting the large number has no effect. The product of
    the two powers may also come first, and overflow.
    """
    half = where(less(high, 0.0), like(high, -0.5), 0.5)
    whole = cast(add(high, half), form.signed)
    fraction = sub(high, cast(whole, form.dtype))
    value = bitcast(_power_of_fraction(fraction, low, form), form.signed)
    # The value is a little below or above 1, so the exponent field is at least the bias less one.
    field = add(shift_right(value, form.fraction_bits), whole)
    beyond = 2 * form.bias + 1
    normal = add(value, shift_left(whole, form.fraction_bits))
    normal = where(less(field, beyond), normal, form.infinity)
    digits = either(both(value, form.implicit_one - 1), form.implicit_one)
    # Beyond `most`, the result is 0 even after rounding.
    most = form.fraction_bits + 2
    lost = sub(1, field)
    count = where(less(lost, 1), 1, where(less(lost, most), lost, most))
    subnormal = round_off(bitcast(digits, form.word), bitcast(count, form.word))
    result = where(less(field, 1), subnormal, bitcast(normal, form.word))
    bits = bitcast(high, form.word)
    is_nan = less(like(bits, form.infinity), both(bits, form.sign_bit - 1))
    return bitcast(where(is_nan, bits, result), form.dtype)


def _power_of_fraction(fraction: UOp, low: UOp | None, form: Format) -> UOp:
    """Return 2^(fraction + low) for a `fraction` of at most a half."""
    if low is not None:
        fraction = add(fraction, low)
    return add(mul(polynomial(fraction, EXPONENTIAL[form.dtype]), fraction), 1.0)


def log2(x: UOp, form: Format) -> UOp:
    """Return the logarithm to base 2: -inf for both zeros, NaN below, inf for inf, exact for 2^n.

    log2(m * 2^e) == e + (f + (f / 2 + f * P(f))) with f = m - 1. Here f and its half are exact, and
    the product, which rounds, is small in comparison.
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


def power(x: UOp, y: UOp, form: Format, capabilities: Capabilities) -> UOp:
    """Return x^y with all special cases of IEEE 754; NaN for negative x and a y with a fraction."""
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
    """Return (is integer, is odd integer) of `y`; an infinity is an integer."""
    size = magnitude(y, form)
    ones = 2.0**form.fraction_bits
    # In the octave from there on, the ULP is 1: the last bit of a float is the last bit of `y`.
    has_fraction_bits = less(size, ones)
    if capabilities.reassociates_floats:
        # Adding and subtracting the same number would have no effect.
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
    """Return `size`^y for a positive finite `size`: 0 and infinity if out of range."""
    logarithm = _log2_pair(size, form)
    # The logarithm nearest to 0 belongs to the floats next to 1. Beyond this limit, y gives the
    # same result as infinity, and the limit cannot overflow the product.
    limit = 2.0 ** (2 * form.fraction_bits)
    y = where(less(like(y, limit), y), limit, y)
    y = where(less(y, -limit), -limit, y)
    product, error = two_product(logarithm[0], y, form)
    high, low = fast_two_sum(product, add(error, mul(logarithm[1], y)))
    clamped = clamped_exponent(high, form)
    low = where(not_equal(clamped, high), 0.0, low)
    return power_of_two(clamped, low, form, capabilities)


def _log2_pair(x: UOp, form: Format) -> Pair:
    """Return log2 of a positive finite `x` as a sum of two floats; relative error about 2^-1.4p.

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
    """Return (m - 1) / (m + 1) as a sum of two floats, from one division and its remainder."""
    numerator = add(m, -1.0)
    denominator = add(m, 1.0)
    lost = sub(m, add(denominator, -1.0))
    inverse = UOp(Ops.FDIV, m.dtype, (like(m, 1.0), denominator))
    quotient = mul(numerator, inverse)
    product, error = two_product(quotient, denominator, form)
    remainder = sub(sub(numerator, product), add(error, mul(quotient, lost)))
    return fast_two_sum(quotient, mul(remainder, inverse))


# The number of words of 2/pi that meet the point: two words of the product remain, the third
# rounds them.
_WINDOW = 3

# Quarters of a turn in the two highest bits of a word, and the rest in radians.
Reduced = tuple[UOp, UOp]


def sin(x: UOp, form: Format, capabilities: Capabilities) -> UOp:
    """Return the sine of `x` radians: NaN for infinities, -0.0 for -0.0, `x` itself if tiny."""
    size = magnitude(x, form)
    if capabilities.reassociates_floats:
        # Reassociation would join the parts of pi / 2 again.
        is_near, near = less(size, 2.0), _reduced_below_two(size, form)
    else:
        is_near, near = less(size, NEAR[form.dtype]), _reduced_in_parts(size, form)
    far = _reduced_by_words(size, form, capabilities)
    quarters, radians = (where(is_near, *pair) for pair in zip(near, far, strict=True))
    is_cosine = not_equal(both(quarters, form.sign_bit >> 1), 0)
    value = _sine_or_cosine(is_cosine, radians, form)
    sign = both(exclusive_or(quarters, bitcast(x, form.word)), form.sign_bit)
    return bitcast(exclusive_or(bitcast(value, form.word), sign), form.dtype)


def _sine_or_cosine(is_cosine: UOp, radians: UOp, form: Format) -> UOp:
    """Return the sine, or cosine, of up to pi / 4: t + t z P(z), with t = r or t = 1."""
    square = mul(radians, radians)
    pairs = list(zip(COSINE[form.dtype], SINE[form.dtype], strict=True))
    chosen = [where(is_cosine, like(radians, cosine), sine) for cosine, sine in pairs]
    total = chosen[-1]
    for coefficient in chosen[-2::-1]:
        total = add(mul(square, total), coefficient)
    leading = where(is_cosine, 1.0, radians)
    return add(leading, mul(mul(leading, square), total))


def _reduced_below_two(size: UOp, form: Format) -> Reduced:
    """Reduce a `size` below 2: above pi / 4, use the cosine of the difference to pi / 2."""
    is_more = less(like(size, math.pi / 4), size)
    radians = where(is_more, sub(math.pi / 2, size), size)
    return where(is_more, like(bitcast(size, form.word), form.sign_bit >> 1), 0), radians


def _reduced_in_parts(size: UOp, form: Format) -> Reduced:
    """Subtract the nearest multiple of pi / 2 from a `size` up to `NEAR`.

    After the first two parts, no bit is below the last bit of a result near pi / 4. So nothing
    rounds before the third part is subtracted.
    """
    # Its ULP is 1, so the sum is rounded to an integer, whose low bits are the low bits of the sum.
    shifter = 1.5 * 2.0**form.fraction_bits
    shifted = add(mul(size, 2 / sum(PI[form.dtype])), shifter)
    count = sub(shifted, shifter)
    for part in HALF_PI[form.dtype]:
        size = sub(size, mul(count, part))
    return shift_left(bitcast(shifted, form.word), form.bits - 2), size


def _reduced_by_words(size: UOp, form: Format, capabilities: Capabilities) -> Reduced:
    """Return the same for any `size` of at least 2; NaN for infinity and NaN."""
    upper, fraction, ones = _quarter_turns(bitcast(size, form.word), form, capabilities)
    # The nearest quarter is one more if the fraction is negative.
    nearest = add(upper, 1 << (form.bits - 3))
    radians = bitcast(_radians(fraction, form), form.word)
    signed = bitcast(either(radians, both(ones, form.sign_bit)), form.dtype)
    is_finite = less(size, float("inf"))
    return nearest, where(is_finite, signed, float("nan"))


@functools.cache
def two_over_pi(form: Format) -> tuple[int, ...]:
    """Return the words of 2/pi that meet the point for some `x`; the last ones for the largest.

    The first word starts two bits above the point of the product with an x in [2, 4).
    """
    exponents = form.bias
    count = -(-exponents // form.bits) + _WINDOW
    # No bit of 2/pi is above the point of the first words.
    above = form.fraction_bits + 1
    digits = TWO_OVER_PI >> (TWO_OVER_PI_BITS - count * form.bits + above)
    ones = (1 << form.bits) - 1
    return tuple((digits >> (form.bits * (count - 1 - k))) & ones for k in range(count))


def _quarter_turns(bits: UOp, form: Format, capabilities: Capabilities) -> tuple[UOp, Pair, UOp]:
    """Return (quarters, fraction, ones) of x * 2 / pi, for the bits of an x >= 2.

    The two highest bits of `quarters` are the last bits of the integer part. If the next bit is
    set, the nearest integer is one more, and all bits of `ones` are set. The fraction is the
    distance to the nearest integer, as the two words of its product with 2^(2 w - 2), for words of
    w bits. The two highest bits of its first word do not count.
    """
    # The exponent field of 2.0 is a multiple of all offsets. For an x below 2, whose result is
    # not used, the window starts anywhere.
    offset = shift_right(bits, form.fraction_bits)
    significand = either(both(bits, form.implicit_one - 1), form.implicit_one)
    high, middle, low = _window(offset, form)
    first, second = wide_product(significand, middle, capabilities)
    lower = add(second, multiply_high(significand, low, capabilities))
    carry = cast(less(lower, second), form.word)
    upper = add(add(mul(significand, high), first), carry)
    beyond = bitcast(shift_left(upper, 2), form.signed)
    ones = bitcast(shift_right(beyond, form.bits - 1), form.word)
    # The complement is off by one in the last bit, which does not matter.
    return upper, (exclusive_or(upper, ones), exclusive_or(lower, ones)), ones


def _window(offset: UOp, form: Format) -> tuple[UOp, ...]:
    """Return the words of 2/pi from bit `offset` on; only the low bits of `offset` count."""
    words: list[UOp] = [like(offset, word) for word in two_over_pi(form)]
    needed = _WINDOW + 1
    step = 1 << ((len(words) - needed).bit_length() - 1)
    while step:
        chosen = not_equal(both(offset, step * form.bits), 0)
        reach = needed + step - 1
        words = [
            where(chosen, words[k + step], words[k]) for k in range(min(reach, len(words) - step))
        ]
        step //= 2
    count = both(offset, form.bits - 1)
    back = exclusive_or(count, form.bits - 1)
    return tuple(
        # The two shifts to the right move by the whole width if the count is 0.
        either(shift_left(words[k], count), shift_right(shift_right(words[k + 1], 1), back))
        for k in range(_WINDOW)
    )


def _radians(fraction: Pair, form: Format) -> UOp:
    """Return a fraction of a quarter turn in radians; only one rounding is not negligible."""
    high, low = fraction
    digits = (form.fraction_bits + 1) // 2
    # The fraction is at most a half, 2^(w - 3).
    tail = form.bits - 2 - digits
    leading = _as_float(both(high, ((1 << digits) - 1) << tail), form)
    trailing = add(
        _as_float(both(high, (1 << tail) - 1), form),
        mul(cast(low, form.dtype), 2.0**-form.bits),
    )
    pi_high, pi_low = (part * 2.0 ** (1 - form.bits) for part in PI[form.dtype])
    # The product of the leading digits is exact.
    small = add(mul(leading, pi_low), mul(trailing, pi_high + pi_low))
    return add(mul(leading, pi_high), small)


def _as_float(word: UOp, form: Format) -> UOp:
    """Convert a word below the sign bit as a signed integer, which is faster on devices."""
    return cast(bitcast(word, form.signed), form.dtype)


# The number of bits by which the quotient exceeds the significand; it may have one more. The last
# bit also represents the lost bits, so they round like the infinite quotient.
_SPARE = 2


def divide(x: UOp, y: UOp, form: Format) -> UOp:
    """Return x / y rounded to nearest even, with the special cases of IEEE 754."""
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
    # If a side is zero, infinite or NaN, the comparison of the two sides selects the result.
    infinite = where(less(y_size, x_size), like(x, float("inf")), float("nan"))
    special = where(less(x_size, y_size), 0.0, infinite)
    is_usual = both(_is_usual(x_size), _is_usual(y_size))
    unsigned = where(is_usual, bits, bitcast(special, form.word))
    return bitcast(either(unsigned, sign), form.dtype)


def _is_usual(size: UOp) -> UOp:
    """Return True if `size` is neither zero nor infinite nor NaN."""
    return both(less(like(size, 0.0), size), less(size, float("inf")))


def _normalise(size: UOp, form: Format) -> tuple[UOp, UOp]:
    """Return (is subnormal, bits): the bits of the number, or of its normal multiple."""
    is_subnormal = less(size, form.smallest_normal)
    scaled = where(is_subnormal, mul(size, 2.0**form.subnormal_scale), size)
    return is_subnormal, bitcast(scaled, form.word)


def _parts(size: UOp, form: Format) -> tuple[UOp, UOp]:
    """Return the exponent field, as if there were no subnormals, and the whole significand."""
    is_subnormal, bits = _normalise(size, form)
    field = bitcast(shift_right(bits, form.fraction_bits), form.signed)
    field = where(is_subnormal, add(field, -form.subnormal_scale), field)
    return field, either(both(bits, form.implicit_one - 1), form.implicit_one)


def _unit(digits: UOp, form: Format) -> UOp:
    """Return the float from 1 to 2 with the significand `digits`."""
    return bitcast(add(digits, (form.bias - 1) << form.fraction_bits), form.dtype)


def _inverse(y: UOp, form: Format) -> UOp:
    """Return 1 / y to a few ULPs for a `y` from 1 to 2, where 24/17 - 8/17 y is within a 17th."""
    inverse = sub(24.0 / 17.0, mul(y, 8.0 / 17.0))
    for _ in range(3 if form is FLOAT32 else 4):
        inverse = mul(inverse, sub(2.0, mul(y, inverse)))
    return inverse


def _long_quotient(x: UOp, y: UOp, form: Format) -> UOp:
    """Return floor(x * 2^(f + 1 + spare) / y) of significands, with a last bit of 1 if inexact.

    The result has f + 1 + spare bits, or one more.
    """
    count = form.fraction_bits + 1 + _SPARE
    y_unit = _unit(y, form)
    inverse = _inverse(y_unit, form)
    estimate = mul(mul(_unit(x, form), inverse), 2.0**count)
    quotient = bitcast(cast(estimate, form.signed), form.word)
    remainder = bitcast(sub(shift_left(x, count), mul(quotient, y)), form.signed)
    # The estimate is off by less than 2^6 units, so the remainder fits a word.
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
    """Return the bits of a float with this exponent field and the rounded digits `quotient`."""
    below = sub(1, field)
    is_subnormal = less(like(field, 0), below)
    # Beyond `most`, the result is 0 even after rounding.
    most = form.fraction_bits + _SPARE + 3
    count = add(drop, where(is_subnormal, below, 0))
    count = where(less(count, most), count, most)
    digits = round_off(quotient, bitcast(count, form.word))
    # No field is large enough to wrap its word.
    base = where(is_subnormal, 0, sub(field, 1))
    bits = add(digits, shift_left(bitcast(base, form.word), form.fraction_bits))
    return where(less(bits, form.infinity), bits, form.infinity)


def square_root(x: UOp, form: Format) -> UOp:
    """Return sqrt(x) rounded to nearest even: NaN below zero, -0.0 for -0.0."""
    is_subnormal, bits = _normalise(x, form)
    field = shift_right(bits, form.fraction_bits)
    # The bias is odd: an even field is an odd exponent, and the root is taken of twice the digits.
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


# The halved bits of a float are subtracted from this for a first guess at 1 / sqrt(x): Lomont,
# "Fast inverse square root", 2003.
_GUESS = {FLOAT32.dtype: 0x5F375A86, FLOAT64.dtype: 0x5FE6EB50C7B537A9}


def _root_digits(value: UOp, digits: UOp, form: Format) -> UOp:
    """Return the integer nearest to sqrt(digits * 2^f); `value` is the float digits / 2^f < 4."""
    inverse = bitcast(
        sub(_GUESS[form.dtype], shift_right(bitcast(value, form.word), 1)), form.dtype
    )
    half = mul(value, 0.5)
    for _ in range(3 if form is FLOAT32 else 4):
        inverse = mul(inverse, sub(1.5, mul(mul(half, inverse), inverse)))
    root = mul(value, inverse)
    root = add(root, mul(mul(inverse, 0.5), sub(value, mul(root, root))))
    estimate = cast(mul(root, 2.0**form.fraction_bits), form.signed)
    # (n - 1/2)^2 < square <= (n + 1/2)^2 for the nearest n; integers need no quarters.
    square = bitcast(shift_left(digits, form.fraction_bits), form.signed)
    rest = sub(square, mul(estimate, estimate))
    is_low = less(estimate, rest)
    is_high = less(rest, sub(1, estimate))
    nearest = where(is_low, add(estimate, 1), where(is_high, sub(estimate, 1), estimate))
    return bitcast(nearest, form.word)
