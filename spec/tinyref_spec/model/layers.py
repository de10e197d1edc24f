"""Rows of the layers of `nn`: output and gradients, by input and weights, from chosen weights.

The references are definitions of the layers in bounded values, as for the level `tensor`. A layer
consists of functions with rows of their own, so one form of each layer is enough.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref_spec import bounded
from tinyref_spec.bounded import Value
from tinyref_spec.case import Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.tensor import rows as tensor_rows
from tinyref_spec.tensor.forms import Form, Function, Input, Shape
from tinyref_spec.tensor.functions import sigmoid, tanh
from tinyref_spec.tensor.losses import layernorm
from tinyref_spec.tensor.run import run_backward, run_forward
from tinyref_spec.tensor.windows import Sliding, correlate, transposed

TYPES = (dtypes.float32, dtypes.float64)
# The name in a form: the name of the tensor in its layer.
WEIGHTS = {
    "w": "weight",
    "b": "bias",
    "m": "running_mean",
    "v": "running_var",
    "a": "weight_ih",
    "h": "weight_hh",
    "p": "bias_ih",
    "q": "bias_hh",
}


def _layer(
    constructor: str,
    shapes: Mapping[str, Shape],
    forward: Callable[..., Value],
    torch: str,
    call: str = "{}(x)",
    constant: str = "mv",
) -> Form:
    """Return the form of a layer with tensors of these shapes.

    shapes: of the input x, or i for integers, and of the tensors by their names in `WEIGHTS`.
    constant: the names without a gradient.
    """
    named = "".join(f", {WEIGHTS[name]}={name}" for name in shapes if name in WEIGHTS)
    inputs = tuple(
        Input("i", shape, "counts", dtypes.int32)
        if name == "i"
        else Input(name, shape, "positive" if name == "v" else "any", is_kept=name in constant)
        for name, shape in shapes.items()
    )
    expression = call.format(f"given(nn.{constructor}, device{named})")
    return Form(expression, inputs, forward, torch=torch)


def _affine(x: Shape, size: int | Shape) -> dict[str, Shape]:
    """Return the shapes of an input, a weight and a bias."""
    shape = (size,) if isinstance(size, int) else size
    return {"x": x, "w": shape, "b": shape}


# Definitions of the layers


def _linear(x: Value, w: Value, b: Value) -> Value:
    rows = bounded.matmul(x.reshape(-1, x.shape[-1]), bounded.transposed(w))
    return rows.reshape(*x.shape[:-1], w.shape[0]) + b


def _embedding(i: Value, w: Value) -> Value:
    width = w.shape[1]
    rows = i.value.astype(np.int64)[..., None]
    return bounded.gather(w, rows * width + np.arange(1, width + 1))


def _along_channels(part: Value, x: Value) -> Value:
    """Return the part in a shape that broadcasts: a number for each channel, axis 1 of x."""
    return part.reshape(-1, *(1,) * (len(x.shape) - 2))


def _by_channel(x: Value, w: Value, b: Value) -> Value:
    return x * _along_channels(w, x) + _along_channels(b, x)


def _batch_moments(x: Value) -> tuple[Value, Value, float]:
    """Return mean and biased variance of each channel, and their number of elements."""
    axes = (0, *range(2, len(x.shape)))
    count = float(math.prod(x.shape[axis] for axis in axes))
    mean = x.sum(axes, keepdims=True) / count
    distance = x - mean
    return mean.reshape(-1), (distance * distance).sum(axes) / count, count


def _batch_trained(x: Value, w: Value, b: Value) -> Value:
    return _by_channel(layernorm(x, (0, *range(2, len(x.shape)))), w, b)


def _batch_used(x: Value, w: Value, b: Value, m: Value, v: Value) -> Value:
    deviation = bounded.sqrt(_along_channels(v, x) + 1e-5)
    return _by_channel((x - _along_channels(m, x)) / deviation, w, b)


def _running_mean(x: Value, m: Value, v: Value) -> Value:
    return m * 0.7 + _batch_moments(x)[0] * 0.3


def _running_variance(x: Value, m: Value, v: Value) -> Value:
    _, variance, count = _batch_moments(x)
    return v * 0.7 + variance * (count / (count - 1)) * 0.3


def _groups(x: Value, w: Value, b: Value, groups: int) -> Value:
    grouped = layernorm(x.reshape(x.shape[0], groups, -1), (-1,))
    return _by_channel(grouped.reshape(*x.shape), w, b)


def _layer_norm(x: Value, w: Value, b: Value) -> Value:
    return layernorm(x, (-2, -1)) * w + b


def _image_norm(x: Value, w: Value, b: Value) -> Value:
    return _by_channel(layernorm(x, (1,)), w, b)


def _rms_norm(x: Value, w: Value) -> Value:
    squares = (x * x).sum((-1,), keepdims=True) / float(x.shape[-1])
    return x / bounded.sqrt(squares + 0.1) * w


def _lstm(x: Value, a: Value, h: Value, p: Value, q: Value) -> Value:
    """Return the hidden and the cell state after all steps.

    The gates are, in order: input, forget, content, output.
    """
    size = h.shape[1]
    hidden = cell = bounded.zeros((x.shape[1], size), x.dtype)
    for number in range(x.shape[0]):
        gates = _linear(bounded.take(x, number, 0), a, p) + _linear(hidden, h, q)
        entering, forgetting, content, leaving = (
            bounded.cut(gates, size * gate, size * (gate + 1), 1) for gate in range(4)
        )
        cell = sigmoid(forgetting) * cell + sigmoid(entering) * tanh(content)
        hidden = sigmoid(leaving) * tanh(cell)
    return bounded.concatenated([hidden, cell], 1)


# The forms


def _batchnorm(name: str, x: Shape) -> Form:
    torch = "F.batch_norm(x, None, None, w, b, training=True)"
    return _layer(f"{name}(3)", _affine(x, 3), _batch_trained, torch, "training({}, x)")


def _moving(name: str, reference: Callable[..., Value], torch: str) -> Form:
    """Return the form of a running statistic after a batch."""
    return _layer(
        "BatchNorm(3, affine=False, momentum=0.3)",
        {"x": (4, 3, 2), "m": (3,), "v": (3,)},
        reference,
        torch,
        "after({}, x)." + name,
        constant="xmv",
    )


CONV1D = _layer(
    "Conv1d(2, 2, 2, stride=2, padding=1, groups=2)",
    {"x": (1, 2, 5), "w": (2, 1, 2), "b": (2,)},
    partial(correlate, sliding=Sliding.over((2,), 2, 1, 1), groups=2),
    "F.conv1d(x, w, b, stride=2, padding=1, groups=2)",
)
CONV2D = _layer(
    'Conv2d(1, 2, (2, 3), padding="same", dilation=2)',
    {"x": (1, 1, 5, 6), "w": (2, 1, 2, 3), "b": (2,)},
    partial(correlate, sliding=Sliding.over((2, 3), 1, 2, ((1, 1), (2, 2)))),
    'F.conv2d(x, w, b, padding="same", dilation=2)',
)
CONV_TRANSPOSE1D = _layer(
    "ConvTranspose1d(2, 3, 3, stride=2)",
    {"x": (2, 2, 3), "w": (2, 3, 3), "b": (3,)},
    partial(transposed, sliding=Sliding.over((3,), 2), groups=1, sizes=(7,)),
    "F.conv_transpose1d(x, w, b, stride=2)",
)
CONV_TRANSPOSE2D = _layer(
    "ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2)",
    {"x": (1, 2, 2, 3), "w": (2, 2, 3, 3), "b": (4,)},
    partial(transposed, sliding=Sliding.over((3, 3), 2, 1, 1), groups=2, sizes=(4, 6)),
    "F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=2)",
)
BATCHNORM = (
    _batchnorm("BatchNorm", (4, 3, 2)),
    _layer(
        "BatchNorm(3)",
        {**_affine((2, 3, 4), 3), "m": (3,), "v": (3,)},
        _batch_used,
        "F.batch_norm(x, m, v, w, b)",
    ),
    _moving("running_mean", _running_mean, "m * 0.7 + x.mean((0, 2)) * 0.3"),
    _moving("running_var", _running_variance, "v * 0.7 + x.var((0, 2)) * 0.3"),
)
_STATES = "(x.new_zeros(1, 2, 2), x.new_zeros(1, 2, 2))"
LSTM = _layer(
    "LSTMCell(3, 2)",
    {"x": (2, 2, 3), "a": (8, 3), "h": (8, 2), "p": (8,), "q": (8,)},
    _lstm,
    f"torch.cat(torch.lstm(x, {_STATES}, (a, h, p, q), True, 1, 0.0, False, False, False)[1:], -1)"
    "[0]",
    "stepped({}, x)",
)
LINEAR = _layer(
    "Linear(5, 3)", {"x": (2, 4, 5), "w": (3, 5), "b": (3,)}, _linear, "F.linear(x, w, b)"
)
EMBEDDING = _layer(
    "Embedding(8, 3)", {"i": (2, 5), "w": (8, 3)}, _embedding, "F.embedding(i, w)", "{}(i)"
)
GROUPNORM = _layer(
    "GroupNorm(2, 4)",
    _affine((2, 4, 3), 4),
    partial(_groups, groups=2),
    "F.group_norm(x, 2, w, b)",
)
INSTANCENORM = _layer(
    "InstanceNorm(3)",
    _affine((2, 3, 2, 4), 3),
    partial(_groups, groups=3),
    "F.instance_norm(x, weight=w, bias=b)",
)
LAYERNORM = _layer(
    "LayerNorm((3, 4))", _affine((2, 3, 4), (3, 4)), _layer_norm, "F.layer_norm(x, (3, 4), w, b)"
)
LAYERNORM2D = _layer(
    "LayerNorm2d(4)",
    _affine((2, 4, 2, 3), 4),
    _image_norm,
    "F.layer_norm(x.permute(0, 2, 3, 1), (4,), w, b).permute(0, 3, 1, 2)",
)
RMSNORM = _layer(
    "RMSNorm(4, eps=0.1)", {"x": (2, 2, 4), "w": (4,)}, _rms_norm, "F.rms_norm(x, (4,), w, 0.1)"
)
BATCHNORM2D = _batchnorm("BatchNorm2d", (2, 3, 2, 3))
BATCHNORM3D = _batchnorm("BatchNorm3d", (2, 3, 2, 1, 2))

FUNCTIONS = (
    Function("Linear", "x times the transposed weight, plus the bias.", (LINEAR,), TYPES),
    Function("Embedding", "Rows of a table by their numbers.", (EMBEDDING,), TYPES),
    Function("Conv1d", "A correlation along one axis.", (CONV1D,), TYPES),
    Function("Conv2d", "A correlation along one to three axes.", (CONV2D,), TYPES),
    Function("ConvTranspose1d", "The transpose of Conv1d.", (CONV_TRANSPOSE1D,), TYPES),
    Function("ConvTranspose2d", "The transpose of Conv2d.", (CONV_TRANSPOSE2D,), TYPES),
    Function(
        "BatchNorm",
        "(x - mean) / deviation of each channel: of the batch, or the running ones, which follow "
        "every batch of a training.",
        BATCHNORM,
        TYPES,
    ),
    Function("BatchNorm2d", "BatchNorm of images.", (BATCHNORM2D,), TYPES),
    Function("BatchNorm3d", "BatchNorm of volumes.", (BATCHNORM3D,), TYPES),
    Function("GroupNorm", "Each group of channels to mean 0 and variance 1.", (GROUPNORM,), TYPES),
    Function("InstanceNorm", "Each channel to mean 0 and variance 1.", (INSTANCENORM,), TYPES),
    Function("LayerNorm", "The last axes to mean 0 and variance 1.", (LAYERNORM,), TYPES),
    Function(
        "LayerNorm2d", "The channels of each pixel to mean 0, variance 1.", (LAYERNORM2D,), TYPES
    ),
    Function("RMSNorm", "x divided by the root of the mean of squares.", (RMSNORM,), TYPES),
    Function("LSTMCell", "One step of a long short-term memory.", (LSTM,), TYPES),
)


def _checks(function: Function, dtype: DType) -> list[Check]:
    """Return the checks; a quick run has the float32 forms, one gradient, and one in float64."""
    checks = []
    for number, form in enumerate(function.forms):
        is_rare = dtype is not dtypes.float32
        forward = functools.partial(run_forward, form, dtype, number)
        checks.append(Check(f"forward:{number}", forward, is_rare and number > 0))
        if form.has_gradient:
            backward = functools.partial(run_backward, form, dtype, number)
            checks.append(Check(f"backward:{number}", backward, is_rare or number > 0))
    return checks


def rows() -> Iterator[Row]:
    """Yield the rows of every layer: its values and gradients in each type."""
    for function in FUNCTIONS:
        label = f"model.layer.{function.name.lower()}"
        for dtype in function.dtypes:
            yield make_row(
                f"{label}.{dtype.name}",
                f"{function.name} on {dtype.name}: {function.sentence}",
                clauses=("model.layer", "tensor.gradient", "tensor.derived"),
                rung=Rung.MODEL,
                op=f"nn.{function.name}",
                dtype=dtype,
                uses=(dtype, dtypes.float32, dtypes.int32, dtypes.bool),
                error_rule=tensor_rows.DERIVED,
                checks=functools.partial(_checks, function, dtype),
            )
