"""The runner of forms: runs them on a device, forward and backward, and judges the results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import TinyrefError, UserError
from tinyref.runtimes.reproducer import Wanted
from tinyref_spec import bounded, samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Failure, Measurement
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Bounded, Rule, Ulp
from tinyref_spec.measure import Judgement, count, judge, measure_ulp, refusal, values_of
from tinyref_spec.oracles import Expected
from tinyref_spec.reproducer import MAX_ELEMENTS, TINYREF, Question, tensor_script, wanted_elements
from tinyref_spec.subjects.protocol import Arrays, Subject, SupportsNumpy
from tinyref_spec.tensor.dense import dense_expected, dense_values
from tinyref_spec.tensor.extremes import Extremes, extremes_of, joined
from tinyref_spec.tensor.forms import Form, make_values


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression of the tables, over its named inputs."""
    from tinyref import Tensor, dtypes, nn
    from tinyref_spec.model import given

    known = {"Tensor": Tensor, "dtypes": dtypes, "nn": nn, "np": np}
    helpers = {name: getattr(given, name) for name in given.__all__}
    # The expressions come from the tables in this package, never from outside.
    return eval(expression, {**known, **helpers}, dict(names))


def tensors(values: Arrays, device: str) -> dict[str, Any]:
    """Return the inputs as tensors on the device."""
    from tinyref import Tensor

    return {name: Tensor(array, device=device) for name, array in values.items()}


def names_of(values: Arrays, dtype: DType, device: str) -> dict[str, Any]:
    """Return the names that an expression of a form may use: its inputs, device and type."""
    return {**tensors(values, device), "device": device, "dtype": dtype}


class TinyrefSubject:
    """The default subject of rows: Tensors of this device."""

    rounds_each_part = False
    wording = TINYREF

    def __init__(self, device: str) -> None:
        self.device_name = device

    def expression(self, form: Form) -> str:
        return form.expression

    def value(self, form: Form, dtype: DType, values: Arrays) -> Any:
        """Return a Tensor that is not computed yet."""
        return evaluate(form.expression, names_of(values, dtype, self.device_name))

    def gradient_expressions(self, form: Form, targets: Sequence[str]) -> list[str]:
        asked = ", ".join(targets)
        return [
            f"({form.expression}).gradient({asked}, gradient=g)[{index}]"
            for index in range(len(targets))
        ]

    def gradients(
        self, form: Form, dtype: DType, values: Arrays, weights: Array, targets: Sequence[str]
    ) -> list[Any]:
        """Return tensors, realised together, so that common parts are computed once."""
        names = names_of(values, dtype, self.device_name)
        for name in targets:
            names[name].requires_grad_()
        seed_tensor = tensors({"g": weights}, self.device_name)["g"]
        result = evaluate(form.expression, names)
        gradients = result.gradient(*[names[name] for name in targets], gradient=seed_tensor)
        gradients[0].realize(*gradients[1:])
        return list(gradients)

    def literal(self, expression: str, values: Arrays) -> object:
        return evaluate(
            expression, {**tensors(values, self.device_name), "device": self.device_name}
        )


def subject_of(device: DeviceUnderTest) -> Subject:
    """Return what is judged: the library that the device stands for, else tinyref."""
    own: Subject | None = getattr(device, "subject", None)
    return own or TinyrefSubject(device.name)


def inputs_of(form: Form, dtype: DType, seed: int) -> dict[str, Array]:
    """Return the input arrays of a form by name."""
    return {item.name: make_values(item, dtype, seed) for item in form.inputs}


def reference(form: Form, dtype: DType, values: Arrays) -> tuple[Expected, tuple[int, ...]]:
    """Return the expected results of a form, flat, and the shape of its result."""
    output = form.output(dtype)
    if form.exact is not None:
        result = np.asarray(form.exact(*values.values()))
        return Expected(result.astype(numpy_dtype(output)).reshape(-1)), tuple(result.shape)
    assert form.forward is not None, "a form has a forward or an exact reference"
    value = form.forward(*_exact(form, dtype, values))
    return bounded.expected_of(value, output), value.shape


def _exact(form: Form, dtype: DType, values: Arrays) -> list[bounded.Value]:
    compute = form.compute_dtype(dtype)
    return [bounded.exact(array, compute) for array in values.values()]


