"""Sums, products, extremes and what is made of them, over some axes or all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self, TypeVar

from tinyref.algebra.symbolic import product
from tinyref.dtype import DType, DTypeLike, dtypes, sum_dtype, to_dtype
from tinyref.lazy import graph
from tinyref.tensor.arguments import axes_of, integer
from tinyref.tensor.methods.elementwise import compute_dtype
from tinyref.tensor.methods.movement import Movement
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg

Axes = int | Sequence[int] | None
_T = TypeVar("_T", bound="Reduction")


class Reduction(Movement):
    """`axis` is one axis, several, or None for all; `()` reduces nothing.

    The reduced axes go, or stay as size 1 with `keepdim`. A reduction of nothing gives the
    identity: 0, 1, and for max and min the far end of the type.
    """

    __slots__ = ()

    def _reduce_axes(self, op: Ops, axes: tuple[int, ...], keepdim: bool) -> Self:
        return self._reduce(op, axes)._without(() if keepdim else axes)

    def _without(self, axes: tuple[int, ...]) -> Self:
        """Without the given axes, whose size is 1."""
        left = tuple(size for axis, size in enumerate(self.shape) if axis not in axes)
        return self._reshape(left)

    def _accumulate(
        self, op: Ops, axis: Axes, keepdim: bool, dtype: DTypeLike | None, name: str
    ) -> Self:
        """A sum or product in the accumulator's type; the half floats round once, at the end."""
        axes = axes_of(axis, self.ndim, name)
        compute_dtype(name, self.dtype)
        if dtype is not None:
            named, _ = accumulator_dtype(self.dtype, dtype, name)
            terms = self._cast(named)
            if named.is_bool:
                return terms.any(axes, keepdim) if op is Ops.ADD else terms.all(axes, keepdim)
            return terms._reduce_axes(op, axes, keepdim)._apart_from(self)
        wide = self._cast(sum_dtype(self.dtype))._reduce_axes(op, axes, keepdim)
        return (wide._cast(self.dtype) if self.dtype.is_float else wide)._apart_from(self)

    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum. Narrow integers and bool add up in int32 or uint32, and stay so; float16 and
        bfloat16 add up in float32 and are rounded back. `dtype` names another accumulator; a sum of
        bools is `any`.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()
            [4, 6]
        """
        return self._accumulate(Ops.ADD, axis, keepdim, dtype, "sum")

    def prod(
        self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """The product, in the types of `sum`; a product of bools is `all`.

        Examples:
            >>> Tensor([2, 3, 4]).prod().item()
            24
        """
        return self._accumulate(Ops.MUL, axis, keepdim, dtype, "prod")

    def max(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The largest element, or NaN where there is one. Ties share the gradient evenly.

        Examples:
            >>> Tensor([[1, 5], [7, 3]]).max(axis=1).tolist()
            [5, 7]
        """
        axes = axes_of(axis, self.ndim, "max")
        compute_dtype("max", self.dtype)
        return self._maximum_over(axes)._without(() if keepdim else axes)._apart_from(self)

    def _maximum_over(self, axes: tuple[int, ...]) -> Self:
        """The largest element over `axes`, which stay. A reduce by MAX may lose a NaN, so another
        one in the same loop looks for it.
        """
        if not (self.dtype.is_float and axes):
            return self._reduce(Ops.MAX, axes)

        def compute(x: Self) -> Self:
            return x.isnan()._reduce(Ops.MAX, axes).where(math.nan, x._reduce(Ops.MAX, axes))

        return self._with_rule(Ops.REDUCE, compute, arg=ReduceArg(Ops.MAX, axes))

    def min(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The smallest element, or NaN where there is one. Ties share the gradient evenly.

        Examples:
            >>> Tensor([[1, 5], [7, 3]]).min(axis=0).tolist()
            [1, 3]
        """
        axes = axes_of(axis, self.ndim, "min")
        compute_dtype("min", self.dtype)
        return (
            self._reverse_order()
            ._maximum_over(axes)
            ._without(() if keepdim else axes)
            ._reverse_order()
        )

    def any(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """True where some element is not zero.

        Examples:
            >>> Tensor([[0, 0], [1, 0]]).any(axis=1).tolist()
            [False, True]
        """
        return self._cast(dtypes.bool).max(axis, keepdim)

    def all(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """True where no element is zero.

        Examples:
            >>> Tensor([[1, 0], [1, 1]]).all(axis=1).tolist()
            [False, True]
        """
        return self.logical_not().any(axis, keepdim).logical_not()

    def _count(self, axes: tuple[int, ...], dtype: DType) -> Self:
        """The number of elements along `axes`, as a tensor without axes."""
        count = product(self.shape[axis] for axis in axes)
        if isinstance(count, int):
            return self._constant(count, dtype)
        return self._from_node(graph.cast(count, dtype), self._device)

    def mean(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The mean; integers and bool give the default float, an empty mean is NaN.

        Examples:
            >>> Tensor([[1.0, 2.0], [3.0, 6.0]]).mean(axis=1).tolist()
            [1.5, 4.5]
        """
        axes = axes_of(axis, self.ndim, "mean")
        compute_dtype("mean", self.dtype)
        result = self.dtype if self.dtype.is_float else dtypes.default_float
        accumulator = sum_dtype(result)
        total = self._cast(accumulator)._reduce_axes(Ops.ADD, axes, keepdim)
        return total.div(self._count(axes, accumulator))._cast(result)

    def var(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """The variance: squared distances from the mean over the count less `correction`.

        NaN where that is zero or below, as there is no such estimate.

        Examples:
            >>> Tensor([1.0, 2.0, 3.0]).var().item()
            1.0
        """
        axes, wide, divisor = self._variance_operands("var", axis, correction)

        def compute(x: Self, divisor: Self) -> Self:
            variance, unit = x._scaled_variance(axes, divisor)
            # By one unit at a time, as the square of the unit may be beyond the floats.
            return variance.mul(unit).mul(unit)

        variance = wide._with_rule("variance", compute, divisor, arg=ReduceArg(Ops.ADD, axes))
        return variance._without(() if keepdim else axes)._cast(self._result_dtype())

    def _variance_operands(
        self, name: str, axis: Axes, correction: int
    ) -> tuple[tuple[int, ...], Self, Self]:
        """Return the axes, the elements in the type of computations, and the divisor."""
        axes = axes_of(axis, self.ndim, name)
        wide = self._wide(name)
        less = integer(correction, f"{name}: correction")
        return axes, wide, self._count(axes, wide.dtype).sub(less).maximum(0)

    def _scaled_variance(self, axes: tuple[int, ...], divisor: Self) -> tuple[Self, Self]:
        """Return the variance in units squared, and the unit; see `_scaled_distances`."""
        distance, unit = self._scaled_distances(axes)
        return distance.square()._reduce(Ops.ADD, axes).div(divisor), unit

    def _scaled_distances(self, axes: tuple[int, ...]) -> tuple[Self, Self]:
        """Return the distances from the mean in units, and the unit.

        The unit is a power of two near the largest magnitude, so that no square overflows or
        underflows; it is 1 where none can.
        """
        unit, inverse = _unit_of(self.detach(), axes)
        # Where the sum may overflow, the sum of smaller elements gives the mean.
        small = 2.0 ** -(self.dtype.bits // 2)
        is_large = unit.gt(1)
        small_total = self.mul(small)._reduce(Ops.ADD, axes)
        total = is_large.where(small_total, self._reduce(Ops.ADD, axes))
        mean = total.div(self._count(axes, self.dtype))
        mean = mean.mul(is_large.where(inverse.mul(1 / small), inverse))
        return self.mul(inverse).sub(mean), unit

    def std(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """The square root of the variance; its slope at equal elements is 0.

        Examples:
            >>> Tensor([1.0, 2.0, 3.0]).std().item()
            1.0
        """
        axes, wide, divisor = self._variance_operands("std", axis, correction)
        variance, unit = wide._scaled_variance(axes, divisor)
        is_constant = variance.eq(0)
        # The root has an infinite slope at 0, which times 0 would be no number.
        root = is_constant.where(1, variance).sqrt()
        deviation = is_constant.where(0, root).mul(unit)
        return deviation._without(() if keepdim else axes)._cast(self._result_dtype())

    def std_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        """`std` and `mean` of the same axes.

        Examples:
            >>> std, mean = Tensor([1.0, 2.0, 3.0]).std_mean()
            >>> std.item(), mean.item()
            (1.0, 2.0)
        """
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def var_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        """`var` and `mean` of the same axes.

        Examples:
            >>> var, mean = Tensor([1.0, 2.0, 3.0]).var_mean()
            >>> var.item(), mean.item()
            (1.0, 2.0)
        """
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)


def _unit_of(x: _T, axes: tuple[int, ...]) -> tuple[_T, _T]:
    """Return a power of two near the largest magnitude over `axes`, and its inverse.

    Both are 1 where squares of the elements and sums of them are far from the ends of the type.
    """
    integers = dtypes.int64 if x.dtype is dtypes.float64 else dtypes.int32
    bits = x.dtype.mantissa_bits
    bias = (1 << x.dtype.bits - 2 - bits) - 1
    # The bits of magnitudes are in the order of the numbers.
    magnitudes = x._apply(Ops.BITCAST, dtype=integers).bitwise_and(integers.maximum)
    exponent = magnitudes._reduce(Ops.MAX, axes).rshift(bits).clamp(1, 2 * bias - 1)
    distance = exponent.sub(bias)
    distance = distance.abs().le(bias // 4).where(0, distance)
    unit, inverse = (
        item.add(bias).lshift(bits)._apply(Ops.BITCAST, dtype=x.dtype)
        for item in (distance, distance.neg())
    )
    return unit, inverse


def accumulator_dtype(operands: DType, dtype: DTypeLike | None, name: str) -> tuple[DType, DType]:
    """(accumulator, result) of a sum of products of elements of type `operands`.

    A type that the caller names is both: in bool a sum is OR, a product AND. Otherwise sums widen
    as `Tensor.sum` does, and the result goes back to the type of the operands: floats are rounded,
    integers wrap, bool is "not 0".
    """
    compute_dtype(name, operands)
    if dtype is not None:
        named = compute_dtype(name, to_dtype(dtype, name))
        return named, named
    return sum_dtype(operands), operands
