"""The Tensor functions: expressions with references in bounded values and their twins in torch."""

from __future__ import annotations

import math
from dataclasses import replace

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
    dtype_of_sum,
    in_any_shape,
    movement_form,
    unary,
)

FLOATS = dtypes.floats
NUMBERS = (*dtypes.floats, dtypes.int32, dtypes.int64, dtypes.uint8)
ANYTHING = (
    dtypes.float32,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float64,
    dtypes.int32,
    dtypes.uint8,
)


def _pair(first: str = "any", second: str = "any") -> tuple[Input, Input]:
    return Input("x", (4, 9), first), Input("y", (4, 9), second)


def _broadcast(first: str = "any", second: str = "any") -> tuple[Input, Input]:
    return Input("x", (3, 1, 5), first), Input("y", (4, 5), second)


def _binary(expression: str, forward: object, inputs: tuple[Input, ...], torch: str = "") -> Form:
    assert callable(forward)
    return Form(expression, inputs, forward, torch=torch)


def _add(x: Value, y: Value) -> Value:
    return x + y


def _sub(x: Value, y: Value) -> Value:
    return x - y


def _mul(x: Value, y: Value) -> Value:
    return x * y


def _div(x: Value, y: Value) -> Value:
    return x / y


def _extreme_of_two(name: str, forward: object, reference: object) -> Form:
    assert callable(forward)
    assert callable(reference)
    return Form(
        f"x.{name}(y)",
        (Input("x", (4, 9), "distinct"), Input("y", (4, 9), "any")),
        forward,
        exact=reference,
    )


