"""Elementary functions, and activation functions made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, Self, TypeVar

from tinyref.dtype import ConstType, DType, dtypes
from tinyref.errors import UserError, UserTypeError, argument_error
from tinyref.tensor import elementary as tables
from tinyref.tensor.arguments import require_one_of, wrong_type
from tinyref.tensor.core import TensorCore, constant_like, with_rule
from tinyref.tensor.elementwise import (
    Elementwise,
    composite,
    operand,
    operand_pair,
    result_dtype,
    spread,
    widened,
)
from tinyref.tensor.gradient import Contributions, GradientStep, enter_slope, gradient_rule
from tinyref.tensor.literals import weak_number

# pi/2 in two parts: the nearest number of the type, and the difference to 53 or 106 bits.
_HALF_PI = {
    dtypes.float32: (1.5707963705062866, -4.371139000186241e-08),
    dtypes.float64: (1.5707963267948966, 6.123233995736766e-17),
}
# tanh(x) for |x| < 0.625 is x * (1 + z * P(z) / Q(z)) with z = x * x, Q monic (Moshier, Cephes
# library, tanhf.c with Q = 1, and tanh.c). Highest power first.
_TANH_FLOAT32 = (
    (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1),
    (),
)
_TANH_FLOAT64 = (
    (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3),
    (1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3),
)

T = TypeVar("T", bound="Functions")


def _require_numbers(name: str, **arguments: object) -> None:
    """Raise `UserError` for an argument that is no number."""
    for argument, value in arguments.items():
        if weak_number(value) is None:
            raise wrong_type(f"{name}: {argument}", value, "is a number")


class Functions(Elementwise):
    """Elementary and activation functions.

    float16 and bfloat16 are computed in float32 and rounded once. Integers give float32.
    """

    __slots__ = ()

    @composite
    def exp(self) -> Self:
        """Return e ** self, computed as 2 ** (self * log2(e)).

        Examples:
            >>> round(Tensor([1.0]).exp().item(), 4)
            2.7183
        """
        return self.mul(1 / math.log(2)).exp2()

    @composite
    def log(self) -> Self:
        """Return the natural logarithm, log2(self) * ln(2): -inf for 0, NaN below.

        Examples:
            >>> round(Tensor([10.0]).log().item(), 4)
            2.3026
        """
        return self.log2().mul(math.log(2))

    @composite
    def log10(self) -> Self:
        """Return the logarithm to base 10: -inf for 0, NaN below. Powers of ten give integers.

        Examples:
            >>> Tensor([1000.0, 0.1]).log10().tolist()
            [3.0, -1.0]
        """
        return with_rule(self, "log10", _decimal_logarithm)

    @composite
    def tanh(self) -> Self:
        """Return the hyperbolic tangent: 1 and -1 far from 0, and accurate near 0.

        Examples:
            >>> Tensor([0.0, 30.0]).tanh().tolist()
            [0.0, 1.0]
        """
        negative = self.lt(0)
        magnitude = negative.where(self.neg(), self)
        far = magnitude.gt(20)
        power = far.where(20, magnitude).mul(-2).exp()
        large = power.sub(1).div(power.add(1))
        signed = negative.where(large, large.neg())
        return magnitude.lt(0.625).where(self._tanh_near_zero(), signed)

    def _tanh_near_zero(self) -> Self:
        numerator, denominator = _TANH_FLOAT64 if self.dtype is dtypes.float64 else _TANH_FLOAT32
        # Far from zero the value is not used. It stays small so that its gradient is finite.
        x = self.lt(1).mul(self.gt(-1)).where(self, 0)
        z = x.square()
        quotient = polynomial(z, numerator)
        if denominator:
            quotient = quotient.div(polynomial(z, (1.0, *denominator)))
        return x.mul(z.mul(quotient).add(1))

    @composite
    def cos(self) -> Self:
        """Return the cosine of radians: NaN for an infinity.

        Examples:
            >>> Tensor([0.0]).cos().item()
            1.0
        """
        return with_rule(self, "cos", _cosine)

    @composite
    def tan(self) -> Self:
        """Return the tangent of radians: NaN for an infinity.

        Examples:
            >>> Tensor([0.0]).tan().item()
            0.0
        """
        return with_rule(self, "tan", _tangent)

    @composite
    def asin(self) -> Self:
        """Return the angle from -pi/2 to pi/2 with this sine: NaN outside of -1 to 1.

        Examples:
            >>> round(Tensor([1.0]).asin().item(), 4)
            1.5708
        """
        return with_rule(self, "asin", _arcsine)

    @composite
    def acos(self) -> Self:
        """Return the angle from 0 to pi with this cosine: NaN outside of -1 to 1.

        Examples:
            >>> Tensor([1.0]).acos().item()
            0.0
        """
        return with_rule(self, "acos", _arccosine)

    @composite
    def atan(self) -> Self:
        """Return the angle from -pi/2 to pi/2 with this tangent.

        Examples:
            >>> round(Tensor([1.0]).atan().item(), 4)
            0.7854
        """
        return with_rule(self, "atan", _arctangent)

    @composite
    def sinh(self) -> Self:
        """Return the hyperbolic sine, (e ** x - e ** -x) / 2.

        Examples:
            >>> round(Tensor([1.0]).sinh().item(), 4)
            1.1752
        """
        return with_rule(self, "sinh", _hyperbolic_sine)

    @composite
    def cosh(self) -> Self:
        """Return the hyperbolic cosine, (e ** x + e ** -x) / 2.

        Examples:
            >>> Tensor([0.0]).cosh().item()
            1.0
        """
        return with_rule(self, "cosh", _hyperbolic_cosine)

    @composite
    def asinh(self) -> Self:
        """Return the inverse of `sinh`.

        Examples:
            >>> Tensor([0.0]).asinh().item()
            0.0
        """
        return with_rule(self, "asinh", _inverse_sinh)

    @composite
    def acosh(self) -> Self:
        """Return the inverse of `cosh`, which is at least 0: NaN below 1.

        Examples:
            >>> Tensor([1.0]).acosh().item()
            0.0
        """
        return with_rule(self, "acosh", _inverse_cosh)

    @composite
    def atanh(self) -> Self:
        """Return the inverse of `tanh`: infinite at -1 and 1, NaN outside.

        Examples:
            >>> round(Tensor([0.5]).atanh().item(), 4)
            0.5493
        """
        return with_rule(self, "atanh", _inverse_tanh)

    @composite
    def erf(self) -> Self:
        """Return the error function, 2 / sqrt(pi) times the integral of e ** -t^2 from 0.

        Examples:
            >>> round(Tensor([1.0]).erf().item(), 4)
            0.8427
        """
        return with_rule(self, "erf", _error_function)

    def lerp(self, end: Self, weight: Self | float) -> Self:
        """Return self + (end - self) * weight, exactly `end` at weight 1. Only for floats.

        Raises `UserError` for integers, as a weight lies between them.

        Examples:
            >>> Tensor([0.0, 10.0]).lerp(Tensor([4.0, 20.0]), 0.25).tolist()
            [1.0, 12.5]
        """
        target = operand(self, end, "lerp")
        left, right = operand_pair(self, target, "lerp")
        if not left.dtype.is_float:
            raise UserTypeError(f"lerp: got {left.dtype.name}, accepted are float types")
        share = operand(self, weight, "lerp")
        if not isinstance(share, TensorCore):
            share = constant_like(self, share, left.dtype)
        left, right, share = spread(left, "lerp", right, share.cast(left.dtype))
        return mix(left, right, share)

    def isclose(
        self, other: Self, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Self:
        """Return True where |self - other| <= atol + rtol * |other|, and where both are equal.

        An infinity is close only to itself. A NaN is close to a NaN only with `equal_nan`.
        Raises `UserError` for a negative tolerance.

        Examples:
            >>> Tensor([1.0, 2.0]).isclose(Tensor([1.0 + 1e-6, 2.1])).tolist()
            [True, False]
        """
        return self._isclose(other, rtol, atol, equal_nan, "isclose")

    def _isclose(
        self, other: Self | ConstType, rtol: float, atol: float, equal_nan: bool, name: str
    ) -> Self:
        for argument, tolerance in (("rtol", rtol), ("atol", atol)):
            number = weak_number(tolerance)
            if number is None or not number >= 0:
                raise argument_error(
                    number,
                    int | float,
                    f"{name}: {argument} is {tolerance!r}, accepted is at least 0",
                )
        left, right = self._comparands(other, name)
        equal = left.eq(right)
        if left.dtype.is_bool:
            return equal
        floats, others = widened(left, name), widened(right, name)
        distance = floats.sub(others).abs()
        near = distance.le(others.abs().mul(rtol).add(atol)).bitwise_and(distance.isfinite())
        is_close = equal.bitwise_or(near.bitwise_and(others.isfinite()))
        both_nan = left.isnan().bitwise_and(right.isnan())
        return is_close.bitwise_or(both_nan) if equal_nan else is_close

    @composite
    def sigmoid(self) -> Self:
        """Return 1 / (1 + e ** -self). Its powers of e never overflow, so its gradient is finite.

        Examples:
            >>> Tensor([0.0]).sigmoid().item()
            0.5
        """
        negative = self.lt(0)
        power = negative.where(self, self.neg()).exp()
        return negative.where(power, 1.0).div(power.add(1))

    @composite
    def silu(self) -> Self:
        """Return self * sigmoid(self).

        Examples:
            >>> Tensor([0.0]).silu().item()
            0.0
        """
        return self.mul(self.sigmoid())

    def swish(self) -> Self:
        """Do the same as `silu`.

        Examples:
            >>> Tensor([0.0]).swish().item()
            0.0
        """
        return self.silu()

    @composite
    def gelu(self, approximate: Literal["none", "tanh"] = "tanh") -> Self:
        """Return self * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3).

        With `approximate` "none", return self * (1 + erf(self / sqrt(2))) / 2. Source: Hendrycks
        and Gimpel, "Gaussian Error Linear Units", 2016.

        Examples:
            >>> round(Tensor([1.0]).gelu().item(), 4)
            0.8412
            >>> round(Tensor([1.0]).gelu(approximate="none").item(), 4)
            0.8413
        """
        require_one_of(approximate, ("none", "tanh"), "gelu: approximate")
        if approximate == "none":
            share = self.mul(math.sqrt(0.5)).erf().add(1).mul(0.5)
            return self.mul(share)
        # (1 + tanh(u)) / 2 is sigmoid(2u).
        inner = self.mul(self.square().mul(0.044715).add(1)).mul(2 * math.sqrt(2 / math.pi))
        return self.mul(inner.sigmoid())

    @composite
    def quick_gelu(self) -> Self:
        """Return self * sigmoid(1.702 self).

        Examples:
            >>> round(Tensor([1.0]).quick_gelu().item(), 4)
            0.8458
        """
        return self.mul(self.mul(1.702).sigmoid())

    def relu6(self) -> Self:
        """Limit the elements to 0 to 6.

        Examples:
            >>> Tensor([-1.0, 3.0, 9.0]).relu6().tolist()
            [0.0, 3.0, 6.0]
        """
        return self.relu().clamp(max_=6)

    def hardtanh(self, min_val: ConstType = -1, max_val: ConstType = 1) -> Self:
        """Limit the elements to `min_val` to `max_val`.

        Examples:
            >>> Tensor([-9.0, 0.5, 9.0]).hardtanh().tolist()
            [-1.0, 0.5, 1.0]
        """
        _require_numbers("hardtanh", min_val=min_val, max_val=max_val)
        if min_val > max_val:
            raise UserError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
        return self.clamp(min_val, max_val)

    @composite
    def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5) -> Self:
        """Return alpha * self + beta, limited to 0 to 1.

        Examples:
            >>> Tensor([-9.0, 0.0, 9.0]).hardsigmoid().tolist()
            [0.0, 0.5, 1.0]
        """
        _require_numbers("hardsigmoid", alpha=alpha, beta=beta)
        return self.mul(alpha).add(beta).clamp(0, 1)

    @composite
    def hardswish(self) -> Self:
        """Return self * relu6(self + 3) / 6.

        Examples:
            >>> Tensor([-9.0, 0.0, 9.0]).hardswish().tolist()
            [-0.0, 0.0, 9.0]
        """
        return self.mul(self.add(3).relu6().mul(1 / 6))

    @composite
    def leaky_relu(self, neg_slope: float = 0.01) -> Self:
        """Return the elements above 0, and `neg_slope` times the others.

        Examples:
            >>> Tensor([-4.0, 2.0]).leaky_relu(0.25).tolist()
            [-1.0, 2.0]
        """
        _require_numbers("leaky_relu", neg_slope=neg_slope)
        return self.gt(0).where(self, self.mul(neg_slope))

    @composite
    def elu(self, alpha: float = 1.0) -> Self:
        """Return the elements above 0, and alpha * (e ** self - 1) for the others.

        Examples:
            >>> Tensor([-1e4, 2.0]).elu().tolist()
            [-1.0, 2.0]
        """
        _require_numbers("elu", alpha=alpha)
        return self._exponential_below_zero(alpha, 1.0)

    @composite
    def celu(self, alpha: float = 1.0) -> Self:
        """Return the elements above 0, and alpha * (e ** (self / alpha) - 1) for the others.

        Examples:
            >>> Tensor([-1e4, 2.0]).celu().tolist()
            [-1.0, 2.0]
        """
        _require_numbers("celu", alpha=alpha)
        if alpha == 0:
            raise UserError("celu: alpha is 0, by which it divides: accepted are other numbers")
        return self._exponential_below_zero(alpha, alpha)

    @composite
    def selu(self, alpha: float = 1.67326, gamma: float = 1.0507) -> Self:
        """Return gamma * elu(self, alpha).

        Source: Klambauer and others, "Self-Normalizing Neural Networks".

        Examples:
            >>> round(Tensor([1.0]).selu().item(), 4)
            1.0507
        """
        _require_numbers("selu", alpha=alpha, gamma=gamma)
        return self._exponential_below_zero(alpha, 1.0).mul(gamma)

    def _exponential_below_zero(self, scale: float, width: float) -> Self:
        """Return the elements above 0, and scale * (e ** (self / width) - 1) for the others."""
        is_above = self.gt(0)
        # The side that is not selected stays small, so that its gradient is finite.
        below = is_above.where(0, self)
        scaled = below if width == 1 else below.div(width)
        return is_above.where(self, expm1(scaled).mul(scale))

    @composite
    def softplus(self, beta: float = 1) -> Self:
        """Return log(1 + e ** (beta * self)) / beta without overflow.

        It is computed as max(z, 0) + log(1 + e ** -|z|).

        Examples:
            >>> round(Tensor([0.0]).softplus().item(), 4)
            0.6931
        """
        _require_numbers("softplus", beta=beta)
        if beta == 0:
            raise UserError("softplus: beta is 0, by which it divides: accepted are other numbers")
        z = self if beta == 1 else self.mul(beta)
        result = with_rule(z, "softplus", lambda z: z.relu().add(log1p(z.abs().neg().exp())))
        if beta == 1:
            return result
        # The product may overflow although the result is representable.
        linear = self.relu() if beta > 0 else self.neg().relu().neg()
        return z.abs().eq(math.inf).where(linear, result.div(beta))

    @composite
    def logsigmoid(self) -> Self:
        """Return log(sigmoid(self)) without underflow, as 0 - softplus(-self).

        Examples:
            >>> Tensor([-1000.0, 1000.0]).logsigmoid().tolist()
            [-1000.0, 0.0]
        """
        return self.neg().softplus().sub(0, reverse=True)

    @composite
    def mish(self) -> Self:
        """Return self * tanh(softplus(self)).

        Source: Misra, "Mish: A Self Regularized Activation Function".

        Examples:
            >>> Tensor([0.0]).mish().item()
            0.0
        """
        return self.mul(self.softplus().tanh())

    @composite
    def softsign(self) -> Self:
        """Return self / (1 + |self|).

        Examples:
            >>> Tensor([-1.0, 3.0]).softsign().tolist()
            [-0.5, 0.75]
        """
        return self.div(self.abs().add(1))

    def logaddexp(self, other: Self | ConstType) -> Self:
        """Return log(e ** self + e ** other) without overflow. Integers give float32.

        Examples:
            >>> round(Tensor([0.0]).logaddexp(Tensor([0.0])).item(), 4)
            0.6931
        """
        name = "logaddexp"
        target = result_dtype(operand_pair(self, other, name)[0])
        # Widen first: so the gradient of a broadcast operand is summed before it is rounded.
        operand = widened(other, name) if isinstance(other, Functions) else other
        left, right = operand_pair(widened(self, name), operand, name)
        return with_rule(left, name, _log_of_two_powers, right).cast(target)


# The functions themselves, in float32 or float64.


def _odd(x: T, compute: Callable[[T], T]) -> T:
    """Return compute(|x|) with the sign of x. 0 and NaN stay unchanged."""
    magnitude = compute(x.lt(0).where(x.neg(), x))
    signed = x.lt(0).where(magnitude.neg(), magnitude)
    return x.eq(0).where(x, signed)


def _near_zero(x: T, float32: tables.Coefficients, float64: tables.Coefficients) -> T:
    """Return x + x z P(z), with z = x * x."""
    z = x.square()
    return x.add(x.mul(z).mul(polynomial(z, tables.for_dtype(x.dtype, float32, float64))))


def _with_sines(x: T) -> tuple[T, T, T]:
    """Return (is_far, sin(x), second sine).

    `is_far` is True where |sin(x)| is large. The second sine is sin(2x) there, and sin(x / 2)
    elsewhere. Each sine is accurate for any x, also near 0, and so are products and quotients of
    sines. sin(pi/2 - x) would not be accurate. 2x stays finite.
    """
    sine = x.sin()
    limit = 2.0**1023 if x.dtype is dtypes.float64 else 2.0**127
    is_far = sine.abs().gt(0.5).bitwise_and(x.abs().lt(limit))
    return is_far, sine, is_far.where(x.mul(2), x.mul(0.5)).sin()


def _cosine(x: T) -> T:
    """Return cos(x): sin(2x) / (2 sin(x)) where sin(x) is large, else 1 - 2 sin(x/2)^2."""
    is_far, sine, second = _with_sines(x)
    return is_far.where(second.div(sine.mul(2)), second.square().mul(-2).add(1))


def _tangent(x: T) -> T:
    """Return sin(x) / cos(x)."""
    is_far, sine, second = _with_sines(x)
    flat = sine.div(second.square().mul(-2).add(1))
    return is_far.where(sine.square().mul(2).div(second), flat)


def _arc(magnitude: T) -> tuple[T, T]:
    """Return (is_far, arc): arc is asin(x), or acos(x) / 2 where is_far is True: x > 1/2.

    acos(x) / 2 is computed as asin(sqrt((1 - x) / 2)).
    """
    is_far = magnitude.gt(0.5)
    r = is_far.where(magnitude.neg().add(1).mul(0.5).sqrt(), magnitude)
    return is_far, _near_zero(r, tables.ASIN_FLOAT32, tables.ASIN_FLOAT64)


def _arcsine(x: T) -> T:
    def positive(magnitude: T) -> T:
        is_far, arc = _arc(magnitude)
        # pi/2 in two parts: the second is the rounding error of the first.
        return is_far.where(_from_half_pi(arc.mul(2), x.dtype), arc)

    return _odd(x, positive)


def _from_half_pi(x: T, dtype: DType) -> T:
    """Return pi/2 - x. pi/2 has two parts, as the second matters where x is large."""
    high, low = _HALF_PI[dtype]
    return x.neg().add(low).add(high)


def _arccosine(x: T) -> T:
    is_negative = x.lt(0)
    is_far, arc = _arc(is_negative.where(x.neg(), x))
    high, low = _HALF_PI[x.dtype]
    far = is_negative.where(arc.mul(-2).add(2 * low).add(2 * high), arc.mul(2))
    return is_far.where(far, _from_half_pi(is_negative.where(arc.neg(), arc), x.dtype))


def _arctangent(x: T) -> T:
    def positive(magnitude: T) -> T:
        inverted = magnitude.gt(1)
        small = inverted.where(magnitude.reciprocal(), magnitude)
        is_far = small.gt(math.tan(math.pi / 8))
        reduced = is_far.where(small.sub(1).div(small.add(1)), small)
        near = _near_zero(reduced, tables.ATAN_FLOAT32, tables.ATAN_FLOAT64)
        high, low = _HALF_PI[x.dtype]
        angle = is_far.where(near.add(low / 2).add(high / 2), near)
        return inverted.where(_from_half_pi(angle, x.dtype), angle)

    return _odd(x, positive)


def _halved_powers(x: T) -> tuple[T, T]:
    """Return e ** |x| / 2 and e ** -|x| / 2, which overflow only if the result does."""
    root = x.abs().mul(0.5).exp()
    return root.mul(0.5).mul(root), root.reciprocal().mul(0.5).div(root)


def _hyperbolic_sine(x: T) -> T:
    def positive(magnitude: T) -> T:
        up, down = _halved_powers(magnitude)
        small = magnitude.lt(1)
        near = _near_zero(magnitude, tables.SINH_FLOAT32, tables.SINH_FLOAT64)
        return small.where(near, up.sub(down))

    return _odd(x, positive)


def _hyperbolic_cosine(x: T) -> T:
    up, down = _halved_powers(x)
    return up.add(down)


def log1p(x: T) -> T:
    """Return log(1 + x), corrected for the rounding of the sum.

    Source: Kahan; Goldberg, "What every computer scientist should know about floating-point
    arithmetic", 1991, theorem 4.
    """
    above = x.add(1)
    is_tiny = above.eq(1)
    is_huge = above.eq(x)
    divisor = is_tiny.bitwise_or(is_huge).where(1, above.sub(1))
    scaled = above.log().mul(is_huge.where(1, x).div(divisor))
    return is_tiny.where(x, scaled)


def _decimal_logarithm(x: T) -> T:
    """Return log2(x) * log10(2), or the integer that is at most 2 ULP away."""
    logarithm = x.log2().mul(math.log10(2))
    whole = logarithm.round()
    distance = logarithm.sub(whole).abs()
    return distance.le(whole.abs().mul(2.0**-x.dtype.mantissa_bits)).where(whole, logarithm)


# Above this, x and sqrt(x^2 - 1) are equal, and x^2 may overflow.
_HUGE = {dtypes.float32: 2.0**13, dtypes.float64: 2.0**28}


def _inverse_sinh(x: T) -> T:
    def positive(magnitude: T) -> T:
        huge = magnitude.gt(_HUGE[x.dtype])
        small = huge.where(1, magnitude)
        square = small.square()
        rest = square.div(square.add(1).sqrt().add(1))
        return huge.where(magnitude.log().add(math.log(2)), log1p(small.add(rest)))

    return _odd(x, positive)


def _inverse_cosh(x: T) -> T:
    huge = x.gt(_HUGE[x.dtype])
    above = huge.where(1, x).sub(1)
    # Below -1 the square is positive too: without this, the root would give a wrong result.
    above = above.lt(0).where(math.nan, above)
    near = log1p(above.add(above.mul(2).add(above.square()).sqrt()))
    return huge.where(x.log().add(math.log(2)), near)


def _inverse_tanh(x: T) -> T:
    def positive(magnitude: T) -> T:
        return log1p(magnitude.mul(2).div(magnitude.neg().add(1))).mul(0.5)

    return _odd(x, positive)


def _expm1_by_tanh(x: T) -> T:
    t = x.mul(0.5).tanh()
    return t.mul(2).div(t.neg().add(1))


# From here on erf(x) is 1.
_ERF_END = {dtypes.float32: 4, dtypes.float64: 6}


def _error_function(x: T) -> T:
    """Return erf(x) by one of two polynomials: variable and coefficients are selected."""
    is_negative = x.lt(0)
    magnitude = is_negative.where(x.neg(), x)
    is_near = magnitude.lt(1)
    end = _ERF_END[x.dtype]
    far = magnitude.gt(end).where(end, magnitude).sub(1)
    variable = is_near.where(x.square(), far)
    near_table = tables.for_dtype(x.dtype, tables.ERF_FLOAT32, tables.ERF_FLOAT64)
    far_table = tables.for_dtype(x.dtype, tables.ERFC_FLOAT32, tables.ERFC_FLOAT64)
    # The terms besides the constant are two sums, one of even and one of odd powers. So a
    # processor can compute both at the same time.
    squared = variable.square()
    even, odd = (
        _chosen_polynomial(is_near, squared, near_table[-k::-2][::-1], far_table[-k::-2][::-1])
        for k in (2, 3)
    )
    constant = is_near.where(constant_like(x, near_table[-1], x.dtype), far_table[-1])
    total = variable.mul(variable.mul(odd).add(even)).add(constant)
    complement = total.square().square().square()
    beyond = complement.neg().add(1)
    signed = is_negative.where(beyond.neg(), beyond)
    return is_near.where(x.add(x.mul(total)), signed)


def _chosen_polynomial(
    is_first: T, variable: T, first: tables.Coefficients, second: tables.Coefficients
) -> T:
    """Return polynomial `first` or `second`, which has at least as many coefficients."""
    longer = len(second) - len(first)
    start: T | float = second[0]
    if longer:
        start = polynomial(variable, second[: longer + 1])
    total = is_first.where(constant_like(variable, first[0], variable.dtype), start)
    for one, other in zip(first[1:], second[longer + 1 :], strict=True):
        chosen = is_first.where(constant_like(variable, one, variable.dtype), other)
        total = total.mul(variable).add(chosen)
    return total


def _log_of_two_powers(x: T, y: T) -> T:
    """Return the larger operand plus log(1 + e ** -d), where d is their distance."""
    distance = x.eq(y).where(0, x.sub(y)).abs()
    return x.maximum(y).add(log1p(distance.neg().exp()))


def polynomial(x: T, coefficients: tuple[float, ...]) -> T:
    """Evaluate a polynomial of at least two coefficients by Horner's scheme."""
    result = x.mul(coefficients[0])
    for coefficient in coefficients[1:-1]:
        result = result.add(coefficient).mul(x)
    return result.add(coefficients[-1])


