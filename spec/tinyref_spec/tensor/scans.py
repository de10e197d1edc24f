"""Rows of the level `tensor`: running sums, products, maxima and logarithms of sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function, Input, Shape, dtype_of_sum, same_dtype
from tinyref_spec.tensor.functions import NUMBERS

WIDENS = "narrow integers add up in at least int32 or uint32, where torch takes int64"


def _prefix_values(x: Value, axis: int, prefix: Callable[[Value], Value]) -> Value:
    """Return `prefix` of the elements 0 to i along `axis`, for each i."""
    rows = bounded.move_elements(x, lambda numbers: np.moveaxis(numbers, axis, -1))
    length = rows.shape[-1]
    parts = [
        prefix(bounded.move_elements(rows, partial(_first_of, count))).reshape(*rows.shape[:-1], 1)
        for count in range(1, length + 1)
    ]
    joined = bounded.concatenated(parts, len(rows.shape) - 1)
    return bounded.move_elements(joined, lambda numbers: np.moveaxis(numbers, -1, axis))


def _first_of(count: int, numbers: Array) -> Array:
    return numbers[..., :count]


def _running_product(x: Value, axis: int) -> Value:
    return _prefix_values(x, axis, lambda part: bounded.product(part, len(part.shape) - 1))


def _running_maximum(x: Value, axis: int) -> Value:
    return _prefix_values(x, axis, lambda part: bounded.largest(part, (-1,), False))


def _running_minimum(x: Value, axis: int) -> Value:
    return _prefix_values(x, axis, lambda part: bounded.smallest(part, (-1,), False))


def _running_log_sum(x: Value, axis: int) -> Value:
    """Return logarithms relative to the largest element of each prefix, as stable code does."""

    def of_prefix(part: Value) -> Value:
        base = bounded.detached(bounded.largest(part, (-1,)))
        total = bounded.exp(part - base).sum((len(part.shape) - 1,), keepdims=True)
        return bounded.log(total) + base

    return _prefix_values(x, axis, of_prefix)


@dataclass(frozen=True)
class Scan:
    """One function: its name, its reference, the kind of its inputs, and True if it adds up.

    A function that adds up (or multiplies) widens narrow types as `sum` does.
    """

    name: str
    reference: Callable[[Value, int], Value]
    kind: str = "any"
    is_wide: bool = True
    adds_up: bool = False

    def form(self, shape: Shape, axis: int, kind: str = "") -> Form:
        """Return the form along an axis; torch uses the same axis numbers."""
        ours = f"x.{self.name}({axis})"
        return Form(
            ours,
            (Input("x", shape, kind or self.kind),),
            lambda x: self.reference(x, axis % len(shape)),
            is_wide=self.is_wide,
            output=dtype_of_sum if self.adds_up else same_dtype,
            torch=f"{ours}.values" if self.name in ("cummax", "cummin") else "",
            torch_dtype=WIDENS if self.adds_up else "",
        )

    def draw(self, generator: np.random.Generator) -> Form:
        """Return a form of a random shape along a random axis."""
        shape = tuple(int(size) for size in generator.integers(1, 7, generator.integers(1, 4)))
        return self.form(shape, int(generator.integers(-len(shape), len(shape))))


_SUM = Scan("cumsum", bounded.cumsum, adds_up=True)
_PRODUCT = Scan("cumprod", _running_product, "small", adds_up=True)
_MAXIMUM = Scan("cummax", _running_maximum, "distinct", is_wide=False)
_MINIMUM = Scan("cummin", _running_minimum, "distinct", is_wide=False)
_LOG_SUM = Scan("logcumsumexp", _running_log_sum)
CUMSUM = Function(
    "cumsum",
    "Running sums along an axis, in the types of `sum`.",
    (_SUM.form((4, 7), 1), _SUM.form((3, 5, 2), 0), _SUM.form((2, 600), -1)),
    NUMBERS,
    generate=_SUM.draw,
)
CUMPROD = Function(
    "cumprod",
    "Running products along an axis, in the types of `sum`; a factor of zero has a slope.",
    (_PRODUCT.form((4, 7), 1, "away"), _PRODUCT.form((3, 2, 5), -1)),
    NUMBERS,
    generate=_PRODUCT.draw,
)
CUMMAX, CUMMIN = (
    Function(
        scan.name,
        f"Running {extremes} along an axis; NaN from the first one on.",
        (scan.form((4, 7), 1), scan.form((5, 2, 3), 0), scan.form((2, 70), -1)),
        NUMBERS,
        generate=scan.draw,
    )
    for scan, extremes in ((_MAXIMUM, "maxima"), (_MINIMUM, "minima"))
)
LOGCUMSUMEXP = Function(
    "logcumsumexp",
    "The logarithm of running sums of powers of e, without overflow.",
    (_LOG_SUM.form((4, 7), 1), _LOG_SUM.form((2, 70), -1)),
    dtypes.floats,
    generate=_LOG_SUM.draw,
)

FUNCTIONS = (CUMSUM, CUMPROD, CUMMAX, CUMMIN, LOGCUMSUMEXP)
