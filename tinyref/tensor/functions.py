"""Exponential, logarithm and the activations and normalisations that are made of them."""

from __future__ import annotations

import math
from typing import Self

from tinyref.dtype import DType, DTypeLike, dtypes, sum_dtype, to_dtype
from tinyref.errors import UserError
from tinyref.tensor.arguments import axes_of, axis_of
from tinyref.tensor.elementwise import compute_dtype
from tinyref.tensor.reduction import Axes, Reduction

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


class Functions(Reduction):
    """float16 and bfloat16 are computed in float32 and rounded once; integers give float32."""

    __slots__ = ()

    def _wide(self, name: str) -> Self:
        """This tensor in the type that the function is computed in."""
        floats = self._as_float(name)
        return floats._cast(sum_dtype(floats.dtype))

    def _result_dtype(self) -> DType:
        return self.dtype if self.dtype.is_float else dtypes.default_float

    def exp(self) -> Self:
        """e ** self, as 2 ** (self * log2(e))."""
        return self._wide("exp").mul(1 / math.log(2)).exp2()._cast(self._result_dtype())

    def log(self) -> Self:
        """The natural logarithm, as log2(self) * ln(2); -inf for 0, NaN below."""
        return self._wide("log").log2().mul(math.log(2))._cast(self._result_dtype())

    def sigmoid(self) -> Self:
        """1 / (1 + e ** -self), by powers of e that never overflow, so its gradient is finite."""
        x = self._wide("sigmoid")
        negative = x.lt(0)
        power = negative.where(x, x.neg()).exp()
        return negative.where(power, 1.0).div(power.add(1))._cast(self._result_dtype())

    def tanh(self) -> Self:
        """The hyperbolic tangent: +-1 far out, and accurate near 0 where tanh(x) is nearly x."""
        x = self._wide("tanh")
        negative = x.lt(0)
        magnitude = negative.where(x.neg(), x)
        far = magnitude.gt(20)
        power = far.where(20, magnitude).mul(-2).exp()
        large = power.sub(1).div(power.add(1))
        signed = negative.where(large, large.neg())
        result = magnitude.lt(0.625).where(x._tanh_near_zero(), signed)
        return result._cast(self._result_dtype())

    def _tanh_near_zero(self) -> Self:
        numerator, denominator = _TANH_FLOAT64 if self.dtype is dtypes.float64 else _TANH_FLOAT32
        # Far from zero the value is not used; keeping it small keeps its gradient finite.
        x = self.lt(1).mul(self.gt(-1)).where(self, 0)
        z = x.square()
        quotient = z._polynomial(numerator)
        if denominator:
            quotient = quotient.div(z._polynomial((1.0, *denominator)))
        return x.mul(z.mul(quotient).add(1))

    def _polynomial(self, coefficients: tuple[float, ...]) -> Self:
        """By Horner's scheme, highest power first; at least two coefficients."""
        result = self.mul(coefficients[0])
        for coefficient in coefficients[1:-1]:
            result = result.add(coefficient).mul(self)
        return result.add(coefficients[-1])

    def silu(self) -> Self:
        """self * sigmoid(self)."""
        x = self._wide("silu")
        return x.mul(x.sigmoid())._cast(self._result_dtype())

    def _shifted(self, axis: int, name: str, dtype: DTypeLike | None) -> tuple[Self, DType, int]:
        """Distances from the largest element along `axis`, the result's type, and the axis.

        The largest is taken as a constant: the functions below do not depend on it.
        """
        number = axis_of(axis, self.ndim, name)
        axes = (number,) if self.ndim else ()
        target = self._result_dtype() if dtype is None else to_dtype(dtype, name)
        if not compute_dtype(name, target).is_float:
            raise UserError(f"{name}: dtype {target.name}, accepted are float types")
        wide = self._cast(target)._wide(name)
        return wide.sub(wide.detach().max(axes, keepdim=True)), target, number

    def softmax(
        self, axis: int = -1, dtype: DTypeLike | None = None, _single_kernel: int = 0
    ) -> Self:
        """e ** self, scaled to add up to 1 along `axis`; `dtype` names the result's type.

        `_single_kernel` asks for one kernel; how many there are is the scheduler's decision.
        """
        shifted, target, number = self._shifted(axis, "softmax", dtype)
        powers = shifted.exp()
        axes = (number,) if self.ndim else ()
        return powers.div(powers.sum(axes, keepdim=True))._cast(target)

    def log_softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """The logarithm of `softmax`, without its underflow."""
        shifted, target, number = self._shifted(axis, "log_softmax", dtype)
        axes = (number,) if self.ndim else ()
        return shifted.sub(shifted.exp().sum(axes, keepdim=True).log())._cast(target)

    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """log(sum(e ** self)), without overflow; -inf where all elements are -inf."""
        axes = axes_of(axis, self.ndim, "logsumexp")
        wide = self._wide("logsumexp")
        largest = wide.detach().max(axes, keepdim=True)
        # An infinite maximum would give inf - inf; 0 in its place leaves the infinity as it is.
        base = largest.isfinite().where(largest, 0)
        kept = wide.sub(base).exp().sum(axes, keepdim=True).log().add(base)
        return kept._without(() if keepdim else axes)._cast(self._result_dtype())