def run_forward(
    form: Form, dtype: DType, seed: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Check that the result has the right dtype, shape and values."""
    ordinary = inputs_of(form, dtype, seed)
    # At extremes, other libraries may give other results.
    is_plain = not isinstance(subject_of(device), TinyrefSubject)
    keeps_subnormals = device.capabilities.keeps_subnormals

    def further_of(form: Form) -> Extremes | None:
        return extremes_of(form, dtype, keeps_subnormals, is_plain) if seed == 0 else None

    def expected_of(form: Form) -> Expected:
        expected, further = reference(form, dtype, ordinary)[0], further_of(form)
        return expected if further is None else joined(expected, further.expected)

    expected, shape = reference(form, dtype, ordinary)
    values, further = ordinary, further_of(form)
    if further is not None:
        values = {
            name: np.concatenate([array, further.values[name]]) for name, array in ordinary.items()
        }
        expected = joined(expected, further.expected)
        shape = next(iter(values.values())).shape
    question = Question(case_id, dtype, values, _targets(form, dtype))
    return _measure_value(form, question, device, expected, shape, expected_of)


def run_dense(form: Form, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that the results for thousands of inputs have the right dtype and values."""
    values = dense_values(form, dtype)
    loosest = functools.partial(dense_expected, dtype=dtype, values=values)
    shape = next(iter(values.values())).shape
    question = Question(case_id, dtype, values, _targets(form, dtype), is_elementwise=True)
    return _measure_value(form, question, device, loosest(form), shape, loosest)


def _targets(form: Form, dtype: DType) -> list[str]:
    """Return the inputs that request a gradient: some expressions are themselves about them."""
    has_gradient = form.has_gradient and dtype.is_float
    return [item.name for item in form.inputs if item.is_differentiable and has_gradient]


def _measure_value(
    form: Form,
    question: Question,
    device: DeviceUnderTest,
    expected: Expected,
    shape: tuple[int, ...],
    reference_of: Callable[[Form], Expected],
) -> Measurement:
    """Judge the value of a form; `reference_of` gives the expected result of a form."""
    subject, dtype = subject_of(device), question.dtype
    expression, rule = subject.expression(form), _rule(expected)
    narrow = _rounding_each_part(subject, form, dtype)
    loosest = reference_of(narrow) if narrow else expected
    device.announce(functools.partial(_failure, question, device, expression, loosest, rule))
    result = subject.value(form, dtype, question.values)
    problem = _misfit(expression, result, form.output(dtype), shape)
    if problem:
        return Measurement(False, problem, compared=1)
    actual, note = result.numpy(), ""
    judgement = _judge_value(device, actual, expected)
    if judgement.fails and narrow:
        judgement, note = _judge_value(device, actual, loosest), ROUNDS_PARTS
    measured = _measure_expressions(question, device, [expression], [("result", judgement)])
    return _with_notes(measured, [getattr(result, "note", ""), note])


def run_backward(
    form: Form, dtype: DType, seed: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Check the gradient of sum(result * g) with respect to every input."""
    assert form.has_gradient, "the table gives a gradient"
    subject = subject_of(device)
    values = inputs_of(form, dtype, seed)
    _, shape = reference(form, dtype, values)
    weights = samples.moderate(dtype, int(np.prod(shape)), seed + 77).reshape(shape)
    targets = [item.name for item in form.inputs if item.is_differentiable]
    expressions = subject.gradient_expressions(form, targets)
    references = _gradient_references(form, dtype, values, weights)
    question = Question(case_id, dtype, {**values, "g": weights}, targets)
    narrow = _rounding_each_part(subject, form, dtype)
    loosest = _gradient_references(narrow, dtype, values, weights) if narrow else references
    first = (expressions[0], loosest[0], _rule(loosest[0]))
    device.announce(functools.partial(_failure, question, device, *first))
    gradients = subject.gradients(form, dtype, values, weights, targets)
    for name, gradient in zip(targets, gradients, strict=True):
        problem = _misfit(f"gradient of {name}", gradient, dtype, values[name].shape)
        if problem:
            return Measurement(False, problem, compared=1)
    actual, note = [gradient.numpy() for gradient in gradients], ""
    judge_all = functools.partial(map, functools.partial(_judge_value, device), actual)
    judged = list(judge_all(references))
    if narrow and any(item.fails for item in judged):
        judged = list(judge_all(loosest))
        note = ROUNDS_PARTS
    named = list(zip(targets, judged, strict=True))
    return _with_notes(_measure_expressions(question, device, expressions, named), [note])


def _gradient_references(
    form: Form, dtype: DType, values: Arrays, weights: Array
) -> list[Expected]:
    """Return the expected gradients of sum(result * weights)."""
    seed = bounded.exact(weights, form.compute_dtype(dtype))
    exact = form.gradients(seed, *_exact(form, dtype, values))
    return [bounded.expected_of(value, dtype) for value in exact if value is not None]


# A library may compute a function of 16-bit floats part by part, each rounded to that type.
ROUNDS_PARTS = "each part is rounded to the type of the row, and so is its bound derived"


def _rounding_each_part(subject: Subject, form: Form, dtype: DType) -> Form | None:
    """Return the form with a bound for its own type, if the library may compute in that."""
    is_other = form.compute_dtype(dtype) is not dtype
    return replace(form, is_wide=False) if is_other and subject.rounds_each_part else None


def _with_notes(measured: Measurement, notes: Sequence[str]) -> Measurement:
    """Return the measurement with documented differences of a library."""
    measured.observed = measured.observed or "; ".join(filter(None, notes))
    return measured


def _judge_value(device: DeviceUnderTest, actual: Array, expected: Expected) -> Judgement:
    if actual.dtype.kind in "iu" and actual.dtype.itemsize > expected.values.itemsize:
        # A library may add up integers in a wider type, and some do not fit the narrower one.
        expected = replace(expected, values=expected.values.astype(actual.dtype))
    return judge(
        np.ascontiguousarray(actual).reshape(-1),
        expected,
        _rule(expected),
        reassociates=device.capabilities.reassociates_floats,
    )


def _rule(expected: Expected) -> Rule:
    return Ulp(0, signed_zero=False) if expected.tolerance is None else Bounded()


def _failure(
    question: Question,
    device: DeviceUnderTest,
    expression: str,
    expected: Expected,
    rule: Rule,
    indices: Array | None = None,
) -> Failure:
    """Return what a report shows of an expression with wrong elements at `indices`."""
    if indices is None:
        indices = np.arange(expected.values.size)
    if question.is_elementwise:
        question, expected, indices = _few(question, expected, indices)
    item, subject = wanted_elements(0, expected, rule, indices), subject_of(device)
    return Failure(
        [values_of(key, array) for key, array in question.values.items()],
        ir=expression,
        script=tensor_script(question, subject.device_name, expression, item, subject.wording),
    )


def _few(
    question: Question, expected: Expected, indices: Array
) -> tuple[Question, Expected, Array]:
    """Return the first of these elements alone: thousands are too many for a script."""
    indices = indices[:MAX_ELEMENTS]
    assert expected.tolerance is not None, "a dense form has a bound"
    assert expected.wide is not None, "a bound is around a reference"
    few = Expected(
        expected.values[indices], tolerance=expected.tolerance[indices], wide=expected.wide[indices]
    )
    inputs = {name: array[indices] for name, array in question.values.items()}
    return replace(question, values=inputs), few, np.arange(indices.size)


def _misfit(what: str, result: Any, dtype: DType, shape: tuple[int, ...]) -> str:
    if tuple(result.shape) != tuple(shape):
        return f"{what}: shape {tuple(result.shape)}, expected {tuple(shape)}"
    if result.dtype is not dtype:
        got = result.dtype.name if result.dtype else "another type"
        return f"{what}: dtype {got}, expected {dtype.name}"
    return ""


def _measure_expressions(
    question: Question,
    device: DeviceUnderTest,
    expressions: list[str],
    judged: list[tuple[str, Judgement]],
) -> Measurement:
    """Judge the value of each expression."""
    items = [item for _, item in judged]
    result = Measurement(not any(item.fails for item in items))
    result.compared = sum(item.compared for item in items)
    inputs = list(question.values.values())
    measure_ulp(result, inputs, items)
    count(result, items, inputs)
    for expression, (name, item) in zip(expressions, judged, strict=True):
        if not item.fails or result.details is not None:
            continue
        right = values_of("expected", item.expected.values, item.first)
        actual = values_of("actual", item.actual, item.first)
        result.message = (
            f"{expression}: {name}[{item.first}]: expected {right.values[0]} "
            f"({right.bits[0]}), got {actual.values[0]} ({actual.bits[0]}); "
            f"{int(np.count_nonzero(item.bad))} of {item.compared} wrong"
        )
        result.details = _failure(
            question,
            device,
            expression,
            item.expected,
            _rule(item.expected),
            np.flatnonzero(item.bad),
        )
        result.details.index = item.first
        result.details.expected, result.details.expected_bits = right.values, right.bits
        result.details.actual, result.details.actual_bits = actual.values, actual.bits
    if judged and not any(item.expected.values.size for _, item in judged):
        # An empty result has only its type and shape, which were compared before.
        result.compared = 1
    if result.compared == 0:
        return Measurement(False, "nothing was compared")
    return result


def run_refused(call: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that the call is refused: tinyref raises a UserError of one line."""
    numbers = np.arange(24).reshape(4, 6)
    values = {"x": numbers.astype(np.float32), "i": numbers.astype(np.int32), "c": numbers % 2 == 0}
    try:
        got = TinyrefSubject(device.name).literal(call, values)
        if isinstance(got, SupportsNumpy):
            got = got.numpy()
    except TinyrefError as error:
        return refusal(None, error, (UserError,))
    return refusal(got, None, (UserError,))


def run_literal(
    expression: str, values: Arrays, result: object, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Check that the expression gives exactly this Python value."""
    subject = subject_of(device)
    describe = functools.partial(_literal_failure, expression, values, result, case_id, subject)
    if subject.wording.package:
        device.announce(describe)
    got = subject.literal(expression, values)
    if repr(got) == repr(result):
        return Measurement(True, compared=1)
    message = f"{expression}: expected {result!r}, got {got!r}"
    details = describe() if subject.wording.package else None
    return Measurement(False, message, compared=1, details=details)


def _literal_failure(
    expression: str, values: Arrays, result: object, case_id: str, subject: Subject
) -> Failure:
    """Return what a report shows of a Python value of a library; its script reads the array."""
    array, _, _ = expression.rpartition(".")  # without .tolist() or .item()
    right = np.ravel(np.asarray(result))
    item = Wanted(0, range(right.size), right)
    question = Question(case_id, dtypes.float32, values)
    script = tensor_script(question, subject.device_name, array, item, subject.wording)
    return Failure(ir=expression, script=script)
