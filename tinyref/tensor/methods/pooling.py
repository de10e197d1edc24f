"""Windows over the last axes of a tensor, made by moving elements, and pooling over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, overload

from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import np
from tinyref.dtype import ConstType, DType, dtypes, sum_dtype
from tinyref.errors import UserError, UserTypeError
from tinyref.tensor.arguments import Shape, axis_of, fixed, integer, per_axis, spatial_padding
from tinyref.tensor.methods.elementwise import compute_dtype
from tinyref.tensor.methods.shaping import Shaping
from tinyref.uops.ops import Ops

Sizes = int | Sequence[int]


class Pooling(Shaping):
    """Pooling goes over as many of the last axes as `kernel_size` has numbers, two for one number.

    The stride defaults to the window's size. `padding` is one number, one for each axis, or two
    for each axis from the last backwards. With `ceil_mode` a last window may reach past the end,
    by less than a stride.
    """

    __slots__ = ()

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
            rows = self._fit_axis(axis, outputs * stride)
            return rows._reshape((*before, outputs, stride, *after))._part(axis + 1, 0, kernel)
        # A row must be long enough for the last stride, even where it reaches past the end.
        length = max(length, outputs * stride - dilation)
        repeats = -(-kernel * (length + dilation) // length)
        laid = (
            self._fit_axis(axis, length)
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

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """Return the windows of `size` elements along an axis, every `step` elements.

        The axis becomes one of the windows, whose elements are along a new last axis. The result
        is a view; it can be assigned to unless windows overlap.

        Examples:
            >>> Tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
            [[1, 2], [2, 3], [3, 4]]
        """
        axis = axis_of(dimension, self.ndim, "unfold")
        length = fixed(self._row().shape, "unfold")[axis]
        width, stride = integer(size, "unfold: size"), integer(step, "unfold: step")
        if not 0 <= width <= length:
            raise UserError(f"unfold: size {width}, accepted is 0 to {length}, the axis's size")
        if stride < 1:
            raise UserError(f"unfold: step {stride}, accepted is at least 1")
        windows = self._row()._axis_windows(axis, width, stride, 1)._moved_last(axis + 1)
        shape = windows.shape if self.ndim else (width,)
        return windows._reshape(shape)

    def _fit_axis(self, axis: int, length: int) -> Self:
        """An axis cut, or grown with zeros at its end, to `length`."""
        have = fixed((self.shape[axis],), "windows")[0]
        if length <= have:
            return self._part(axis, 0, length)
        bounds = [(0, 0)] * self.ndim
        bounds[axis] = (0, length - have)
        # No window shows the zeros, so windows are views of the elements.
        return self._pad(tuple(bounds), is_view=True)

    def _pooling_windows(self, plan: PoolPlan, fill: ConstType, beyond: ConstType) -> Self:
        """The windows of `plan`: its padding holds `fill`, what `ceil_mode` adds `beyond`."""
        lead = ((0, 0),) * (self.ndim - len(plan.kernel))
        padded = self._pad_with_value((*lead, *plan.padding), fill)
        grown = padded._pad_with_value((*lead, *((0, extra) for extra in plan.extra)), beyond)
        return grown._windows(plan.kernel, plan.stride, plan.dilation)

    @overload
    def max_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
    ) -> Self: ...

    @overload
    def max_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
    ) -> tuple[Self, Self]: ...

    def max_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Self | tuple[Self, Self]:
        """Return the largest element of each window. Padding never wins.

        The first of equal elements gets the gradient, as in torch. With `return_indices`, return
        also where that element is: int32 numbers, counted over the pooled axes. Raises `UserError`
        where a window would see nothing but padding.

        Examples:
            >>> Tensor([[[[1.0, 2.0], [3.0, 6.0]]]]).max_pool2d().item()
            6.0
        """
        name = "max_pool2d"
        plan = plan_pool(self.shape, kernel_size, stride, dilation, padding, ceil_mode, name)
        _check_seen(self.shape, plan, name)
        lowest = self.dtype.minimum
        windows = self._pooling_windows(plan, lowest, lowest)
        axes = tuple(range(windows.ndim - len(plan.kernel), windows.ndim))
        numbers = self._element_numbers(plan)
        largest = windows._with_rule("max_pool", lambda x, _: x.max(axes, keepdim=True), numbers)
        if not return_indices:
            return largest._without(axes)
        return largest._without(axes), windows._number_of_largest(numbers, largest)._without(axes)

    def _element_numbers(self, plan: PoolPlan) -> Self:
        """The windows of `plan` over the numbers of the elements in the pooled axes.

        Shape (outputs per axis, kernel per axis). Padding has a number above all others.
        """
        sizes = fixed(self.shape[self.ndim - len(plan.kernel) :], "max_pool2d")
        outside = math.prod(sizes)
        numbers = self.arange(outside, device=self.device)._reshape(sizes)
        return numbers._pooling_windows(plan, outside, outside)

    def _number_of_largest(self, numbers: Self, largest: Self) -> Self:
        """The number of the first element of each of these windows that is `largest`, or NaN."""
        matches = self.eq(largest)
        if self.dtype.is_float:
            matches = matches.bitwise_or(self.isnan())
        axes = tuple(range(self.ndim - numbers.ndim // 2, self.ndim))
        return matches.where(numbers, dtypes.int32.maximum).min(axes, keepdim=True)

    def max_unpool2d(
        self,
        indices: Self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Self:
        """The elements at the places that `max_pool2d` gave as `indices`, zeros elsewhere.

        `output_size` is the shape that was pooled, or its pooled axes, where several fit: of a
        shape, batch and channels are not read, as in torch. Of elements with one index the last
        stays; an index outside the result is left out.

        Examples:
            >>> x = Tensor([[[[1.0, 2.0], [3.0, 6.0]]]])
            >>> values, places = x.max_pool2d(return_indices=True)
            >>> values.max_unpool2d(places).tolist()
            [[[[0.0, 0.0], [0.0, 6.0]]]]
        """
        name = "max_unpool2d"
        sizes = self._unpooled_sizes(kernel_size, stride, dilation, padding, output_size)
        if not isinstance(indices, Pooling) or not indices.dtype.is_int:
            raise UserTypeError(f"{name}: indices: accepted is a Tensor of integers")
        if indices.shape != self.shape:
            raise UserError(
                f"{name}: indices {describe_shape(indices.shape)} for elements of "
                f"{describe_shape(self.shape)}: accepted is one for each"
            )
        lead = self.shape[: self.ndim - len(sizes)]
        length = math.prod(fixed(self.shape[len(lead) :], name))
        order = self._count_to(length)._reshape((length, 1))
        places = self._count_to(math.prod(sizes))
        hits = indices._reshape((*lead, length, 1)).eq(places)
        sources = hits.where(order, -1)._reduce_axes(Ops.MAX, (len(lead),), False)
        found = self._reshape((*lead, length))._elements_at(len(lead), sources, name)
        return found._reshape((*lead, *sizes))

    def _unpooled_sizes(
        self,
        kernel_size: Sizes,
        stride: Sizes | None,
        dilation: Sizes,
        padding: Sizes,
        output_size: Sequence[int] | None,
    ) -> tuple[int, ...]:
        """The sizes that pooling brings to this tensor's. Raises `UserError` for others."""
        name = "max_unpool2d"
        count = len(kernel_size) if isinstance(kernel_size, list | tuple) else 2
        if self.ndim < count:
            raise UserError(
                f"{name}: shape {describe_shape(self.shape)} has fewer than {count} axes"
            )
        kernel = per_axis(kernel_size, count, f"{name}: kernel_size", 1)
        steps = per_axis(kernel if stride is None else stride, count, f"{name}: stride", 1)
        spread = per_axis(dilation, count, f"{name}: dilation", 1)
        margins = spatial_padding(padding, count, f"{name}: padding")
        sizes = fixed(self.shape[self.ndim - count :], name)
        usual = [
            (size - 1) * step - sum(margin) + gap * (width - 1) + 1
            for size, step, margin, gap, width in zip(
                sizes, steps, margins, spread, kernel, strict=True
            )
        ]
        if output_size is None:
            wanted = tuple(usual)
        else:
            listed = tuple(integer(size, f"{name}: output_size") for size in output_size)
            is_whole = len(listed) in (self.ndim, count + 2)
            wanted = listed[-count:] if is_whole else listed
            if len(wanted) != count or any(
                abs(want - size) >= step
                for want, size, step in zip(wanted, usual, steps, strict=True)
            ):
                raise UserError(
                    f"{name}: output_size {listed}: accepted are sizes less than a stride of "
                    f"{steps} away from {tuple(usual)}"
                )
        if any(size < 1 for size in wanted):
            raise UserError(f"{name}: nothing was pooled: sizes {wanted} are not positive")
        return wanted

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

        What `ceil_mode` adds past the end is never counted. Integers give the default float.
        Raises `UserError` where a window would count nothing.

        Examples:
            >>> Tensor([[[[1.0, 2.0], [3.0, 6.0]]]]).avg_pool2d().item()
            3.0
        """
        name = "avg_pool2d"
        plan = plan_pool(self.shape, kernel_size, stride, dilation, padding, ceil_mode, name)
        if not count_include_pad:
            _check_seen(self.shape, plan, name)
        compute_dtype(name, self.dtype)
        floats = self._as_float(name)
        wide = floats._cast(sum_dtype(floats.dtype))
        axes = tuple(range(-len(plan.kernel), 0))
        total = wide._pooling_windows(plan, False, False).sum(axes)
        return total.div(self._divisors(plan, count_include_pad, wide.dtype))._cast(floats.dtype)

    def _divisors(self, plan: PoolPlan, with_padding: bool, dtype: DType) -> Self:
        """How many elements each window counts, in a shape that broadcasts to the windows'."""
        sizes = fixed(self.shape[self.ndim - len(plan.kernel) :], "avg_pool2d")
        found = self._constant(1, dtype)
        for axis, size in enumerate(sizes):
            before, after = plan.padding[axis]
            low, high = (-before, size + after) if with_padding else (0, size)
            places = plan.places(axis, size)
            counts = ((places >= low) & (places < high)).sum(1)
            if (counts == counts[:1]).all():
                along = self._constant(int(counts[:1].sum()), dtype)
            else:
                along = type(self)(counts.astype(np.int32), device=self.device)._cast(dtype)
                along = along._reshape((len(counts), *(1,) * (len(sizes) - axis - 1)))
            found = found.mul(along)
        return found


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Windows over the last axes; `extra` elements past the end make room for the last window."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    extra: tuple[int, ...]

    def places(self, axis: int, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """(windows, kernel): the numbers of the elements that the windows see along an axis.

        Below 0 and from `size` on is padding.
        """
        before, after = self.padding[axis]
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        last = size + after + self.extra[axis] - reach
        starts = np.arange(-before, last + 1, self.stride[axis])
        return starts[:, None] + np.arange(self.kernel[axis])[None, :] * self.dilation[axis]


def _check_seen(shape: Shape, plan: PoolPlan, name: str) -> None:
    """Raises `UserError` where a window sees nothing but padding."""
    count = len(plan.kernel)
    for axis, size in enumerate(fixed(shape[len(shape) - count :], name)):
        places = plan.places(axis, size)
        sees = ((places >= 0) & (places < size)).any(1)
        if not sees.all():
            raise UserError(
                f"{name}: padding {plan.padding[axis]} around {size} elements: a window of "
                f"{plan.kernel[axis]} would see nothing else"
            )


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
    extra = [0] * count
    if ceil_mode:
        for axis, length in enumerate(lengths):
            reach = spread[axis] * (kernel[axis] - 1) + 1
            last = -(-(length - reach) // steps[axis]) * steps[axis]
            # A window that would see nothing but padding past the end is left out.
            if 0 <= last < sizes[axis] + margins[axis][0]:
                extra[axis] = max(0, last + reach - length)
    grown = [length + more for length, more in zip(lengths, extra, strict=True)]
    check_windows(grown, kernel, spread, name)
    return PoolPlan(kernel, steps, spread, margins, tuple(extra))


def check_windows(
    sizes: Sequence[object], kernel: tuple[int, ...], dilation: tuple[int, ...], name: str
) -> None:
    """Raises `UserError` where a window is longer than its axis; a symbolic axis passes."""
    for size, width, spread in zip(sizes, kernel, dilation, strict=True):
        reach = spread * (width - 1) + 1
        if isinstance(size, int) and size < reach:
            raise UserError(
                f"{name}: a window that reaches over {reach} elements does not fit {size}"
            )
