"""The Tensor functions: expressions with references in bounded values, and torch's versions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import (
    ANYTHING,
    Form,
    Function,
    Input,
    always_bool,
    dtype_of_sum,
    moves,
    numpy_form,
    unary,
)

FLOATS = dtypes.floats
NUMBERS = (*dtypes.floats, dtypes.int32, dtypes.int64, dtypes.uint8)


def _pair(first: str = "any", second: str = "any") -> tuple[Input, Input]:
    return Input("x", (4, 9), first), Input("y", (4, 9), second)


def _broadcast(first: str = "any", second: str = "any") -> tuple[Input, Input]:
    return Input("x", (3, 1, 5), first), Input("y", (4, 5), second)


ARITHMETIC = (
    Function(
        "add",
        "x + y with broadcasting; integers wrap, floats round.",
        (
            Form("x + y", _pair(), operator.add),
            Form("x + y", _broadcast(), operator.add),
            Form("x.add(y)", _broadcast(), operator.add),
        ),
        NUMBERS,
    ),
    Function(
        "sub",
        "x - y with broadcasting.",
        (Form("x - y", _pair(), operator.sub), Form("x.sub(y)", _broadcast(), operator.sub)),
        (*FLOATS, dtypes.int32, dtypes.int64),
    ),
    Function(
        "mul",
        "x * y with broadcasting.",
        (
            Form("x * y", _pair(), operator.mul),
            Form("x * y", _broadcast(), operator.mul),
            unary("x * 3", lambda x: x * 3.0),
        ),
        NUMBERS,
    ),
    Function(
        "div",
        "x / y of floats.",
        (
            Form("x / y", _pair("any", "away"), operator.truediv),
            Form("x / y", _broadcast("any", "away"), operator.truediv),
        ),
    ),
    Function(
        "pow",
        "x ** y for positive x, and for whole exponents.",
        (
            Form("x ** y", _pair("positive"), bounded.power),
            unary("x ** 2", lambda x: x * x),
            unary("x ** 3", lambda x: x * x * x),
        ),
    ),
    Function(
        "maximum",
        "The larger of x and y; the gradient goes to it, and half to each of two equal ones.",
        (Form("x.maximum(y)", _pair("distinct"), bounded.maximum, exact=np.maximum),),
        ANYTHING,
    ),
    Function(
        "minimum",
        "The smaller of x and y; the gradient goes to it, and half to each of two equal ones.",
        (Form("x.minimum(y)", _pair("distinct"), bounded.minimum, exact=np.minimum),),
        ANYTHING,
    ),
)


def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + e ** -x)."""
    return bounded.constant(1.0, x.dtype) / (bounded.exp(-x) + 1.0)


def tanh(x: Value) -> Value:
    """Return 2 sigmoid(2x) - 1; its error is absolute, so it has no relative bound near 0."""
    return sigmoid(x * 2.0) * 2.0 - 1.0


def relu(x: Value) -> Value:
    """Return x if it is positive, else 0; its slope is 1 or 0."""
    return bounded.choose(x.value > 0, x, bounded.zeros(x.shape, x.dtype))


def reciprocal(x: Value) -> Value:
    """Return 1 / x."""
    return bounded.ones(x.shape, x.dtype) / x


def _log10(x: Value) -> Value:
    return bounded.log2(x) * math.log10(2)


def _square(x: Value) -> Value:
    return x * x


# Name, sentence, reference, kind of input, and True if 16-bit floats compute in float32.
_UNARY = (
    ("reciprocal", "1 / x.", reciprocal, "away", False),
    ("sqrt", "The square root.", bounded.sqrt, "positive", False),
    ("exp2", "2 ** x.", bounded.exp2, "any", False),
    ("log2", "The logarithm to base 2.", bounded.log2, "positive", False),
    ("log10", "The logarithm to base 10, by way of log2(x) log10(2).", _log10, "positive", True),
    ("sin", "The sine.", bounded.sin, "any", False),
    ("exp", "e ** x, by way of 2 ** (x log2 e).", bounded.exp, "any", True),
    ("log", "The natural logarithm, by way of log2(x) ln 2.", bounded.log, "positive", True),
    ("sigmoid", "1 / (1 + e ** -x).", sigmoid, "any", True),
    ("tanh", "The hyperbolic tangent.", tanh, "any", True),
    ("relu", "x where it is positive, else 0.", relu, "away", False),
    ("abs", "The magnitude.", bounded.absolute, "away", False),
    ("square", "x * x.", _square, "any", False),
)
UNARY = (
    Function("neg", "-x.", (unary("-x", operator.neg),), ANYTHING),
    *(
        Function(name, sentence, (unary(f"x.{name}()", reference, kind, is_wide=is_wide),))
        for name, sentence, reference, kind, is_wide in _UNARY
    ),
)


