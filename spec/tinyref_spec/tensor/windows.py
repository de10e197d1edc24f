"""Convolutions and pooling: references that look up every window by its element numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import ANYTHING, Form, Function, Input, Shape, movement_form

Margins = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Sliding:
    """Windows over the last axes; they may see `beyond` elements past the padding."""

    kernel: Shape
    stride: Shape
    dilation: Shape
    margins: Margins
    beyond: Shape

    @classmethod
    def over(
        cls,
        kernel: Shape,
        stride: int | None = 1,
        dilation: int = 1,
        padding: int | Margins = 0,
        beyond: Shape | None = None,
    ) -> Sliding:
        """Return windows with one stride (None: their size), dilation and padding for all axes."""
        count = len(kernel)
        margins = ((padding, padding),) * count if isinstance(padding, int) else padding
        steps = kernel if stride is None else (stride,) * count
        return cls(kernel, steps, (dilation,) * count, margins, beyond or (0,) * count)

    @property
    def count(self) -> int:
        return len(self.kernel)

    def outputs(self, sizes: Shape) -> Shape:
        """Return the number of windows along each axis."""
        return tuple(
            (size + sum(margin) + more - gap * (width - 1) - 1) // step + 1
            for size, margin, more, gap, width, step in zip(
                sizes,
                self.margins,
                self.beyond,
                self.dilation,
                self.kernel,
                self.stride,
                strict=True,
            )
        )

    def look(self, numbers: Array) -> Array:
        """Return (..., *outputs, *kernel): the elements of windows; 0 is padding, -1 past it."""
        lead = numbers.ndim - self.count
        sizes = numbers.shape[lead:]
        windows = np.pad(numbers, ((0, 0),) * lead + self.margins)
        more = tuple((0, extra) for extra in self.beyond)
        windows = np.pad(windows, ((0, 0),) * lead + more, constant_values=-1)
        for axis, outputs in enumerate(self.outputs(sizes)):
            starts = np.arange(outputs) * self.stride[axis]
            indices = starts[:, None] + np.arange(self.kernel[axis]) * self.dilation[axis]
            windows = np.moveaxis(np.take(windows, indices, lead + axis), lead + axis + 1, -1)
        return np.asarray(windows)

    @property
    def axes(self) -> Shape:
        """Return the axes of the kernel, which are last."""
        return tuple(range(-self.count, 0))


def _numbers(shape: Shape) -> Array:
    return np.arange(1, math.prod(shape) + 1).reshape(shape)


# Convolution


def _with_bias(value: Value, bias: tuple[Value, ...], sliding: Sliding) -> Value:
    return value + bias[0].reshape(-1, *(1,) * sliding.count) if bias else value


def correlate(x: Value, y: Value, *bias: Value, sliding: Sliding, groups: int = 1) -> Value:
    """Return x (n, c, ...) with y (o, c / groups, ...): the sum of products of every window."""
    outputs, share = y.shape[:2]
    seen = sliding.look(_numbers(x.shape))
    positions = seen.shape[2 : 2 + sliding.count]
    numbers = seen.reshape(x.shape[0], groups, 1, share, *positions, *sliding.kernel)
    factors = y.reshape(1, groups, outputs // groups, share, *(1,) * sliding.count, *sliding.kernel)
    axes = (3, *range(4 + sliding.count, 4 + 2 * sliding.count))
    total = (bounded.gather(x, numbers) * factors).sum(axes).reshape(-1, outputs, *positions)
    return _with_bias(total, bias, sliding)


def _conv(
    x: Shape,
    y: Shape,
    arguments: str = "",
    sliding: Sliding | None = None,
    groups: int = 1,
    torch: str = "",
) -> Form:
    sliding = sliding or Sliding.over(y[2:])
    return Form(
        f"x.conv2d(y{arguments})",
        (Input("x", x), Input("y", y)),
        partial(correlate, sliding=sliding, groups=groups),
        is_wide=True,
        torch=torch or f"F.conv{sliding.count}d(x, y{arguments})",
    )


def _drawn_convolution(generator: np.random.Generator) -> Form:
    """Return any number of axes, groups, strides, dilations and paddings."""
    count = int(generator.integers(1, 4))
    groups, share, outputs = (int(generator.integers(1, 4)) for _ in range(3))
    kernel = tuple(int(size) for size in generator.integers(1, 4, count))
    stride, dilation = (int(generator.integers(1, 4)) for _ in range(2))
    padding = int(generator.integers(0, 3))
    sizes = tuple(
        max(1, dilation * (width - 1) + 1 - 2 * padding) + int(generator.integers(0, 4))
        for width in kernel
    )
    return _conv(
        (int(generator.integers(1, 3)), groups * share, *sizes),
        (groups * outputs, share, *kernel),
        f", stride={stride}, dilation={dilation}, padding={padding}, groups={groups}",
        Sliding.over(kernel, stride, dilation, padding),
        groups,
    )


def transposed(
    x: Value, y: Value, *bias: Value, sliding: Sliding, groups: int, sizes: Shape
) -> Value:
    """Return the sum of kernels, multiplied by each element, at its window of the result."""
    inputs, share = y.shape[:2]
    single = (1,) * sliding.count
    whole = (x.shape[0], groups * share, *sizes)
    elements = x.reshape(x.shape[0], groups, inputs // groups, 1, *x.shape[2:], *single)
    factors = y.reshape(1, groups, inputs // groups, share, *single, *sliding.kernel)
    parts = (elements * factors).sum((2,))
    numbers = sliding.look(_numbers(whole)).reshape(parts.shape)
    total = bounded.scatter_add(parts, np.maximum(numbers, 0), whole)
    return _with_bias(total, bias, sliding)


def _transpose(
    x: Shape,
    y: Shape,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    dilation: int = 1,
) -> Form:
    kernel = y[2:]
    sliding = Sliding.over(kernel, stride, dilation, padding)
    sizes = tuple(
        (size - 1) * stride - 2 * padding + dilation * (width - 1) + output_padding + 1
        for size, width in zip(x[2:], kernel, strict=True)
    )
    arguments = (
        f"stride={stride}, padding={padding}, output_padding={output_padding}, "
        f"groups={groups}, dilation={dilation}"
    )
    return Form(
        f"x.conv_transpose2d(y, {arguments})",
        (Input("x", x), Input("y", y)),
        partial(transposed, sliding=sliding, groups=groups, sizes=sizes),
        is_wide=True,
        torch=f"F.conv_transpose{len(kernel)}d(x, y, {arguments})",
    )


def _drawn_transpose(generator: np.random.Generator) -> Form:
    count = int(generator.integers(1, 4))
    groups, inputs, share = (int(generator.integers(1, 3)) for _ in range(3))
    kernel = tuple(int(size) for size in generator.integers(1, 4, count))
    stride, dilation = int(generator.integers(1, 4)), int(generator.integers(1, 3))
    padding = int(generator.integers(0, dilation * (min(kernel) - 1) + 1))
    grown = int(generator.integers(0, max(stride, dilation)))
    sizes = tuple(int(size) for size in generator.integers(2, 5, count))
    return _transpose(
        (int(generator.integers(1, 3)), groups * inputs, *sizes),
        (groups * inputs, share, *kernel),
        stride,
        padding,
        grown,
        groups,
        dilation,
    )


# Pooling


def _lowest_outside(x: Array, numbers: Array) -> Array:
    """Return elements by their numbers; outside, a value that is never the largest."""
    flat = x.reshape(-1)
    return np.asarray(np.where(numbers > 0, flat[np.maximum(numbers, 1) - 1], x.min()))


def _largest(x: Value, sliding: Sliding) -> Value:
    numbers = sliding.look(_numbers(x.shape))
    seen = bounded.gather(x, np.maximum(numbers, 0))
    lowest = bounded.exact(np.array(-np.inf), x.dtype)
    return bounded.largest(bounded.choose(numbers > 0, seen, lowest), sliding.axes, keepdims=False)


def _largest_exactly(x: Array, sliding: Sliding) -> Array:
    seen = _lowest_outside(x, sliding.look(_numbers(x.shape)))
    return np.asarray(seen.max(axis=sliding.axes))


def _largest_indices(x: Array, sliding: Sliding) -> Array:
    """Return the indices of the largest elements, counted over the pooled axes."""
    numbers = sliding.look(_numbers(x.shape))
    flat = numbers.reshape(*numbers.shape[: -sliding.count], -1)
    best = np.argmax(_lowest_outside(x, flat), -1)
    chosen = np.take_along_axis(flat, best[..., None], -1)[..., 0] - 1
    return np.asarray(chosen % math.prod(x.shape[x.ndim - sliding.count :]))


def _mean(x: Value, sliding: Sliding, with_padding: bool) -> Value:
    numbers = sliding.look(_numbers(x.shape))
    counted = (numbers >= 0) if with_padding else (numbers > 0)
    total = bounded.gather(x, np.maximum(numbers, 0)).sum(sliding.axes)
    return total / bounded.exact(counted.sum(axis=sliding.axes), x.dtype)


def _arguments(sliding: Sliding) -> str:
    """Return the arguments of a pooling function, which are those of torch too."""
    margins = sliding.margins
    text = f"stride={sliding.stride}, padding="
    if all(before == after for before, after in margins):
        sizes = tuple(before for before, _ in margins)
        text += f"{sizes if sliding.count != 1 else sizes[0]}"
    else:
        text += f"{tuple(amount for pair in reversed(margins) for amount in pair)}"
    ceil = ", ceil_mode=True" if any(sliding.beyond) else ""
    return f"{sliding.kernel}, {text}{ceil}"


def _max(x: Shape, sliding: Sliding, torch: str = "") -> Form:
    arguments = _arguments(sliding)
    dilation = f", dilation={sliding.dilation}"
    return Form(
        f"x.max_pool2d({arguments}{dilation})",
        (Input("x", x, "distinct"),),
        partial(_largest, sliding=sliding),
        exact=partial(_largest_exactly, sliding=sliding),
        torch=torch or f"F.max_pool{sliding.count}d(x, {arguments}{dilation})",
    )


def _average(x: Shape, sliding: Sliding, with_padding: bool = True, torch: str = "") -> Form:
    arguments = _arguments(sliding)
    counting = "" if with_padding else ", count_include_pad=False"
    return Form(
        f"x.avg_pool2d({arguments}{counting})",
        (Input("x", x),),
        partial(_mean, sliding=sliding, with_padding=with_padding),
        is_wide=True,
        torch=torch or f"F.avg_pool{sliding.count}d(x, {arguments}{counting})",
    )


def _drawn_pool(
    generator: np.random.Generator, make: Callable[..., Form], max_dilation: int
) -> Form:
    count = int(generator.integers(1, 4))
    kernel = tuple(int(size) for size in generator.integers(1, 4, count))
    dilation = int(generator.integers(1, max_dilation + 1))
    padding = tuple((int(width // 2),) * 2 for width in kernel)
    if generator.integers(2):
        padding = ((0, 0),) * count
    sizes = tuple(dilation * (width - 1) + 1 + int(generator.integers(0, 4)) for width in kernel)
    sliding = Sliding.over(kernel, int(generator.integers(1, 4)), dilation, padding)
    return make((2, int(generator.integers(1, 3)), *sizes), sliding)


def _drawn_max(generator: np.random.Generator) -> Form:
    return _drawn_pool(generator, _max, 2)


def _drawn_average(generator: np.random.Generator) -> Form:
    return _drawn_pool(generator, _average, 1)


def _index_type(dtype: DType) -> DType:
    return dtypes.int32


def _places(x: Shape, sliding: Sliding) -> Form:
    arguments = _arguments(sliding)
    return Form(
        f"x.max_pool2d({arguments}, return_indices=True)[1]",
        (Input("x", x, "distinct"),),
        exact=partial(_largest_indices, sliding=sliding),
        output=_index_type,
        torch=f"F.max_pool{sliding.count}d(x, {arguments}, return_indices=True)[1].int()",
    )


def _unpool_values(y: Value, x: Value, sliding: Sliding, sizes: Shape) -> Value:
    """Return each element at the index of the largest of x, and zeros elsewhere."""
    indices = _largest_indices(x.value, sliding)
    lead = x.shape[: len(x.shape) - sliding.count]
    area = math.prod(sizes)
    planes = np.arange(math.prod(lead)).reshape(*lead, *(1,) * sliding.count) * area
    numbers = np.zeros(math.prod(lead) * area, np.int64)
    numbers[(indices + planes).reshape(-1)] = np.arange(1, indices.size + 1)
    return bounded.gather(y, numbers.reshape(*lead, *sizes))


def _unpool(x: Shape, y: Shape, sliding: Sliding, output_size: Shape | None = None) -> Form:
    arguments = _arguments(sliding)
    count = sliding.count
    sized = "" if output_size is None else f", output_size={output_size}"
    sizes = output_size or x[len(x) - count :]

    def exactly(y: Array, x: Array) -> Array:
        values = [bounded.exact(array, dtypes.float64) for array in (y, x)]
        return _unpool_values(values[0], values[1], sliding, sizes).value

    return Form(
        f"y.max_unpool2d(x.max_pool2d({arguments}, return_indices=True)[1], {arguments}{sized})",
        (Input("y", y), Input("x", x, "distinct", dtypes.float32)),
        partial(_unpool_values, sliding=sliding, sizes=sizes),
        exact=exactly,
        torch=f"F.max_unpool{count}d(y, F.max_pool{count}d("
        f"x, {arguments}, return_indices=True)[1], {arguments}{sized})",
    )


_UNEVEN = ((2, 0), (0, 1))


def _unfold_form(shape: Shape, axis: int, size: int, step: int) -> Form:
    def move(x: Array) -> Array:
        starts = np.arange(0, shape[axis] - size + 1, step)
        windows = np.take(x, starts[:, None] + np.arange(size), axis)
        return np.moveaxis(windows, axis % len(shape) + 1, -1)

    return movement_form(f"x.unfold({axis}, {size}, {step})", shape, move)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "conv2d",
        "Cross-correlation over windows of 1 to 3 axes, with stride, padding, dilation, groups.",
        (
            _conv((1, 2, 5, 5), (3, 2, 3, 3)),
            _conv((2, 3, 5, 6), (2, 3, 3, 3), ", padding=1", Sliding.over((3, 3), padding=1)),
            _conv(
                (1, 2, 7, 6),
                (2, 2, 3, 3),
                ", stride=2, padding=1",
                Sliding.over((3, 3), 2, padding=1),
            ),
            _conv((1, 1, 8, 8), (2, 1, 3, 3), ", dilation=2", Sliding.over((3, 3), dilation=2)),
            _conv((1, 4, 5, 5), (4, 2, 3, 3), ", groups=2", Sliding.over((3, 3)), 2),
            _conv((1, 3, 4, 4), (2, 3, 1, 1)),
            _conv((2, 2, 9), (3, 2, 4), ", stride=3", Sliding.over((4,), 3)),
            _conv((1, 2, 3, 4, 3), (2, 2, 2, 2, 2)),
            _conv(
                (1, 1, 4, 5),
                (1, 1, 3, 2),
                ", padding=(0, 1, 2, 0)",
                Sliding.over((3, 2), padding=_UNEVEN),
                torch="F.conv2d(F.pad(x, (0, 1, 2, 0)), y)",
            ),
            Form(
                "x.conv2d(y, b)",
                (Input("x", (1, 2, 4, 4)), Input("y", (3, 2, 2, 2)), Input("b", (3,))),
                partial(correlate, sliding=Sliding.over((2, 2))),
                is_wide=True,
                torch="F.conv2d(x, y, b)",
            ),
        ),
        (*dtypes.floats, dtypes.int8, dtypes.int32),
        _drawn_convolution,
    ),
    Function(
        "conv_transpose2d",
        "The gradient of a convolution as a function: windows go back to the elements they read.",
        (
            _transpose((1, 2, 3, 4), (2, 3, 3, 2)),
            _transpose((1, 2, 3, 3), (2, 2, 3, 3), 2, 1, 1),
            _transpose((2, 4, 4, 3), (4, 1, 2, 2), 3, 0, 2, groups=2),
            _transpose((1, 1, 4, 4), (1, 2, 3, 3), padding=3, dilation=2),
            _transpose((1, 2, 5), (2, 2, 3), 2),
            _transpose((1, 2, 2, 3, 2), (2, 1, 2, 2, 2), 2),
            # Elements of the result that no input reaches, the same number for each residue.
            _transpose((1, 1, 2, 1), (1, 2, 1, 2), 4, 0, 3),
            _transpose((1, 2, 3, 2), (2, 1, 4, 2), 2, 1),
            _transpose((1, 2, 3), (2, 1, 3), 2, 1, 1, dilation=2),
        ),
        dtypes.floats,
        _drawn_transpose,
    ),
    Function(
        "max_pool2d",
        "The largest element of each window; the gradient goes to it, padding never wins.",
        (
            _max((1, 2, 4, 6), Sliding.over((2, 2), None), "F.max_pool2d(x, 2)"),
            _max((2, 5, 6), Sliding.over((3, 3), 1, padding=1)),
            _max((1, 1, 7, 7), Sliding.over((2, 3), 2, 2)),
            _max((1, 2, 9), Sliding.over((2,), 3, 3)),
            _max((1, 1, 4, 4, 4), Sliding.over((2, 2, 2), 2)),
            _max((1, 1, 5, 5), Sliding.over((2, 2), 2, beyond=(1, 1))),
            _max(
                (1, 1, 4, 4),
                Sliding.over((3, 2), 2, padding=_UNEVEN),
                # Less than any element of its type in the tables.
                "F.max_pool2d(F.pad(x, (0, 1, 2, 0), value=0 if x.dtype is torch.uint8 else -1000)"
                ", (3, 2), 2)",
            ),
            _places((1, 2, 4, 6), Sliding.over((2, 2), None)),
            _places((1, 2, 5, 6), Sliding.over((3, 3), 2, padding=1)),
            _places((2, 1, 8), Sliding.over((3,), 1)),
        ),
        ANYTHING,
        _drawn_max,
    ),
    Function(
        "avg_pool2d",
        "The mean of each window, with or without the padding.",
        (
            _average((1, 2, 4, 6), Sliding.over((2, 2), None)),
            _average((1, 1, 5, 6), Sliding.over((3, 3), 2, padding=1)),
            _average((1, 1, 5, 6), Sliding.over((3, 3), 2, padding=1), False),
            _average((1, 2, 7), Sliding.over((2,), 2, beyond=(1,))),
            _average((1, 1, 3, 4, 4), Sliding.over((2, 2, 2), 1)),
            _average(
                (1, 1, 4, 4),
                Sliding.over((3, 2), 1, padding=_UNEVEN),
                torch="F.avg_pool2d(F.pad(x, (0, 1, 2, 0)), (3, 2), 1)",
            ),
        ),
        dtypes.floats,
        _drawn_average,
    ),
    Function(
        "max_unpool2d",
        "Elements at the indices that max_pool2d returned, zeros elsewhere.",
        (
            _unpool((1, 2, 4, 6), (1, 2, 2, 3), Sliding.over((2, 2), None)),
            _unpool((1, 1, 5, 5), (1, 1, 2, 2), Sliding.over((2, 2), None), (5, 5)),
            _unpool((2, 1, 6), (2, 1, 2), Sliding.over((3,), None)),
        ),
        dtypes.floats,
    ),
    Function(
        "unfold",
        "Windows along an axis, their elements along a new last axis.",
        (
            _unfold_form((7,), 0, 3, 1),
            _unfold_form((4, 6), -1, 2, 3),
            _unfold_form((5, 2), 0, 2, 2),
            _unfold_form((2, 7, 3), 1, 4, 2),
        ),
        ANYTHING,
    ),
)
