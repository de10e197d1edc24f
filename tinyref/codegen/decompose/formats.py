"""Float formats as fields of words, and exact products of two words or of two floats."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.uops.build import (
    Operand,
    add,
    binary,
    bitcast,
    both,
    cast,
    const,
    less,
    mul,
    sub,
    where,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


@dataclass(frozen=True)
class Format:
    """An IEEE 754 binary format and the integers of its size.

    fraction_bits: the number of stored bits of the significand.
    bias: the bias of the exponent field.
    """

    dtype: DType
    signed: DType
    word: DType
    fraction_bits: int
    bias: int

    @property
    def bits(self) -> int:
        """Return the width of the whole word."""
        return self.word.bits

    @property
    def implicit_one(self) -> int:
        """Return the bit above the stored significand: the lowest bit of the exponent field."""
        return 1 << self.fraction_bits

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        """Return the bits of infinity."""
        return (2 * self.bias + 1) << self.fraction_bits

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def subnormal_scale(self) -> int:
        """Return the even exponent n for which 2^n times any subnormal is normal."""
        return self.fraction_bits + self.fraction_bits % 2

    def supported(self, capabilities: Capabilities) -> bool:
        """Return True if the device has the format and the integers of its size.

        Emulated integers suffice only for float32, because they are core types of float32.
        """
        return {self.dtype, self.signed, self.word} <= capabilities.dtypes


FLOAT32 = Format(dtypes.float32, dtypes.int32, dtypes.uint32, 23, 127)
FLOAT64 = Format(dtypes.float64, dtypes.int64, dtypes.uint64, 52, 1023)
FORMATS = {FLOAT32.dtype: FLOAT32, FLOAT64.dtype: FLOAT64}


def like(x: UOp, value: float | int) -> UOp:
    """Return the constant `value` of the type of `x`, in every lane."""
    return const(x.dtype, value)


def shift_left(x: UOp, count: Operand) -> UOp:
    """Return x << count, without a node for a count of 0."""
    return x if count == 0 else binary(Ops.SHL, x, count)


def shift_right(x: UOp, count: Operand) -> UOp:
    """Return x >> count: arithmetic for signed types, without a node for a count of 0."""
    return x if count == 0 else binary(Ops.SHR, x, count)


def exclusive_or(x: UOp, y: Operand) -> UOp:
    """Return x ^ y."""
    return binary(Ops.XOR, x, y)


def magnitude(x: UOp, form: Format) -> UOp:
    """Return |x|, from its bits."""
    return bitcast(both(bitcast(x, form.word), form.sign_bit - 1), form.dtype)


# From this many coefficients on, two sums are worth an additional square and product.
_LONG = 11


def horner(x: UOp, coefficients: tuple[float, ...]) -> UOp:
    """Return the polynomial with these coefficients at `x`, the constant term first."""
    total: UOp | float = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = add(mul(x, total), coefficient)
    return total if isinstance(total, UOp) else like(x, total)


def polynomial(x: UOp, coefficients: tuple[float, ...]) -> UOp:
    """Return the same; a long polynomial is computed as two sums, of the even and odd powers.

    In a single chain, a processor would wait for each product. Source: Knuth, "The Art of Computer
    Programming", volume 2, section 4.6.4.
    """
    if len(coefficients) < _LONG:
        return horner(x, coefficients)
    first, *others = coefficients
    square = mul(x, x)
    even, odd = (horner(square, tuple(others[k::2])) for k in (0, 1))
    return add(mul(x, add(mul(x, odd), even)), first)


def round_off(value: UOp, count: UOp) -> UOp:
    """Return the unsigned `value` without its low `count` bits, rounded to nearest even.

    Counts begin at 1. Adding half of the dropped bits must not overflow.
    """
    one = like(value, 1)
    odd = both(shift_right(value, count), 1)
    half_less_one = add(shift_left(one, add(count, -1)), -1)
    return shift_right(add(add(value, half_less_one), odd), count)


def split_exponent(x: UOp, form: Format) -> tuple[UOp, UOp]:
    """Return (e, m) with x == m * 2^e and sqrt(1/2) <= m < sqrt(2), for a positive finite `x`.

    e is a signed integer. `m` is exact. For zero, infinity, NaN and negative numbers, the result
    is an arbitrary integer and float.
    """
    scale = form.subnormal_scale
    is_subnormal = less(x, form.smallest_normal)
    scaled = where(is_subnormal, mul(x, 2.0**scale), x)
    bits = bitcast(scaled, form.signed)
    root = SQRT_HALF_BITS[form.dtype]
    exponent = shift_right(sub(bits, like(bits, root)), form.fraction_bits)
    m = bitcast(sub(bits, shift_left(exponent, form.fraction_bits)), form.dtype)
    return add(exponent, where(is_subnormal, like(bits, -scale), 0)), m


# The bits of the least float that is at least the square root of 1/2.
SQRT_HALF_BITS = {dtypes.float32: 0x3F3504F4, dtypes.float64: 0x3FE6A09E667F3BCD}


# The unsigned type of twice the width.
DOUBLE_WIDTH: dict[DType, DType] = {
    dtypes.uint8: dtypes.uint16,
    dtypes.uint16: dtypes.uint32,
    dtypes.uint32: dtypes.uint64,
}


def wide_product(x: UOp, y: UOp, capabilities: Capabilities) -> tuple[UOp, UOp]:
    """Return (high, low): the two words of x * y for unsigned `x` and `y` of the same type.

    Uses the type of twice the width if the device has it. Otherwise it adds four products of half
    words (Knuth, "The Art of Computer Programming", volume 2, section 4.3.1, algorithm M).
    """
    word = x.dtype.scalar
    double = DOUBLE_WIDTH.get(word)
    if double is not None and double in capabilities.dtypes:
        product = mul(cast(x, double), cast(y, double))
        return cast(shift_right(product, word.bits), word), cast(product, word)
    half = word.bits // 2
    ones = (1 << half) - 1
    x_low, x_high = both(x, ones), shift_right(x, half)
    y_low, y_high = both(y, ones), shift_right(y, half)
    # Neither sum can overflow: (2^h - 1)^2 + 2 * (2^h - 1) == 2^2h - 1.
    middle = add(mul(x_high, y_low), shift_right(mul(x_low, y_low), half))
    other = add(mul(x_low, y_high), both(middle, ones))
    high = add(add(mul(x_high, y_high), shift_right(middle, half)), shift_right(other, half))
    return high, mul(x, y)


def multiply_high(x: UOp, y: UOp, capabilities: Capabilities) -> UOp:
    """Return the high word of x * y for unsigned `x` and `y` of the same type."""
    return wide_product(x, y, capabilities)[0]


Pair = tuple[UOp, UOp]


def fast_two_sum(large: UOp, small: UOp) -> Pair:
    """Return (s, e): s is the rounded sum, s + e == large + small exactly, for |large| >= |small|.

    Source: Dekker, "A floating-point technique for extending the available precision", 1971.
    """
    total = add(large, small)
    return total, sub(small, sub(total, large))


def halves(x: UOp, form: Format) -> Pair:
    """Return (high, low) with high + low == x, each with about half the significant bits.

    Products of such halves are exact, except that the product of two low ones may round in float64.
    """
    high_bits = -1 << ((form.fraction_bits + 1 + 1) // 2)
    word = (1 << form.bits) - 1
    high = bitcast(both(bitcast(x, form.word), high_bits & word), form.dtype)
    return high, sub(x, high)


def two_product(x: UOp, y: UOp, form: Format) -> Pair:
    """Return (p, e): p is the rounded product, p + e == x * y, without a fused multiply-add.

    Only the additions in `e` round. Source: Dekker 1971, with the halves cut by bits.
    """
    product = mul(x, y)
    x_high, x_low = halves(x, form)
    y_high, y_low = halves(y, form)
    error = sub(mul(x_high, y_high), product)
    error = add(error, mul(x_high, y_low))
    error = add(error, mul(x_low, y_high))
    return product, add(error, mul(x_low, y_low))


def multiply_pairs(x: Pair, y: Pair, form: Format) -> Pair:
    """Return the product of two sums of two floats, as such a sum; relative error about 2^-2p."""
    product, error = two_product(x[0], y[0], form)
    cross = add(mul(x[0], y[1]), mul(x[1], y[0]))
    return fast_two_sum(product, add(error, cross))
