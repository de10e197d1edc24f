"""Exponential, logarithm and the activations and normalisations that are made of them."""

from __future__ import annotations

import math
from typing import Self

from tinyref.dtype import ConstType, DType, DTypeLike, to_dtype
from tinyref.errors import UserError, UserTypeError
from tinyref.tensor.arguments import axes_of, axis_of
from tinyref.tensor.literals import weak_number
from tinyref.tensor.methods.elementwise import composite, compute_dtype
from tinyref.tensor.methods.mathematics import Mathematics, log1p
from tinyref.tensor.methods.reduction import Axes
from tinyref.uops.ops import Ops


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
    def gelu(self) -> Self:
        """self * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), as self * sigmoid(2u).

        Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016: the approximation by tanh.

        Examples:
            >>> round(Tensor([1.0]).gelu().item(), 4)
            0.8412
        """
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
        found = z._with_rule("softplus", lambda z: z.relu().add(log1p(z.abs().neg().exp())))
        return found if beta == 1 else found.div(beta)

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

    def _below_max(self, axis: int, name: str, dtype: DTypeLike | None) -> tuple[Self, DType, int]:
        """Distances from the largest element along `axis`, the result's type, and the axis.

        The largest is taken as a constant: the functions below do not depend on it.
        """
        number = axis_of(axis, self.ndim, name)
        axes = (number,) if self.ndim else ()
        target = self._result_dtype() if dtype is None else to_dtype(dtype, name)
        if not compute_dtype(name, target).is_float:
            raise UserTypeError(f"{name}: dtype {target.name}, accepted are float types")
        wide = self._cast(target)._wide(name)
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
        shifted, target, number = self._below_max(axis, "softmax", dtype)
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
        # An infinite maximum would give inf - inf; 0 in its place leaves the infinity as it is.
        base = largest.isfinite().where(largest, 0)
        kept = self.sub(base).exp().sum(axes, keepdim=True).log().add(base)
        return kept._without(() if keepdim else axes)
