"""Every form of the tables against torch: values and gradients of our references, result types.

The references are compared in float64, where both sides round alike. The rows compare tinyref with
the references; tests/tensor/test_against_torch.py compares it with torch on odd elements.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from tinyref.dtype import DType, dtypes
from tinyref_spec import bounded, samples
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.error_rules import Bounded, Ulp
from tinyref_spec.measure import judge
from tinyref_spec.model import layers
from tinyref_spec.oracles import Expected
from tinyref_spec.subjects.torch_library import TORCH_DTYPES, from_torch, to_torch, torch_value
from tinyref_spec.tensor import functions
from tinyref_spec.tensor.forms import Form, Function
from tinyref_spec.tensor.rows import FUNCTIONS, generated_forms
from tinyref_spec.tensor.run import evaluate, inputs_of, names_of, reference


def torch_names(form: Form, arrays: dict[str, Array], dtype: DType) -> dict[str, Any]:
    """Return the inputs of a form as torch tensors; those with gradients require them."""
    names: dict[str, Any] = {name: to_torch(array) for name, array in arrays.items()}
    for item in form.inputs:
        if item.is_differentiable and form.has_gradient and dtype.is_float:
            names[item.name].requires_grad_()
    return {**names, "dtype": TORCH_DTYPES[dtype], "device": "cpu"}


def weights_for(shape: tuple[int, ...]) -> Array:
    """Return the weights of the elements of a result in the gradient."""
    return samples.moderate(dtypes.float64, int(np.prod(shape)), 77).reshape(shape)


def torch_gradients(form: Form, result: torch.Tensor, names: dict[str, Any]) -> list[Array | None]:
    """Return the gradient of sum(result * weights) for every input, None if there is none."""
    weights = to_torch(weights_for(tuple(result.shape))).to(result.dtype)
    asked = [item.name for item in form.inputs if item.is_differentiable]
    targets = [names[name] for name in asked]
    gradients = torch.autograd.grad(result, targets, weights, allow_unused=True)
    by_name = {
        name: np.zeros(names[name].shape) if part is None else part.double().numpy()
        for name, part in zip(asked, gradients, strict=True)
    }
    return [by_name.get(item.name) for item in form.inputs]


def cases(sampled: int = 8) -> list[object]:
    """Return every form that has a twin, and every form that the generators draw."""
    return [
        pytest.param(function, form, id=f"{function.name}-{number}")
        for function in (*FUNCTIONS, *layers.FUNCTIONS)
        for number, form in enumerate([*function.forms, *generated_forms(function, sampled)])
        if not form.no_torch
    ]


def main_dtype(function: Function) -> DType:
    """Return the widest float type of a function, or its first type."""
    return dtypes.float64 if dtypes.float64 in function.dtypes else function.dtypes[0]


def reference_of(form: Form, dtype: DType, arrays: dict[str, Array]) -> tuple[Expected, list[int]]:
    expected, shape = reference(form, dtype, arrays)
    return expected, list(shape)


# Torch may compute the parts in another way, such as the slope of tanh as 1 - tanh(x) ** 2: in
# float64 that is off by some roundings of the largest element.
ROUNDINGS = 64 * 2.0**-53


def loosened(expected: Expected) -> Expected:
    """Return the limit for torch in float64 where the reference is right."""
    if expected.tolerance is None or expected.wide is None:
        return expected
    sizes = np.abs(expected.wide[np.isfinite(expected.wide)])
    slack = ROUNDINGS * (1 + sizes.max(initial=0))
    return dataclasses.replace(expected, tolerance=expected.tolerance + slack)


def differs(actual: Array, expected: Expected) -> bool:
    """Return True if values differ from the reference by more than the rule of the table."""
    rule = Ulp(0, signed_zero=False) if expected.tolerance is None else Bounded()
    flat = np.ascontiguousarray(actual).reshape(-1)
    return judge(flat.astype(expected.values.dtype), expected, rule).fails


def problem_with(function: Function, form: Form) -> str:
    """Return the difference of values or gradients to torch; empty if they agree."""
    dtype = main_dtype(function)
    arrays = inputs_of(form, dtype, 5)
    expected, shape = reference_of(form, dtype, arrays)
    names = torch_names(form, arrays, dtype)
    result = torch_value(form.torch_expression, names)
    if list(result.shape) != shape:
        return f"shape {shape}, torch has {list(result.shape)}"
    if differs(from_torch(result.detach()), loosened(expected)):
        return "values differ"
    if not form.has_gradient or not dtype.is_float:
        return ""
    intervals = [bounded.exact(array, dtype) for array in arrays.values()]
    exact = form.gradients(bounded.exact(weights_for(tuple(shape)), dtype), *intervals)
    for item, ours, theirs in zip(
        form.inputs, exact, torch_gradients(form, result, names), strict=True
    ):
        if (ours is None) != (theirs is None):
            return f"only one side has a gradient of {item.name}"
        if ours is None or theirs is None:
            continue
        if differs(theirs, loosened(bounded.expected_of(ours, dtype))):
            return f"gradients of {item.name} differ"
        if (ours.error > 1e-9 * (1 + np.abs(ours.value).max(initial=0))).any():
            return f"the bounds of the gradients of {item.name} are wide"
    return ""


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("function", "form"), cases(4))
def test_the_reference_agrees_with_torch(function: Function, form: Form) -> None:
    assert problem_with(function, form) == ""


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("function", "form"), cases(1))
def test_result_types_agree_with_torch(function: Function, form: Form) -> None:
    different = []
    compared = 0
    for dtype in function.dtypes:
        if dtype not in TORCH_DTYPES or form.output(dtype) not in TORCH_DTYPES:
            continue
        arrays = inputs_of(form, dtype, 5)
        ours = evaluate(form.expression, names_of(arrays, dtype, "CPU"))
        assert ours.dtype is form.output(dtype)
        try:
            theirs = torch_value(form.torch_expression, torch_names(form, arrays, dtype))
        except (NotImplementedError, RuntimeError):
            continue  # Torch has no such kernel for the type.
        compared += 1
        if theirs.dtype is not TORCH_DTYPES[ours.dtype]:
            different.append(f"{dtype.name}: {ours.dtype.name}, torch {theirs.dtype}")
    assert compared, "torch has it for no type of the row"
    if form.torch_dtype and any(dtype.is_int for dtype in function.dtypes):
        assert different, f"{form.torch_dtype}: it does not differ"
    else:
        assert different == []


# A wrong reference must fail.


def _off(value: Value) -> Value:
    return Value(value.value * (1 + 1e-12), value.error, value.dtype, (value,), lambda g: (g,))


def mutants() -> list[object]:
    softmax = functions.COMPOSITE[0].forms[0]
    addition = functions.ARITHMETIC[0].forms[0]
    maximum = functions.ARITHMETIC[5].forms[0]
    rows = functions.REDUCTION[0].forms[1]
    return [
        pytest.param(softmax, lambda x: functions.softmax(x, 0), "values differ", id="axis"),
        pytest.param(
            softmax, lambda x: _off(functions.softmax(x)), "values differ", id="12 digits"
        ),
        pytest.param(addition, lambda x, y: x + bounded.detached(y), "gradients of y", id="detach"),
        pytest.param(maximum, lambda x, y: bounded.maximum(x, y) * 1.0 + (y - y), "", id="none"),
        pytest.param(
            maximum, lambda x, y: bounded.maximum(y, x) + (y - x), "gradients", id="slope"
        ),
        pytest.param(rows, lambda x: x.sum((0,)), "shape", id="shape"),
    ]


@pytest.mark.parametrize(("form", "forward", "problem"), mutants())
def test_a_wrong_reference_is_seen(form: Form, forward: object, problem: str) -> None:
    assert callable(forward)
    function = Function("mutant", "", (form,))
    difference = problem_with(function, dataclasses.replace(form, forward=forward))
    assert difference.startswith(problem)
    assert bool(difference) == bool(problem)
