"""SIN by two exact reductions to an eighth of a turn, and one polynomial.

Of arguments up to `NEAR` the nearest multiple of pi / 2 is subtracted in parts whose products are
exact, as in Cody and Waite, "Software Manual for the Elementary Functions", 1980. Whatever a larger
argument, it is an integer times a power of two, and of its product with 2/pi only the bits about
the point matter: those above count whole turns, those far below round nothing. So the words of 2/pi
that meet the point are chosen by the exponent and multiplied in integers, as in Payne and Hanek,
"Radian reduction for trigonometric functions", 1983. That is three quarters of the operations: a
device that can leave out what no lane selects (`renderers/rare.py`) has sines of small arguments
for a quarter of the time.
"""

from __future__ import annotations

import functools
import math

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.formats import (
    Format,
    exclusive_or,
    like,
    magnitude,
    shift_left,
    shift_right,
)
from tinyref.codegen.decompose.polynomials import (
    COSINE,
    HALF_PI,
    NEAR,
    PI,
    SINE,
    TWO_OVER_PI,
    TWO_OVER_PI_BITS,
)
from tinyref.codegen.decompose.products import Pair, multiply_high, wide_product
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

# Words of 2/pi that meet the point: the products' upper two stay, the third rounds them.
_WINDOW = 3

# Quarters of a turn in the two highest bits of a word, and what is left in radians.
Reduced = tuple[UOp, UOp]


def sin(x: UOp, form: Format, capabilities: Capabilities) -> UOp:
    """The sine of `x` radians: NaN for the infinities, -0.0 for -0.0, `x` itself where tiny."""
    size = magnitude(x, form)
    if capabilities.reassociates_floats:
        # There parts of pi / 2 would be joined again.
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
    """The sine, or the cosine, of up to pi / 4: both are t + t z P(z), with t = r and t = 1."""
    square = mul(radians, radians)
    pairs = list(zip(COSINE[form.dtype], SINE[form.dtype], strict=True))
    chosen = [where(is_cosine, like(radians, cosine), sine) for cosine, sine in pairs]
    total = chosen[-1]
    for coefficient in chosen[-2::-1]:
        total = add(mul(square, total), coefficient)
    leading = where(is_cosine, 1.0, radians)
    return add(leading, mul(mul(leading, square), total))


def _reduced_below_two(size: UOp, form: Format) -> Reduced:
    """Sines of less than 2: from pi / 4 on the cosine of what is missing to pi / 2."""
    is_more = less(like(size, math.pi / 4), size)
    radians = where(is_more, sub(math.pi / 2, size), size)
    return where(is_more, like(bitcast(size, form.word), form.sign_bit >> 1), 0), radians


def _reduced_in_parts(size: UOp, form: Format) -> Reduced:
    """`size` without the nearest multiple of pi / 2, for a `size` up to `NEAR`.

    The first two parts leave no bit below the last one of a result near pi / 4, so that nothing
    rounds before the third is subtracted.
    """
    # Its ULP is 1, so that the sum is rounded to an integer, whose low bits are those of the sum.
    shifter = 1.5 * 2.0**form.fraction_bits
    shifted = add(mul(size, 2 / sum(PI[form.dtype])), shifter)
    count = sub(shifted, shifter)
    for part in HALF_PI[form.dtype]:
        size = sub(size, mul(count, part))
    return shift_left(bitcast(shifted, form.word), form.bits - 2), size


def _reduced_by_words(size: UOp, form: Format, capabilities: Capabilities) -> Reduced:
    """The same for a `size` of at least 2, however large; NaN for infinity and NaN."""
    upper, fraction, ones = _quarter_turns(bitcast(size, form.word), form, capabilities)
    # The nearest quarter is one more where the fraction is negative.
    nearest = add(upper, 1 << (form.bits - 3))
    radians = bitcast(_radians(fraction, form), form.word)
    signed = bitcast(either(radians, both(ones, form.sign_bit)), form.dtype)
    is_finite = less(size, float("inf"))
    return nearest, where(is_finite, signed, float("nan"))


@functools.cache
def two_over_pi(form: Format) -> tuple[int, ...]:
    """The words of 2/pi that meet the point for some `x`, for the largest the last of them.

    The first starts two bits above the point of the product with an x in [2, 4).
    """
    exponents = form.bias
    count = -(-exponents // form.bits) + _WINDOW
    # Nothing of 2/pi lies above the point of the first words.
    above = form.fraction_bits + 1
    digits = TWO_OVER_PI >> (TWO_OVER_PI_BITS - count * form.bits + above)
    ones = (1 << form.bits) - 1
    return tuple((digits >> (form.bits * (count - 1 - k))) & ones for k in range(count))


def _quarter_turns(bits: UOp, form: Format, capabilities: Capabilities) -> tuple[UOp, Pair, UOp]:
    """(quarters, fraction, ones) of x * 2 / pi, for the bits of an x >= 2.

    The two highest bits of `quarters` are the last of the integer part, the next one says whether
    the nearest integer is one more; then all bits of `ones` are set. The fraction is the distance
    to that, as the two words of its product with 2^(2 w - 2), for words of w bits; of the first
    the two highest bits do not count.
    """
    # The exponent field of 2.0 is a multiple of all the offsets there are. For an x below 2, whose
    # result is not used, the window starts anywhere.
    offset = shift_right(bits, form.fraction_bits)
    significand = either(both(bits, form.implicit_one - 1), form.implicit_one)
    high, middle, low = _window(offset, form)
    first, second = wide_product(significand, middle, capabilities)
    lower = add(second, multiply_high(significand, low, capabilities))
    carry = cast(less(lower, second), form.word)
    upper = add(add(mul(significand, high), first), carry)
    beyond = bitcast(shift_left(upper, 2), form.signed)
    ones = bitcast(shift_right(beyond, form.bits - 1), form.word)
    # The complement is off by one in its last bit, which does not matter.
    return upper, (exclusive_or(upper, ones), exclusive_or(lower, ones)), ones


def _window(offset: UOp, form: Format) -> tuple[UOp, ...]:
    """The words of 2/pi from bit `offset` on, of which the low bits count."""
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
        # The two shifts to the right make the width where the count is 0.
        either(shift_left(words[k], count), shift_right(shift_right(words[k + 1], 1), back))
        for k in range(_WINDOW)
    )


def _radians(fraction: Pair, form: Format) -> UOp:
    """A fraction of a quarter turn in radians, rounded once but for what is small beside it."""
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
    """A word below the sign bit, which devices convert faster as a signed one."""
    return cast(bitcast(word, form.signed), form.dtype)
