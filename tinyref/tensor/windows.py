"""Windows over the last axes of tensors: convolutions, pooling, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise, product
from math import prod
from typing import Generic, Literal, Self, TypeVar, overload

from tinyref import config
from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import np
from tinyref.dtype import ConstType, DType, DTypeLike, dtypes, sum_dtype
from tinyref.errors import UserError, UserTypeError
from tinyref.tensor.arguments import (
    Shape,
    axis_of,
    count_of,
    fixed,
    integer,
    per_axis,
    spatial_padding,
)
from tinyref.tensor.contraction import (
    Contraction,
    fits_image_layout,
    in_image_layout,
    matrix_product,
    products_of,
    sums_over,
    types_of_sums,
    with_bias,
)
from tinyref.tensor.core import (
    apply,
    as_tensor,
    broadcast_to,
    constant_like,
    expand,
    pad,
    reshape,
    shrink,
    with_rule,
)
from tinyref.tensor.elementwise import as_float, compute_dtype, spread
from tinyref.tensor.gradient import Contributions, GradientStep, gradient_rule
from tinyref.tensor.indexing import Indexing, spread_elements
from tinyref.tensor.movement import as_row, count_to, cut_axis, moved_last, pad_with
from tinyref.tensor.reduction import elements_at, reduce_axes
from tinyref.uops.ops import Ops

Sizes = int | Sequence[int]

# The gradient of the data is computed as a correlation only if it reads at most this many elements
# for each element of the result. The others are zeros.
MAX_GROWTH = 2
# The gradient of fewer channels, each from more sums, is computed from the gradients of windows:
# they have more lanes than the channels.
FEW_CHANNELS = 8

T = TypeVar("T", bound="Windows")
Rows = tuple[tuple[float, ...], ...]
Margins = tuple[tuple[int, int], ...]

# F(4x4, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015,
# section 4.3. For a kernel g and a tile d of 6 by 6 elements, A ((G g G') * (B d B')) A' is a tile
# of 4 by 4 results.
_OF_DATA: Rows = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
_OF_KERNEL: Rows = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
_OF_RESULT: Rows = (
    (1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 0),
    (0, 1, 1, 4, 4, 0),
    (0, 1, -1, 8, -8, 1),
)


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """The parameters of a convolution: steps of the kernels, and types of sums and result."""

    groups: int
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    accumulator: DType
    result: DType
    name: str


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """Windows of `kernel` elements along an axis, as payload of the gradient rule."""

    axis: int
    kernel: int
    stride: int  # The distance of windows.
    dilation: int  # The distance of elements in a window.

    @property
    def is_split(self) -> bool:
        """Return True if the windows do not overlap: splitting the axis makes them."""
        return self.dilation == 1 and self.kernel <= self.stride


class Windows(Contraction, Indexing):
    """Convolutions compute products and sums in the accumulator's type: see `Contraction`.

    Pooling works on the last axes, one for each number of `kernel_size`; two for one number.
    The default stride is the window's size. `padding` is one number, one for each axis, or two
    for each axis, starting at the last axis. With `ceil_mode`, a last window may pass the end by
    less than a stride.
    """

    __slots__ = ()

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """Return the windows of `size` elements along an axis, every `step` elements.

        The axis becomes an axis of windows. Their elements are along a new last axis. The result is
        a view, which can be assigned to unless windows overlap.

        Examples:
            >>> Tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
            [[1, 2], [2, 3], [3, 4]]
        """
        axis = axis_of(dimension, self.ndim, "unfold")
        length = fixed(as_row(self).shape, "unfold")[axis]
        width = count_of(size, "unfold: size", 0, length)
        stride = count_of(step, "unfold: step", 1)
        windows = axis_windows(as_row(self), WindowSteps(axis, width, stride, 1))
        windows = moved_last(windows, axis + 1)
        shape = windows.shape if self.ndim else (width,)
        return reshape(windows, shape)

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
        """Return the largest element of each window. Padding is never the largest.

        The first of equal elements, or the last NaN, gets the gradient, as in torch. With
        `return_indices`, return also the index of that element: int32, counted over the pooled
        axes. Raises `UserError` if a window has only padding.

        Examples:
            >>> Tensor([[[[1.0, 2.0], [3.0, 6.0]]]]).max_pool2d().item()
            6.0
        """
        name = "max_pool2d"
        plan = plan_pool(self.shape, kernel_size, stride, dilation, padding, ceil_mode, name)
        _check_seen(self.shape, plan, name)
        largest = with_rule(self, "max_pool", lambda x: maximum_of_windows(x, plan), arg=plan)
        return (largest, number_of_largest(self, plan, largest)) if return_indices else largest

    def max_unpool2d(
        self,
        indices: Self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Self:
        """Undo `max_pool2d`: write the elements at its `indices`, and zeros elsewhere.

        If several sizes fit, set `output_size` to the shape before pooling, or to its pooled axes.
        Batch and channels of this shape are ignored, as in torch. If elements share an index, the
        last one counts. An index outside of the result is ignored.

        Examples:
            >>> x = Tensor([[[[1.0, 2.0], [3.0, 6.0]]]])
            >>> values, indices = x.max_pool2d(return_indices=True)
            >>> values.max_unpool2d(indices).tolist()
            [[[[0.0, 0.0], [0.0, 6.0]]]]
        """
        name = "max_unpool2d"
        sizes = self._unpooled_sizes(kernel_size, stride, dilation, padding, output_size)
        if not isinstance(indices, Windows) or not indices.dtype.is_int:
            raise UserTypeError(f"{name}: indices: accepted is a Tensor of integers")
        if indices.shape != self.shape:
            raise UserError(
                f"{name}: indices {describe_shape(indices.shape)} for elements of "
                f"{describe_shape(self.shape)}: accepted is one for each"
            )
        lead = self.shape[: self.ndim - len(sizes)]
        length = math.prod(fixed(self.shape[len(lead) :], name))
        order = reshape(count_to(self, length), (length, 1))
        numbers = count_to(self, math.prod(sizes))
        hits = reshape(indices, (*lead, length, 1)).eq(numbers)
        sources = reduce_axes(hits.where(order, -1), Ops.MAX, (len(lead),), False)
        elements = elements_at(reshape(self, (*lead, length)), len(lead), sources, name)
        return reshape(elements, (*lead, *sizes))

    def _unpooled_sizes(
        self,
        kernel_size: Sizes,
        stride: Sizes | None,
        dilation: Sizes,
        padding: Sizes,
        output_size: Sequence[int] | None,
    ) -> tuple[int, ...]:
        """Return the sizes before pooling. Raises `UserError` for sizes that do not fit."""
        name = "max_unpool2d"
        plan = read_pool(self.shape, kernel_size, stride, dilation, padding, name)
        count, steps = len(plan.kernel), plan.stride
        sizes = fixed(self.shape[self.ndim - count :], name)
        usual = [
            (size - 1) * step - sum(margin) + gap * (width - 1) + 1
            for size, step, margin, gap, width in zip(
                sizes, steps, plan.padding, plan.dilation, plan.kernel, strict=True
            )
        ]
        if output_size is None:
            result = tuple(usual)
        else:
            listed = tuple(integer(size, f"{name}: output_size") for size in output_size)
            is_whole = len(listed) in (self.ndim, count + 2)
            result = listed[-count:] if is_whole else listed
            if len(result) != count or any(
                abs(want - size) >= step
                for want, size, step in zip(result, usual, steps, strict=True)
            ):
                raise UserError(
                    f"{name}: output_size {listed}: accepted are sizes less than a stride of "
                    f"{steps} away from {tuple(usual)}"
                )
        if any(size < 1 for size in result):
            raise UserError(f"{name}: nothing was pooled: sizes {result} are not positive")
        return result

    def avg_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """Return the mean of each window. With `count_include_pad`, padding counts as zeros.

        Positions that `ceil_mode` adds past the end never count. Integers give the default float.
        Raises `UserError` if a window would count no element.

        Examples:
            >>> Tensor([[[[1.0, 2.0], [3.0, 6.0]]]]).avg_pool2d().item()
            3.0
        """
        name = "avg_pool2d"
        plan = plan_pool(self.shape, kernel_size, stride, dilation, padding, ceil_mode, name)
        if not count_include_pad:
            _check_seen(self.shape, plan, name)
        compute_dtype(name, self.dtype)
        floats = as_float(self, name)
        wide = floats.cast(sum_dtype(floats.dtype))
        axes = tuple(range(-len(plan.kernel), 0))
        total = with_rule(
            wide, "sum_pool", lambda x: pooling_windows(x, plan, False, False).sum(axes), arg=plan
        )
        return total.div(self._divisors(plan, count_include_pad, wide.dtype)).cast(floats.dtype)

    def _divisors(self, plan: PoolPlan, with_padding: bool, dtype: DType) -> Self:
        """Return the number of counted elements of each window, in a shape that broadcasts."""
        sizes = fixed(self.shape[self.ndim - len(plan.kernel) :], "avg_pool2d")
        result = constant_like(self, 1, dtype)
        for axis, size in enumerate(sizes):
            before, after = plan.padding[axis]
            low, high = (-before, size + after) if with_padding else (0, size)
            indices = plan.indices(axis, size)
            counts = ((indices >= low) & (indices < high)).sum(1)
            if (counts == counts[:1]).all():
                along = constant_like(self, int(counts[:1].sum()), dtype)
            else:
                along = type(self)(counts.astype(np.int32), device=self.device).cast(dtype)
                along = reshape(along, (len(counts), *(1,) * (len(sizes) - axis - 1)))
            result = result.mul(along)
        return result

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
        """Return the cross-correlation with `weight` over all axes after the second.

        Shapes: self (batch, inputs, *sizes), weight (outputs, inputs / groups, *kernel), bias
        (outputs,), any number of spatial axes. `padding` is one number, one for each axis, or two
        for each axis, starting at the last axis. Negative padding cuts. With the flag WINO, floats
        with kernels of 3 by 3 and stride 1 take about half of the multiplications, with a larger
        rounding error.

        Examples:
            >>> image = Tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]])
            >>> image.conv2d(Tensor.ones(1, 1, 2, 2)).tolist()
            [[[[12.0, 16.0]]]]
        """
        plan, margins = plan_convolution(
            self, weight, bias, groups, stride, dilation, padding, dtype, "conv2d"
        )
        padded = self.pad(((0, 0), (0, 0), *margins))
        return convolved(padded, weight, bias, plan, needed=self.shape[2:])

    def conv_transpose2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
    ) -> Self:
        """Return the transposed convolution: the gradient of `conv2d` with respect to its input.

        Shapes: self (batch, inputs, *sizes), weight (inputs, outputs / groups, *kernel), bias
        (outputs,). `padding` is cut off the result. `output_padding` extends its end, by less than
        the stride or the dilation: it selects one of the sizes that a stride makes equal.

        Examples:
            >>> Tensor([[[[1.0, 2.0]]]]).conv_transpose2d(Tensor.ones(1, 1, 1, 2)).tolist()
            [[[[1.0, 3.0, 2.0]]]]
        """
        name = "conv_transpose2d"
        plan, margins = plan_convolution(
            self, weight, bias, groups, stride, dilation, padding, None, name
        )
        steps, spread, count = plan.stride, plan.dilation, len(plan.stride)
        growth = per_axis(output_padding, count, f"{name}: output_padding", 0)
        if any(grown >= max(limits) for grown, *limits in zip(growth, steps, spread, strict=True)):
            raise UserError(
                f"{name}: output_padding {growth}: accepted is less than the stride {steps} "
                f"or the dilation {spread}"
            )
        sizes, widths = fixed(self.shape[2:], name), fixed(weight.shape[2:], name)
        # Begin and end of the result within the result without padding.
        bounds = tuple(
            (before, (size - 1) * step + gap * (width - 1) + 1 - after + grown)
            for size, width, step, gap, (before, after), grown in zip(
                sizes, widths, steps, spread, margins, growth, strict=True
            )
        )
        left = tuple(end - start for start, end in bounds)
        if min(left) < 0 or 0 in sizes:
            raise UserError(f"{name}: padding {margins} leaves sizes {left} of the result")
        check_channels(self, outputs_first(self, weight, plan.groups), bias, plan)
        # Compute at least one element: if the result is empty, it is cut off again.
        computed = tuple((start, max(end, start + 1)) for start, end in bounds)
        part = TransposedPart(plan, computed)
        sums = with_rule(
            self.cast(plan.accumulator),
            "transposed",
            lambda x, kernels: transposed(x, kernels, part),
            weight.cast(plan.accumulator),
            arg=part,
        )
        placed = None if bias is None else reshape(bias, (bias.shape[0], *(1,) * count))
        result = with_bias(sums, placed, plan.result)
        return shrink(result, tuple((0, size) for size in (*result.shape[:2], *left)))


# Windows, made by moving elements


def windows_of(
    x: T, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> T:
    """Return the windows over the last axes: shape (..., outputs per axis, kernel per axis).

    It only moves elements. For one axis of size n: repeat the axis, and cut the copies into rows of
    n + dilation elements. Then row j starts at element j * dilation, and kernel position j reads
    every `stride`-th element of row j.
    """
    count = len(kernel)
    lead = x.ndim - count
    result = x
    for number in range(count):
        steps = WindowSteps(lead + 2 * number, kernel[number], stride[number], dilation[number])
        show = partial(axis_windows, steps=steps)
        result = show(result) if steps.is_split else with_rule(result, "windows", show, arg=steps)
    order = (
        *range(lead),
        *(lead + 2 * number for number in range(count)),
        *(lead + 2 * number + 1 for number in range(count)),
    )
    return result.permute(order)


def axis_windows(x: T, steps: WindowSteps) -> T:
    """Replace an axis by two axes (outputs, kernel)."""
    axis, kernel, stride, dilation = steps.axis, steps.kernel, steps.stride, steps.dilation
    length = fixed((x.shape[axis],), "windows")[0]
    outputs = (length - dilation * (kernel - 1) - 1) // stride + 1
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if steps.is_split:
        rows = fit_axis(x, axis, outputs * stride)
        return cut_axis(reshape(rows, (*before, outputs, stride, *after)), axis + 1, 0, kernel)
    # A row must be long enough for the last stride, even if this passes the end.
    length = max(length, outputs * stride - dilation)
    repeats = -(-kernel * (length + dilation) // length)
    laid = reshape(
        cut_axis(
            reshape(
                cut_axis(
                    reshape(
                        cut_axis(
                            reshape(
                                expand(
                                    reshape(
                                        fit_axis(x, axis, length), (*before, 1, length, *after)
                                    ),
                                    (*before, repeats, length, *after),
                                ),
                                (*before, repeats * length, *after),
                            ),
                            axis,
                            0,
                            kernel * (length + dilation),
                        ),
                        (*before, kernel, length + dilation, *after),
                    ),
                    axis + 1,
                    0,
                    outputs * stride,
                ),
                (*before, kernel, outputs, stride, *after),
            ),
            axis + 2,
            0,
            1,
        ),
        (*before, kernel, outputs, *after),
    )
    return laid.transpose(axis, axis + 1)


@gradient_rule("windows")
def windows_gradient(step: GradientStep[Windows]) -> Contributions:
    """Sum for each element the gradients of the windows that show it."""
    assert isinstance(step.arg, WindowSteps), "it carries the steps of the windows"
    axis, kernel = step.arg.axis, step.arg.kernel
    stride, dilation = step.arg.stride, step.arg.dilation
    gradient, shape = step.gradient, step.sources[0].shape
    (length,) = fixed(shape[axis : axis + 1], "windows")

    def for_elements() -> Windows:
        if dilation > 1 or stride == 1:
            rows = gradient.transpose(axis, axis + 1)
            (outputs,) = fixed(gradient.shape[axis : axis + 1], "windows")
            spread = spread_elements(rows, axis + 1, stride, outputs * stride)
            # The sums along another axis would compute these again for each of their terms.
            return sum_shifted(spread, axis, dilation, length).contiguous()
        # Windows of whole strides show each element of a stride at the same positions.
        strides = -(-kernel // stride)
        whole = fit_axis(gradient, axis + 1, strides * stride)
        divided = (*shape[:axis], -1, strides, stride, *shape[axis + 1 :])
        rows = whole.reshape(divided).transpose(axis, axis + 1)
        sums = sum_shifted(rows, axis, 1, -(-length // stride))
        return fit_axis(sums.contiguous().flatten(axis, axis + 1), axis, length)

    return (for_elements,)


def sum_shifted(x: T, axis: int, step: int, length: int) -> T:
    """Return the sum of the rows along `axis`, where row k is shifted by k * `step`.

    The elements of a row are along the next axis. It takes the place of both, and gets `length`.
    """
    count = fixed(x.shape[axis : axis + 1], "windows")[0]
    before, after = x.shape[:axis], x.shape[axis + 2 :]
    # With enough zeros before the elements, the last row starts at its first zero, the row before
    # it `step` later, and so on.
    margin = step * (count - 1)
    bounds = [(0, 0)] * x.ndim
    bounds[axis + 1] = (margin, 0)
    rows = pad(fit_axis(x.flip(axis), axis + 1, length), tuple(bounds))
    whole = reshape(rows, (*before, count * (margin + length), *after))
    shifted = fit_axis(whole, axis, count * (margin + length + step))
    columns = reshape(shifted, (*before, count, margin + length + step, *after))
    return reduce_axes(cut_axis(columns, axis + 1, 0, length), Ops.ADD, (axis,), False)


def fit_axis(x: T, axis: int, length: int) -> T:
    """Cut an axis to `length`, or extend it with zeros at its end."""
    have = fixed((x.shape[axis],), "windows")[0]
    if length <= have:
        return cut_axis(x, axis, 0, length)
    bounds = [(0, 0)] * x.ndim
    bounds[axis] = (0, length - have)
    # No window has these zeros, so windows are views of the elements.
    return pad(x, tuple(bounds), is_view=True)


def check_windows(
    sizes: Sequence[object], kernel: tuple[int, ...], dilation: tuple[int, ...], name: str
) -> None:
    """Raise `UserError` if a window is longer than its axis. A symbolic axis is accepted."""
    for size, width, gap in zip(sizes, kernel, dilation, strict=True):
        reach = gap * (width - 1) + 1
        if isinstance(size, int) and size < reach:
            raise UserError(
                f"{name}: a window over {reach} elements does not fit an axis of size {size}"
            )


# Convolutions


def plan_convolution(
    x: T,
    weight: T,
    bias: T | None,
    groups: int,
    stride: Sizes,
    dilation: Sizes,
    padding: Sizes,
    dtype: DTypeLike | None,
    name: str,
) -> tuple[ConvolutionPlan, Margins]:
    """Return the plan and the padding. Raises `UserError` for arguments that do not fit."""
    as_tensor(x, weight, f"{name}: weight")
    if weight.ndim < 3 or x.ndim != weight.ndim:
        raise UserError(
            f"{name}: input {describe_shape(x.shape)} and weight {describe_shape(weight.shape)}: "
            f"both need a batch or output axis, a channel axis and the same number of spatial axes"
        )
    count = weight.ndim - 2
    steps = per_axis(stride, count, f"{name}: stride", 1)
    gaps = per_axis(dilation, count, f"{name}: dilation", 1)
    margins = spatial_padding(padding, count, f"{name}: padding", minimum=None)
    number = integer(groups, f"{name}: groups")
    types = types_of_sums(x, weight, bias, dtype, name)
    return ConvolutionPlan(number, steps, gaps, *types, name), margins


def check_channels(x: T, weight: T, bias: T | None, plan: ConvolutionPlan) -> None:
    """Raise `UserError` if channels, groups and bias do not fit."""
    have, want = describe_shape(x.shape), describe_shape(weight.shape)
    name, groups = plan.name, plan.groups
    outputs, share = fixed(weight.shape[:2], name)
    if groups < 1 or x.shape[1] != groups * share or outputs % groups:
        raise UserError(
            f"{name}: input {have}, weight {want}, groups {groups}: input channels must be "
            f"groups * {share}, and {outputs} outputs must divide by groups"
        )
    if 0 in weight.shape:
        raise UserError(f"{name}: weight {want} is empty")
    if bias is None:
        return
    if bias.shape != (outputs,):
        raise UserError(f"{name}: bias {describe_shape(bias.shape)}, accepted is ({outputs},)")


def convolved(
    x: T,
    weight: T,
    bias: T | None,
    plan: ConvolutionPlan,
    written: T | None = None,
    needed: Shape | None = None,
) -> T:
    """Return the cross-correlation of this padded tensor. For `written` see `presence_of`.

    needed: the sizes without the padding, which needs no gradient.
    """
    check_channels(x, weight, bias, plan)
    kernel = fixed(weight.shape[2:], plan.name)
    check_windows(x.shape[2:], kernel, plan.dilation, plan.name)
    data, factors = x, weight
    if plan.groups == 1 and fits_image_layout(data, factors, weight.shape[1]):
        data, factors = in_image_layout(data, 1), in_image_layout(factors, 1)
    data, factors = data.cast(plan.accumulator), factors.cast(plan.accumulator)
    is_minimal = (
        bool(config.integer("WINO"))
        and plan.accumulator.is_float
        and (kernel, plan.stride, plan.dilation) == ((3, 3), (1, 1), (1, 1))
    )
    if is_minimal:
        sums = convolve_tiles(data, factors, plan)
    else:
        sums = correlated(data, factors, plan, written, needed)
    placed = None if bias is None else reshape(bias, (bias.shape[0], *(1,) * len(kernel)))
    return with_bias(sums, placed, plan.result)


def correlated(
    x: T, weight: T, plan: ConvolutionPlan, written: T | None, needed: Shape | None = None
) -> T:
    """Correlate by the definition, with the faster of two gradient rules."""
    if not gradient_is_correlation(needed or x.shape[2:], weight, plan, x.shape[2:]):
        return sum_windows(x, weight, plan, written)

    def compute(data: T, kernels: T, *presence: T) -> T:
        return sum_windows(data, kernels, plan, *presence)

    presence = () if written is None else (written,)
    result: T = with_rule(x, "correlate", compute, weight, *presence, arg=plan)
    return result


def sum_windows(x: T, weight: T, plan: ConvolutionPlan, written: T | None = None) -> T:
    """Sum over every window in one reduction. For `written` see `presence_of`."""
    kernel = fixed(weight.shape[2:], plan.name)
    count = len(kernel)
    outputs, share = fixed(weight.shape[:2], plan.name)
    windows = windows_of(x, kernel, plan.stride, plan.dilation)
    lengths = windows.shape[2 : 2 + count]
    windows = reshape(windows, (x.shape[0], plan.groups, 1, share, *lengths, *kernel))
    factors = reshape(
        weight, (1, plan.groups, outputs // plan.groups, share, *(1,) * count, *kernel)
    )
    windows, factors = spread(windows, plan.name, factors)
    axes = (3, *range(4 + count, 4 + 2 * count))
    products = products_of(windows, factors)
    if written is not None:
        products = only_written(written, products, kernel, plan)
    sums = sums_over(products, axes)
    return reshape(sums, (x.shape[0], outputs, *lengths))


def only_written(x: T, products: T, kernel: tuple[int, ...], plan: ConvolutionPlan) -> T:
    """Return the products of elements where the presence `x` is True, and 0 elsewhere."""
    seen = windows_of(x, kernel, plan.stride, plan.dilation)
    return reshape(seen, (1, 1, *seen.shape)).where(products, 0)


def presence_of(x: T, lead: int) -> T:
    """Return True for each element, in a shape whose first `lead` axes have size 1.

    Padding this tensor gives False for the zeros. Sums leave out products with such a zero: with an
    infinite factor they would be NaN.
    """
    shape = (*(1,) * lead, *x.shape[lead:])
    return broadcast_to(constant_like(x, True, dtypes.bool), shape)


# The gradients of a convolution and of a transposed one: each needs the other


@gradient_rule("correlate", reads_sources=True)
def correlate_gradient(step: GradientStep[Windows]) -> Contributions:
    """Correlate the gradient with the flipped kernels, and with the data."""
    # Rules get tensors of one class, the user's.
    gradient, data, weight, *presence = (step.gradient, *step.sources)
    assert isinstance(step.arg, ConvolutionPlan), "it carries its plan"
    plan = step.arg
    written = presence[0] if presence else None
    return (
        lambda: gradient_of_data(gradient, weight, data, plan),
        lambda: gradient_of_kernels(gradient, weight, data, plan, written),
        *(None for _ in presence),
    )


@gradient_rule("transposed", reads_sources=True)
def transposed_gradient(step: GradientStep[Windows]) -> Contributions:
    """Correlate the gradient with the kernels, and with the data."""
    (data, weight), gradient = step.sources, step.gradient
    assert isinstance(step.arg, TransposedPart), "it carries its part"
    plan = step.arg.plan
    margins = [(0, 0), (0, 0)]
    for axis, (begin, _) in enumerate(step.arg.bounds):
        size, length, width = fixed(
            (data.shape[2 + axis], gradient.shape[2 + axis], weight.shape[2 + axis]), plan.name
        )
        whole = (size - 1) * plan.stride[axis] + plan.dilation[axis] * (width - 1) + 1
        margins.append((begin, whole - begin - length))
    padded, written = (x.pad(tuple(margins)) for x in (gradient, presence_of(gradient, 2)))
    return (
        lambda: correlated(padded, weight, plan, written),
        lambda: gradient_of_kernels(data, weight, padded, plan, written),
    )


def gradient_is_correlation(needed: Shape, weight: T, plan: ConvolutionPlan, padded: Shape) -> bool:
    """Return True if `gradient_of_data` is the faster way to the gradient of the data."""
    kernel = fixed(weight.shape[2:], plan.name)
    sizes = fixed(padded, plan.name)
    outputs, share = fixed(weight.shape[:2], plan.name)
    if max(kernel) == 1 or 0 in sizes:
        return False
    if max(plan.stride) > 1 and share < FEW_CHANNELS < outputs // plan.groups:
        return False
    counts = (
        ((size - gap * (width - 1) - 1) // step + 1) * step
        for size, width, step, gap in zip(sizes, kernel, plan.stride, plan.dilation, strict=True)
    )
    return prod(fixed(needed, plan.name)) <= MAX_GROWTH * prod(counts)


def gradient_of_data(x: T, weight: T, data: T, plan: ConvolutionPlan) -> T:
    """Return the gradient of `data` from the gradient `x` of the sums.

    It is the correlation of `x`, padded with zeros, with the flipped kernels.
    """
    if max(plan.stride) > 1:
        bounds = tuple((0, size) for size in fixed(data.shape[2:], plan.name))
        return transposed(x, weight, TransposedPart(plan, bounds))
    reach = (
        gap * (width - 1)
        for gap, width in zip(plan.dilation, fixed(weight.shape[2:], plan.name), strict=True)
    )
    turned = outputs_first(x, weight, plan.groups).flip(tuple(range(2, weight.ndim)))
    margins = ((0, 0), (0, 0), *((length, length) for length in reach))
    written = pad(presence_of(x, 2), margins)
    return correlated(pad(x, margins), turned, plan, written)


def gradient_of_kernels(x: T, weight: T, data: T, plan: ConvolutionPlan, written: T | None) -> T:
    """Return the gradient of `weight` from the gradient `x` of the sums, times each window."""
    kernel, lengths = weight.shape[2:], x.shape[2:]
    outputs, share = fixed(weight.shape[:2], plan.name)
    windows = windows_of(data, fixed(kernel, plan.name), plan.stride, plan.dilation)
    windows = reshape(windows, (data.shape[0], plan.groups, 1, share, *lengths, *kernel))
    one = (1,) * len(kernel)
    sums = reshape(x, (x.shape[0], plan.groups, outputs // plan.groups, 1, *lengths, *one))
    windows, sums = spread(windows, plan.name, sums)
    axes = (0, *range(4, 4 + len(kernel)))
    products = apply(windows, Ops.MUL, sums)
    if written is not None:
        products = only_written(written, products, fixed(kernel, plan.name), plan)
    return reshape(reduce_axes(products, Ops.ADD, axes, False), weight.shape)


def outputs_first(x: T, weight: T, groups: int) -> T:
    """Return the kernels of a transposed convolution in the layout of `conv2d`."""
    inputs, share, *kernel = fixed(weight.shape, "conv_transpose2d")
    if groups < 1 or x.shape[1] != inputs or inputs % groups:
        raise UserError(
            f"conv_transpose2d: input {describe_shape(x.shape)}, weight "
            f"{describe_shape(weight.shape)}, groups {groups}: input channels must be "
            f"{inputs} and divide by groups"
        )
    parts = reshape(weight, (groups, inputs // groups, share, *kernel)).transpose(1, 2)
    return reshape(parts, (groups * share, inputs // groups, *kernel))


# Transposed convolutions


@dataclass(frozen=True, slots=True)
class Residues:
    """Residues modulo `stride` of positions along a kernel axis, with equally many positions."""

    stride: int
    first: int  # The first residue.
    count: int  # The number of residues, from `first` on.
    length: int  # The number of kernel positions with each residue.
    rows: tuple[int, int]  # The range of quotients by `stride` of the computed results.

    @staticmethod
    def of(width: int, stride: int, bounds: tuple[int, int]) -> tuple[Residues, ...]:
        """Return all residues of a kernel of `width`. The first may have one position more."""
        length, longer = divmod(width, stride)
        edges = sorted({0, longer, *(bound % stride for bound in bounds), stride})
        return tuple(
            Residues(
                stride,
                first,
                end - first,
                length + (first < longer),
                (-((first - bounds[0]) // stride), -((first - bounds[1]) // stride)),
            )
            for first, end in pairwise(edges)
        )


@dataclass(frozen=True, slots=True)
class Transposition(Generic[T]):
    """A part of a transposed convolution without padding."""

    kernels: T
    plan: ConvolutionPlan
    strides: tuple[int, ...]
    bounds: Margins  # Begin and end of the part along each axis.
    written: T  # True for elements of the data, False for zeros between: see `presence_of`.


@dataclass(frozen=True, slots=True)
class TransposedPart:
    """The elements to compute of a transposed convolution, as payload of the gradient rule."""

    plan: ConvolutionPlan
    bounds: Margins  # Begin and end along each axis, in the result without padding.


def transposed(x: T, weight: T, part: TransposedPart) -> T:
    """Return a part of the transposed convolution, as sums."""
    plan, bounds = part.plan, part.bounds
    kernels = outputs_first(x, weight, plan.groups)
    # If the kernel has gaps too, write zeros between the elements of the axis.
    pairs = zip(plan.stride, plan.dilation, strict=True)
    gaps = tuple(step if wide > 1 else 1 for step, wide in pairs)
    strides = tuple(step // gap for step, gap in zip(plan.stride, gaps, strict=True))
    whole, written = (spread_out(item, gaps) for item in (x, presence_of(x, 2)))
    steps = replace(plan, stride=(1,) * len(gaps), result=plan.accumulator)
    return transposed_convolution(whole, Transposition(kernels, steps, strides, bounds, written))


def transposed_convolution(tensor: T, of: Transposition[T]) -> T:
    """Compute a part of a transposed convolution of this tensor."""
    if max(of.strides) > 1:
        return by_residues(tensor, of)
    kernels, plan = of.kernels, of.plan
    sizes, widths = (fixed(x.shape[2:], plan.name) for x in (tensor, kernels))
    margins = tuple(
        (gap * (width - 1) - start, end - size)
        for size, width, gap, (start, end) in zip(
            sizes, widths, plan.dilation, of.bounds, strict=True
        )
    )
    turned = kernels.flip(tuple(range(2, kernels.ndim)))
    whole, written = (item.pad(((0, 0), (0, 0), *margins)) for item in (tensor, of.written))
    return convolved(whole, turned, None, plan, written, tensor.shape[2:])


def spread_out(x: T, steps: tuple[int, ...]) -> T:
    """Write `step - 1` zeros between the elements of each axis after the second."""
    result = x
    for axis, step in enumerate(steps, 2):
        size = fixed((x.shape[axis],), "conv_transpose2d")[0]
        result = spread_elements(result, axis, step, max(0, (size - 1) * step + 1))
    return result


def by_residues(x: T, of: Transposition[T]) -> T:
    """Compute a transposed convolution with strides that reads only elements which exist.

    Along an axis of stride s, result s i + r is the sum over t of x[i - t] w[s t + r]. This is a
    convolution for each residue r. Residues of equal length and rows are channels of one
    convolution. Results outside of the bounds are not computed: their gradient would be 0, and 0
    times an infinite weight is NaN.
    """
    kernels, plan, strides, bounds = of.kernels, of.plan, of.strides, of.bounds
    batch, outputs, count = x.shape[0], kernels.shape[0], len(strides)
    # The range of i for every residue.
    rows = tuple(
        (start // step, -(-end // step)) for (start, end), step in zip(bounds, strides, strict=True)
    )
    widths = fixed(kernels.shape[2:], plan.name)
    axes = [Residues.of(*each_axis) for each_axis in zip(widths, strides, bounds, strict=True)]
    parts = {
        residues: sums_of_residues(x, kernels, plan, residues, rows, of.written)
        for residues in product(*axes)
    }
    for number in reversed(range(count)):
        prefixes = dict.fromkeys(residues[:number] for residues in parts)
        parts = {
            prefix: parts[*prefix, axes[number][0]].cat(
                *(parts[*prefix, last] for last in axes[number][1:]), dim=2 + number
            )
            for prefix in prefixes
        }
    order = (axis for number in range(count) for axis in (2 + count + number, 2 + number))
    spans = [(high - low) * step for (low, high), step in zip(rows, strides, strict=True)]
    sums = reshape(parts[()].permute((0, 1, *order)), (batch, outputs, *spans))
    cut = (
        (start - low * step, end - low * step)
        for (start, end), (low, _), step in zip(bounds, rows, strides, strict=True)
    )
    return shrink(sums, ((0, batch), (0, outputs), *cut))


def sums_of_residues(
    x: T,
    weight: T,
    plan: ConvolutionPlan,
    residues: tuple[Residues, ...],
    rows: Margins,
    written: T,
) -> T:
    """Return the sums for some residues along each axis: (batch, outputs, *residues, *rows).

    Rows outside of the bounds are 0.
    """
    sizes = fixed(x.shape[2:], plan.name)
    outputs, share = fixed(weight.shape[:2], plan.name)
    counts = tuple(item.count for item in residues)
    # The elements that the windows of these rows read.
    needed = [
        (item.rows[0] - gap * (item.length - 1), item.rows[1])
        for item, gap in zip(residues, plan.dilation, strict=True)
    ]
    cuts = [
        (min(max(low, 0), size), min(max(high, 0), size))
        for (low, high), size in zip(needed, sizes, strict=True)
    ]
    is_empty = not all(item.length and item.rows[0] < item.rows[1] for item in residues)
    if is_empty or any(low == high for low, high in cuts):
        lengths = tuple(high - low for low, high in rows)
        # A sum over no elements: its gradient is 0, and not missing.
        none = tuple((0, 0) for _ in range(x.ndim))
        nothing = reduce_axes(shrink(x, none), Ops.ADD, tuple(range(x.ndim)), False)
        no_factor = shrink(weight, ((0, 0),) * weight.ndim)
        factor = reduce_axes(no_factor, Ops.ADD, tuple(range(weight.ndim)), False)
        nothing = apply(nothing, Ops.ADD, factor)
        return broadcast_to(nothing, (x.shape[0], outputs, *counts, *lengths))
    margins = [
        (begin - low, high - end) for (low, high), (begin, end) in zip(needed, cuts, strict=True)
    ]
    data, written = (
        pad(
            shrink(item, ((0, item.shape[0]), (0, item.shape[1]), *cuts)),
            ((0, 0), (0, 0), *margins),
        )
        for item in (x, written)
    )
    factors = weight
    for number, item in enumerate(residues):
        factors = split_residues(factors, item, 2 + 2 * number)
    count = len(residues)
    of_kernel = tuple(range(2, 2 + 2 * count, 2))
    factors = factors.flip(of_kernel).permute((0, *(axis + 1 for axis in of_kernel), 1, *of_kernel))
    lengths = tuple(item.length for item in residues)
    factors = reshape(factors, (outputs * prod(counts), share, *lengths))
    sums = correlated(data, factors, plan, written)
    sums = reshape(sums, (x.shape[0], outputs, *counts, *sums.shape[2:]))
    around = (
        (item.rows[0] - low, high - item.rows[1])
        for item, (low, high) in zip(residues, rows, strict=True)
    )
    return pad(sums, (*((0, 0),) * (2 + count), *around))


def split_residues(x: T, residues: Residues, axis: int) -> T:
    """Split a kernel axis into two: positions within a residue, and residues."""
    before, (width, *after) = x.shape[:axis], x.shape[axis:]
    size = residues.length * residues.stride
    part = cut_axis(x, axis, 0, min(size, fixed((width,), "conv_transpose2d")[0]))
    bounds = [(0, 0)] * x.ndim
    bounds[axis] = (0, size - fixed((part.shape[axis],), "conv_transpose2d")[0])
    split = (*before, residues.length, residues.stride, *after)
    rows = reshape(pad(part, tuple(bounds)), split)
    return cut_axis(rows, axis + 1, residues.first, residues.first + residues.count)


# Convolutions by tiles, with fewer products


def convolve_tiles(x: T, weight: T, plan: ConvolutionPlan) -> T:
    """Compute tiles of 4 by 4 results with 36 products each: see the matrices above.

    |error| <= c u A (|G| |g| |G'| * |B| |d| |B'|) A', summed over the channels, all matrices by
    their magnitudes. c is the length of all sums together. (Lavin and Gray omit it; it follows as
    for any chain of sums of products.)
    """
    (height, width), groups = fixed(x.shape[2:], plan.name), plan.groups
    outputs, share = fixed(weight.shape[:2], plan.name)
    batch, rows, columns = x.shape[0], -(-(height - 2) // 4), -(-(width - 2) // 4)
    margins = ((0, 0), (0, 0), (0, rows * 4 + 2 - height), (0, columns * 4 + 2 - width))
    tiles = windows_of(pad(x, margins), (6, 6), (4, 4), (1, 1)).flatten(-2)
    data = by_matrix(tiles, _OF_DATA)
    data = reshape(data, (batch, groups, 1, share, rows, columns, 36))
    kernels = by_matrix(weight.flatten(-2), _OF_KERNEL)
    kernels = reshape(kernels, (1, groups, outputs // groups, share, 1, 1, 36))
    data, kernels = spread(data, plan.name, kernels)
    sums = reduce_axes(apply(data, Ops.MUL, kernels), Ops.ADD, (3,), False)
    results = reshape(by_matrix(sums, _OF_RESULT), (batch, outputs, rows, columns, 4, 4))
    laid = results.permute((0, 1, 2, 4, 3, 5))
    laid = reshape(laid, (batch, outputs, rows * 4, columns * 4))
    return shrink(laid, ((0, batch), (0, outputs), (0, height - 2), (0, width - 2)))


def by_matrix(x: T, matrix: Rows) -> T:
    """Return M t M' for each square t in the last axis, as one product with the matrix M x M."""
    both = np.ascontiguousarray(
        np.kron(np.array(matrix, np.float64), np.array(matrix, np.float64)).T
    )
    return matrix_product(x, type(x)(both, x.device, x.dtype), None, "conv2d")


