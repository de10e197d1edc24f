"""Functions of floats with derived bounds: the forms of the spec, and operations that round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyref.dtype import DType, dtype_from_name
from tinyref_fuzz.programs.arithmetic import MOVEMENTS, Elements, UndefinedError
from tinyref_fuzz.programs.steps import ProgramStep, Value
from tinyref_spec import bounded
from tinyref_spec.bounded import SLACK
from tinyref_spec.bounded import Value as BoundedValue
from tinyref_spec.error_rules import smallest_normal
from tinyref_spec.tensor.forms import Form
from tinyref_spec.tensor.functions import COMPOSITE, UNARY
from tinyref_spec.tensor.mathematics import ACTIVATIONS, CIRCULAR, ROUNDING

# Operation of a step that applies a form of the spec to a tensor; its value is the form's name.
APPLY = "apply"
# Functions along the last axis: the error of one element affects all of them.
_ALONG = ("softmax", "log_softmax")
_ACTIVATIONS = frozenset(function.name for function in ACTIVATIONS)
_ELEMENTWISE = (*UNARY, *CIRCULAR, *ACTIVATIONS, *ROUNDING)


def _forms() -> dict[str, Form]:
    """Return all forms of one tensor of any shape: elementwise ones, and those along an axis."""
    named = {
        f"{function.name}:{number}": form
        for function in _ELEMENTWISE
        for number, form in enumerate(function.forms)
        if len(form.inputs) == 1 and form.forward is not None
    }
    along = {f"{item.name}:0": item.forms[0] for item in COMPOSITE if item.name in _ALONG}
    return {**named, **along}


FORMS: Mapping[str, Form] = _forms()
# For each kind of input of a form, the magnitudes where its bound holds, and if x > 0.
_DOMAINS: Mapping[str, tuple[float, float, bool]] = {
    "any": (0.0, 4.0, False),
    "wide": (0.0, 30.0, False),
    "unit": (0.0, 0.9, False),
    "away": (0.4, 8.0, False),
    "positive": (0.2, 8.0, True),
    "above": (1.1, 8.0, True),
}
# Limits of float results.
LARGEST = {"float16": 2.0**14, "float32": 2.0**60, "float64": 2.0**60}
# Narrower limits, where libraries may use another formula than the reference: 1 + tanh(u) loses all
# digits far below 0, and e ** (beta x) overflows far above it.
_NARROWER: Mapping[str, float] = {"gelu": 1.5, "softplus": 8.0}


def op_name(step: ProgramStep) -> str:
    """Return the name of the function that a step applies, or of its operation."""
    return str(step.values[0]).partition(":")[0] if step.op == APPLY else step.op


def apply_form(name: str, x: BoundedValue) -> BoundedValue:
    """Apply a form of the spec. Raises `UndefinedError` outside the domain of its bound."""
    form = FORMS[name]
    is_along = name.partition(":")[0] in _ALONG
    if is_along and not x.value.size * x.value.ndim:
        raise UndefinedError(f"{name}: needs an axis and an element")
    low, high, is_positive = _DOMAINS[form.inputs[0].kind]
    high = _NARROWER.get(name.partition(":")[0], high)
    margin = SLACK * x.error
    near, far = np.abs(x.value) - margin, np.abs(x.value) + margin
    is_inside = (near >= low) & (far <= high) if low else far <= high
    if not np.all(is_inside) or (is_positive and np.any(x.value < 0)):
        raise UndefinedError(f"{name}: an element outside of the domain")
    assert form.forward is not None, "the table has only such forms"
    result = form.forward(x)
    if is_along:
        return result
    error = np.maximum(result.error, _spread(form, x, result))
    if name.partition(":")[0] in _ACTIVATIONS:
        # A library may compute a hard sigmoid as a difference of two relus, which rounds.
        error = np.maximum(error, x.unit * np.abs(result.value))
    return replace(result, error=error)


def _spread(form: Form, x: BoundedValue, result: BoundedValue) -> Elements:
    """Return how far an elementwise result moves within the error of x, across kinks and steps."""
    if not np.any(x.error):
        return np.zeros(result.shape)
    assert form.forward is not None, "the table has only such forms"
    ends = [
        form.forward(BoundedValue(x.value + by * x.error, np.zeros_like(x.error), x.dtype)).value
        for by in (-SLACK, SLACK)
    ]
    return np.asarray(np.maximum(*(np.abs(end - result.value) for end in ends)) / SLACK)


Bound = Callable[[Sequence[BoundedValue], Sequence[Value]], BoundedValue]


def _number(x: BoundedValue, value: Value) -> BoundedValue:
    return bounded.constant(float(value), x.dtype)


def _zeros(x: BoundedValue) -> BoundedValue:
    return bounded.zeros(x.shape, x.dtype)


def _product(x: BoundedValue, axes: tuple[int, ...], keepdims: bool) -> BoundedValue:
    """Multiply over an axis. Raises `UndefinedError` if some order of factors leaves the range."""
    (axis,) = axes
    factors = np.where(x.value == 0, 1, np.abs(x.value))
    is_small = np.minimum(factors, 1).prod(axis) < smallest_normal(x.dtype)
    if np.any(is_small | (np.maximum(factors, 1).prod(axis) > LARGEST[x.dtype.name])):
        raise UndefinedError("prod: a product of some factors is too small or too large")
    result = bounded.product(x, axis)
    if not keepdims:
        return result
    return result.reshape(*x.shape[:axis], 1, *x.shape[axis + 1 :])


def _stacked(x: Sequence[BoundedValue], axis: int) -> BoundedValue:
    shape = (*x[0].shape[:axis], 1, *x[0].shape[axis:])
    return bounded.concatenated([value.reshape(*shape) for value in x], axis)


def _moving(op: str) -> Bound:
    move = MOVEMENTS[op][1]
    return lambda x, v: bounded.move_elements(x[0], lambda numbers: move([numbers], v))


def cast_value(x: BoundedValue, dtype: DType) -> BoundedValue:
    """Cast between floats, or from integers that are exact in float64."""
    if x.dtype.is_float:
        return x.to(dtype)
    return replace(x, dtype=dtype).rounded(x.value, x.error, (), lambda g: ())


# The result of an operation that rounds: a float64 value and a bound on its error.
BOUNDED: Mapping[str, Bound] = {
    "neg": lambda x, v: -x[0],
    "relu": lambda x, v: bounded.maximum(x[0], _zeros(x[0])),
    "square": lambda x, v: x[0] * x[0],
    "cast": lambda x, v: cast_value(x[0], dtype_from_name(v[0])),
    "add_number": lambda x, v: x[0] + _number(x[0], v[0]),
    "mul_number": lambda x, v: x[0] * _number(x[0], v[0]),
    "max_number": lambda x, v: bounded.maximum(x[0], _number(x[0], v[0])),
    "add": lambda x, v: x[0] + x[1],
    "sub": lambda x, v: x[0] - x[1],
    "mul": lambda x, v: x[0] * x[1],
    "div": lambda x, v: x[0] / x[1],
    "maximum": lambda x, v: bounded.maximum(x[0], x[1]),
    "minimum": lambda x, v: bounded.minimum(x[0], x[1]),
    "sum": lambda x, v: x[0].sum(v[0], v[1]),
    "max": lambda x, v: bounded.largest(x[0], v[0], v[1]),
    "prod": lambda x, v: _product(x[0], *v),
    "cumsum": lambda x, v: bounded.cumsum(x[0], v[0]),
    "matmul": lambda x, v: bounded.matmul(x[0], x[1]),
    "cat": lambda x, v: bounded.concatenated(x, v[0]),
    "stack": lambda x, v: _stacked(x, v[0]),
    "pad": lambda x, v: bounded.move_elements(x[0], lambda numbers: np.pad(numbers, v[0])),
    "contiguous": lambda x, v: x[0],
    "clone": lambda x, v: x[0],
    **{op: _moving(op) for op in ("reshape", "permute", "expand", "shrink", "flip", "index")},
    APPLY: lambda x, v: apply_form(v[0], x[0]),
}
