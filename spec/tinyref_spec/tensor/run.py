"""Runs a form on a device, forward and backward, and judges it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyref.dtype import DType, numpy_dtype
from tinyref.errors import TinyrefError, UserError
from tinyref_spec import bounded, samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Failure, Measurement
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Bounded, Rule, Ulp
from tinyref_spec.measure import Judgement, judge, percentile, refusal, values_of
from tinyref_spec.oracles import Expected
from tinyref_spec.reproducer import tensor_script, wanted_elements
from tinyref_spec.tensor.forms import Form, make_values

Arrays = Mapping[str, Array]


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression of the tables, over its named inputs."""
    from tinyref import Tensor, dtypes, nn
    from tinyref_spec.model import given

    known = {"Tensor": Tensor, "dtypes": dtypes, "nn": nn, "np": np}
    helpers = {name: getattr(given, name) for name in given.__all__}
    # The expressions are those of the tables in this package, never text from outside.
    return eval(expression, {**known, **helpers}, dict(names))


def tensors(values: Arrays, device: str) -> dict[str, Any]:
    """The inputs as tensors on the device."""
    from tinyref import Tensor

    return {name: Tensor(array, device=device) for name, array in values.items()}


def names_of(values: Arrays, dtype: DType, device: str) -> dict[str, Any]:
    """What an expression of a form may name: its inputs, the device and the type."""
    return {**tensors(values, device), "device": device, "dtype": dtype}


def inputs_of(form: Form, dtype: DType, seed: int) -> dict[str, Array]:
    """The input arrays of a form by name."""
    return {item.name: make_values(item, dtype, seed) for item in form.inputs}


def reference(form: Form, dtype: DType, values: Arrays) -> tuple[Expected, tuple[int, ...]]:
    """What the form owes, flat, and the shape of its result."""
    output = form.output(dtype)
    if form.exact is not None:
        found = np.asarray(form.exact(*values.values()))
        return Expected(found.astype(numpy_dtype(output)).reshape(-1)), tuple(found.shape)
    assert form.forward is not None, "a form has a forward or an exact reference"
    value = form.forward(*_exact(form, dtype, values))
    return bounded.expected_of(value, output), value.shape


def _exact(form: Form, dtype: DType, values: Arrays) -> list[bounded.Value]:
    compute = form.compute_dtype(dtype)
    return [bounded.exact(array, compute) for array in values.values()]


