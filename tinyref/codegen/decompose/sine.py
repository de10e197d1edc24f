"""SIN by one exact reduction for every argument, and one polynomial.

Whatever the argument, it is an integer times a power of two, and of its product with 2/pi only the
bits about the point matter: those above count whole turns, those far below round nothing. So the
words of 2/pi that meet the point are chosen by the exponent and multiplied in integers, as in
Payne and Hanek, "Radian reduction for trigonometric functions", 1983. The same few operations
serve 1.0 and the largest float: there is no second path whose cost every argument would pay.
"""

from __future__ import annotations

import functools

from tinyref.codegen.decompose.formats import (
    Format,
    exclusive_or,
    horner,
    like,
    magnitude,
    shift_left,
    shift_right,
)
from tinyref.codegen.decompose.polynomials import (
    COSINE,
    PI,
    SINE,
    TWO_OVER_PI,
    TWO_OVER_PI_BITS,
)
from tinyref.codegen.decompose.products import Pair, fast_two_sum, multiply_high, wide_product
from tinyref.device import Capabilities
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


def sin(x: UOp, form: Format, capabilities: Capabilities) -> UOp:
    """The sine of `x` radians: NaN for the infinities, -0.0 for -0.0, `x` itself where tiny."""
    size = magnitude(x, form)
    bits = bitcast(x, form.word)
    quarters, fraction = _quarter_turns(bits, form, capabilities)
    reduced, rest = _radians(fraction, form)
    # Below 1 nothing is reduced, for the product may have too few bits. Above 1 it is, to pi / 4.
    is_reduced = less(size, 1.0)
    reduced = where(is_reduced, size, reduced)
    rest = where(is_reduced, 0.0, rest)
    # The nearest quarter is one more where the fraction is negative: there sin(-r) == -sin(r).
    nearest = where(is_reduced, 0, add(quarters, 1 << (form.bits - 3)))
    is_cosine = not_equal(both(nearest, 1 << (form.bits - 2)), 0)
    reflected = where(either(is_reduced, is_cosine), 0, shift_left(quarters, 2))
    sign = both(exclusive_or(exclusive_or(bits, nearest), reflected), form.sign_bit)
    value = where(is_cosine, _cosine(reduced, rest, form), _sine(reduced, rest, form))
    signed = bitcast(exclusive_or(bitcast(value, form.word), sign), form.dtype)
    return where(less(size, float("inf")), signed, float("nan"))


def _sine(reduced: UOp, rest: UOp, form: Format) -> UOp:
    """The sine of a sum of two floats, up to 1."""
    square = mul(reduced, reduced)
    cubic = mul(mul(horner(square, SINE[form.dtype]), square), reduced)
    return add(reduced, add(rest, cubic))


def _cosine(reduced: UOp, rest: UOp, form: Format) -> UOp:
    """The cosine of a sum of two floats, up to pi / 4."""
    square = mul(reduced, reduced)
    fourth = mul(mul(horner(square, COSINE[form.dtype]), square), square)
    less_than_one = sub(mul(square, 0.5), sub(fourth, mul(reduced, rest)))
    return sub(1.0, less_than_one)


@functools.cache
def two_over_pi(form: Format) -> tuple[int, ...]:
    """The words of 2/pi that meet the point for some `x`, for the largest the last of them.

    The first starts two bits above the point of the product with an x in [1, 2).
    """
    exponents = form.bias + 1
    count = -(-exponents // form.bits) + _WINDOW
    # Nothing of 2/pi lies above the point of the first words.
    above = form.fraction_bits + 2
    digits = TWO_OVER_PI >> (TWO_OVER_PI_BITS - count * form.bits + above)
    ones = (1 << form.bits) - 1
    return tuple((digits >> (form.bits * (count - 1 - k))) & ones for k in range(count))


def _quarter_turns(bits: UOp, form: Format, capabilities: Capabilities) -> tuple[UOp, Pair]:
    """(quarters, fraction) of |x| * 2 / pi, for the bits of an x with |x| >= 1.

    The two highest bits of `quarters` are the last of the integer part, the next one says whether
    the nearest integer is one more. The fraction is the distance to that, as the two words of its
    product with 2^(2 w - 2), for words of w bits.
    """
    # The exponent field of 1.0 is one less than a multiple of all the offsets there are. For an
    # x below 1, whose result is not used, it starts anywhere.
    offset = add(shift_right(bits, form.fraction_bits), 1)
    significand = either(both(bits, form.implicit_one - 1), form.implicit_one)
    high, middle, low = _window(offset, form)
    first, second = wide_product(significand, middle, capabilities)
    lower = add(second, multiply_high(significand, low, capabilities))
    carry = cast(less(lower, second), form.word)
    upper = add(add(mul(significand, high), first), carry)
    beyond = bitcast(shift_left(upper, 2), form.signed)
    ones = bitcast(shift_right(beyond, form.bits - 1), form.word)
    # The complement is off by one in its last bit, which does not matter.
    fraction = both(exclusive_or(upper, ones), (1 << (form.bits - 2)) - 1)
    return upper, (fraction, exclusive_or(lower, ones))


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


def _radians(fraction: Pair, form: Format) -> Pair:
    """A fraction of a quarter turn in radians, as a float and what it lacks."""
    high, low = fraction
    digits = (form.fraction_bits + 1) // 2
    # The fraction is at most a half, 2^(w - 3).
    tail = form.bits - 2 - digits
    kept = ((1 << digits) - 1) << tail
    scale = 2.0 ** (1 - form.bits)
    leading = mul(_as_float(both(high, kept), form), scale)
    trailing = add(
        mul(_as_float(both(high, (1 << tail) - 1), form), scale),
        mul(cast(low, form.dtype), scale * 2.0**-form.bits),
    )
    pi_high, pi_low = PI[form.dtype]
    # The product of the leading digits is exact.
    small = add(mul(leading, pi_low), mul(trailing, pi_high + pi_low))
    return fast_two_sum(mul(leading, pi_high), small)


def _as_float(word: UOp, form: Format) -> UOp:
    """A word below the sign bit, which devices convert faster as a signed one."""
    return cast(bitcast(word, form.signed), form.dtype)