ARITHMETIC = (
    Function(
        "add",
        "x + y with broadcasting; integers wrap, floats round.",
        (
            _binary("x + y", _add, _pair()),
            _binary("x + y", _add, _broadcast()),
            _binary("x.add(y)", _add, _broadcast()),
        ),
        NUMBERS,
    ),
    Function(
        "sub",
        "x - y with broadcasting.",
        (_binary("x - y", _sub, _pair()), _binary("x.sub(y)", _sub, _broadcast())),
        (*FLOATS, dtypes.int32, dtypes.int64),
    ),
    Function(
        "mul",
        "x * y with broadcasting.",
        (
            _binary("x * y", _mul, _pair()),
            _binary("x * y", _mul, _broadcast()),
            unary("x * 3", lambda x: x * 3.0),
        ),
        NUMBERS,
    ),
    Function(
        "div",
        "x / y of floats.",
        (
            _binary("x / y", _div, _pair("any", "away")),
            _binary("x / y", _div, _broadcast("any", "away")),
        ),
    ),
    Function(
        "pow",
        "x ** y for positive x, and for whole exponents.",
        (
            _binary("x ** y", bounded.power, _pair("positive", "any")),
            unary("x ** 2", lambda x: x * x),
            unary("x ** 3", lambda x: x * x * x),
        ),
    ),
    Function(
        "maximum",
        "The larger of x and y; the gradient goes to it, and half to each of two equal ones.",
        (_extreme_of_two("maximum", bounded.maximum, np.maximum),),
        ANYTHING,
    ),
    Function(
        "minimum",
        "The smaller of x and y; the gradient goes to it, and half to each of two equal ones.",
        (_extreme_of_two("minimum", bounded.minimum, np.minimum),),
        ANYTHING,
    ),
)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e ** -x)."""
    return bounded.constant(1.0, x.dtype) / (bounded.exp(-x) + 1.0)


def tanh(x: Value) -> Value:
    """2 sigmoid(2x) - 1: its absolute error is that of the parts, its relative one is not held."""
    return sigmoid(x * 2.0) * 2.0 - 1.0


def relu(x: Value) -> Value:
    """x where it is positive, else 0, and so its slope."""
    return bounded.choose(x.value > 0, x, bounded.zeros(x.shape, x.dtype))


def _reciprocal(x: Value) -> Value:
    return bounded.ones(x.shape, x.dtype) / x


UNARY = (
    Function("neg", "-x.", (unary("-x", lambda x: -x),), ANYTHING),
    Function(
        "reciprocal",
        "1 / x.",
        (unary("x.reciprocal()", _reciprocal, "away"),),
    ),
    Function("sqrt", "The square root.", (unary("x.sqrt()", bounded.sqrt, "positive"),)),
    Function("exp2", "2 ** x.", (unary("x.exp2()", bounded.exp2),)),
    Function(
        "log2",
        "The logarithm to base 2.",
        (unary("x.log2()", bounded.log2, "positive"),),
    ),
    Function(
        "log10",
        "The logarithm to base 10, by way of log2(x) log10(2).",
        (unary("x.log10()", lambda x: bounded.log2(x) * math.log10(2), "positive", is_wide=True),),
    ),
    Function("sin", "The sine.", (unary("x.sin()", bounded.sin),)),
    Function(
        "exp",
        "e ** x, by way of 2 ** (x log2 e).",
        (unary("x.exp()", bounded.exp, is_wide=True),),
    ),
    Function(
        "log",
        "The natural logarithm, by way of log2(x) ln 2.",
        (unary("x.log()", bounded.log, "positive", is_wide=True),),
    ),
    Function(
        "sigmoid",
        "1 / (1 + e ** -x).",
        (unary("x.sigmoid()", sigmoid, is_wide=True),),
    ),
    Function(
        "tanh",
        "The hyperbolic tangent.",
        (unary("x.tanh()", tanh, is_wide=True),),
    ),
    Function(
        "relu",
        "x where it is positive, else 0.",
        (unary("x.relu()", relu, "away"),),
    ),
    Function("abs", "The magnitude.", (unary("x.abs()", bounded.absolute, "away"),)),
    Function("square", "x * x.", (unary("x.square()", lambda x: x * x),)),
)


def _comparison_form(expression: str, reference: object) -> Form:
    assert callable(reference)
    return Form(
        expression,
        (Input("x", (4, 9), "small"), Input("y", (4, 9), "small")),
        exact=reference,
        output=always_bool,
    )


def _bitwise(expression: str, reference: object) -> Form:
    assert callable(reference)
    return Form(expression, _pair("small", "small"), exact=reference)


CHOICE = (
    Function(
        "where",
        "x where the condition holds, else y.",
        (
            Form(
                "c.where(x, y)",
                (Input("c", (4, 9), "bool", dtypes.bool), *_pair()),
                lambda c, x, y: bounded.choose(c.value != 0, x, y),
                exact=np.where,
                torch="torch.where(c, x, y)",
            ),
        ),
        ANYTHING,
    ),
    Function(
        "compare",
        "Comparisons give bools.",
        (
            _comparison_form("x < y", np.less),
            _comparison_form("x > y", np.greater),
            _comparison_form("x <= y", np.less_equal),
            _comparison_form("x >= y", np.greater_equal),
            _comparison_form("x == y", np.equal),
            _comparison_form("x != y", np.not_equal),
        ),
        ANYTHING,
        covers=("eq", "ne"),
    ),
    Function(
        "bitwise",
        "Bitwise operations on integers.",
        (
            _bitwise("x & y", np.bitwise_and),
            _bitwise("x | y", np.bitwise_or),
            _bitwise("x ^ y", np.bitwise_xor),
        ),
        (dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.bool),
        covers=("bitwise_and", "bitwise_or", "bitwise_xor"),
    ),
)


MOVEMENT = (
    Function(
        "reshape",
        "The same elements in another shape; -1 is what is left.",
        (
            movement_form("x.reshape(6, 4)", (2, 3, 4), lambda x: x.reshape(6, 4)),
            movement_form("x.reshape((-1,))", (2, 3, 4), lambda x: x.reshape(-1)),
            movement_form("x.flatten()", (2, 3, 4), lambda x: x.reshape(-1)),
        ),
        ANYTHING,
    ),
    Function(
        "permute",
        "The axes in another order.",
        (
            movement_form("x.permute(2, 0, 1)", (2, 3, 4), lambda x: x.transpose(2, 0, 1)),
            movement_form("x.transpose(0, 1)", (5, 3), lambda x: x.T),
            movement_form("x.T", (5, 3), lambda x: x.T),
        ),
        ANYTHING,
    ),
    Function(
        "expand",
        "Axes of size 1 repeated; their gradient is a sum.",
        (
            movement_form("x.expand(4, 5)", (1, 5), lambda x: np.broadcast_to(x, (4, 5))),
            movement_form("x.expand(3, 4, 5)", (4, 1), lambda x: np.broadcast_to(x, (3, 4, 5))),
        ),
        ANYTHING,
    ),
    Function(
        "flip",
        "Axes in reverse order.",
        (
            movement_form("x.flip(0)", (4, 5), lambda x: x[::-1]),
            movement_form("x.flip((0, 1))", (4, 5), lambda x: x[::-1, ::-1]),
        ),
        ANYTHING,
    ),
    Function(
        "shrink",
        "A part of every axis.",
        (
            movement_form("x.shrink(((1, 3), (0, 5)))", (4, 5), lambda x: x[1:3], torch="x[1:3]"),
            movement_form("x.shrink(((1, 3), None))", (4, 5), lambda x: x[1:3], torch="x[1:3]"),
        ),
        ANYTHING,
    ),
    Function(
        "pad",
        "Zeros around.",
        (
            movement_form(
                "x.pad(((1, 2), (0, 3)))",
                (4, 5),
                lambda x: np.pad(x, ((1, 2), (0, 3))),
                torch="F.pad(x, (0, 3, 1, 2))",
            ),
            movement_form(
                "x.pad((1, 2))",
                (4, 5),
                lambda x: np.pad(x, ((0, 0), (1, 2))),
                torch="F.pad(x, (1, 2))",
            ),
        ),
        ANYTHING,
    ),
    Function(
        "index",
        "Indexing by integers and slices, also negative ones and steps.",
        (
            movement_form("x[1]", (4, 5), lambda x: x[1]),
            movement_form("x[-1, 2:4]", (4, 5), lambda x: x[-1, 2:4]),
            movement_form("x[::2, ::-1]", (4, 5), lambda x: x[::2, ::-1], torch="x[::2].flip(1)"),
            movement_form("x[:, None, 1:]", (4, 5), lambda x: x[:, None, 1:]),
            movement_form("x[..., -2]", (2, 3, 4), lambda x: x[..., -2]),
            movement_form("x[3:1:-1]", (4, 5), lambda x: x[3:1:-1], torch="x[2:4].flip(0)"),
            movement_form("x[2, 3]", (4, 5), lambda x: x[2, 3]),
        ),
        ANYTHING,
    ),
)

Axes = tuple[int, ...]


def _sum_form(
    expression: str, shape: tuple[int, ...], axes: Axes, keepdims: bool = False, torch: str = ""
) -> Form:
    return Form(
        expression,
        (Input("x", shape),),
        lambda x: x.sum(axes, keepdims),
        is_wide=True,
        output=dtype_of_sum,
        torch=torch,
        torch_dtype="torch adds up integers in int64, tinyref in int32 or uint32",
    )


def _mean_form(expression: str, shape: tuple[int, ...], axes: Axes) -> Form:
    count = float(math.prod(shape[axis] for axis in axes))
    return Form(
        expression,
        (Input("x", shape),),
        lambda x: x.sum(axes) / count,
        is_wide=True,
    )


def _extreme_form(
    expression: str, shape: tuple[int, ...], axes: Axes, sign: int, torch: str = ""
) -> Form:
    def reference(x: Array) -> Array:
        return np.asarray(x.max(axis=axes) if sign > 0 else x.min(axis=axes))

    def forward(x: Value) -> Value:
        extreme = bounded.largest if sign > 0 else bounded.smallest
        return extreme(x, axes, keepdims=False)

    inputs = (Input("x", shape, "distinct"),)
    return Form(expression, inputs, forward, exact=reference, torch=torch)


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
        "The largest element; the gradient goes to it, evenly where there are several.",
        (
            _extreme_form("x.max()", (4, 9), (0, 1), 1),
            _extreme_form("x.max(1)", (4, 9), (1,), 1, "x.amax(1)"),
        ),
        ANYTHING,
    ),
    Function(
        "min",
        "The smallest element; the gradient goes to it, evenly where there are several.",
        (
            _extreme_form("x.min()", (4, 9), (0, 1), -1),
            _extreme_form("x.min(0)", (4, 9), (0,), -1, "x.amin(0)"),
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
                is_wide=True,
            ),
        ),
    ),
)


def softmax(x: Value, axis: int = -1) -> Value:
    """exp(x - max) / sum(exp(x - max)); it does not depend on the maximum."""
    powers = bounded.exp(x - bounded.detached(bounded.largest(x, (axis,))))
    return powers / powers.sum((axis,), keepdims=True)


def log_softmax(x: Value, axis: int = -1) -> Value:
    """x - max - log(sum(exp(x - max)))."""
    shifted = x - bounded.detached(bounded.largest(x, (axis,)))
    return shifted - bounded.log(bounded.exp(shifted).sum((axis,), keepdims=True))


def _along(expression: str, shape: tuple[int, ...], forward: object, torch: str = "") -> Form:
    assert callable(forward)
    return Form(expression, (Input("x", shape),), forward, is_wide=True, torch=torch)


def _product_form(expression: str, first: tuple[int, ...], second: tuple[int, ...]) -> Form:
    return Form(
        expression,
        (Input("x", first), Input("y", second)),
        bounded.matmul,
        is_wide=True,
        torch=expression.replace(".dot(", ".matmul("),
    )


COMPOSITE = (
    Function(
        "softmax",
        "exp(x - max) / sum(exp(x - max)).",
        (_along("x.softmax(-1)", (4, 9), softmax), _along("x.softmax(1)", (1, 33), softmax)),
    ),
    Function(
        "softmin",
        "The softmax of -x.",
        (
            _along("x.softmin(-1)", (4, 9), lambda x: softmax(-x), "F.softmin(x, -1)"),
            _along("x.softmin(0)", (4, 9), lambda x: softmax(-x, 0), "F.softmin(x, 0)"),
        ),
    ),
    Function(
        "log_softmax",
        "x - max - log(sum(exp(x - max))).",
        (_along("x.log_softmax(-1)", (4, 9), log_softmax),),
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
                lambda x, y: (x * y).sum(),
                is_wide=True,
            ),
            _product_form("x.dot(y)", (4, 7), (7, 5)),
        ),
    ),
)

_ELEMENTWISE = tuple(
    replace(function, generate=in_any_shape(*function.forms)) for function in (*ARITHMETIC, *UNARY)
)
FUNCTIONS = (*_ELEMENTWISE, *CHOICE, *MOVEMENT, *REDUCTION, *COMPOSITE)
