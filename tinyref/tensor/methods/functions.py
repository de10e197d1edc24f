"""Exponential, logarithm and the activations and normalisations that are made of them."""

from __future__ import annotations

import math
from typing import Literal, Self, TypeVar

from tinyref.arrays import np
from tinyref.dtype import ConstType, DType, DTypeLike, to_dtype
from tinyref.errors import UserError, UserTypeError
from tinyref.tensor.arguments import axes_of, axis_of
from tinyref.tensor.literals import weak_number
from tinyref.tensor.methods.elementwise import composite, compute_dtype
from tinyref.tensor.methods.mathematics import Mathematics, log1p
from tinyref.tensor.methods.reduction import Axes
from tinyref.uops.ops import Ops

T = TypeVar("T", bound="Functions")


def _require_numbers(name: str, **given: object) -> None:
    """Raises `UserError` for an argument that is no number."""
    for argument, value in given.items():
        if weak_number(value) is None:
            kind = type(value).__name__
            raise UserTypeError(f"{name}: {argument} is a {kind}: accepted is a number")


class Functions(Mathematics):
    """float16 and bfloat16 are computed in float32 and rounded once; integers give float32."""

    __slots__ = ()

    @composite
    def sigmoid(self) -> Self:
        """1 / (1 + e ** -self), by powers of e that never overflow, so its gradient is finite.

        Examples:
            >>> Tensor([0.0]).sigmoid().item()
            0.5
        """
        negative = self.lt(0)
        power = negative.where(self, self.neg()).exp()
        return negative.where(power, 1.0).div(power.add(1))

    @composite
    def silu(self) -> Self:
        """self * sigmoid(self).

        Examples:
            >>> Tensor([0.0]).silu().item()
            0.0
        """
        return self.mul(self.sigmoid())

    def swish(self) -> Self:
        """The same as `silu`.

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
        if approximate not in ("none", "tanh"):
            raise UserError(f"gelu: approximate {approximate!r}: accepted are 'none' and 'tanh'")
        if approximate == "none":
            share = self.mul(math.sqrt(0.5)).erf().add(1).mul(0.5)
            return self.mul(share)
        # (1 + tanh(u)) / 2 is sigmoid(2u).
        inner = self.mul(self.square().mul(0.044715).add(1)).mul(2 * math.sqrt(2 / math.pi))
        return self.mul(inner.sigmoid())

    @composite
    def quick_gelu(self) -> Self:
        """self * sigmoid(1.702 self).

        Examples:
            >>> round(Tensor([1.0]).quick_gelu().item(), 4)
            0.8458
        """
        return self.mul(self.mul(1.702).sigmoid())

    def relu6(self) -> Self:
        """The element from 0 to 6, else the nearer end.

        Examples:
            >>> Tensor([-1.0, 3.0, 9.0]).relu6().tolist()
            [0.0, 3.0, 6.0]
        """
        return self.relu().clamp(max_=6)

    def hardtanh(self, min_val: ConstType = -1, max_val: ConstType = 1) -> Self:
        """The element from `min_val` to `max_val`, else the nearer end.

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
        """alpha * self + beta, from 0 to 1, else the nearer end.

        Examples:
            >>> Tensor([-9.0, 0.0, 9.0]).hardsigmoid().tolist()
            [0.0, 0.5, 1.0]
        """
        _require_numbers("hardsigmoid", alpha=alpha, beta=beta)
        return self.mul(alpha).add(beta).clamp(0, 1)

    @composite
    def hardswish(self) -> Self:
        """self * relu6(self + 3) / 6.

        Examples:
            >>> Tensor([-9.0, 0.0, 9.0]).hardswish().tolist()
            [-0.0, 0.0, 9.0]
        """
        return self.mul(self.add(3).relu6().mul(1 / 6))

    @composite
    def leaky_relu(self, neg_slope: float = 0.01) -> Self:
        """The element where it is above 0, else `neg_slope` times it.

        Examples:
            >>> Tensor([-4.0, 2.0]).leaky_relu(0.25).tolist()
            [-1.0, 2.0]
        """
        _require_numbers("leaky_relu", neg_slope=neg_slope)
        return self.gt(0).where(self, self.mul(neg_slope))

    @composite
    def elu(self, alpha: float = 1.0) -> Self:
        """The element where it is above 0, else alpha * (e ** self - 1).

        Examples:
            >>> Tensor([-1e4, 2.0]).elu().tolist()
            [-1.0, 2.0]
        """
        _require_numbers("elu", alpha=alpha)
        return self._exponential_below_zero(alpha, 1.0)

    @composite
    def celu(self, alpha: float = 1.0) -> Self:
        """The element where it is above 0, else alpha * (e ** (self / alpha) - 1).

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
        """gamma * elu(self, alpha): Klambauer and others, "Self-Normalizing Neural Networks".

        Examples:
            >>> round(Tensor([1.0]).selu().item(), 4)
            1.0507
        """
        _require_numbers("selu", alpha=alpha, gamma=gamma)
        return self._exponential_below_zero(alpha, 1.0).mul(gamma)

    def _exponential_below_zero(self, scale: float, width: float) -> Self:
        """The element where it is above 0, else scale * (e ** (self / width) - 1)."""
        is_above = self.gt(0)
        # The side that is not chosen stays small, so that its gradient is finite.
        below = is_above.where(0, self)
        scaled = below if width == 1 else below.div(width)
        return is_above.where(self, scaled._expm1().mul(scale))

    @composite
    def softplus(self, beta: float = 1) -> Self:
        """log(1 + e ** (beta * self)) / beta, as max(z, 0) + log(1 + e ** -|z|): no overflow.

        Examples:
            >>> round(Tensor([0.0]).softplus().item(), 4)
            0.6931
        """
        _require_numbers("softplus", beta=beta)
        if beta == 0:
            raise UserError("softplus: beta is 0, by which it divides: accepted are other numbers")
        z = self if beta == 1 else self.mul(beta)
        result = z._with_rule("softplus", lambda z: z.relu().add(log1p(z.abs().neg().exp())))
        if beta == 1:
            return result
        # An infinite product may stand for a result that is representable.
        linear = self.relu() if beta > 0 else self.neg().relu().neg()
        return z.abs().eq(math.inf).where(linear, result.div(beta))

    @composite
    def logsigmoid(self) -> Self:
        """Return log(sigmoid(self)), without its underflow, as 0 - softplus(-self).

        Examples:
            >>> Tensor([-1000.0, 1000.0]).logsigmoid().tolist()
            [-1000.0, 0.0]
        """
        return self.neg().softplus().sub(0, reverse=True)

    @composite
    def mish(self) -> Self:
        """self * tanh(softplus(self)): Misra, "Mish: A Self Regularized Activation Function".

        Examples:
            >>> Tensor([0.0]).mish().item()
            0.0
        """
        return self.mul(self.softplus().tanh())

    @composite
    def softsign(self) -> Self:
        """self / (1 + |self|).

        Examples:
            >>> Tensor([-1.0, 3.0]).softsign().tolist()
            [-0.5, 0.75]
        """
        return self.div(self.abs().add(1))

    def _below_max(
        self, axis: int, name: str, dtype: DTypeLike | None, negated: bool = False
    ) -> tuple[Self, DType, int]:
        """Distances from the largest element along `axis`, the result's type, and the axis.

        The largest is taken as a constant: the functions below do not depend on it. `negated`
        takes the negatives of all elements first.
        """
        number = axis_of(axis, self.ndim, name)
        axes = (number,) if self.ndim else ()
        target = self._result_dtype() if dtype is None else to_dtype(dtype, name)
        if not compute_dtype(name, target).is_float:
            raise UserTypeError(f"{name}: dtype {target.name}, accepted are float types")
        wide = self._cast(target)._wide(name)
        wide = wide.neg() if negated else wide
        return wide.sub(wide.detach()._reduce(Ops.MAX, axes)), target, number

    def softmax(
        self, axis: int = -1, dtype: DTypeLike | None = None, _single_kernel: int = 0
    ) -> Self:
        """e ** self, scaled to add up to 1 along `axis`; `dtype` names the result's type.

        `_single_kernel` asks for one kernel; how many there are is the scheduler's decision.

        Examples:
            >>> Tensor([1.0, 1.0]).softmax().tolist()
            [0.5, 0.5]
        """
        return self._softmax(axis, "softmax", dtype)

    def softmin(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """Return e ** -self, scaled to add up to 1 along `axis`; `dtype` names the result's type.

        Examples:
            >>> Tensor([1.0, 1.0]).softmin().tolist()
            [0.5, 0.5]
        """
        return self._softmax(axis, "softmin", dtype, negated=True)

    def _softmax(
        self, axis: int, name: str, dtype: DTypeLike | None, negated: bool = False
    ) -> Self:
        shifted, target, number = self._below_max(axis, name, dtype, negated)
        powers = shifted.exp()
        axes = (number,) if self.ndim else ()
        return powers.div(powers.sum(axes, keepdim=True))._cast(target)

    def log_softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """The logarithm of `softmax`, without its underflow.

        Examples:
            >>> round(Tensor([0.0, 0.0]).log_softmax().numpy()[0].item(), 4)
            -0.6931
        """
        shifted, target, number = self._below_max(axis, "log_softmax", dtype)
        axes = (number,) if self.ndim else ()
        return shifted.sub(shifted.exp().sum(axes, keepdim=True).log())._cast(target)

    @composite
    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """log(sum(e ** self)), without overflow; -inf where all elements are -inf.

        Examples:
            >>> round(Tensor([0.0, 0.0]).logsumexp().item(), 4)
            0.6931
        """
        axes = axes_of(axis, self.ndim, "logsumexp")
        # MAX may lose a NaN; the sum below does not.
        largest = self.detach()._reduce(Ops.MAX, axes)
        # Infinity minus itself is NaN. With the largest finite number in its place the result is
        # still infinite, and no power of a finite element overflows.
        limit = float(np.finfo(self.dtype.name).max)
        base = largest.clamp(-limit, limit)
        result = self.sub(base).exp().sum(axes, keepdim=True).log().add(base)
        return result._without(() if keepdim else axes)

    def logaddexp(self, other: Self | ConstType) -> Self:
        """Return log(e ** self + e ** other), without overflow; integers give float32.

        Examples:
            >>> round(Tensor([0.0]).logaddexp(Tensor([0.0])).item(), 4)
            0.6931
        """
        name = "logaddexp"
        target = self._pair(other, name)[0]._result_dtype()
        # Widened first, so that the gradient of a broadcast operand is summed before it is rounded.
        operand = other._wide(name) if isinstance(other, Functions) else other
        left, right = self._wide(name)._pair(operand, name)
        return left._with_rule(name, _log_of_two_powers, right)._cast(target)

    @composite
    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        """Return the vectors along axis `dim`, each divided by its p-norm, or by `eps` if larger.

        Examples:
            >>> Tensor([[3.0, 4.0]]).normalize().tolist()
            [[0.6000000238418579, 0.800000011920929]]
        """
        _require_numbers("normalize", p=p, eps=eps)
        axes = axes_of(axis_of(dim, self.ndim, "normalize"), self.ndim, "normalize")
        norm = self._norm(float(p), axes)
        return self.div(norm.clamp(min_=float(eps)))

    def _norm(self, p: float, axes: tuple[int, ...]) -> Self:
        """The p-norm over `axes`, which stay as size 1; its slope at 0 is 0."""
        magnitude = self.abs()
        if math.isinf(p):
            extreme = magnitude.max if p > 0 else magnitude.min
            return extreme(axes, keepdim=True)
        if p == 0:
            return magnitude.ne(0)._cast(self.dtype).sum(axes, keepdim=True)
        # The powers of elements up to 1 do not overflow.
        largest = magnitude.detach()._reduce(Ops.MAX, axes)
        unit = largest.gt(0).bitwise_and(largest.isfinite()).where(largest, 1)
        powers = magnitude.div(unit)._power_above_zero(p, 0 if p > 0 else math.inf)
        return powers.sum(axes, keepdim=True)._power_above_zero(1 / p, 0).mul(unit)

    def _power_above_zero(self, exponent: float, at_zero: float) -> Self:
        """self ** exponent, but the constant `at_zero` for 0, whose slope may be infinite."""
        is_zero = self.eq(0)
        safe = is_zero.where(1, self)
        return is_zero.where(at_zero, safe.sqrt() if exponent == 0.5 else safe.pow(exponent))


def _log_of_two_powers(x: T, y: T) -> T:
    """The larger one, plus log(1 + e ** -d) for their distance d."""
    distance = x.eq(y).where(0, x.sub(y)).abs()
    return x.maximum(y).add(log1p(distance.neg().exp()))