_SMALL = _pair("small", "small")
CHOICE = (
    Function(
        "where",
        "x if the condition is true, else y.",
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
        tuple(
            numpy_form(f"x {sign} y", _SMALL, always_bool)
            for sign in ("<", ">", "<=", ">=", "==", "!=")
        ),
        ANYTHING,
        covers=("eq", "ne"),
    ),
    Function(
        "bitwise",
        "Bitwise operations on integers.",
        tuple(numpy_form(f"x {sign} y", _SMALL) for sign in "&|^"),
        (dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.bool),
        covers=("bitwise_and", "bitwise_or", "bitwise_xor"),
    ),
)


MOVEMENT = (
    moves(
        "reshape",
        "The same elements in another shape; -1 is replaced by the remaining size.",
        ("x.reshape(6, 4)", (2, 3, 4), lambda x: x.reshape(6, 4)),
        ("x.reshape((-1,))", (2, 3, 4), lambda x: x.reshape(-1)),
    ),
    moves(
        "permute",
        "The axes in another order.",
        ("x.permute(2, 0, 1)", (2, 3, 4), lambda x: x.transpose(2, 0, 1)),
    ),
    moves(
        "expand",
        "Axes of size 1 repeated; their gradient is a sum.",
        ("x.expand(4, 5)", (1, 5), lambda x: np.broadcast_to(x, (4, 5))),
        ("x.expand(3, 4, 5)", (4, 1), lambda x: np.broadcast_to(x, (3, 4, 5))),
    ),
    moves(
        "flip",
        "Axes in reverse order.",
        ("x.flip(0)", (4, 5), lambda x: x[::-1]),
        ("x.flip((0, 1))", (4, 5), lambda x: x[::-1, ::-1]),
    ),
    moves(
        "shrink",
        "A part of every axis.",
        ("x.shrink(((1, 3), (0, 5)))", (4, 5), lambda x: x[1:3], "x[1:3]"),
        ("x.shrink(((1, 3), None))", (4, 5), lambda x: x[1:3], "x[1:3]"),
    ),
    moves(
        "pad",
        "Zeros around.",
        (
            "x.pad(((1, 2), (0, 3)))",
            (4, 5),
            lambda x: np.pad(x, ((1, 2), (0, 3))),
            "F.pad(x, (0, 3, 1, 2))",
        ),
        ("x.pad((1, 2))", (4, 5), lambda x: np.pad(x, ((0, 0), (1, 2))), "F.pad(x, (1, 2))"),
    ),
)

Axes = tuple[int, ...]


def _sum_form(expression: str, shape: tuple[int, ...], axes: Axes, keepdims: bool = False) -> Form:
    return Form(
        expression,
        (Input("x", shape),),
        lambda x: x.sum(axes, keepdims),
        is_wide=True,
        output=dtype_of_sum,
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
    """Return exp(x - max) / sum(exp(x - max)), which does not depend on the maximum."""
    powers = bounded.exp(x - bounded.detached(bounded.largest(x, (axis,))))
    return powers / powers.sum((axis,), keepdims=True)


def log_softmax(x: Value, axis: int = -1) -> Value:
    """Return x - max - log(sum(exp(x - max)))."""
    shifted = x - bounded.detached(bounded.largest(x, (axis,)))
    return shifted - bounded.log(bounded.exp(shifted).sum((axis,), keepdims=True))


def _along(
    expression: str, shape: tuple[int, ...], forward: Callable[[Value], Value], torch: str = ""
) -> Form:
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

FUNCTIONS = (*ARITHMETIC, *UNARY, *CHOICE, *MOVEMENT, *REDUCTION, *COMPOSITE)