def expm1(x: T) -> T:
    """Return e ** x - 1 for x up to 0: 2 t / (1 - t) with t = tanh(x / 2), accurate near 0."""
    return with_rule(x, "expm1", _expm1_by_tanh)


@composite
def mix(x: T, end: T, share: T) -> T:
    """Return x + (end - x) * share, exactly `end` for share 1."""
    distance = end.sub(x)
    from_end = end.sub(distance.mul(share.neg().add(1)))
    return share.lt(0.5).where(x.add(distance.mul(share)), from_end)


@gradient_rule("logaddexp", reads_sources=True)
def logaddexp_gradient(step: GradientStep[Functions]) -> Contributions:
    """Return the slopes of log(e ** x + e ** y): sigmoid(x - y) and sigmoid(y - x)."""
    x, y = step.sources
    return (lambda: step.gradient * (x - y).sigmoid(), lambda: step.gradient * (y - x).sigmoid())


@gradient_rule("softplus", reads_sources=True)
def softplus_gradient(step: GradientStep[Functions]) -> Contributions:
    """Return the gradient of softplus: d(softplus x) = sigmoid(x) dx."""
    return (lambda: step.gradient * step.sources[0].sigmoid(),)


# The slopes of functions y of one tensor x. Some slopes read y.
_SLOPES: dict[str, Callable[[Functions, Functions], Functions]] = {
    "cos": lambda x, y: -x.sin(),
    "tan": lambda x, y: y * y + 1,
    # (1 - x) (1 + x) is more accurate than 1 - x^2 near 1.
    "asin": lambda x, y: ((1 - x) * (1 + x)).rsqrt(),
    "acos": lambda x, y: -((1 - x) * (1 + x)).rsqrt(),
    "atan": lambda x, y: 1 / (x * x + 1),
    "sinh": lambda x, y: x.cosh(),
    "cosh": lambda x, y: x.sinh(),
    "asinh": lambda x, y: (x * x + 1).rsqrt(),
    "acosh": lambda x, y: ((x - 1) * (x + 1)).rsqrt(),
    "atanh": lambda x, y: 1 / ((1 - x) * (1 + x)),
    "erf": lambda x, y: (-(x * x)).exp() * (2 / math.sqrt(math.pi)),
    "expm1": lambda x, y: x.exp(),
    "log10": lambda x, y: 1 / (x * math.log(10)),
}

for _name, _slope in _SLOPES.items():
    enter_slope(_name, _slope)