def run_forward(
    form: Form, dtype: DType, seed: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """The result has the right dtype, shape and values."""
    values = inputs_of(form, dtype, seed)
    expected, shape = reference(form, dtype, values)
    rule = _rule(expected)
    device.announce(
        functools.partial(_failure, case_id, device.name, form.expression, values, expected, rule)
    )
    result = evaluate(form.expression, names_of(values, dtype, device.name))
    problem = _misfit(form.expression, result, form.output(dtype), shape)
    if problem:
        return Measurement(False, problem, compared=1)
    found = _judge_value(device, result.numpy(), expected)
    return _measure_expressions(case_id, device, [form.expression], values, [("result", found)])


def run_backward(
    form: Form, dtype: DType, seed: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """The gradient of sum(result * g) with respect to every input."""
    assert form.backward is not None, "the table gives a gradient"
    values = inputs_of(form, dtype, seed)
    _, shape = reference(form, dtype, values)
    weights = samples.moderate(dtype, int(np.prod(shape)), seed + 77).reshape(shape)
    compute = form.compute_dtype(dtype)
    exact = form.gradients(bounded.exact(weights, compute), *_exact(form, dtype, values))
    names = names_of(values, dtype, device.name)
    targets = [item.name for item in form.inputs if item.is_differentiable]
    for name in targets:
        names[name].requires_grad_()
    asked = ", ".join(targets)
    expressions = [
        f"({form.expression}).gradient({asked}, gradient=g)[{place}]"
        for place in range(len(targets))
    ]
    references = [bounded.expected_of(value, dtype) for value in exact if value is not None]
    given = {**values, "g": weights}
    first = (expressions[0], given, references[0], _rule(references[0]))
    device.announce(functools.partial(_failure, case_id, device.name, *first))
    seed_tensor = tensors({"g": weights}, device.name)["g"]
    result = evaluate(form.expression, names)
    gradients = result.gradient(*[names[name] for name in targets], gradient=seed_tensor)
    # Together, so that what they share is computed once.
    gradients[0].realize(*gradients[1:])
    judged = []
    for name, gradient, value in zip(targets, gradients, references, strict=True):
        problem = _misfit(f"gradient of {name}", gradient, dtype, values[name].shape)
        if problem:
            return Measurement(False, problem, compared=1)
        judged.append((name, _judge_value(device, gradient.numpy(), value)))
    return _measure_expressions(case_id, device, expressions, given, judged)


def _judge_value(device: DeviceUnderTest, actual: Array, expected: Expected) -> Judgement:
    return judge(
        np.ascontiguousarray(actual).reshape(-1),
        expected,
        _rule(expected),
        reassociates=device.capabilities.reassociates_floats,
    )


def _rule(expected: Expected) -> Rule:
    return Ulp(0, signed_zero=False) if expected.tolerance is None else Bounded()


def _failure(
    case_id: str,
    device: str,
    expression: str,
    values: Arrays,
    expected: Expected,
    rule: Rule,
    places: Array | None = None,
) -> Failure:
    """What a report shows of an expression whose elements at `places` are, or would be, wrong."""
    if places is None:
        places = np.arange(expected.values.size)
    item = wanted_elements(0, expected, rule, places)
    return Failure(
        [values_of(key, array) for key, array in values.items()],
        ir=expression,
        script=tensor_script(case_id, device, values, expression, item),
    )


def _misfit(what: str, result: Any, dtype: DType, shape: tuple[int, ...]) -> str:
    if tuple(result.shape) != tuple(shape):
        return f"{what}: shape {tuple(result.shape)}, expected {tuple(shape)}"
    if result.dtype is not dtype:
        return f"{what}: dtype {result.dtype.name}, expected {dtype.name}"
    return ""


def _measure_expressions(
    case_id: str,
    device: DeviceUnderTest,
    expressions: list[str],
    values: Arrays,
    judged: list[tuple[str, Judgement]],
) -> Measurement:
    """Judges the value of each expression."""
    result = Measurement(True, compared=sum(item.compared for _, item in judged))
    for expression, (name, item) in zip(expressions, judged, strict=True):
        if item.verdict.ulp is not None and item.verdict.ulp.size:
            result.max_ulp = max(result.max_ulp or 0.0, float(item.verdict.ulp.max()))
            result.p99_ulp = percentile(item.verdict.ulp)
        if not item.fails or not result.passed:
            continue
        result.passed = False
        right = values_of("expected", item.expected.values, item.first)
        given = values_of("actual", item.actual, item.first)
        result.message = (
            f"{expression}: {name}[{item.first}]: expected {right.values[0]} "
            f"({right.bits[0]}), got {given.values[0]} ({given.bits[0]}); "
            f"{int(np.count_nonzero(item.bad))} of {item.compared} wrong"
        )
        result.details = _failure(
            *(case_id, device.name, expression, values, item.expected, _rule(item.expected)),
            np.flatnonzero(item.bad),
        )
        result.details.index = item.first
        result.details.expected, result.details.expected_bits = right.values, right.bits
        result.details.actual, result.details.actual_bits = given.values, given.bits
    if judged and not any(item.expected.values.size for _, item in judged):
        # An empty result has only its type and shape, and those were compared before.
        result.compared = 1
    if result.compared == 0:
        return Measurement(False, "nothing was compared")
    return result


def run_refused(
    expression: str, values: Arrays, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """The expression must raise a UserError of one line."""
    try:
        got = evaluate(expression, {**tensors(values, device.name), "device": device.name})
        if hasattr(got, "numpy"):
            got = got.numpy()
    except TinyrefError as error:
        return refusal(None, error, (UserError,))
    return refusal(got, None, (UserError,))


def run_literal(
    expression: str, values: Arrays, result: object, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """The expression must give this very Python value."""
    named = {**tensors(values, device.name), "device": device.name}
    got = evaluate(expression, named)
    good = repr(got) == repr(result)
    message = "" if good else f"{expression}: expected {result!r}, got {got!r}"
    return Measurement(good, message, compared=1)
