"""Sums of products: matrix products and convolutions, and the windows that pooling shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tinyref.dtype import DTypeLike, promote
from tinyref.errors import UserError
from tinyref.tensor.functions import Functions
from tinyref.tensor.reduction import accumulator_dtype
from tinyref.uops.ops import Ops
from tinyref.uops.symbolic import describe_shape

Sizes = int | Sequence[int]


class Contraction(Functions):
    """Products and sums are computed in the accumulator's type: float32 for float16 and bfloat16,
    at least 32 bits for integers, or the `dtype` that is named. The result of floats is rounded
    back to their own type.
    """

    __slots__ = ()

    def _factors(self, other: Self, name: str) -> None:
        if not isinstance(other, Contraction):
            raise UserError(f"{name}: got a {type(other).__name__}, accepted is a Tensor")

    def dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """The matrix product: the last axis of this tensor against the last but one of `w`.

        Tensors of one axis are vectors; axes before the last two are a batch, which broadcasts.
        """
        return self._product(w, dtype, "dot")

    def matmul(self, x: Self, reverse: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The matrix product `self @ x`, or `x @ self` with `reverse`; see `dot`."""
        self._factors(x, "matmul")
        return x._product(self, dtype, "matmul") if reverse else self._product(x, dtype, "matmul")

    def _product(self, other: Self, dtype: DTypeLike | None, name: str) -> Self:
        self._factors(other, name)
        left_shape, right_shape = describe_shape(self.shape), describe_shape(other.shape)
        if not self.ndim or not other.ndim:
            raise UserError(
                f"{name}: shapes {left_shape} and {right_shape}: both need at least one axis"
            )
        if self.shape[-1] != other.shape[-min(other.ndim, 2)]:
            raise UserError(
                f"{name}: shapes {left_shape} and {right_shape}: the last axis of the first must "
                f"equal axis {-min(other.ndim, 2)} of the second"
            )
        accumulator, result = accumulator_dtype(promote(self.dtype, other.dtype), dtype, name)
        rows = self._cast(accumulator)
        columns = other._cast(accumulator)
        if other.ndim > 1:
            columns = columns.transpose(-1, -2)
        if self.ndim > 1 and other.ndim > 1:
            rows = rows.unsqueeze(-2)
            columns = columns.unsqueeze(-3)
        rows, columns = rows._spread(name, columns)
        products = rows._apply(Ops.MUL, columns)
        return products._reduced(Ops.ADD, (products.ndim - 1,), False)._cast(result)

    def linear(
        self, weight: Self, bias: Self | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """self @ weight + bias, where a weight of one axis scales each element.

        `weight` has shape (inputs, outputs).
        """
        self._factors(weight, "linear")
        if weight.ndim == 1:
            named = self if dtype is None else self.cast(dtype)
            result = named.mul(weight if dtype is None else weight.cast(dtype))
        else:
            result = self._product(weight, dtype, "linear")
        return result if bias is None else result.add(bias)
