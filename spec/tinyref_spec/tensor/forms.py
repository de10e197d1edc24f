"""What a row of the level `tensor` is made of: an expression, its inputs, its references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype, sum_dtype
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """One argument: its name in the expression, its shape, and what its values are like.

    kind: "any" (around 0), "positive" (0.2 to 4), "away" (from 0), "distinct" (no ties), "small"
    (integers within 3), "counts" (0 to 7), "bool". dtype: fixed, where it is not the row's.
    """

    name: str
    shape: Shape
    kind: str = "any"
    dtype: DType | None = None

    @property
    def is_differentiable(self) -> bool:
        return self.dtype is None and self.kind not in ("bool", "counts")


def make_values(item: Input, dtype: DType, seed: int) -> Array:
    """The values of an input in `dtype`, seeded, so that a case is the same every time."""
    own = item.dtype or dtype
    generator = np.random.default_rng([seed, len(item.name), ord(item.name[0]), *item.shape])
    count = int(np.prod(item.shape))
    if own.is_bool or item.kind == "bool":
        return generator.integers(0, 2, item.shape).astype(np.bool_)
    if not own.is_float or item.kind in ("small", "counts"):
        low = 0 if own.is_unsigned or item.kind == "counts" else -3
        high = 8 if item.kind == "counts" else 4
        return generator.integers(low, high, item.shape).astype(numpy_dtype(own))
    values = generator.standard_normal(item.shape)
    if item.kind == "positive":
        values = generator.uniform(0.2, 4, item.shape)
    elif item.kind == "away":
        values = np.copysign(np.abs(values) + 0.5, values)
    elif item.kind == "distinct":
        # Eighths: exact in every float type, and none twice.
        values = ((generator.permutation(count) - count // 2) / 8).reshape(item.shape)
    return np.asarray(values).astype(numpy_dtype(own))


Forward = Callable[..., Value]
Backward = Callable[..., "tuple[Value | None, ...]"]


def same_dtype(dtype: DType) -> DType:
    """The result has the type of the inputs."""
    return dtype


def always_bool(dtype: DType) -> DType:
    """The result is bool."""
    return dtypes.bool


def summed(dtype: DType) -> DType:
    """Sums of narrow integers widen; floats keep their type."""
    return dtype if dtype.is_float else sum_dtype(dtype)


@dataclass(frozen=True)
class Form:
    """One expression of a Tensor function.

    forward: the reference in bounded values (`Value`), of the inputs in order. exact: or the
    reference on the arrays themselves, for results without rounding. backward: gradient of
    sum(result * g) with respect to the inputs, of (g, *inputs). is_wide: 16-bit floats are
    computed in float32 and rounded once.
    """

    expression: str
    inputs: tuple[Input, ...]
    forward: Forward | None = None
    exact: Callable[..., Array] | None = None
    backward: Backward | None = None
    is_wide: bool = False
    output: Callable[[DType], DType] = same_dtype

    def compute_dtype(self, dtype: DType) -> DType:
        """In what the function computes for inputs of `dtype`."""
        return sum_dtype(dtype) if self.is_wide and dtype.is_float else dtype


@dataclass(frozen=True)
class Function:
    """All forms of one Tensor function and the dtypes that it is checked on."""

    name: str
    sentence: str
    forms: tuple[Form, ...]
    dtypes: tuple[DType, ...] = dtypes.floats

    @property
    def has_gradient(self) -> bool:
        return any(form.backward is not None for form in self.forms)


def moved(expression: str, shape: Shape, move: Callable[[Array], Array], kind: str = "any") -> Form:
    """A form that only moves elements: the reference and the gradient come from one function.

    `move` is applied to element numbers from 1 on; a 0 in its result is padding.
    """
    return Form(
        expression,
        (Input("x", shape, kind),),
        exact=partial(_moved, move),
        backward=partial(_moved_back, move),
    )


def _moved(move: Callable[[Array], Array], x: Array) -> Array:
    numbers = np.asarray(move(np.arange(1, x.size + 1).reshape(x.shape)))
    flat = np.concatenate([np.zeros(1, x.dtype), x.reshape(-1)])
    return np.asarray(flat[numbers])


def _moved_back(move: Callable[[Array], Array], g: Value, x: Value) -> tuple[Value]:
    """Every element gets the sum of the gradients of the places where it went."""
    numbers = np.asarray(move(np.arange(1, x.value.size + 1).reshape(x.shape))).reshape(-1)
    total = np.zeros(x.value.size + 1)
    magnitude = np.zeros(x.value.size + 1)
    places = np.bincount(numbers, minlength=x.value.size + 1)
    np.add.at(total, numbers, g.value.reshape(-1))
    np.add.at(magnitude, numbers, np.abs(g.value.reshape(-1)))
    error = np.where(places > 1, places * x.unit * magnitude, 0)
    return (Value(total[1:].reshape(x.shape), error[1:].reshape(x.shape), x.dtype),)


def unary(
    expression: str,
    forward: Callable[[Value], Value],
    slope: Callable[[Value], Value] | None = None,
    kind: str = "any",
    shape: Shape = (4, 9),
    is_wide: bool = False,
) -> Form:
    """An elementwise form of x; the gradient is g times the slope."""
    backward = None if slope is None else partial(_chain, slope)
    return Form(expression, (Input("x", shape, kind),), forward, backward=backward, is_wide=is_wide)


def _chain(slope: Callable[[Value], Value], g: Value, x: Value) -> tuple[Value]:
    return (g * slope(x),)


def one_like(x: Value) -> Value:
    """Exact ones of the shape of x."""
    return bounded.exact(np.ones(x.shape), x.dtype)
