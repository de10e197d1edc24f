"""Losses and normalisations by their definitions, in bounded values."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function, Input, Shape
from tinyref_spec.tensor.functions import log_softmax, relu

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def layernorm(x: Value, axes: tuple[int, ...], eps: float = 1e-5) -> Value:
    """Return x with mean 0 and variance 1 along axes."""
    count = float(math.prod(x.shape[axis] for axis in axes))
    distance = x - x.sum(axes, keepdims=True) / count
    variance = (distance * distance).sum(axes, keepdims=True) / count
    return distance / bounded.sqrt(variance + eps)


def _normalize(x: Value, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Value:
    """Return vectors divided by their p-norm, or by eps if that is larger."""
    size = bounded.absolute(x)
    if p == 2:
        norm = bounded.sqrt((x * x).sum((axis,), keepdims=True))
    elif math.isinf(p):
        norm = bounded.largest(size, (axis,))
    else:
        powers = size if p == 1 else bounded.power(size, bounded.constant(p, x.dtype))
        total = powers.sum((axis,), keepdims=True)
        norm = bounded.power(total, bounded.constant(1 / p, x.dtype))
    least = bounded.constant(eps, x.dtype).spread(norm.shape)
    return x / bounded.choose(norm.value < eps, least, norm)


def _normalize_form(
    arguments: str, x: Shape = (4, 5), p: float = 2.0, axis: int = 1, eps: float = 1e-12
) -> Form:
    return Form(
        f"x.normalize({arguments})",
        (Input("x", x, "away"),),
        partial(_normalize, p=p, axis=axis, eps=eps),
        is_wide=True,
        torch=f"F.normalize(x, {arguments})",
    )


def _batchnorm(x: Value, *parts: Value, shape: Shape) -> Value:
    """Return the normalised x from x, mean, invstd, and optional weight and bias."""
    mean, scale, *affine = (part.reshape(*shape) for part in parts)
    result = x - mean
    if affine:
        result = result * affine[0]
    result = result * scale
    return result + affine[1] if affine else result


def _reduce_losses(losses: Value, reduction: str, count: float | None = None) -> Value:
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / (count or float(losses.value.size))


def _labels(c: Value, x: Value, axis: int) -> Numbers:
    """Return the classes that the counts 0 to 7 name, in the shape of x without its classes."""
    return np.asarray(c.value, np.int64) % x.shape[axis]


def _of_class(x: Value, labels: Numbers, axis: int) -> Value:
    numbers = np.arange(1, x.value.size + 1).reshape(x.shape)
    taken = np.take_along_axis(numbers, np.expand_dims(labels, axis), axis)
    return bounded.gather(x, np.squeeze(taken, axis))


def _cross_entropy(
    x: Value,
    c: Value,
    axis: int,
    reduction: str = "mean",
    smoothing: float = 0.0,
    ignored: int | None = None,
) -> Value:
    """Return the loss of classes. Ignored ones give 0, and do not count in the mean."""
    labels = _labels(c, x, axis)
    logarithms = log_softmax(x, axis)
    losses = -_of_class(logarithms, labels, axis)
    if smoothing:
        even = -logarithms.sum((axis,)) / float(x.shape[axis])
        losses = losses * (1 - smoothing) + even * smoothing
    return _mean_of_counted(losses, labels, reduction, ignored)


def _mean_of_counted(losses: Value, labels: Numbers, reduction: str, ignored: int | None) -> Value:
    if ignored is None:
        return _reduce_losses(losses, reduction)
    is_counted = labels != ignored
    chosen = bounded.choose(is_counted, losses, bounded.zeros(losses.shape, losses.dtype))
    return _reduce_losses(chosen, reduction, float(is_counted.sum()))


def _soft_cross_entropy(x: Value, y: Value, reduction: str, smoothing: float) -> Value:
    targets = y * (1 - smoothing) + smoothing / x.shape[1] if smoothing else y
    return _reduce_losses(-(log_softmax(x, 1) * targets).sum((1,)), reduction)


def _nll(
    x: Value, c: Value, *weight: Value, axis: int, reduction: str, ignored: int | None = None
) -> Value:
    labels = _labels(c, x, axis)
    losses = -_of_class(x, labels, axis)
    counted = np.ones(labels.shape) if ignored is None else (labels != ignored).astype(float)
    factors = bounded.exact(counted, x.dtype)
    if weight:
        factors = factors * bounded.gather(weight[0], labels + 1)
    losses = losses * factors
    return (
        losses.sum() / factors.sum() if reduction == "mean" else _reduce_losses(losses, reduction)
    )


def _binary(x: Value, y: Value, reduction: str) -> Value:
    losses = -(y * bounded.log(x) + (-y + 1.0) * bounded.log(-x + 1.0))
    return _reduce_losses(losses, reduction)


def _weighted_binary_logits(x: Value, y: Value, p: Value, reduction: str) -> Value:
    """Return (1 - y) x + (1 + (p - 1) y) log(1 + e ** -x)."""
    target = bounded.absolute(y / 8.0)
    below = bounded.choose(x.value < 0, -x, bounded.zeros(x.shape, x.dtype))
    softplus = below + bounded.log(bounded.exp(-bounded.absolute(x)) + 1.0)
    losses = (-target + 1.0) * x + ((p - 1.0) * target + 1.0) * softplus
    return _reduce_losses(losses, reduction)


def _weighted_form(weight: Shape, reduction: str) -> Form:
    arguments = f'(y / 8).abs(), reduction="{reduction}", pos_weight=p'
    # Torch has no gradient of the weights, so they are integers, which have none here.
    return Form(
        f"x.binary_crossentropy_logits({arguments})",
        (Input("x", (4, 5), "away"), Input("y", (4, 5), "away"), Input("p", weight, "counts")),
        partial(_weighted_binary_logits, reduction=reduction),
        torch=f"F.binary_cross_entropy_with_logits(x, {arguments})",
    )


def _binary_logits(x: Value, y: Value, reduction: str) -> Value:
    negative = x.value < 0
    power = bounded.exp(bounded.choose(negative, x, -x))
    largest = bounded.choose(negative, bounded.zeros(x.shape, x.dtype), x)
    return _reduce_losses(largest + bounded.log(power + 1.0) - x * y, reduction)


def _class_loss_form(
    expression: str,
    torch: str,
    x: Shape,
    forward: Callable[..., Value],
    *more: Input,
) -> Form:
    """Return a loss of x and the classes `c % size`, so that any integers are valid."""
    axis = 0 if len(x) == 1 else 1
    labels = Input("c", (*x[:axis], *x[axis + 1 :]), "counts", dtypes.int32)
    return Form(
        expression,
        (Input("x", x), labels, *more),
        forward,
        is_wide=True,
        torch=torch,
    )


def _cross(x: Shape, reduction: str = "mean", smoothing: float = 0.0) -> Form:
    axis = 0 if len(x) == 1 else 1
    size = x[axis]
    arguments = f'reduction="{reduction}", label_smoothing={smoothing}'
    return _class_loss_form(
        f"x.cross_entropy(c % {size}, {arguments})",
        f"F.cross_entropy(x, c.long() % {size}, {arguments})",
        x,
        partial(_cross_entropy, axis=axis, reduction=reduction, smoothing=smoothing),
    )


def _soft(x: Shape, reduction: str = "mean", smoothing: float = 0.0) -> Form:
    arguments = f'reduction="{reduction}", label_smoothing={smoothing}'
    return Form(
        f"x.cross_entropy(y, {arguments})",
        (Input("x", x), Input("y", x, "positive")),
        partial(_soft_cross_entropy, reduction=reduction, smoothing=smoothing),
        is_wide=True,
        torch=f"F.cross_entropy(x, y, {arguments})",
    )


def _sparse(
    x: Shape, reduction: str = "mean", smoothing: float = 0.0, ignored: int | None = None
) -> Form:
    arguments = f'label_smoothing={smoothing}, reduction="{reduction}"'
    keyword = "" if ignored is None else f", ignore_index={ignored}"
    last = len(x) - 1
    labels = Input("c", x[:-1], "counts", dtypes.int32)
    in_front = f"x.movedim({last}, 1)" if last > 1 else "x"
    return Form(
        f"x.sparse_categorical_crossentropy(c % {x[-1]}, {arguments}{keyword})",
        (Input("x", x), labels),
        partial(
            _cross_entropy, axis=last, reduction=reduction, smoothing=smoothing, ignored=ignored
        ),
        is_wide=True,
        torch=f"F.cross_entropy({in_front}, c.long() % {x[-1]}, {arguments}{keyword})",
    )


def _negative(
    x: Shape, reduction: str = "mean", weighted: bool = False, ignored: int | None = None
) -> Form:
    axis = 0 if len(x) == 1 else 1
    size = x[axis]
    arguments = f'reduction="{reduction}"'
    if ignored is not None:
        arguments += f", ignore_index={ignored}"
    if weighted:
        arguments += ", weight=w"
    # Torch has no gradient of the weights, so they are integers, which have none here.
    weight = (Input("w", (size,), "counts"),) if weighted else ()
    return _class_loss_form(
        f"x.nll_loss(c % {size}, {arguments})",
        f"F.nll_loss(x, c.long() % {size}, {arguments})",
        x,
        partial(_nll, axis=axis, reduction=reduction, ignored=ignored),
        *weight,
    )


def _layernorm_form(x: Shape, arguments: str, axes: Shape, torch: str, eps: float = 1e-5) -> Form:
    return Form(
        f"x.layernorm({arguments})",
        (Input("x", x),),
        partial(layernorm, axes=axes, eps=eps),
        is_wide=True,
        torch=torch,
    )


def _batchnorm_form(x: Shape, axis: int, affine: bool) -> Form:
    size = (x[axis],)
    shape = tuple(extent if number == axis else 1 for number, extent in enumerate(x))
    more = (Input("w", size), Input("b", size)) if affine else ()
    placed = {name: f"{name}.reshape{shape}" for name in "wbms"}
    scaled = f"(x - {placed['m']}) * {placed['s']}"
    return Form(
        f"x.batchnorm({'w, b' if affine else 'None, None'}, m, s, {axis})",
        (Input("x", x), Input("m", size), Input("s", size, "positive"), *more),
        partial(_batchnorm, shape=shape),
        is_wide=True,
        torch=f"{scaled} * {placed['w']} + {placed['b']}" if affine else scaled,
    )


def _pairs(name: str, torch: str, forward: Callable[..., Value], reduction: str) -> Form:
    """Return a loss of two tensors of one shape, the second between 0 and 1."""
    is_logits = "logits" in name
    probabilities = "(y / 8).abs()" if is_logits else "y / 5"
    elements = "x" if is_logits else "x / 5"

    def scaled(x: Value, y: Value) -> Value:
        if is_logits:
            size = bounded.absolute(y / 8.0)
            return forward(x, size, reduction)
        return forward(x / 5.0, y / 5.0, reduction)

    kind = "away" if is_logits else "positive"
    return Form(
        f'({elements}).{name}({probabilities}, reduction="{reduction}")',
        (Input("x", (4, 5), kind), Input("y", (4, 5), kind)),
        scaled,
        torch=f'F.{torch}({elements}, {probabilities}, reduction="{reduction}")',
    )


def _dropout_form(expression: str, torch: str, scale: float) -> Form:
    return Form(
        expression,
        (Input("x", (3, 4)),),
        lambda x: x * scale,
        exact=lambda x: x * x.dtype.type(scale),
        torch=torch,
    )


BINARY = ("mean", "sum", "none")
# No bfloat16 and float16, because the form divides before the function computes in float32.
WIDE = (dtypes.float32, dtypes.float64)

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "layernorm",
        "Mean 0 and variance 1 along axes.",
        (
            _layernorm_form((4, 9), "", (-1,), "F.layer_norm(x, (9,))"),
            _layernorm_form((2, 3, 5), "(1, 2)", (1, 2), "F.layer_norm(x, (3, 5))"),
            _layernorm_form((2, 6), "-1, eps=0.5", (-1,), "F.layer_norm(x, (6,), eps=0.5)", 0.5),
            _layernorm_form((3, 4), "0", (0,), "F.layer_norm(x.T, (3,)).T"),
        ),
    ),
    Function(
        "normalize",
        "Vectors along an axis divided by their p-norm, or by eps if that is larger.",
        (
            _normalize_form(""),
            _normalize_form("1.0, 0", p=1.0, axis=0),
            _normalize_form("3.0, -1", (2, 3, 4), p=3.0, axis=-1),
            _normalize_form("p=float('inf')", p=math.inf),
            _normalize_form("eps=3.0", eps=3.0),
        ),
    ),
    Function(
        "batchnorm",
        "(x - mean) times weight and 1 / deviation, plus bias; one of each along an axis.",
        (
            _batchnorm_form((3, 4), 1, True),
            _batchnorm_form((2, 3, 4), 1, False),
            _batchnorm_form((2, 3, 2, 2), 1, True),
            _batchnorm_form((2, 3), 0, True),
        ),
    ),
    Function(
        "dropout",
        "x itself outside of training; in training, random elements become 0.",
        (
            _dropout_form("x.dropout(0.5)", "F.dropout(x, 0.5, training=False)", 1.0),
            _dropout_form(
                "Tensor.train()(Tensor.test(False)(lambda x: x.dropout(1.0)))(x)",
                "F.dropout(x, 1.0)",
                0.0,
            ),
            _dropout_form(
                "Tensor.train()(lambda x: x * (2.0 if Tensor.training else 1.0))(x)", "x * 2.0", 2.0
            ),
        ),
        covers=("train", "test", "training"),
    ),
    Function(
        "sequential",
        "x through several functions, one after another.",
        (
            Form(
                "x.sequential([Tensor.relu, lambda t: t * 3.0])",
                (Input("x", (4, 9), "away"),),
                lambda x: relu(x) * 3.0,
                torch="F.relu(x) * 3.0",
            ),
        ),
    ),
    Function(
        "binary_crossentropy",
        "-(y log x + (1 - y) log(1 - x)), reduced.",
        tuple(
            _pairs("binary_crossentropy", "binary_cross_entropy", _binary, reduction)
            for reduction in BINARY
        ),
        WIDE,
    ),
    Function(
        "binary_crossentropy_logits",
        "The binary cross entropy of sigmoid(x), without its overflow.",
        (
            *(
                _pairs(
                    "binary_crossentropy_logits",
                    "binary_cross_entropy_with_logits",
                    _binary_logits,
                    reduction,
                )
                for reduction in BINARY
            ),
            _weighted_form((5,), "mean"),
            _weighted_form((4, 1), "none"),
        ),
        WIDE,
    ),
    Function(
        "cross_entropy",
        "-sum(y log softmax(x)) of classes or probabilities, smoothed and reduced.",
        (
            _cross((4, 5)),
            _cross((4, 5), "sum", 0.25),
            _cross((5,), "none"),
            _cross((2, 5, 3), "none", 0.5),
            _cross((2, 4, 2, 2)),
            _soft((4, 5)),
            _soft((2, 5, 3), "sum", 0.25),
            _soft((3, 4), "none"),
        ),
    ),
    Function(
        "sparse_categorical_crossentropy",
        "The cross entropy of classes on the last axis; ignored ones do not count.",
        (
            _sparse((4, 5)),
            _sparse((4, 5), "none", 0.25),
            _sparse((2, 3, 4), "sum"),
            _sparse((7, 3), ignored=1),
            _sparse((7, 3), "none", 0.25, 1),
        ),
    ),
    Function(
        "nll_loss",
        "The negated element of each class, weighted and reduced.",
        (
            _negative((4, 5)),
            _negative((5,), "none"),
            _negative((2, 5, 3), "sum"),
            _negative((7, 3), weighted=True),
            _negative((7, 3), "none", True, 1),
            _negative((7, 3), ignored=0),
        ),
    ),
)
