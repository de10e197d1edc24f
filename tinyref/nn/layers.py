"""Layers: linear layers, embeddings, convolutions and recurrent cells."""

from __future__ import annotations

import inspect
import math

from tinyref.algebra.symbolic import describe_shape
from tinyref.errors import UserError, UserTypeError
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import count_of, integer

_MISSING = object()


def check_input(x: object, name: str) -> None:
    """Raise `UserTypeError` for an input that is no tensor."""
    if not isinstance(x, Tensor):
        raise UserTypeError(f"{name}: input is a {type(x).__name__}, accepted is a Tensor")


class Layer:
    """Base of layers. `repr` is a call that creates such a layer, with attributes as arguments."""

    def __repr__(self) -> str:
        arguments: list[str] = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            default, value = parameter.default, getattr(self, name, _MISSING)
            if isinstance(default, bool) and (value is None or isinstance(value, Tensor)):
                value = value is not None
            if value is _MISSING or value == default:
                continue
            is_required = default is inspect.Parameter.empty
            arguments.append(f"{value!r}" if is_required else f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"


# --- matrices and tables --------------------------------------------------------------------------


class Linear(Layer):
    """A linear layer: x @ weight.T + bias over the last axis.

    Shapes: input (..., in_features), output (..., out_features), weight (out_features,
    in_features), bias (out_features,). Both start uniform within 1 / sqrt(in_features).

    Examples:
        >>> layer = nn.Linear(2, 3)
        >>> layer(Tensor([[1.0, 2.0]])).shape
        (1, 3)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features = count_of(in_features, "Linear: in_features", 1)
        self.out_features = count_of(out_features, "Linear: out_features", 1)
        limit = 1 / math.sqrt(self.in_features)
        shape = (self.out_features, self.in_features)
        self.weight = Tensor.uniform(shape, low=-limit, high=limit, requires_grad=True)
        self.bias: Tensor | None = None
        if bias:
            self.bias = Tensor.uniform(
                self.out_features, low=-limit, high=limit, requires_grad=True
            )

    def __call__(self, x: Tensor) -> Tensor:
        check_input(x, "Linear")
        return x.linear(self.weight.transpose(), self.bias)


class Embedding(Layer):
    """A table with one row of `embed_size` elements for each of `vocab_size` numbers.

    Shapes: input (...) of an integer type, output (..., embed_size). The table starts as
    `Tensor.glorot_uniform`. The result for a number outside 0 to vocab_size - 1 is the same as for
    indexing by a tensor. Only the selected rows are read.

    Examples:
        >>> layer = nn.Embedding(vocab_size=10, embed_size=4)
        >>> layer(Tensor([[1, 2, 3]])).shape
        (1, 3, 4)
    """

    def __init__(self, vocab_size: int, embed_size: int) -> None:
        self.vocab_size = count_of(vocab_size, "Embedding: vocab_size", 1)
        self.embed_size = count_of(embed_size, "Embedding: embed_size", 1)
        self.weight = Tensor.glorot_uniform(self.vocab_size, self.embed_size, requires_grad=True)

    def __call__(self, idx: Tensor) -> Tensor:
        if not isinstance(idx, Tensor) or not idx.dtype.is_int:
            got = idx.dtype.name if isinstance(idx, Tensor) else type(idx).__name__
            raise UserTypeError(f"Embedding: got {got}: accepted is a Tensor of an integer type")
        rows: Tensor = self.weight[idx]
        return rows


# --- convolutions ---------------------------------------------------------------------------------


Sizes = int | tuple[int, ...]


def _kernel(kernel_size: Sizes, name: str) -> tuple[int, ...]:
    """Return one size for each spatial axis. A single number means two equal sizes."""
    several = tuple(kernel_size) if isinstance(kernel_size, tuple | list) else None
    sizes = (kernel_size, kernel_size) if several is None else several
    if not 1 <= len(sizes) <= 3:
        raise UserError(f"{name}: kernel_size {kernel_size!r}: accepted are 1 to 3 sizes")
    return tuple(count_of(size, f"{name}: kernel_size", 1) for size in sizes)


def _padding(
    padding: Sizes | str, kernel: tuple[int, ...], stride: Sizes, dilation: Sizes, name: str
) -> Sizes:
    """Return `padding` as numbers: "valid" is no padding, "same" preserves sizes (stride 1)."""
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
    # In the order of `Tensor.conv2d`, from the last axis. An odd total has one more at the end.
    for size, step in zip(reversed(kernel), reversed(spread), strict=True):
        total = step * (size - 1)
        margins += [total // 2, total - total // 2]
    return tuple(margins)


def _groups(groups: int, inputs: int, outputs: int, name: str) -> int:
    number = count_of(groups, f"{name}: groups", 1)
    if inputs % number or outputs % number:
        raise UserError(
            f"{name}: {number} groups do not divide {inputs} input and {outputs} output channels"
        )
    return number


def _parameters(
    shape: tuple[int, ...], fan: int, outputs: int, bias: bool
) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias, uniform within 1 / sqrt(inputs of one output)."""
    limit = 1 / math.sqrt(fan)
    weight = Tensor.uniform(*shape, low=-limit, high=limit, requires_grad=True)
    if not bias:
        return weight, None
    return weight, Tensor.uniform(outputs, low=-limit, high=limit, requires_grad=True)


class Conv2d(Layer):
    """Cross-correlation with learned kernels, over one axis for each size in `kernel_size`.

    Shapes: input (batch, in_channels, *sizes), weight (out_channels, in_channels / groups,
    *kernel), bias (out_channels,). `padding` is a number, one for each axis, two for each axis
    starting at the last axis, "same" or "valid". Weights start uniform within
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
        inputs = self.in_channels = count_of(in_channels, "Conv2d: in_channels", 1)
        outputs = self.out_channels = count_of(out_channels, "Conv2d: out_channels", 1)
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
    """Return a `Conv2d` over one axis, for inputs (batch, in_channels, size).

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
        inputs = self.in_channels = count_of(in_channels, "ConvTranspose2d: in_channels", 1)
        outputs = self.out_channels = count_of(out_channels, "ConvTranspose2d: out_channels", 1)
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
    """Return a `ConvTranspose2d` over one axis, for inputs (batch, in_channels, size).

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


# --- recurrent cells ------------------------------------------------------------------------------


class LSTMCell(Layer):
    """One step of a long short-term memory: (x, (h, c)) gives the next (h, c).

    The gates are in order on axis 0 of the weights: input, forget, cell, output. Shapes: x (batch,
    input_size), h and c (batch, hidden_size), weight_ih (4 hidden_size, input_size), weight_hh
    (4 hidden_size, hidden_size), biases (4 hidden_size,). A state of None means zeros. Weights
    start uniform within 1 / sqrt(hidden_size), biases at 0. Source: Hochreiter and Schmidhuber,
    "Long Short-Term Memory", 1997, with the forget gate of Gers et al., 2000.

    Examples:
        >>> hidden, cell = nn.LSTMCell(2, 3)(Tensor([[1.0, 2.0]]))
        >>> hidden.shape, cell.shape
        ((1, 3), (1, 3))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        inputs = self.input_size = count_of(input_size, "LSTMCell: input_size", 1)
        self.hidden_size = count_of(hidden_size, "LSTMCell: hidden_size", 1)
        self.bias = bias
        gates = 4 * self.hidden_size
        limit = 1 / math.sqrt(self.hidden_size)
        self.weight_ih = Tensor.uniform(gates, inputs, low=-limit, high=limit, requires_grad=True)
        self.weight_hh = Tensor.uniform(
            gates, self.hidden_size, low=-limit, high=limit, requires_grad=True
        )
        self.bias_ih: Tensor | None = None
        self.bias_hh: Tensor | None = None
        if bias:
            self.bias_ih = Tensor.zeros(gates).contiguous().requires_grad_()
            self.bias_hh = Tensor.zeros(gates).contiguous().requires_grad_()

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        check_input(x, "LSTMCell")
        if x.ndim != 2:
            raise UserError(
                f"LSTMCell: input {describe_shape(x.shape)}: accepted is (batch, input_size)"
            )
        if hc is None:
            shape = (x.shape[0], self.hidden_size)
            hidden = cell = Tensor.zeros(*shape, device=x.device, dtype=x.dtype)
        elif isinstance(hc, tuple | list) and [isinstance(x, Tensor) for x in hc] == [True] * 2:
            hidden, cell = hc
        else:
            raise UserTypeError("LSTMCell: hc: accepted are two Tensors (hidden, cell), or None")
        gates = x.linear(self.weight_ih.T, self.bias_ih)
        gates = gates + hidden.linear(self.weight_hh.T, self.bias_hh)
        entering, forgetting, content, leaving = gates.chunk(4, dim=1)
        cell = forgetting.sigmoid() * cell + entering.sigmoid() * content.tanh()
        hidden = leaving.sigmoid() * cell.tanh()
        return hidden.contiguous(), cell.contiguous()
