"""Layers that slide a kernel over one, two or three axes."""

from __future__ import annotations

import math

from tinyref.errors import UserError
from tinyref.nn.layer import Layer, check_input
from tinyref.nn.linear import positive
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import integer

Sizes = int | tuple[int, ...]


def _kernel(kernel_size: Sizes, name: str) -> tuple[int, ...]:
    """One size for each spatial axis; a single number is a square of two."""
    several = tuple(kernel_size) if isinstance(kernel_size, tuple | list) else None
    sizes = (kernel_size, kernel_size) if several is None else several
    if not 1 <= len(sizes) <= 3:
        raise UserError(f"{name}: kernel_size {kernel_size!r}: accepted are 1 to 3 sizes")
    return tuple(positive(size, f"{name}: kernel_size") for size in sizes)


def _padding(
    padding: Sizes | str, kernel: tuple[int, ...], stride: Sizes, dilation: Sizes, name: str
) -> Sizes:
    """`padding` in numbers: "valid" is none, "same" keeps the sizes of a stride of 1."""
    if not isinstance(padding, str):
        return padding
    if padding == "valid":
        return 0
    if padding != "same":
        raise UserError(f"{name}: padding {padding!r}: accepted are numbers, 'same' and 'valid'")
    steps = (stride,) if isinstance(stride, int) else tuple(stride)
    if any(step != 1 for step in steps):
        raise UserError(f"{name}: padding 'same' with stride {stride!r}: accepted is a stride of 1")
    spread = (dilation,) * len(kernel) if isinstance(dilation, int) else tuple(dilation)
    margins: list[int] = []
    # From the last axis backwards, as `Tensor.conv2d` takes them; an odd one goes after.
    for size, step in zip(reversed(kernel), reversed(spread), strict=True):
        total = step * (size - 1)
        margins += [total // 2, total - total // 2]
    return tuple(margins)


def _groups(groups: int, inputs: int, outputs: int, name: str) -> int:
    number = positive(groups, f"{name}: groups")
    if inputs % number or outputs % number:
        raise UserError(
            f"{name}: {number} groups do not divide {inputs} input and {outputs} output channels"
        )
    return number


def _parameters(
    shape: tuple[int, ...], fan: int, outputs: int, bias: bool
) -> tuple[Tensor, Tensor | None]:
    """Weight and bias, uniform within 1 / sqrt(inputs of one output)."""
    limit = 1 / math.sqrt(fan)
    weight = Tensor.uniform(*shape, low=-limit, high=limit, requires_grad=True)
    if not bias:
        return weight, None
    return weight, Tensor.uniform(outputs, low=-limit, high=limit, requires_grad=True)


class Conv2d(Layer):
    """The cross-correlation with learned kernels over as many axes as `kernel_size` has sizes.

    Shapes: input (batch, in_channels, *sizes), weight (out_channels, in_channels / groups,
    *kernel), bias (out_channels,). `padding` is a number, one for each axis, two for each axis
    from the last backwards, "same" or "valid". Weights start uniform within
    1 / sqrt(in_channels / groups * kernel elements). See `Tensor.conv2d`.

    Examples:
        >>> nn.Conv2d(3, 8, kernel_size=3, padding=1)(Tensor.zeros(1, 3, 10, 10)).shape
        (1, 8, 10, 10)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        inputs = self.in_channels = positive(in_channels, "Conv2d: in_channels")
        outputs = self.out_channels = positive(out_channels, "Conv2d: out_channels")
        self.kernel_size = _kernel(kernel_size, "Conv2d")
        self.stride = stride
        self.dilation = dilation
        self.groups = _groups(groups, inputs, outputs, "Conv2d")
        self.padding = _padding(padding, self.kernel_size, stride, dilation, "Conv2d")
        share = inputs // self.groups
        fan = share * math.prod(self.kernel_size)
        shape = (outputs, share, *self.kernel_size)
        self.weight, self.bias = _parameters(shape, fan, outputs, bias)

    def __call__(self, x: Tensor) -> Tensor:
        check_input(x, "Conv2d")
        return x.conv2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding
        )


def Conv1d(  # noqa: N802  a layer, and named like one
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    padding: int | str = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
) -> Conv2d:
    """A `Conv2d` over one axis: input (batch, in_channels, size).

    Examples:
        >>> nn.Conv1d(3, 8, kernel_size=3)(Tensor.zeros(1, 3, 10)).shape
        (1, 8, 8)
    """
    kernel = (integer(kernel_size, "Conv1d: kernel_size"),)
    return Conv2d(in_channels, out_channels, kernel, stride, padding, dilation, groups, bias)


class ConvTranspose2d(Layer):
    """The transpose of `Conv2d`: every input element adds a kernel to the output.

    Shapes: input (batch, in_channels, *sizes), weight (in_channels, out_channels / groups,
    *kernel), bias (out_channels,). See `Tensor.conv_transpose2d`.

    Examples:
        >>> nn.ConvTranspose2d(3, 8, kernel_size=2, stride=2)(Tensor.zeros(1, 3, 5, 5)).shape
        (1, 8, 10, 10)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        inputs = self.in_channels = positive(in_channels, "ConvTranspose2d: in_channels")
        outputs = self.out_channels = positive(out_channels, "ConvTranspose2d: out_channels")
        self.kernel_size = _kernel(kernel_size, "ConvTranspose2d")
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.dilation = dilation
        self.groups = _groups(groups, inputs, outputs, "ConvTranspose2d")
        share = outputs // self.groups
        fan = share * math.prod(self.kernel_size)
        shape = (inputs, share, *self.kernel_size)
        self.weight, self.bias = _parameters(shape, fan, outputs, bias)

    def __call__(self, x: Tensor) -> Tensor:
        check_input(x, "ConvTranspose2d")
        return x.conv_transpose2d(
            self.weight,
            self.bias,
            self.groups,
            self.stride,
            self.dilation,
            self.padding,
            self.output_padding,
        )


def ConvTranspose1d(  # noqa: N802  a layer, and named like one
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
) -> ConvTranspose2d:
    """A `ConvTranspose2d` over one axis: input (batch, in_channels, size).

    Examples:
        >>> nn.ConvTranspose1d(3, 8, kernel_size=2, stride=2)(Tensor.zeros(1, 3, 5)).shape
        (1, 8, 10)
    """
    return ConvTranspose2d(
        in_channels,
        out_channels,
        (integer(kernel_size, "ConvTranspose1d: kernel_size"),),
        stride,
        padding,
        output_padding,
        dilation,
        groups,
        bias,
    )