# Pooling and its gradient


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Windows over the last axes, with `extra` elements past the end for the last window."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    extra: tuple[int, ...]

    @property
    def windows_of_element(self) -> tuple[int, ...]:
        """Return the number of windows that an element may be in, along each axis."""
        return tuple(
            -(-(gap * (width - 1) + 1) // step)
            for width, gap, step in zip(self.kernel, self.dilation, self.stride, strict=True)
        )

    def indices(self, axis: int, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Return (windows, kernel): the indices of the elements of each window along an axis.

        Indices below 0, and from `size` on, are padding.
        """
        before, after = self.padding[axis]
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        last = size + after + self.extra[axis] - reach
        starts = np.arange(-before, last + 1, self.stride[axis])
        return starts[:, None] + np.arange(self.kernel[axis])[None, :] * self.dilation[axis]


def read_pool(
    shape: Shape,
    kernel_size: Sizes,
    stride: Sizes | None,
    dilation: Sizes,
    padding: Sizes,
    name: str,
) -> PoolPlan:
    """Read the arguments of a pooling function. Raises `UserError` for invalid ones."""
    count = len(kernel_size) if isinstance(kernel_size, list | tuple) else 2
    if len(shape) < count:
        raise UserError(f"{name}: shape {describe_shape(shape)} has fewer than {count} axes")
    kernel = per_axis(kernel_size, count, f"{name}: kernel_size", 1)
    steps = per_axis(kernel if stride is None else stride, count, f"{name}: stride", 1)
    spread = per_axis(dilation, count, f"{name}: dilation", 1)
    margins = spatial_padding(padding, count, f"{name}: padding")
    return PoolPlan(kernel, steps, spread, margins, (0,) * count)


def plan_pool(
    shape: Shape,
    kernel_size: Sizes,
    stride: Sizes | None,
    dilation: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    name: str,
) -> PoolPlan:
    """Return the plan of a pooling function. Raises `UserError` if a window does not fit."""
    plan = read_pool(shape, kernel_size, stride, dilation, padding, name)
    kernel, steps, spread, margins = plan.kernel, plan.stride, plan.dilation, plan.padding
    count = len(kernel)
    sizes = fixed(shape[len(shape) - count :], name)
    lengths = [size + sum(margin) for size, margin in zip(sizes, margins, strict=True)]
    extra = [0] * count
    if ceil_mode:
        for axis, length in enumerate(lengths):
            reach = spread[axis] * (kernel[axis] - 1) + 1
            last = -(-(length - reach) // steps[axis]) * steps[axis]
            # Omit a last window that would have only padding past the end.
            if 0 <= last < sizes[axis] + margins[axis][0]:
                extra[axis] = max(0, last + reach - length)
    grown = [length + more for length, more in zip(lengths, extra, strict=True)]
    check_windows(grown, kernel, spread, name)
    return replace(plan, extra=tuple(extra))


def _check_seen(shape: Shape, plan: PoolPlan, name: str) -> None:
    """Raise `UserError` if a window has only padding."""
    count = len(plan.kernel)
    for axis, size in enumerate(fixed(shape[len(shape) - count :], name)):
        indices = plan.indices(axis, size)
        sees = ((indices >= 0) & (indices < size)).any(1)
        if not sees.all():
            raise UserError(
                f"{name}: padding {plan.padding[axis]} around {size} elements: a window of "
                f"{plan.kernel[axis]} would have only padding"
            )


def pooling_windows(x: T, plan: PoolPlan, fill: ConstType, beyond: ConstType) -> T:
    """Return the windows of `plan`. Padding is `fill`, positions of `ceil_mode` are `beyond`."""
    lead = ((0, 0),) * (x.ndim - len(plan.kernel))
    padded = pad_with(x, (*lead, *plan.padding), fill)
    grown = pad_with(padded, (*lead, *((0, extra) for extra in plan.extra)), beyond)
    return windows_of(grown, plan.kernel, plan.stride, plan.dilation)


def maximum_of_windows(x: T, plan: PoolPlan) -> T:
    """Return the largest element of each window."""
    lowest = x.dtype.minimum
    return pooling_windows(x, plan, lowest, lowest).max(tuple(range(-len(plan.kernel), 0)))


def element_numbers(x: T, plan: PoolPlan) -> T:
    """Return the numbers of the elements in the pooled axes."""
    sizes = fixed(x.shape[x.ndim - len(plan.kernel) :], "max_pool2d")
    return reshape(x.arange(math.prod(sizes), device=x.device), sizes)


def number_of_largest(x: T, plan: PoolPlan, largest: T) -> T:
    """Return the number of the first element of each window that is `largest`.

    If there are NaNs, it is the number of the last one, as in torch.
    """
    count, lowest = len(plan.kernel), x.dtype.minimum
    axes = tuple(range(-count, 0))
    windows = pooling_windows(x, plan, lowest, lowest)
    numbers = element_numbers(x, plan)
    outside = math.prod(fixed(numbers.shape, "max_pool2d"))
    numbers = pooling_windows(numbers, plan, outside, outside)
    equal = windows.eq(reshape(largest, (*largest.shape, *(1,) * count)))
    first = equal.where(numbers, dtypes.int32.maximum).min(axes)
    if not x.dtype.is_float:
        return first
    last_nan = windows.isnan().where(numbers, -1).max(axes)
    return last_nan.ge(0).where(last_nan, first)


@gradient_rule("max_pool", reads_sources=True, reads_output=True)
def max_pool_gradient(step: GradientStep[Windows]) -> Contributions:
    """Pass the gradient to the first largest element of each window. It is never padding."""
    assert isinstance(step.arg, PoolPlan), "it carries its plan"
    plan, (x,) = step.arg, step.sources

    def for_elements() -> Windows:
        chosen = number_of_largest(x, plan, step.output)
        return gradient_of_pool(x, plan, step.gradient, chosen)

    return (for_elements,)


@gradient_rule("sum_pool")
def sum_pool_gradient(step: GradientStep[Windows]) -> Contributions:
    """Sum for each element the gradients of the windows that it is in."""
    assert isinstance(step.arg, PoolPlan), "it carries its plan"
    plan = step.arg
    return (lambda: gradient_of_pool(step.sources[0], plan, step.gradient, None),)


def gradient_of_pool(x: T, plan: PoolPlan, gradient: T, chosen: T | None) -> T:
    """Return for each element of `x` the sum of the gradients of its windows.

    With the padding before it, element s m + r of an axis is only in the windows m, m - 1, ...

    chosen: the number of the element that gets the gradient of each window; None for all.
    """
    count, steps = len(plan.kernel), plan.stride
    lead, sizes = x.shape[:-count], fixed(x.shape[-count:], "pooling")
    starts = [before for before, _ in plan.padding]
    rows = [
        -(-(size + start) // step) for size, start, step in zip(sizes, starts, steps, strict=True)
    ]
    lengths = [row * step for row, step in zip(rows, steps, strict=True)]
    values = windows_of_elements(gradient, plan, rows, False)
    if chosen is None:
        hits = membership(x, plan)
    else:
        edges = tuple(
            (start, length - size - start)
            for start, length, size in zip(starts, lengths, sizes, strict=True)
        )
        numbers = pad(element_numbers(x, plan), edges)
        numbers = reshape(numbers, (*between(rows, steps), *(1,) * count))
        hits = windows_of_elements(chosen, plan, rows, -1).eq(numbers)
    sums = hits.where(values, 0).sum(tuple(range(-count, 0)))
    bounds = ((start, start + size) for start, size in zip(starts, sizes, strict=True))
    return shrink(reshape(sums, (*lead, *lengths)), (*((0, size) for size in lead), *bounds))


def windows_of_elements(x: T, plan: PoolPlan, rows: Sequence[int], fill: ConstType) -> T:
    """Return for each element what `x` has for its last windows: (..., rows, 1, ..., windows)."""
    count, widths = len(plan.kernel), plan.windows_of_element
    lead, outputs = x.shape[:-count], fixed(x.shape[-count:], "pooling")
    # Windows behind the last row have only padding.
    used = [min(row, have) for row, have in zip(rows, outputs, strict=True)]
    margins = [(width - 1, row - have) for width, row, have in zip(widths, rows, used, strict=True)]
    ones = (1,) * count
    part = shrink(x, tuple((0, size) for size in (*lead, *used)))
    padded = pad_with(part, (*((0, 0) for _ in lead), *margins), fill)
    return reshape(windows_of(padded, widths, ones, ones), (*lead, *between(rows, ones), *widths))


def membership(x: T, plan: PoolPlan) -> T:
    """Return True for the windows that an element is in: (1, stride, ..., windows)."""
    count = len(plan.kernel)
    result: T | None = None
    for axis, (step, gap, width) in enumerate(
        zip(plan.stride, plan.dilation, plan.windows_of_element, strict=True)
    ):
        later = count_to(x, width).neg().add(width - 1).mul(step)
        distance = count_to(x, step).unsqueeze(-1).add(later)
        inside = distance.lt(gap * (plan.kernel[axis] - 1) + 1)
        if gap > 1:
            inside = inside.bitwise_and(distance.mod(gap).eq(0))
        shape = [1] * (3 * count)
        shape[2 * axis + 1], shape[2 * count + axis] = step, width
        inside = reshape(inside, tuple(shape))
        result = inside if result is None else result.bitwise_and(inside)
    assert result is not None, "there is at least one axis"
    return result


def between(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of both sequences in turns."""
    return tuple(chain.from_iterable(zip(first, second, strict=True)))
