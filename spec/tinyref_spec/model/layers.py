"""Rows of the layers of `nn`: output and gradients, by input and weights, from given weights.

The references are in bounded values, as those of the level `tensor`: what a layer is by definition.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.case import Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.tensor import rows as tensor_rows
from tinyref_spec.tensor import windows
from tinyref_spec.tensor.forms import (
    Form,
    Function,
    Input,
    Shape,
    derived,
)
from tinyref_spec.tensor.functions import sigmoid, tanh
from tinyref_spec.tensor.losses import layernorm
from tinyref_spec.tensor.run import run_backward, run_forward
from tinyref_spec.tensor.windows import Sliding

TYPES = (dtypes.float32, dtypes.float64)


def _layer(
    constructor: str,
    inputs: tuple[Input, ...],
    weights: dict[str, str],
    forward: partial[Value],
    torch: str,
    call: str = "{}(x)",
    has_gradient: bool = True,
) -> Form:
    """A layer whose tensors named by the keys of `weights` are the inputs named by its values."""
    named = ", ".join(f"{name}={item}" for name, item in weights.items())
    layer = f"given(nn.{constructor}, device{', ' + named if named else ''})"
    backward = derived if has_gradient else None
    return Form(call.format(layer), inputs, forward, backward=backward, torch=torch)


# Products


def _linear(x: Value, w: Value, b: Value | None = None) -> Value:
    lead = x.shape[:-1]
    found = bounded.matmul(x.reshape(-1, x.shape[-1]), bounded.transposed(w))
    found = found.reshape(*lead, w.shape[0])
    return found if b is None else found + b


LINEAR = (
    _layer(
        "Linear(5, 3)",
        (Input("x", (2, 4, 5)), Input("w", (3, 5)), Input("b", (3,))),
        {"weight": "w", "bias": "b"},
        partial(_linear),
        "F.linear(x, w, b)",
    ),
    _layer(
        "Linear(5, 3, bias=False)",
        (Input("x", (4, 5)), Input("w", (3, 5))),
        {"weight": "w"},
        partial(_linear),
        "F.linear(x, w)",
    ),
)


def _embedding(i: Value, w: Value) -> Value:
    width = w.shape[1]
    rows = i.value.astype(np.int64)[..., None]
    return bounded.gather(w, rows * width + np.arange(1, width + 1))


EMBEDDING = (
    _layer(
        "Embedding(8, 3)",
        (Input("i", (2, 5), "counts", dtypes.int32), Input("w", (8, 3))),
        {"weight": "w"},
        partial(_embedding),
        "F.embedding(i, w)",
        "{}(i)",
    ),
)


# Convolutions


def _convolution(x: Value, w: Value, *bias: Value, sliding: Sliding, groups: int) -> Value:
    found = windows.correlate(x, w, sliding, groups)
    return found + bias[0].reshape(-1, *(1,) * sliding.count) if bias else found


def _conv(
    constructor: str,
    x: Shape,
    w: Shape,
    torch: str,
    sliding: Sliding | None = None,
    groups: int = 1,
    has_bias: bool = True,
) -> Form:
    bias = (Input("b", w[:1]),) if has_bias else ()
    return _layer(
        constructor,
        (Input("x", x), Input("w", w), *bias),
        {"weight": "w", "bias": "b"} if has_bias else {"weight": "w"},
        partial(_convolution, sliding=sliding or Sliding.over(w[2:]), groups=groups),
        torch,
    )


CONV2D = (
    _conv("Conv2d(2, 3, 2)", (2, 2, 4, 3), (3, 2, 2, 2), "F.conv2d(x, w, b)"),
    _conv(
        "Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2, bias=False)",
        (1, 4, 5, 4),
        (6, 2, 3, 2),
        "F.conv2d(x, w, stride=2, padding=1, groups=2)",
        Sliding.over((3, 2), 2, 1, 1),
        2,
        has_bias=False,
    ),
    _conv(
        'Conv2d(1, 2, (2, 3), padding="same", dilation=2)',
        (1, 1, 5, 6),
        (2, 1, 2, 3),
        'F.conv2d(x, w, b, padding="same", dilation=2)',
        Sliding.over((2, 3), 1, 2, ((1, 1), (2, 2))),
    ),
)
CONV1D = (
    _conv("Conv1d(2, 3, 3)", (2, 2, 6), (3, 2, 3), "F.conv1d(x, w, b)"),
    _conv(
        "Conv1d(2, 2, 2, stride=2, padding=1, groups=2)",
        (1, 2, 5),
        (2, 1, 2),
        "F.conv1d(x, w, b, stride=2, padding=1, groups=2)",
        Sliding.over((2,), 2, 1, 1),
        2,
    ),
)


def _transpose(
    x: Value, w: Value, *bias: Value, sliding: Sliding, groups: int, sizes: Shape
) -> Value:
    found = windows.transposed(x, w, sliding, groups, sizes)
    return found + bias[0].reshape(-1, *(1,) * sliding.count) if bias else found


def _conv_transpose(
    constructor: str, x: Shape, w: Shape, torch: str, sliding: Sliding, sizes: Shape, groups: int
) -> Form:
    return _layer(
        constructor,
        (Input("x", x), Input("w", w), Input("b", (w[1] * groups,))),
        {"weight": "w", "bias": "b"},
        partial(_transpose, sliding=sliding, groups=groups, sizes=sizes),
        torch,
    )


CONV_TRANSPOSE2D = (
    _conv_transpose(
        "ConvTranspose2d(2, 3, 2)",
        (1, 2, 3, 2),
        (2, 3, 2, 2),
        "F.conv_transpose2d(x, w, b)",
        Sliding.over((2, 2)),
        (4, 3),
        1,
    ),
    _conv_transpose(
        "ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2)",
        (1, 2, 2, 3),
        (2, 2, 3, 3),
        "F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=2)",
        Sliding.over((3, 3), 2, 1, 1),
        (4, 6),
        2,
    ),
)
CONV_TRANSPOSE1D = (
    _conv_transpose(
        "ConvTranspose1d(2, 3, 3, stride=2)",
        (2, 2, 3),
        (2, 3, 3),
        "F.conv_transpose1d(x, w, b, stride=2)",
        Sliding.over((3,), 2),
        (7,),
        1,
    ),
)


# Norms


def _by_channel(x: Value, *affine: Value) -> Value:
    """Times the weight and plus the bias of each channel, the second axis."""
    if not affine:
        return x
    w, b = (part.reshape(-1, *(1,) * (len(x.shape) - 2)) for part in affine)
    return x * w + b


def _batch_moments(x: Value) -> tuple[Value, Value, float]:
    """Mean and biased variance of each channel, and of how many elements."""
    axes = (0, *range(2, len(x.shape)))
    count = float(math.prod(x.shape[axis] for axis in axes))
    mean = x.sum(axes, keepdims=True) / count
    distance = x - mean
    variance = (distance * distance).sum(axes) / count
    return mean.reshape(-1), variance, count


def _batch_trained(x: Value, *affine: Value, eps: float = 1e-5) -> Value:
    axes = (0, *range(2, len(x.shape)))
    return _by_channel(layernorm(x, axes, eps), *affine)


def _batch_used(x: Value, *parts: Value) -> Value:
    *affine, mean, variance = parts
    mean, variance = (part.reshape(-1, *(1,) * (len(x.shape) - 2)) for part in (mean, variance))
    return _by_channel((x - mean) / bounded.sqrt(variance + 1e-5), *affine)


def _running_mean(x: Value, m: Value, v: Value) -> Value:
    return m * 0.7 + _batch_moments(x)[0] * 0.3


def _running_variance(x: Value, m: Value, v: Value) -> Value:
    _, variance, count = _batch_moments(x)
    return v * 0.7 + variance * (count / (count - 1)) * 0.3


def _counted(x: Array) -> Array:
    return np.asarray(2)


def _affine(size: int) -> tuple[Input, Input]:
    return Input("w", (size,)), Input("b", (size,))


WEIGHTS = {"weight": "w", "bias": "b"}
KEPT = (Input("m", (3,), is_kept=True), Input("v", (3,), "positive", is_kept=True))
RUNNING = {"running_mean": "m", "running_var": "v"}
MOVING = "BatchNorm(3, affine=False, momentum=0.3)"


def _batchnorm(name: str, shape: Shape) -> Form:
    return _layer(
        f"{name}(3)",
        (Input("x", shape), *_affine(3)),
        WEIGHTS,
        partial(_batch_trained),
        "F.batch_norm(x, None, None, w, b, training=True)",
        "training({}, x)",
    )


def _moving(name: str, reference: partial[Value], torch: str) -> Form:
    call = "after({}, x)." + name
    x = Input("x", (4, 3, 2))
    return _layer(MOVING, (x, *KEPT), RUNNING, reference, torch, call, False)


BATCHNORM = (
    _batchnorm("BatchNorm", (4, 3, 2)),
    _layer(
        "BatchNorm(3)",
        (Input("x", (2, 3, 4)), *_affine(3), *KEPT),
        {**WEIGHTS, **RUNNING},
        partial(_batch_used),
        "F.batch_norm(x, m, v, w, b)",
    ),
    _layer(
        "BatchNorm(3, eps=0.1, affine=False, track_running_stats=False)",
        (Input("x", (5, 3)),),
        {},
        partial(_batch_trained, eps=0.1),
        "F.batch_norm(x, None, None, training=True, eps=0.1)",
    ),
    _moving(
        "running_mean",
        partial(_running_mean),
        "m * 0.7 + x.mean((0, 2)) * 0.3",
    ),
    _moving(
        "running_var",
        partial(_running_variance),
        "v * 0.7 + x.var((0, 2)) * 0.3",
    ),
    Form(
        "after(given(nn.BatchNorm(3), device), x, x).num_batches_tracked",
        (Input("x", (4, 3)),),
        exact=_counted,
        output=lambda dtype: dtypes.int32,
        no_torch="a count of calls",
    ),
)


def _groups(x: Value, *affine: Value, groups: int, eps: float = 1e-5) -> Value:
    grouped = layernorm(x.reshape(x.shape[0], groups, -1), (-1,), eps)
    return _by_channel(grouped.reshape(*x.shape), *affine)


GROUPNORM = (
    _layer(
        "GroupNorm(2, 4)",
        (Input("x", (2, 4, 3)), *_affine(4)),
        WEIGHTS,
        partial(_groups, groups=2),
        "F.group_norm(x, 2, w, b)",
    ),
    _layer(
        "GroupNorm(3, 6, eps=0.1, affine=False)",
        (Input("x", (1, 6, 2, 2)),),
        {},
        partial(_groups, groups=3, eps=0.1),
        "F.group_norm(x, 3, eps=0.1)",
    ),
)
INSTANCENORM = (
    _layer(
        "InstanceNorm(3)",
        (Input("x", (2, 3, 2, 4)), *_affine(3)),
        WEIGHTS,
        partial(_groups, groups=3),
        "F.instance_norm(x, weight=w, bias=b)",
    ),
)


def _layer_norm(x: Value, *affine: Value, axes: Shape, eps: float = 1e-5) -> Value:
    found = layernorm(x, axes, eps)
    return found * affine[0] + affine[1] if affine else found


def _image_norm(x: Value, w: Value, b: Value) -> Value:
    return _by_channel(layernorm(x, (1,)), w, b)


LAYERNORM = (
    _layer(
        "LayerNorm((3, 4))",
        (Input("x", (2, 3, 4)), Input("w", (3, 4)), Input("b", (3, 4))),
        WEIGHTS,
        partial(_layer_norm, axes=(-2, -1)),
        "F.layer_norm(x, (3, 4), w, b)",
    ),
    _layer(
        "LayerNorm(5, eps=0.1, elementwise_affine=False)",
        (Input("x", (3, 5)),),
        {},
        partial(_layer_norm, axes=(-1,), eps=0.1),
        "F.layer_norm(x, (5,), eps=0.1)",
    ),
)
LAYERNORM2D = (
    _layer(
        "LayerNorm2d(4)",
        (Input("x", (2, 4, 2, 3)), *_affine(4)),
        WEIGHTS,
        partial(_image_norm),
        "F.layer_norm(x.permute(0, 2, 3, 1), (4,), w, b).permute(0, 3, 1, 2)",
    ),
)


def _rms_norm(x: Value, w: Value, eps: float = 1e-6) -> Value:
    squares = (x * x).sum((-1,), keepdims=True) / float(x.shape[-1])
    return x / bounded.sqrt(squares + eps) * w


RMSNORM = (
    _layer(
        "RMSNorm(5)",
        (Input("x", (3, 5)), Input("w", (5,))),
        {"weight": "w"},
        partial(_rms_norm),
        "F.rms_norm(x, (5,), w, 1e-6)",
    ),
    _layer(
        "RMSNorm(4, eps=0.1)",
        (Input("x", (2, 2, 4)), Input("w", (4,))),
        {"weight": "w"},
        partial(_rms_norm, eps=0.1),
        "F.rms_norm(x, (4,), w, 0.1)",
    ),
)


# Recurrence


def _lstm_step(x: Value, h: Value, c: Value, a: Value, b: Value, *bias: Value) -> list[Value]:
    """The next h and c: gates of inputs a and of states b, in the order entering, forgetting,
    content, leaving.
    """
    gates = _linear(x, a) + _linear(h, b)
    for part in bias:
        gates = gates + part
    size = h.shape[1]
    entering, forgetting, content, leaving = (
        bounded.cut(gates, size * number, size * (number + 1), 1) for number in range(4)
    )
    c = sigmoid(forgetting) * c + sigmoid(entering) * tanh(content)
    return [sigmoid(leaving) * tanh(c), c]


def _lstm(x: Value, a: Value, b: Value, *bias: Value) -> Value:
    h = c = bounded.zeros((x.shape[1], b.shape[1]), x.dtype)
    for number in range(x.shape[0]):
        h, c = _lstm_step(bounded.take_place(x, number, 0), h, c, a, b, *bias)
    return bounded.concatenated([h, c], 1)


def _lstm_state(x: Value, h: Value, c: Value, a: Value, b: Value, number: int) -> Value:
    return _lstm_step(x, h, c, a, b)[number]


def _lstm_part(number: int) -> Form:
    """One step from a given state: h or c of the result."""
    return _layer(
        "LSTMCell(3, 2, bias=False)",
        (
            *(Input("x", (3, 3)), Input("h", (3, 2)), Input("c", (3, 2))),
            *(Input("a", (8, 3)), Input("b", (8, 2))),
        ),
        {"weight_ih": "a", "weight_hh": "b"},
        partial(_lstm_state, number=number),
        f"torch.lstm_cell(x, (h, c), a, b)[{number}]",
        f"{{}}(x, (h, c))[{number}]",
    )


_STATES = "(x.new_zeros(1, 2, 2), x.new_zeros(1, 2, 2))"
LSTM = (
    _layer(
        "LSTMCell(3, 2)",
        (
            *(Input("x", (2, 2, 3)), Input("a", (8, 3)), Input("b", (8, 2))),
            *(Input("p", (8,)), Input("q", (8,))),
        ),
        {"weight_ih": "a", "weight_hh": "b", "bias_ih": "p", "bias_hh": "q"},
        partial(_lstm),
        f"torch.cat(torch.lstm(x, {_STATES}, (a, b, p, q), True, 1, 0.0, False, False, False)[1:],"
        " -1)[0]",
        "stepped({}, x)",
    ),
    _lstm_part(0),
    _lstm_part(1),
)


# The rows

FUNCTIONS = (
    Function("Linear", "x times the transposed weight, plus the bias.", LINEAR, TYPES),
    Function("Embedding", "Rows of a table by their numbers.", EMBEDDING, TYPES),
    Function("Conv1d", "A correlation along one axis.", CONV1D, TYPES),
    Function("Conv2d", "A correlation along one to three axes.", CONV2D, TYPES),
    Function("ConvTranspose1d", "The transpose of Conv1d.", CONV_TRANSPOSE1D, TYPES),
    Function("ConvTranspose2d", "The transpose of Conv2d.", CONV_TRANSPOSE2D, TYPES),
    Function(
        "BatchNorm",
        "Each channel less its mean over its deviation: those of the batch, or the running ones, "
        "which follow every batch of a training.",
        BATCHNORM,
        TYPES,
    ),
    Function(
        "BatchNorm2d", "BatchNorm of images.", (_batchnorm("BatchNorm2d", (2, 3, 2, 3)),), TYPES
    ),
    Function(
        "BatchNorm3d", "BatchNorm of volumes.", (_batchnorm("BatchNorm3d", (2, 3, 2, 1, 2)),), TYPES
    ),
    Function("GroupNorm", "Each group of channels to mean 0 and variance 1.", GROUPNORM, TYPES),
    Function("InstanceNorm", "Each channel to mean 0 and variance 1.", INSTANCENORM, TYPES),
    Function("LayerNorm", "The last axes to mean 0 and variance 1.", LAYERNORM, TYPES),
    Function(
        "LayerNorm2d", "The channels of each pixel to mean 0, variance 1.", LAYERNORM2D, TYPES
    ),
    Function("RMSNorm", "x over its root of the mean of squares.", RMSNORM, TYPES),
    Function("LSTMCell", "One step of a long short-term memory.", LSTM, TYPES),
)


def _checks(function: Function, dtype: DType) -> list[Check]:
    """In the quick profile the forms in float32, the first of them backward, and one in float64."""
    found = []
    for number, form in enumerate(function.forms):
        is_rare = dtype is not dtypes.float32
        forward = functools.partial(run_forward, form, dtype, number)
        found.append(Check(f"forward:{number}", forward, is_rare and number > 0))
        if form.backward is not None:
            backward = functools.partial(run_backward, form, dtype, number)
            found.append(Check(f"backward:{number}", backward, is_rare or number > 0))
    return found


def rows() -> Iterator[Row]:
    """Every layer: its values and gradients in each type."""
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
