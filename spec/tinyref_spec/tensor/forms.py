"""The parts of a row of the level `tensor`: an expression, its inputs, its references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype, sum_dtype
from tinyref_spec import bounded, tape
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value

Shape = tuple[int, ...]
Move = Callable[[Array], Array]
ANYTHING = (
    dtypes.float32,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float64,
    dtypes.int32,
    dtypes.uint8,
)


@dataclass(frozen=True)
class Input:
    """One argument: its name in the expression, its shape, and the kind of its values.

    kind: "any" (around 0), "positive" (0.2 to 4), "away" (from 0), "distinct" (no ties). "small"
    (integers within 3), "counts" (0 to 7), "nonzero" (1 to 3), "bool", "unit" (within 0.9). "above"
    (1.1 to 5), "wide" (to 30 in size). dtype: a fixed one, if it is not the row's. is_kept: it is
    the state of a layer, and gets no gradient.
    """

    name: str
    shape: Shape
    kind: str = "any"
    dtype: DType | None = None
    is_kept: bool = False

    @property
    def is_differentiable(self) -> bool:
        return self.dtype is None and not self.is_kept and self.kind not in ("bool", "counts")


def make_values(item: Input, dtype: DType, seed: int) -> Array:
    """Return the values of an input in `dtype`, the same every time."""
    own = item.dtype or dtype
    generator = np.random.default_rng([seed, len(item.name), ord(item.name[0]), *item.shape])
    count = int(np.prod(item.shape))
    if own.is_bool or item.kind == "bool":
        return generator.integers(0, 2, item.shape).astype(np.bool_)
    if item.kind == "nonzero":
        return generator.integers(1, 4, item.shape).astype(numpy_dtype(own))
    if not own.is_float or item.kind in ("small", "counts"):
        low = 0 if own.is_unsigned or item.kind == "counts" else -3
        high = 8 if item.kind == "counts" else 4
        return generator.integers(low, high, item.shape).astype(numpy_dtype(own))
    values = generator.standard_normal(item.shape)
    if item.kind == "positive":
        values = generator.uniform(0.2, 4, item.shape)
    elif item.kind == "unit":
        values = generator.uniform(-0.9, 0.9, item.shape)
    elif item.kind == "above":
        values = generator.uniform(1.1, 5, item.shape)
    elif item.kind == "wide":
        values = values * 12
    elif item.kind == "away":
        values = np.copysign(np.abs(values) + 0.5, values)
    elif item.kind == "distinct":
        # Eighths: exact in every float type, and all different.
        values = ((generator.permutation(count) - count // 2) / 8).reshape(item.shape)
    return np.asarray(values).astype(numpy_dtype(own))


Forward = Callable[..., Value]


def same_dtype(dtype: DType) -> DType:
    """Return the type of the inputs as the type of the result."""
    return dtype


def always_bool(dtype: DType) -> DType:
    """Return bool as the type of the result."""
    return dtypes.bool


def dtype_of_sum(dtype: DType) -> DType:
    """Return the type of a sum: narrow integers widen; floats keep their type."""
    return dtype if dtype.is_float else sum_dtype(dtype)


@dataclass(frozen=True)
class Form:
    """One expression of a Tensor function.

    expression: over the inputs by name, `device` (its name) and `dtype` (of the row). forward: the
    reference in bounded values (`Value`), of the inputs in order. exact: a reference on the arrays
    themselves, for results without rounding; `forward` then only gives the gradient. is_wide:
    16-bit floats are computed in float32 and rounded once. torch: the same computation with the
    same names in torch (`torch`, `F`, `np`, `dtype`), by default the same text. no_torch: why there
    is none. torch_dtype: why torch gives another result type.
    """

    expression: str
    inputs: tuple[Input, ...]
    forward: Forward | None = None
    exact: Callable[..., Array] | None = None
    is_wide: bool = False
    output: Callable[[DType], DType] = same_dtype
    torch: str = ""
    no_torch: str = ""
    torch_dtype: str = ""

    def compute_dtype(self, dtype: DType) -> DType:
        """Return the type in which the function computes for inputs of `dtype`."""
        return sum_dtype(dtype) if self.is_wide and dtype.is_float else dtype

    @property
    def has_gradient(self) -> bool:
        return self.forward is not None and any(item.is_differentiable for item in self.inputs)

    @property
    def torch_expression(self) -> str:
        """Return torch's expression; empty if torch has no such function."""
        return "" if self.no_torch else self.torch or self.expression

    def gradients(self, g: Value, *inputs: Value) -> tuple[Value | None, ...]:
        """Return the gradient of sum(result * g) for each input, None if there is none."""
        assert self.forward is not None, "a gradient is derived from a forward reference"
        values = tape.gradients(self.forward(*inputs), g, inputs)
        pairs = zip(self.inputs, values, strict=True)
        return tuple(value if item.is_differentiable else None for item, value in pairs)


