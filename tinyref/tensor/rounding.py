"""Steps of floats: signs, rounding and remainders, and the rules of their gradients.

Free functions of tensors that have one float type and one shape; `Elementwise._ruled` joins each to
its rule.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from tinyref.dtype import sum_dtype
from tinyref.tensor.gradient import Contribution, GradientRule, Step
from tinyref.uops.ops import Ops

if TYPE_CHECKING:
    from tinyref.tensor.elementwise import Elementwise

T = TypeVar("T", bound="Elementwise")


def _zero(step: Step) -> tuple[Contribution, ...]:
    """A function of steps: constant between them."""
    return tuple(step.gradient.zeros_like for _ in step.sources)


def _slopes_of_remainder(step: Step) -> tuple[Contribution, ...]:
    """x - floor(x / y) y has the slopes 1 and -floor(x / y)."""
    x, y = step.sources
    return (lambda: step.gradient, lambda: -step.gradient * x.div(y, rounding_mode="floor"))


def _slope_of_copysign(step: Step) -> tuple[Contribution, ...]:
    """1 where the sign stays and -1 where it turns; 0 at 0. The sign's source has no slope."""
    x = step.sources[0]
    return (
        lambda: step.gradient * x.sign() * step.output.sign(),
        step.gradient.zeros_like,
    )


def _stored(step: Step) -> tuple[Contribution, ...]:
    """The gradient itself, in memory of its own."""
    return (step.gradient.contiguous,)


STORED = GradientRule("contiguous_backward", _stored, False, False)
STEPS = GradientRule("steps", _zero, False, False)
REMAINDER = GradientRule("mod", _slopes_of_remainder, True, False)
COPYSIGN = GradientRule("copysign", _slope_of_copysign, True, True)


def larger(x: T, y: T) -> T:
    """The larger element; NaN where one is."""
    return x._less(y).bitwise_or(y.isnan()).where(y, x)


def sign(x: T) -> T:
    """-1, 0 or 1."""
    positive = x.gt(0).where(1, x)
    return positive if x.dtype.is_unsigned else x.lt(0).where(-1, positive)


def signed_like(x: T, y: T) -> T:
    """The magnitude of x with the sign of y."""
    # 1 / -0 is -inf; a division by a subnormal number may give an infinity, of the right sign.
    is_negative = y.lt(0).bitwise_or(y.reciprocal().lt(0))
    magnitude = x.abs()
    return is_negative.where(magnitude.neg(), magnitude)


def nearest_even(x: T) -> T:
    """The nearest integer, the even one of two: what TRUNC cuts off is exact, so a half is one."""
    whole = x.trunc()
    rest = x.sub(whole).abs()
    half = whole.mul(0.5)
    is_odd = half.ne(half.trunc())
    away = rest.gt(0.5).bitwise_or(rest.eq(0.5).bitwise_and(is_odd))
    return away.where(whole.add(x.lt(0).where(-1, x._constant(1, x.dtype))), whole)


def remainder(x: T, y: T) -> T:
    """x - floor(x / y) y."""
    return _floor_parts(x, y)[1]


def floor_divide(x: T, y: T) -> T:
    """floor(x / y)."""
    return _floor_parts(x, y)[0]


def _floor_parts(x: T, y: T) -> tuple[T, T]:
    """floor(x / y) and x - floor(x / y) y; of an infinite x both are NaN.

    With p bits of mantissa the remainder is exact while the quotient is below 2^2p, and NaN beyond.
    The quotient's rounding may reach the next integer, which shows as a remainder of the wrong
    sign; what a quotient of 2^p and more leaves is divided once more.
    """
    dtype = x.dtype
    x, y = (item._cast(sum_dtype(dtype)) for item in (x, y))
    bits = x.dtype.mantissa_bits + 1
    quotient = x._apply(Ops.FDIV, y).floor()
    is_far = quotient.abs().gt(2.0**bits)
    near = is_far.where(_without_multiple(x, quotient, y), x)
    whole = near._apply(Ops.FDIV, y).floor()
    rest = _without_multiple(near, whole, y)
    is_opposite = y.lt(0).where(rest.gt(0), rest.lt(0))
    remainder = is_opposite.where(rest.add(y), rest)
    remainder = quotient.abs().gt(2.0 ** (2 * bits)).where(math.nan, remainder)
    # A larger divisor goes into it 0 times, or -1 times of the other sign. The halves of a divisor
    # near the largest number would overflow, and those of an infinite one are none.
    is_beyond = x.abs().lt(y.abs())
    below = x.lt(0).ne(y.lt(0)).bitwise_and(x.ne(0))
    remainder = is_beyond.where(below.where(x.add(y), x), remainder)
    whole = is_far.where(quotient, is_opposite.where(whole.sub(1), whole))
    whole = is_beyond.where(below.where(-1, quotient), whole)
    whole = x.abs().eq(math.inf).where(math.nan, whole)
    return whole._cast(dtype), remainder._cast(dtype)


def _without_multiple(x: T, count: T, y: T) -> T:
    """x - count * y where that is small: exact, with the product in two parts.

    Source: Dekker, "A floating-point technique for extending the available precision", 1971.
    """
    high = count.mul(y)
    return x.sub(high).sub(_rounding_of_product(count, y, high))


def _rounding_of_product(x: T, y: T, product: T) -> T:
    """x * y - product, where product is x * y rounded; exact, barring overflow."""
    (a, b), (c, d) = _halves(x), _halves(y)
    return a.mul(c).sub(product).add(a.mul(d)).add(b.mul(c)).add(b.mul(d))


def _halves(x: T) -> tuple[T, T]:
    """Two numbers of half the bits that add up to x (Veltkamp's splitting)."""
    scaled = x.mul(float((1 << (x.dtype.mantissa_bits + 2) // 2) + 1))
    high = scaled.sub(scaled.sub(x))
    return high, x.sub(high)
