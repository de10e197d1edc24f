"""Steps of floats: quotients and remainders, extremes, signs, and rounding to integers."""

from __future__ import annotations

import math
from typing import Literal, Self, TypeVar

from tinyref.dtype import ConstType, dtypes, sum_dtype
from tinyref.errors import UserError
from tinyref.tensor.methods.elementwise import Elementwise, compute_dtype, require_integer
from tinyref.uops.ops import Ops

RoundingMode = Literal["trunc", "floor"] | None
T = TypeVar("T", bound="Rounding")


class Rounding(Elementwise):
    """Types and shapes as in `Elementwise`; what several ops compute has a gradient of its own."""

    __slots__ = ()

    # Quotients and remainders

    def div(
        self,
        x: Self | ConstType,
        reverse: bool = False,
        rounding_mode: RoundingMode = None,
    ) -> Self:
        """self / x; integers give the default float.

        With `rounding_mode` "trunc" or "floor" the quotient is rounded, and integers stay integers.

        Examples:
            >>> Tensor([7, 8]).div(2).tolist()
            [3.5, 4.0]
            >>> Tensor([-7, 7]).div(2, rounding_mode="floor").tolist()
            [-4, 3]
        """
        if rounding_mode not in (None, "trunc", "floor"):
            raise UserError(
                f"div: rounding_mode {rounding_mode!r}: accepted are None, 'trunc' and 'floor'"
            )
        other = self._operand(x, "div")
        if rounding_mode is None and not isinstance(other, Rounding):
            # Both sides become floats: the number need not fit the type of the integers.
            left, right = self._as_float("div")._pair(other, "div", reverse)
            return left._apply(Ops.FDIV, right)
        left, right = self._quotient_pair(other, "div", reverse)
        if rounding_mode is not None and not left.dtype.is_float:
            return left.idiv(right) if rounding_mode == "trunc" else left._floor_divide(right)
        if rounding_mode == "floor":
            return left._floor_divide(right)
        quotient = left._as_float("div")._apply(Ops.FDIV, right._as_float("div"))
        return quotient if rounding_mode is None else quotient.trunc()

    def _floor_divide(self, x: Self | ConstType, reverse: bool = False) -> Self:
        left, right = self._quotient_pair(x, "floor_divide", reverse)
        if left.dtype.is_float:
            return left._with_rule("steps", _floor_quotient, right)
        quotient = left.idiv(right)
        if left.dtype.is_unsigned:
            return quotient
        return quotient.sub(left._remainder_is_opposite(right)._cast(left.dtype))

    def _remainder_is_opposite(self, divisor: Self) -> Self:
        """Where truncation and rounding down differ: the remainder is neither 0 nor of the
        divisor's sign.
        """
        remainder = self._apply(Ops.MOD, divisor)
        return remainder.lt(0).ne(divisor.lt(0)).mul(remainder.ne(0))

    def mod(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """The remainder with the sign of the divisor, as `%` of Python and torch.

        Floats are exact while the quotient has no more bits than the type's mantissa.

        Examples:
            >>> Tensor([-7, 7]).mod(3).tolist()
            [2, 1]
        """
        left, right = self._quotient_pair(x, "mod", reverse)
        if left.dtype.is_float:
            return left._with_rule("mod", _remainder, right)
        require_integer("mod", left.dtype, accept_bool=False)
        remainder = left._apply(Ops.MOD, right)
        if left.dtype.is_unsigned:
            return remainder
        return left._remainder_is_opposite(right).where(remainder.add(right), remainder)

    def fmod(self, other: Self | ConstType) -> Self:
        """Return the remainder with the sign of this tensor, as `fmod` of C and torch.

        Floats are as exact as in `mod`; the remainder of an infinity, or by 0, is NaN. The
        remainder of an integer by 0 has no defined value.

        Examples:
            >>> Tensor([-7, 7]).fmod(3).tolist()
            [-1, 1]
            >>> Tensor([-7.5, 7.5]).fmod(-2).tolist()
            [-1.5, 1.5]
        """
        left, right = self._quotient_pair(other, "fmod", reverse=False)
        if left.dtype.is_float:
            return left._with_rule("fmod", _signed_remainder, right)
        require_integer("fmod", left.dtype, accept_bool=False)
        return left._apply(Ops.MOD, right)

    # Extremes

    def maximum(self, x: Self | ConstType) -> Self:
        """The larger element; NaN where one is NaN. Of +0 and -0 it may be either.

        Examples:
            >>> Tensor([1, 5]).maximum(3).tolist()
            [3, 5]
        """
        left, right = self._pair(self._bound(x, "maximum", is_lower=True), "maximum")
        if left.dtype.is_float:
            # MAX may lose a NaN; this does not.
            return left._with_rule(Ops.MAX, _larger, right)
        return left._apply(Ops.OR if left.dtype.is_bool else Ops.MAX, right)

    def minimum(self, x: Self | ConstType) -> Self:
        """The smaller element; NaN where one is NaN. Of +0 and -0 it may be either.

        Examples:
            >>> Tensor([1, 5]).minimum(3).tolist()
            [1, 3]
        """
        left, right = self._pair(self._bound(x, "minimum", is_lower=False), "minimum")
        if left.dtype.is_bool:
            return left._apply(Ops.AND, right)
        return left._reverse_order().maximum(right._reverse_order())._reverse_order()

    def _reverse_order(self) -> Self:
        """An exact map that turns the order around, and undoes itself: -x, or ~x for integers."""
        return self.neg() if self.dtype.is_float else self.bitwise_not()

    # Integers near by

    def trunc(self) -> Self:
        """Rounded towards zero; integers as they are.

        Examples:
            >>> Tensor([-1.5, 1.5]).trunc().tolist()
            [-1.0, 1.0]
        """
        return self._apply(Ops.TRUNC) if self.dtype.is_float else self._apart_from(self)

    def floor(self) -> Self:
        """Rounded down; integers as they are, -0 and infinities kept.

        Examples:
            >>> Tensor([-1.5, 1.5]).floor().tolist()
            [-2.0, 1.0]
        """
        if not self.dtype.is_float:
            return self._apart_from(self)
        whole = self.trunc()
        return self.lt(whole).where(whole.sub(1), whole)

    def ceil(self) -> Self:
        """Rounded up; integers as they are, -0 and infinities kept.

        Examples:
            >>> Tensor([-1.5, 1.5]).ceil().tolist()
            [-1.0, 2.0]
        """
        if not self.dtype.is_float:
            return self._apart_from(self)
        whole = self.trunc()
        return whole.lt(self).where(whole.add(1), whole)

    def round(self) -> Self:
        """Rounded to the nearest integer, halves to the even one; integers as they are.

        Examples:
            >>> Tensor([0.5, 1.5, 2.5]).round().tolist()
            [0.0, 2.0, 2.0]
        """
        if not self.dtype.is_float:
            return self._apart_from(self)
        return self._with_rule("steps", _nearest_even)

    # Signs and infinities

    def sign(self) -> Self:
        """-1, 0 or 1 in the tensor's type, with slope 0; NaN for NaN, and a zero keeps its sign.

        Examples:
            >>> Tensor([-3.0, 0.0, 2.0]).sign().tolist()
            [-1.0, 0.0, 1.0]
        """
        if self.dtype.is_bool:
            return self._apart_from(self)
        return self._with_rule("steps", _sign)

    def abs(self) -> Self:
        """The magnitude; the smallest signed integer wraps to itself. The slope at 0 is 0.

        Examples:
            >>> Tensor([-2, 3]).abs().tolist()
            [2, 3]
        """
        if self.dtype.is_unsigned or self.dtype.is_bool:
            return self._apart_from(self)
        if self.dtype.is_float:
            compute_dtype("abs", self.dtype)
            # The product with the sign clears the sign of -0 too; sign itself has no slope.
            return self.mul(self.detach().sign())
        return self.lt(0).where(self.neg(), self)

    def copysign(self, other: Self | ConstType) -> Self:
        """The magnitude of this tensor with the sign of `other`, that of a zero included.

        A NaN has no sign: it counts as positive. Integers give the default float.

        Examples:
            >>> Tensor([1.0, 2.0]).copysign(Tensor([-0.0, 3.0])).tolist()
            [-1.0, 2.0]
        """
        left, right = self._pair(other, "copysign")
        left, right = left._as_float("copysign"), right._as_float("copysign")
        return left._with_rule("copysign", _signed_like, right)

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """True where an element is an infinity of a sign that is asked for.

        Examples:
            >>> Tensor([1.0, float("-inf"), float("nan")]).isinf().tolist()
            [False, True, False]
        """
        if not self.dtype.is_float or not (detect_positive or detect_negative):
            return self._constant(False, dtypes.bool)._broadcast_to(self.shape)
        if detect_positive and detect_negative:
            return self.abs().eq(math.inf)
        return self.eq(math.inf if detect_positive else -math.inf)

    def isfinite(self) -> Self:
        """True where an element is neither NaN nor an infinity.

        Examples:
            >>> Tensor([1.0, float("inf"), float("nan")]).isfinite().tolist()
            [True, False, False]
        """
        return self.isnan().bitwise_or(self.isinf()).logical_not()


# Of tensors that have one float type and one shape.


def _larger(x: T, y: T) -> T:
    """The larger element; NaN where one is."""
    return x._is_less(y).bitwise_or(y.isnan()).where(y, x)


def _sign(x: T) -> T:
    """-1, 0 or 1."""
    positive = x.gt(0).where(1, x)
    return positive if x.dtype.is_unsigned else x.lt(0).where(-1, positive)


def _signed_like(x: T, y: T) -> T:
    """The magnitude of x with the sign of y."""
    # 1 / -0 is -inf; a division by a subnormal number may give an infinity, of the right sign.
    is_negative = y.lt(0).bitwise_or(y.reciprocal().lt(0))
    magnitude = x.abs()
    return is_negative.where(magnitude.neg(), magnitude)


def _nearest_even(x: T) -> T:
    """The nearest integer, the even one of two: what TRUNC cuts off is exact, so a half is one."""
    whole = x.trunc()
    rest = x.sub(whole).abs()
    half = whole.mul(0.5)
    is_odd = half.ne(half.trunc())
    away = rest.gt(0.5).bitwise_or(rest.eq(0.5).bitwise_and(is_odd))
    return away.where(whole.add(x.lt(0).where(-1, x._constant(1, x.dtype))), whole)


def _remainder(x: T, y: T) -> T:
    """x - floor(x / y) y."""
    return _floor_parts(x, y)[1]


def _signed_remainder(x: T, y: T) -> T:
    """x - trunc(x / y) y. Rounding down and towards zero agree for the magnitudes."""
    return _signed_like(_remainder(x.abs(), y.abs()), x)


def _floor_quotient(x: T, y: T) -> T:
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