@dataclass(frozen=True)
class Function:
    """All forms of one Tensor function and the dtypes that it is checked on.

    name: of the method, and of the clause. covers: further names of the public surface that the
    forms call. generate: returns a random form (shapes, axes, arguments).
    """

    name: str
    sentence: str
    forms: tuple[Form, ...]
    dtypes: tuple[DType, ...] = dtypes.floats
    generate: Callable[[np.random.Generator], Form] | None = None
    covers: tuple[str, ...] = ()

    @property
    def has_gradient(self) -> bool:
        return any(form.has_gradient for form in self.forms)


def by_numpy(expression: str, inputs: tuple[Input, ...]) -> Callable[..., Array]:
    """Return the expression as a function of arrays: numpy takes the same text."""
    names = ", ".join(item.name for item in inputs)
    # The expressions come from the tables, never from outside.
    function: Callable[..., Array] = eval(f"lambda {names}: {expression}", {"np": np})
    return function


def numpy_form(
    expression: str,
    inputs: tuple[Input, ...],
    output: Callable[[DType], DType] = same_dtype,
) -> Form:
    """Return a form without a gradient; its reference is the same text in numpy."""
    return Form(expression, inputs, exact=by_numpy(expression, inputs), output=output)


def movement_form(
    expression: str,
    shape: Shape,
    move: Move,
    kind: str = "any",
    torch: str = "",
    no_torch: str = "",
) -> Form:
    """Return a form that only moves elements, with reference and gradient from one function.

    `move` is applied to element numbers from 1 on; a 0 in its result is padding.
    """
    return Form(
        expression,
        (Input("x", shape, kind),),
        partial(bounded.move_elements, move=move),
        exact=partial(_apply_movement, move),
        torch=torch,
        no_torch=no_torch,
    )


def _apply_movement(move: Move, x: Array) -> Array:
    numbers = np.asarray(move(np.arange(1, x.size + 1).reshape(x.shape)))
    flat = np.concatenate([np.zeros(1, x.dtype), x.reshape(-1)])
    return np.asarray(flat[numbers])


def unary(
    expression: str,
    forward: Callable[[Value], Value],
    kind: str = "any",
    shape: Shape = (4, 9),
    is_wide: bool = False,
    torch: str = "",
    no_torch: str = "",
) -> Form:
    """Return an elementwise form of x with the gradient of its reference."""
    return Form(
        expression,
        (Input("x", shape, kind),),
        forward,
        is_wide=is_wide,
        torch=torch,
        no_torch=no_torch,
    )


def moves(
    name: str,
    sentence: str,
    *calls: tuple[str, Shape, Move] | tuple[str, Shape, Move, str],
    covers: tuple[str, ...] = (),
) -> Function:
    """Return a function that only moves elements.

    calls: for each its text, the shape of x, the move, and torch's text if it differs.
    """
    forms = tuple(
        movement_form(expression, shape, move, torch="".join(torch))
        for expression, shape, move, *torch in calls
    )
    return Function(name, sentence, forms, ANYTHING, covers=covers)
