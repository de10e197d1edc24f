"""Steps of floats: quotients and remainders, extremes, signs, and rounding to integers."""

from __future__ import annotations

import math
from typing import Literal, Self, TypeVar

from tinyref.dtype import ConstType, DType, dtypes, sum_dtype
from tinyref.errors import UserError
from tinyref.tensor.methods.elementwise import (
    Elementwise,
    compute_dtype,
    require_integer,
)
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
        if rounding_mode == "trunc":
            return left._with_rule("steps", _truncated_quotient, right)
        return left._as_float("div")._apply(Ops.FDIV, right._as_float("div"))

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

        The remainder of floats is exact for every quotient; see `fmod` of C for its definition.

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
    """x - floor(x / y) y: the exact remainder, to which y is added where the signs differ.

    Zero has the sign of y, as in Python and the array API standard. 16-bit floats are exact too.
    """
    left, right = (item._cast(sum_dtype(x.dtype)) for item in (x, y))
    rest = _truncated_remainder(left, right)
    is_opposite = rest.lt(0).ne(right.lt(0)).bitwise_and(rest.ne(0))
    zero = right.lt(0).where(-0.0, rest._constant(0.0, rest.dtype))
    result = rest.eq(0).where(zero, is_opposite.where(rest.add(right), rest))
    return result._cast(x.dtype)


def _truncated_quotient(x: T, y: T) -> T:
    """Return x / y, rounded towards zero; 16-bit floats are divided in float32."""
    left, right = (item._cast(sum_dtype(x.dtype)) for item in (x, y))
    return left._apply(Ops.FDIV, right).trunc()._cast(x.dtype)


def _signed_remainder(x: T, y: T) -> T:
    """x - trunc(x / y) y. Rounding down and towards zero agree for the magnitudes."""
    return _signed_like(_remainder(x.abs(), y.abs()), x)


def _floor_quotient(x: T, y: T) -> T:
    """floor(x / y), rounded to the nearest float; NaN for an infinite x, unless y is 0."""
    left, right = (item._cast(sum_dtype(x.dtype)) for item in (x, y))
    quotient = left._apply(Ops.FDIV, right)
    whole = quotient.floor()
    rest, divisor = _remainder(left, right).abs(), right.abs()
    # The quotient was rounded up to an integer where more than half of the divisor remains.
    limit = 2.0 ** (left.dtype.mantissa_bits + 1)
    is_below_limit = left.abs().lt(divisor.mul(limit))
    is_rounded_up = quotient.eq(whole).bitwise_and(divisor.sub(rest).lt(rest))
    is_rounded_up = is_rounded_up.bitwise_and(is_below_limit)
    whole = is_rounded_up.where(whole.sub(1), whole)
    # A quotient of different signs may underflow to zero.
    is_negative = left.lt(0).ne(right.lt(0)).bitwise_and(left.ne(0))
    is_small = left.abs().lt(divisor)
    whole = is_small.bitwise_and(is_negative).where(-1, whole)
    has_no_remainder = left.abs().eq(math.inf).bitwise_and(right.ne(0))
    return has_no_remainder.where(math.nan, whole)._cast(x.dtype)


# For each float type the integers of its bits, and how often the power of two is squared below.
_INTEGERS = {dtypes.float32: (dtypes.int32, 4), dtypes.float64: (dtypes.int64, 6)}


def _truncated_remainder(x: T, y: T) -> T:
    """x - trunc(x / y) y, exactly: the fmod of C.

    A float is m * 2^e for an integer m. So with a difference d of the exponents the remainder of
    the integers m_x * 2^d and m_y is needed, and 2^d modulo m_y comes by squaring.
    """
    float_type, bits = x.dtype, x.dtype.mantissa_bits
    integers, squarings = _INTEGERS[float_type]
    left, right = (
        item._apply(Ops.BITCAST, dtype=integers).bitwise_and(integers.maximum) for item in (x, y)
    )
    # Subnormal numbers have the exponent of the least normal ones.
    exponents = [item.rshift(bits).maximum(1) for item in (left, right)]
    of_x, of_y = (
        item.sub(exponent.sub(1).lshift(bits))
        for item, exponent in zip((left, right), exponents, strict=True)
    )
    modulus = of_y.maximum(1)
    difference = exponents[0].sub(exponents[1]).maximum(0)
    one = difference._constant(1, integers)._broadcast_to(difference.shape)
    power = one._apply(Ops.SHL, difference.rshift(squarings))._apply(Ops.MOD, modulus)
    for position in reversed(range(squarings)):
        bit = difference.rshift(position).bitwise_and(1)
        power = _product_modulo(power, power._apply(Ops.SHL, bit), modulus, float_type)
    rest = _product_modulo(of_x, power, modulus, float_type)
    # 2^e in two exact factors that are not subnormal.
    scale = exponents[1].lshift(bits)._apply(Ops.BITCAST, dtype=float_type)
    magnitude = rest._cast(float_type).mul(2.0**-bits).mul(scale)
    result = left.lt(right).where(x, x.lt(0).where(magnitude.neg(), magnitude))
    is_valid = x.abs().lt(math.inf).bitwise_and(y.ne(0)).bitwise_and(y.eq(y))
    return is_valid.where(result, math.nan)


def _product_modulo(x: T, y: T, modulus: T, float_type: DType) -> T:
    """x * y modulo m, for x and y that are not negative, with x * y below 2 m^2 or x m.

    The quotient comes from floats that hold x, y and m. It is off by a few units at most, so what
    it leaves is a small multiple of m, in arithmetic that wraps.
    """
    a, b, m = (item._cast(float_type) for item in (x, y, modulus))
    quotient = a.mul(b)._apply(Ops.FDIV, m)._cast(x.dtype)
    rest = x.mul(y).sub(quotient.mul(modulus))._apply(Ops.MOD, modulus)
    return rest.lt(0).where(rest.add(modulus), rest)
