"""Sums of products: matrix products and convolutions, and the windows that pooling shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tinyref.dtype import ConstType, DTypeLike, dtypes, promote, sum_dtype
from tinyref.errors import UserError
from tinyref.tensor.arguments import (
    Shape,
    fixed,
    integer,
    per_axis,
    spatial_padding,
)
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

    def _windows(
        self, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
    ) -> Self:
        """Shape (..., outputs per axis, kernel per axis): the windows over the last axes.

        All by moving elements. For one axis of size n: laid end to end, its copies in rows of
        n + dilation make row j start at element j * dilation, so the elements that kernel position
        j sees are every `stride`-th of row j.
        """
        count = len(kernel)
        lead = self.ndim - count
        result = self
        for place in range(count):
            axis = lead + 2 * place
            result = result._axis_windows(axis, kernel[place], stride[place], dilation[place])
        order = (
            *range(lead),
            *(lead + 2 * place for place in range(count)),
            *(lead + 2 * place + 1 for place in range(count)),
        )
        return result._permute(order)

    def _axis_windows(self, axis: int, kernel: int, stride: int, dilation: int) -> Self:
        """One axis becomes two: (outputs, kernel)."""
        length = fixed((self.shape[axis],), "windows")[0]
        outputs = (length - dilation * (kernel - 1) - 1) // stride + 1
        before, after = self.shape[:axis], self.shape[axis + 1 :]
        if dilation == 1 and kernel <= stride:
            # Windows that do not overlap are a plain cut.
            rows = self._fitted(axis, outputs * stride)
            return rows._reshape((*before, outputs, stride, *after))._part(axis + 1, 0, kernel)
        # A row must be long enough for the last stride, even where it reaches past the end.
        length = max(length, outputs * stride - dilation)
        repeats = -(-kernel * (length + dilation) // length)
        laid = (
            self._fitted(axis, length)
            ._reshape((*before, 1, length, *after))
            ._expand((*before, repeats, length, *after))
            ._reshape((*before, repeats * length, *after))
            ._part(axis, 0, kernel * (length + dilation))
            ._reshape((*before, kernel, length + dilation, *after))
            ._part(axis + 1, 0, outputs * stride)
            ._reshape((*before, kernel, outputs, stride, *after))
            ._part(axis + 2, 0, 1)
            ._reshape((*before, kernel, outputs, *after))
        )
        return laid.transpose(axis, axis + 1)

    def _fitted(self, axis: int, length: int) -> Self:
        """An axis cut, or grown with zeros at its end, to `length`."""
        have = fixed((self.shape[axis],), "windows")[0]
        if length <= have:
            return self._part(axis, 0, length)
        bounds = [(0, 0)] * self.ndim
        bounds[axis] = (0, length - have)
        return self._pad(tuple(bounds))

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """The cross-correlation with `weight` over all axes after the second.

        Shapes: this (batch, inputs, *sizes), weight (outputs, inputs / groups, *kernel), bias
        (outputs,); any number of spatial axes. `padding` is one number, one for each axis, or two
        for each axis from the last backwards.
        """
        self._factors(weight, "conv2d")
        count = weight.ndim - 2
        groups = integer(groups, "conv2d: groups")
        self._check_convolution(weight, bias, groups)
        kernel = fixed(weight.shape[2:], "conv2d")
        steps = per_axis(stride, count, "conv2d: stride", 1)
        spread = per_axis(dilation, count, "conv2d: dilation", 1)
        margins = spatial_padding(padding, count, "conv2d: padding")
        accumulator, result = accumulator_dtype(promote(self.dtype, weight.dtype), dtype, "conv2d")
        padded = self._cast(accumulator)._pad(((0, 0), (0, 0), *margins))
        _check_windows(padded.shape[2:], kernel, spread, "conv2d")
        batch = self.shape[0]
        outputs, share = fixed(weight.shape[:2], "conv2d")
        if 0 in kernel or not share:
            raise UserError(f"conv2d: weight {describe_shape(weight.shape)} is empty")
        windows = padded._windows(kernel, steps, spread)
        places = windows.shape[2 : 2 + count]
        windows = windows._reshape((batch, groups, 1, share, *places, *kernel))
        factors = weight._cast(accumulator)._reshape(
            (1, groups, outputs // groups, share, *(1,) * count, *kernel)
        )
        windows, factors = windows._spread("conv2d", factors)
        axes = (3, *range(4 + count, 4 + 2 * count))
        sums = windows._apply(Ops.MUL, factors)._reduced(Ops.ADD, axes, False)
        rounded = sums._reshape((batch, outputs, *places))._cast(result)
        return rounded if bias is None else rounded.add(bias._reshape((outputs, *(1,) * count)))

    def _check_convolution(self, weight: Self, bias: Self | None, groups: int) -> None:
        have, want = describe_shape(self.shape), describe_shape(weight.shape)
        if weight.ndim < 3 or self.ndim != weight.ndim:
            raise UserError(
                f"conv2d: input {have} and weight {want}: both need a batch or output axis, "
                f"a channel axis and the same number of spatial axes"
            )
        outputs, share = fixed(weight.shape[:2], "conv2d")
        if groups < 1 or self.shape[1] != groups * share or outputs % groups:
            raise UserError(
                f"conv2d: input {have}, weight {want}, groups {groups}: input channels must be "
                f"groups * {share}, and {outputs} outputs must divide by groups"
            )
        if bias is not None and bias.shape != (outputs,):
            raise UserError(f"conv2d: bias {describe_shape(bias.shape)}, accepted is ({outputs},)")

    def _pooled(self, plan: PoolPlan, fill: ConstType, beyond: ConstType) -> Self:
        """The windows of `plan`: its padding holds `fill`, what `ceil_mode` adds `beyond`."""
        lead = ((0, 0),) * (self.ndim - len(plan.kernel))
        padded = self._padded((*lead, *plan.padding), fill)
        grown = padded._padded((*lead, *((0, extra) for extra in plan.extra)), beyond)
        return grown._windows(plan.kernel, plan.stride, plan.dilation)

    def max_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
    ) -> Self:
        """The largest element of each window; padding never wins.

        The windows go over as many of the last axes as `kernel_size` has numbers, two for one
        number. The stride defaults to the window's size. With `ceil_mode` a last window may reach
        past the end.
        """
        plan = plan_pool(
            self.shape, kernel_size, stride, dilation, padding, ceil_mode, "max_pool2d"
        )
        lowest = self.dtype.minimum
        return self._pooled(plan, lowest, lowest).max(tuple(range(-len(plan.kernel), 0)))

    def avg_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """The mean of each window, the zeros of the padding counted unless that is switched off.

        What `ceil_mode` adds past the end is never counted; else as `max_pool2d`.
        """
        plan = plan_pool(
            self.shape, kernel_size, stride, dilation, padding, ceil_mode, "avg_pool2d"
        )
        axes = tuple(range(-len(plan.kernel), 0))
        windows = self._pooled(plan, False, False)
        if not any(plan.extra) and (count_include_pad or not any(map(any, plan.padding))):
            return windows.mean(axes)
        floats = windows._as_float("avg_pool2d")
        inside = self._constant(True, dtypes.bool)._broadcast_to(self.shape)
        counted = inside._pooled(plan, count_include_pad, False).sum(axes)
        total = floats._cast(sum_dtype(floats.dtype)).sum(axes)
        return total.div(counted)._cast(floats.dtype)


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Windows over the last axes; `extra` elements past the end make room for the last window."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    extra: tuple[int, ...]


def plan_pool(
    shape: Shape,
    kernel_size: Sizes,
    stride: Sizes | None,
    dilation: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    name: str,
) -> PoolPlan:
    """Reads the arguments of a pooling function. Raises `UserError` where a window does not fit."""
    count = len(kernel_size) if isinstance(kernel_size, list | tuple) else 2
    if len(shape) < count:
        raise UserError(f"{name}: shape {describe_shape(shape)} has fewer than {count} axes")
    kernel = per_axis(kernel_size, count, f"{name}: kernel_size", 1)
    steps = per_axis(kernel if stride is None else stride, count, f"{name}: stride", 1)
    spread = per_axis(dilation, count, f"{name}: dilation", 1)
    margins = spatial_padding(padding, count, f"{name}: padding")
    sizes = fixed(shape[len(shape) - count :], name)
    lengths = [size + sum(margin) for size, margin in zip(sizes, margins, strict=True)]
    _check_windows(lengths, kernel, spread, name)
    extra = [0] * count
    if ceil_mode:
        for axis, length in enumerate(lengths):
            reach = spread[axis] * (kernel[axis] - 1) + 1
            last = -(-(length - reach) // steps[axis]) * steps[axis]
            # A window that would see nothing but padding past the end is left out.
            if last < sizes[axis] + margins[axis][0]:
                extra[axis] = max(0, last + reach - length)
    return PoolPlan(kernel, steps, spread, margins, tuple(extra))


def _check_windows(
    sizes: Sequence[object], kernel: tuple[int, ...], dilation: tuple[int, ...], name: str
) -> None:
    for size, width, spread in zip(sizes, kernel, dilation, strict=True):
        reach = spread * (width - 1) + 1
        if isinstance(size, int) and size < reach:
            raise UserError(
                f"{name}: a window that reaches over {reach} elements does not fit {size}"
            )
