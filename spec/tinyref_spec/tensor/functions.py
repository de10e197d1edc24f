"""The Tensor functions: expressions with references and gradients in closed form."""

from __future__ import annotations

import math

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import (
    Form,
    Function,
    Input,
    always_bool,
    moved,
    one_like,
    summed,
    unary,
)

FLOATS = dtypes.floats
NUMBERS = (*dtypes.floats, dtypes.int32, dtypes.int64, dtypes.uint8)
SHAPES = ((4, 9), (4, 9))
ANYTHING = (
    dtypes.float32,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float64,
    dtypes.int32,
    dtypes.uint8,
)
LN2 = math.log(2)


def _pair(first: str = "any", second: str = "any") -> tuple[Input, Input]:
    return Input("x", (4, 9), first), Input("y", (4, 9), second)


def _broadcast(first: str = "any", second: str = "any") -> tuple[Input, Input]:
    return Input("x", (3, 1, 5), first), Input("y", (4, 5), second)


def _back(gx: Value, gy: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """Gradients of a broadcast, summed to the shapes of the inputs."""
    return gx.unbroadcast(x.shape), gy.unbroadcast(y.shape)


def _add_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return _back(g, g, x, y)


def _sub_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return _back(g, -g, x, y)


def _mul_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return _back(g * y, g * x, x, y)


def _div_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return _back(g / y, -(g * (x / y)) / y, x, y)


def _larger_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    wins = x.value > y.value
    zero = bounded.zeros(g.shape, g.dtype)
    return bounded.choose(wins, g, zero), bounded.choose(wins, zero, g)


def _smaller_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return _larger_back(g, -x, -y)


def _power_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    slope = y * bounded.power(x, y - 1.0)
    return g * slope, g * (bounded.power(x, y) * bounded.log(x))


ARITHMETIC = (
    Function(
        "add",
        "x + y with broadcasting; integers wrap, floats round.",
        (
            Form("x + y", _pair(), lambda x, y: x + y, backward=_add_back),
            Form("x + y", _broadcast(), lambda x, y: x + y, backward=_add_back),
        ),
        NUMBERS,
    ),
    Function(
        "sub",
        "x - y with broadcasting.",
        (
            Form("x - y", _pair("any", "any"), lambda x, y: x - y, backward=_sub_back),
            Form("x.sub(y)", _broadcast(), lambda x, y: x - y, backward=_sub_back),
        ),
        (*FLOATS, dtypes.int32, dtypes.int64),
    ),
    Function(
        "mul",
        "x * y with broadcasting.",
        (
            Form("x * y", _pair(), lambda x, y: x * y, backward=_mul_back),
            Form("x * y", _broadcast(), lambda x, y: x * y, backward=_mul_back),
            unary("x * 3", lambda x: x * 3.0, lambda x: one_like(x) * 3.0),
        ),
        NUMBERS,
    ),
    Function(
        "div",
        "x / y of floats.",
        (
            Form("x / y", _pair("any", "away"), lambda x, y: x / y, backward=_div_back),
            Form("x / y", _broadcast("any", "away"), lambda x, y: x / y, backward=_div_back),
        ),
    ),
    Function(
        "pow",
        "x ** y for positive x, and for whole exponents.",
        (
            Form("x ** y", _pair("positive", "any"), bounded.power, backward=_power_back),
            unary("x ** 2", lambda x: x * x, lambda x: x * 2.0),
            unary("x ** 3", lambda x: x * x * x, lambda x: x * x * 3.0),
        ),
    ),
    Function(
        "maximum",
        "The larger of x and y; the gradient goes to it.",
        (
            Form(
                "x.maximum(y)",
                (Input("x", (4, 9), "distinct"), Input("y", (4, 9), "any")),
                exact=np.maximum,
                backward=_larger_back,
            ),
        ),
        ANYTHING,
    ),
    Function(
        "minimum",
        "The smaller of x and y; the gradient goes to it.",
        (
            Form(
                "x.minimum(y)",
                (Input("x", (4, 9), "distinct"), Input("y", (4, 9), "any")),
                exact=np.minimum,
                backward=_smaller_back,
            ),
        ),
        ANYTHING,
    ),
)


def _sigmoid(x: Value) -> Value:
    return bounded.constant(1.0, x.dtype) / (bounded.exp(-x) + 1.0)


def _sigmoid_slope(x: Value) -> Value:
    y = _sigmoid(x)
    return y * (-y + 1.0)


def _tanh(x: Value) -> Value:
    """2 sigmoid(2x) - 1: its absolute error is that of the parts, its relative one is not held."""
    return _sigmoid(x * 2.0) * 2.0 - 1.0


def _tanh_slope(x: Value) -> Value:
    y = _tanh(x)
    return -(y * y) + 1.0


def _relu(x: Value) -> Value:
    return bounded.choose(x.value > 0, x, bounded.zeros(x.shape, x.dtype))


def _step(x: Value) -> Value:
    return bounded.choose(x.value > 0, one_like(x), bounded.zeros(x.shape, x.dtype))


def _sign(x: Value) -> Value:
    return bounded.exact(np.sign(x.value), x.dtype)


def _reciprocal(x: Value) -> Value:
    return one_like(x) / x


UNARY = (
    Function("neg", "-x.", (unary("-x", lambda x: -x, lambda x: -one_like(x)),), ANYTHING),
    Function(
        "reciprocal",
        "1 / x.",
        (
            unary(
                "x.reciprocal()",
                _reciprocal,
                lambda x: -(_reciprocal(x) * _reciprocal(x)),
                "away",
            ),
        ),
    ),
    Function(
        "sqrt",
        "The square root.",
        (
            unary(
                "x.sqrt()",
                bounded.sqrt,
                lambda x: one_like(x) / (bounded.sqrt(x) * 2.0),
                "positive",
            ),
        ),
    ),
    Function(
        "exp2",
        "2 ** x.",
        (unary("x.exp2()", bounded.exp2, lambda x: bounded.exp2(x) * LN2),),
    ),
    Function(
        "log2",
        "The logarithm to base 2.",
        (unary("x.log2()", bounded.log2, lambda x: one_like(x) / (x * LN2), "positive"),),
    ),
    Function("sin", "The sine.", (unary("x.sin()", bounded.sin, bounded.cos),)),
    Function(
        "exp",
        "e ** x, by way of 2 ** (x log2 e).",
        (unary("x.exp()", bounded.exp, bounded.exp, is_wide=True),),
    ),
    Function(
        "log",
        "The natural logarithm, by way of log2(x) ln 2.",
        (unary("x.log()", bounded.log, _reciprocal, "positive", is_wide=True),),
    ),
    Function(
        "sigmoid",
        "1 / (1 + e ** -x).",
        (unary("x.sigmoid()", _sigmoid, _sigmoid_slope, is_wide=True),),
    ),
    Function(
        "tanh",
        "The hyperbolic tangent.",
        (unary("x.tanh()", _tanh, _tanh_slope, is_wide=True),),
    ),
    Function(
        "relu",
        "x where it is positive, else 0.",
        (unary("x.relu()", _relu, _step, "away"),),
    ),
    Function("abs", "The magnitude.", (unary("x.abs()", lambda x: x * _sign(x), _sign, "away"),)),
    Function("square", "x * x.", (unary("x.square()", lambda x: x * x, lambda x: x * 2.0),)),
)


def _chosen_back(g: Value, c: Value, x: Value, y: Value) -> tuple[None, Value, Value]:
    zero = bounded.zeros(g.shape, g.dtype)
    chosen = c.value != 0
    return None, bounded.choose(chosen, g, zero), bounded.choose(chosen, zero, g)


def _compared(expression: str, reference: object) -> Form:
    assert callable(reference)
    return Form(
        expression,
        (Input("x", (4, 9), "small"), Input("y", (4, 9), "small")),
        exact=reference,
        output=always_bool,
    )


CHOICE = (
    Function(
        "where",
        "x where the condition holds, else y.",
        (
            Form(
                "c.where(x, y)",
                (Input("c", (4, 9), "bool", dtypes.bool), *_pair()),
                exact=np.where,
                backward=_chosen_back,
            ),
        ),
        ANYTHING,
    ),
    Function(
        "compare",
        "Comparisons give bools.",
        (
            _compared("x < y", np.less),
            _compared("x > y", np.greater),
            _compared("x <= y", np.less_equal),
            _compared("x >= y", np.greater_equal),
            _compared("x == y", np.equal),
            _compared("x != y", np.not_equal),
        ),
        ANYTHING,
    ),
    Function(
        "bitwise",
        "Bitwise operations on integers.",
        (
            Form("x & y", _pair("small", "small"), exact=np.bitwise_and),
            Form("x | y", _pair("small", "small"), exact=np.bitwise_or),
            Form("x ^ y", _pair("small", "small"), exact=np.bitwise_xor),
        ),
        (dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.bool),
    ),
)


def _pad_window(x: Array, bounds: tuple[tuple[int, int], ...]) -> Array:
    return np.pad(x, bounds)


MOVEMENT = (
    Function(
        "reshape",
        "The same elements in another shape; -1 is what is left.",
        (
            moved("x.reshape(6, 4)", (2, 3, 4), lambda x: x.reshape(6, 4)),
            moved("x.reshape((-1,))", (2, 3, 4), lambda x: x.reshape(-1)),
            moved("x.flatten()", (2, 3, 4), lambda x: x.reshape(-1)),
        ),
        ANYTHING,
    ),
    Function(
        "permute",
        "The axes in another order.",
        (
            moved("x.permute(2, 0, 1)", (2, 3, 4), lambda x: x.transpose(2, 0, 1)),
            moved("x.transpose(0, 1)", (5, 3), lambda x: x.T),
            moved("x.T", (5, 3), lambda x: x.T),
        ),
        ANYTHING,
    ),
    Function(
        "expand",
        "Axes of size 1 repeated; their gradient is a sum.",
        (
            moved("x.expand(4, 5)", (1, 5), lambda x: np.broadcast_to(x, (4, 5))),
            moved("x.expand(3, 4, 5)", (4, 1), lambda x: np.broadcast_to(x, (3, 4, 5))),
        ),
        ANYTHING,
    ),
    Function(
        "flip",
        "Axes in reverse order.",
        (
            moved("x.flip(0)", (4, 5), lambda x: x[::-1]),
            moved("x.flip((0, 1))", (4, 5), lambda x: x[::-1, ::-1]),
        ),
        ANYTHING,
    ),
    Function(
        "shrink",
        "A part of every axis.",
        (
            moved("x.shrink(((1, 3), (0, 5)))", (4, 5), lambda x: x[1:3]),
            moved("x.shrink(((1, 3), None))", (4, 5), lambda x: x[1:3]),
        ),
        ANYTHING,
    ),
    Function(
        "pad",
        "Zeros around.",
        (
            moved("x.pad(((1, 2), (0, 3)))", (4, 5), lambda x: _pad_window(x, ((1, 2), (0, 3)))),
            moved("x.pad((1, 2))", (4, 5), lambda x: _pad_window(x, ((0, 0), (1, 2)))),
        ),
        ANYTHING,
    ),
    Function(
        "index",
        "Indexing by integers and slices, also negative ones and steps.",
        (
            moved("x[1]", (4, 5), lambda x: x[1]),
            moved("x[-1, 2:4]", (4, 5), lambda x: x[-1, 2:4]),
            moved("x[::2, ::-1]", (4, 5), lambda x: x[::2, ::-1]),
            moved("x[:, None, 1:]", (4, 5), lambda x: x[:, None, 1:]),
            moved("x[..., -2]", (2, 3, 4), lambda x: x[..., -2]),
            moved("x[3:1:-1]", (4, 5), lambda x: x[3:1:-1]),
            moved("x[2, 3]", (4, 5), lambda x: x[2, 3]),
        ),
        ANYTHING,
    ),
)

Axes = tuple[int, ...]


def _restore(x: Value, axes: Axes, shape: tuple[int, ...]) -> Value:
    """A reduced value with its axes back at size 1, repeated to `shape`."""
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    spread = x.reshape(*kept)
    return Value(
        np.broadcast_to(spread.value, shape), np.broadcast_to(spread.error, shape), x.dtype
    )


def _sum_form(expression: str, shape: tuple[int, ...], axes: Axes, keepdims: bool = False) -> Form:
    return Form(
        expression,
        (Input("x", shape),),
        lambda x: x.sum(axes, keepdims),
        backward=lambda g, x: (_restore(g, axes, shape),),
        is_wide=True,
        output=summed,
    )


def _mean_form(expression: str, shape: tuple[int, ...], axes: Axes) -> Form:
    count = float(math.prod(shape[axis] for axis in axes))
    return Form(
        expression,
        (Input("x", shape),),
        lambda x: x.sum(axes) / count,
        backward=lambda g, x: (_restore(g, axes, shape) / count,),
        is_wide=True,
    )


def _extreme_form(expression: str, shape: tuple[int, ...], axes: Axes, sign: int) -> Form:
    def reference(x: Array) -> Array:
        return np.asarray(x.max(axis=axes) if sign > 0 else x.min(axis=axes))

    def backward(g: Value, x: Value) -> tuple[Value]:
        best = (x.value * sign).max(axis=axes, keepdims=True)
        zero = bounded.zeros(shape, g.dtype)
        return (bounded.choose(x.value * sign == best, _restore(g, axes, shape), zero),)

    return Form(expression, (Input("x", shape, "distinct"),), exact=reference, backward=backward)


def _prod_back(g: Value, x: Value) -> tuple[Value]:
    whole = bounded.product(x, 1)
    return (_restore(g * whole, (1,), x.shape) / x,)


REDUCTION = (
    Function(
        "sum",
        "Sums; narrow integers accumulate in 32 bits, 16-bit floats in float32.",
        (
            _sum_form("x.sum()", (4, 9), (0, 1)),
            _sum_form("x.sum(1)", (4, 9), (1,)),
            _sum_form("x.sum(axis=0, keepdim=True)", (4, 9), (0,), True),
            _sum_form("x.sum((0, 2))", (3, 4, 5), (0, 2)),
        ),
        (*NUMBERS, dtypes.int8, dtypes.uint16),
    ),
    Function(
        "mean",
        "Sums divided by the number of elements.",
        (
            _mean_form("x.mean()", (4, 9), (0, 1)),
            _mean_form("x.mean(-1)", (4, 9), (1,)),
        ),
    ),
    Function(
        "max",
        "The largest element; the gradient goes to it.",
        (
            _extreme_form("x.max()", (4, 9), (0, 1), 1),
            _extreme_form("x.max(1)", (4, 9), (1,), 1),
        ),
        ANYTHING,
    ),
    Function(
        "min",
        "The smallest element; the gradient goes to it.",
        (
            _extreme_form("x.min()", (4, 9), (0, 1), -1),
            _extreme_form("x.min(0)", (4, 9), (0,), -1),
        ),
        ANYTHING,
    ),
    Function(
        "prod",
        "Products.",
        (
            Form(
                "x.prod(1)",
                (Input("x", (4, 5), "away"),),
                lambda x: bounded.product(x, 1),
                backward=_prod_back,
                is_wide=True,
            ),
        ),
    ),
)


def _softmax(x: Value) -> Value:
    powers = bounded.exp(x - bounded.largest(x, (1,)))
    return powers / powers.sum((1,), keepdims=True)


def _softmax_back(g: Value, x: Value) -> tuple[Value]:
    y = _softmax(x)
    return (y * (g - (g * y).sum((1,), keepdims=True)),)


def _log_softmax(x: Value) -> Value:
    shifted = x - bounded.largest(x, (1,))
    return shifted - bounded.log(bounded.exp(shifted).sum((1,), keepdims=True))


def _log_softmax_back(g: Value, x: Value) -> tuple[Value]:
    return (g - _softmax(x) * g.sum((1,), keepdims=True),)


def _matmul_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return (
        bounded.matmul(g, bounded.transposed(y)),
        bounded.matmul(bounded.transposed(x), g),
    )


def _product_form(expression: str, first: tuple[int, ...], second: tuple[int, ...]) -> Form:
    return Form(
        expression,
        (Input("x", first), Input("y", second)),
        bounded.matmul,
        backward=_matmul_back,
        is_wide=True,
    )


def _vector_dot(x: Value, y: Value) -> Value:
    return (x * y).sum()


def _vector_dot_back(g: Value, x: Value, y: Value) -> tuple[Value, Value]:
    return y * g, x * g


COMPOSITE = (
    Function(
        "softmax",
        "exp(x - max) / sum(exp(x - max)).",
        (
            Form(
                "x.softmax(-1)",
                (Input("x", (4, 9)),),
                _softmax,
                backward=_softmax_back,
                is_wide=True,
            ),
            Form(
                "x.softmax(1)",
                (Input("x", (1, 33)),),
                _softmax,
                backward=_softmax_back,
                is_wide=True,
            ),
        ),
    ),
    Function(
        "log_softmax",
        "x - max - log(sum(exp(x - max))).",
        (
            Form(
                "x.log_softmax(-1)",
                (Input("x", (4, 9)),),
                _log_softmax,
                backward=_log_softmax_back,
                is_wide=True,
            ),
        ),
    ),
    Function(
        "matmul",
        "Matrix products, also of batches.",
        (
            _product_form("x @ y", (4, 7), (7, 5)),
            _product_form("x.matmul(y)", (2, 3, 4), (2, 4, 3)),
            _product_form("x @ y", (1, 33), (33, 1)),
        ),
        (*FLOATS, dtypes.int32),
    ),
    Function(
        "dot",
        "Products of vectors, and of matrices.",
        (
            Form(
                "x.dot(y)",
                (Input("x", (17,)), Input("y", (17,))),
                _vector_dot,
                backward=_vector_dot_back,
                is_wide=True,
            ),
            _product_form("x.dot(y)", (4, 7), (7, 5)),
        ),
    ),
)
