"""Exact products: of two words as two words, and of two floats as two floats."""

from __future__ import annotations

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.formats import Format, shift_right
from tinyref.dtype import DType, dtypes
from tinyref.uops.build import add, bitcast, both, cast, mul, sub
from tinyref.uops.node import UOp

# The unsigned type of twice the width.
DOUBLE_WIDTH: dict[DType, DType] = {
    dtypes.uint8: dtypes.uint16,
    dtypes.uint16: dtypes.uint32,
    dtypes.uint32: dtypes.uint64,
}


def wide_product(x: UOp, y: UOp, capabilities: Capabilities) -> tuple[UOp, UOp]:
    """(high, low): the two words of x * y for unsigned `x` and `y` of one type.

    Through the type of twice the width where the device has it, else from four products of half
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
    # Neither sum can leave the word: (2^h - 1)^2 + 2 * (2^h - 1) == 2^2h - 1.
    middle = add(mul(x_high, y_low), shift_right(mul(x_low, y_low), half))
    other = add(mul(x_low, y_high), both(middle, ones))
    high = add(add(mul(x_high, y_high), shift_right(middle, half)), shift_right(other, half))
    return high, mul(x, y)


def multiply_high(x: UOp, y: UOp, capabilities: Capabilities) -> UOp:
    """The high word of x * y for unsigned `x` and `y` of one type."""
    return wide_product(x, y, capabilities)[0]


Pair = tuple[UOp, UOp]


def fast_two_sum(large: UOp, small: UOp) -> Pair:
    """(s, e) with s the rounded sum and s + e == large + small exactly, where |large| >= |small|.

    Source: Dekker, "A floating-point technique for extending the available precision", 1971.
    """
    total = add(large, small)
    return total, sub(small, sub(total, large))


def halves(x: UOp, form: Format) -> Pair:
    """(high, low) with high + low == x, each of about half the significant bits.

    Products of such halves are exact, but for that of two low ones, which may round in float64.
    """
    kept = -1 << ((form.fraction_bits + 1 + 1) // 2)
    word = (1 << form.bits) - 1
    high = bitcast(both(bitcast(x, form.word), kept & word), form.dtype)
    return high, sub(x, high)


def two_product(x: UOp, y: UOp, form: Format) -> Pair:
    """(p, e) with p the rounded product and p + e == x * y, without a fused multiply-add.

    `e` is as exact as its own roundings allow. Source: Dekker 1971, with the halves cut by bits.
    """
    product = mul(x, y)
    x_high, x_low = halves(x, form)
    y_high, y_low = halves(y, form)
    error = sub(mul(x_high, y_high), product)
    error = add(error, mul(x_high, y_low))
    error = add(error, mul(x_low, y_high))
    return product, add(error, mul(x_low, y_low))


def multiply_pairs(x: Pair, y: Pair, form: Format) -> Pair:
    """The product of two sums of two floats, as such a sum; relative error about 2^-2p."""
    product, error = two_product(x[0], y[0], form)
    cross = add(mul(x[0], y[1]), mul(x[1], y[0]))
    return fast_two_sum(product, add(error, cross))
