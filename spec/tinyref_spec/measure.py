"""The measurement: run one experiment on a device and judge the results."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref.device import Device
from tinyref.dtype import from_numpy_dtype
from tinyref.errors import TinyrefError
from tinyref.runtimes.red_zones import POISONS, MemoryDamageError
from tinyref.runtimes.reproducer import ReproducedLaunch, Wanted
from tinyref.uops.program import Program
from tinyref_spec import reproducer
from tinyref_spec.accuracy import accuracy_of
from tinyref_spec.bits import Array, BoolArray, bit_texts, hexadecimal, to_bits
from tinyref_spec.case import Failure, Measurement, Values
from tinyref_spec.device_under_test import (
    DeviceUnderTest,
    Inputs,
    MadeLaunch,
    Optimised,
    Runnable,
    slots_of,
)
from tinyref_spec.error_rules import (
    NO_PROBLEM,
    Products,
    ResultProblem,
    Rule,
    Ulp,
    Verdict,
    reassociated,
)
from tinyref_spec.evidence import Elements, evidence_of
from tinyref_spec.literal_text import hex_float
from tinyref_spec.oracles import Expected
from tinyref_spec.tool_scripts.languages import script_of

# Number of values of each buffer in a failure.
SHOWN_VALUES = 16
# Seconds in which wrong results that look like old contents may still change.
LATE_SECONDS = 0.02


@dataclass
class Experiment:
    """One launch and its expected results.

    inputs: per slot, None for an output. expected, rules: per written slot in order.
    norms: for `Products` rules, sqrt(sum (a*b)^2) per result.
    """

    case_id: str
    kernel: Runnable
    inputs: Inputs
    expected: Sequence[Expected]
    rules: Sequence[Rule]
    bindings: Mapping[str, int] = field(default_factory=dict)
    norms: Sequence[Array | None] = ()


@dataclass
class Judgement:
    """One output judged by its rule: `bad` marks the elements that are wrong."""

    actual: Array
    expected: Expected
    verdict: Verdict
    bad: BoolArray
    problem: ResultProblem = NO_PROBLEM
    before: Array | None = None
    offset: int = 0

    @property
    def compared(self) -> int:
        specified = self.expected.specified
        return int(self.bad.size if specified is None else np.count_nonzero(specified))

    @property
    def fails(self) -> bool:
        return bool(self.problem.message) or bool(self.bad.any())

    @property
    def first(self) -> int:
        """Return the position of the first wrong element, -1 if only the whole is wrong."""
        wrong = np.flatnonzero(self.bad)
        return int(wrong[0]) if wrong.size else -1


def judge(
    actual: Array,
    expected: Expected,
    rule: Rule,
    norm: Array | None = None,
    reassociates: bool = False,
) -> Judgement:
    """Compare one flat output with the expected one; `reassociates`: what the device declares."""
    if reassociates:
        rule = reassociated(rule)
    with np.errstate(all="ignore"):
        verdict = rule.judge(actual, expected)
        bad = ~verdict.good
        if expected.specified is not None:
            bad &= expected.specified
        problem = NO_PROBLEM
        if isinstance(rule, Products) and norm is not None:
            problem = rule.problem(actual, expected, norm)
    return Judgement(actual, expected, verdict, bad, problem)


def measure(device: DeviceUnderTest, experiment: Experiment) -> Measurement:
    """Run the experiment; repeat it with another poison if a result looks like the first one."""
    try:
        judgements = _run(device, experiment, POISONS[0])
        if not any(item.fails for item in judgements) and any(map(_looks_untouched, judgements)):
            judgements = _run(device, experiment, POISONS[1])
    except MemoryDamageError as error:
        return Measurement(
            False,
            str(error),
            details=_failure(device, experiment, None),
            fault=error.fault,
        )
    return _measurement(device, experiment, judgements)


def run_exact(
    case_id: str,
    device: DeviceUnderTest,
    kernel: Runnable,
    inputs: Sequence[Array | None],
    expected: Sequence[Array],
    bindings: Mapping[str, int] | None = None,
) -> Measurement:
    """Measure a kernel whose outputs must have exactly these bits; arrays may have any shape."""
    results = [Expected(values.reshape(-1)) for values in expected]
    rules = [Ulp(0)] * len(results)
    flat = [None if data is None else data.reshape(-1) for data in inputs]
    return measure(device, Experiment(case_id, kernel, flat, results, rules, bindings or {}))


def _run(device: DeviceUnderTest, experiment: Experiment, poison: int) -> list[Judgement]:
    device.announce(functools.partial(_before, device, experiment))
    outputs = device.run(experiment.kernel, experiment.inputs, experiment.bindings, poison)
    norms = experiment.norms or [None] * len(outputs)
    rows = zip(outputs, experiment.expected, experiment.rules, norms, strict=True)
    reassociates = device.capabilities.reassociates_floats
    judgements = [judge(*row, reassociates=reassociates) for row in rows]
    if any(item.bad.any() for item in judgements):
        _note_memory(device, experiment, poison, judgements)
    return judgements


def _note_memory(
    device: DeviceUnderTest, experiment: Experiment, poison: int, judgements: Sequence[Judgement]
) -> None:
    """Record what the outputs held before the launch, and where they begin."""
    offsets = device.offsets(experiment.kernel)
    slots = [slot.number for slot in slots_of(experiment.kernel) if slot.is_written]
    for item, slot in zip(judgements, slots, strict=True):
        data = experiment.inputs[slot]
        item.before = _filled(item.actual, poison) if data is None else data.reshape(-1)
        item.offset = offsets.get(slot, 0)


def _filled(like: Array, byte: int) -> Array:
    """Return an array of the same size and type in which all bytes are equal."""
    return np.full(like.nbytes, byte, np.uint8).view(like.dtype)


def _fault(item: Judgement) -> str:
    """Return the condition that explains a wrong output as a whole, or nothing."""
    if not item.bad.any():
        return item.problem.fault
    actual, expected = (_at_wrong(item, values) for values in (item.actual, item.expected.values))
    half_steps = item.expected.half_steps
    with np.errstate(all="ignore"):
        # The device may add in another order: near is a quarter of the distance to the expected
        # value.
        if half_steps is not None:
            difference = np.abs(actual - _at_wrong(item, half_steps()))
            if (4 * difference <= np.abs(actual - expected)).all():
                return "noisy"
        # Truncation is left to the conditions of elements.
        is_truncated = (np.abs(actual) < np.abs(expected)).all()
    explains = item.problem.explains_elements and not is_truncated
    return (item.problem.fault or "noisy") if explains else ""


def _at_wrong(item: Judgement, values: Array) -> Array:
    return values.reshape(-1)[item.bad.reshape(-1)].astype(np.float64)


def _arrives_late(
    device: DeviceUnderTest, experiment: Experiment, judgements: Sequence[Judgement]
) -> bool:
    """Return True if outputs that look unchanged by the launch, or are zero, change later."""
    if not any(map(_looks_early, judgements)):
        return False
    time.sleep(LATE_SECONDS)
    try:
        device.backend.synchronize()
        later = device.outputs(experiment.kernel)
    except TinyrefError:
        return False
    return later is not None and any(
        not np.array_equal(to_bits(item.actual), to_bits(values))
        for item, values in zip(judgements, later, strict=True)
    )


def _looks_early(item: Judgement) -> bool:
    """Return True if all wrong elements are zero or unchanged since before the launch."""
    actual, bad = to_bits(item.actual.reshape(-1)), item.bad.reshape(-1)
    is_zero = actual == 0
    is_old = is_zero if item.before is None else is_zero | (actual == to_bits(item.before))
    return bool(bad.any() and is_old[bad].all())


def _looks_untouched(judgement: Judgement) -> bool:
    """Return True if a result has the bits of the poison: it is right, or was never written."""
    bits = to_bits(judgement.actual)
    pattern = int.from_bytes(bytes([POISONS[0]] * bits.dtype.itemsize), "little")
    return bool((bits == np.array(pattern, dtype=bits.dtype)).any())


def _measurement(
    device: DeviceUnderTest, experiment: Experiment, judgements: Sequence[Judgement]
) -> Measurement:
    failing = next((item for item in judgements if item.fails), None)
    result = Measurement(
        failing is None,
        compared=sum(item.compared for item in judgements),
        observed=", ".join(filter(None, map(_observed_behaviour, judgements))),
    )
    inputs = _read_buffers(experiment)
    measure_ulp(result, inputs, judgements)
    count(result, judgements, inputs, device.forms(experiment.kernel))
    if failing is not None:
        result.message = _message(experiment, failing)
        result.fault = _fault(failing)
        if _arrives_late(device, experiment, judgements):
            result.fault = "late"
        result.details = _failure(device, experiment, failing)
    elif result.compared == 0:
        result.passed = False
        result.message = "nothing was compared"
    return result


def measure_ulp(
    result: Measurement, inputs: Sequence[Array], judgements: Sequence[Judgement]
) -> None:
    """Note the largest distance of the outputs in ULP, and the inputs of that element."""
    for item in judgements:
        distance = item.verdict.ulp
        if distance is None or not distance.size:
            continue
        if item.expected.specified is not None:
            distance = np.where(item.expected.specified, distance, 0)
        worst = int(np.argmax(distance))
        largest = float(distance[worst])
        if result.max_ulp is None or largest > result.max_ulp:
            result.max_ulp = largest
            # Most results are exact, and need no sorting for their percentile.
            result.p99_ulp = percentile(distance) if largest else 0.0
            where = (inputs, worst, distance.size)
            result.worst_input = _inputs_at(*where, _exact_text) if largest else ""


def count(
    result: Measurement,
    judgements: Iterable[Judgement],
    inputs: Sequence[Array],
    forms: Sequence[str] = (),
) -> None:
    """Add counts of the outputs to a result; `inputs` count for outputs of their size."""
    for item in judgements:
        size = item.bad.size
        parallel = tuple(data.reshape(-1) for data in inputs if data.size == size)
        expected = item.expected.values.reshape(-1)
        values = item.actual.reshape(-1), expected, item.bad, parallel
        elements = Elements(*values, item.before, item.offset)
        result.evidence.add(evidence_of(elements, item.expected.specified))
        if item.verdict.ulp is not None:
            first = parallel[0] if len(parallel) == len(inputs) and parallel else None
            drawn = item.verdict.ulp, item.verdict.share, first, item.expected.specified
            result.accuracy.add(accuracy_of(*drawn))
    is_wrong = int(not result.passed)
    result.evidence.forms = dict.fromkeys(forms, (is_wrong, 1 - is_wrong))


def percentile(distance: Array) -> float:
    """Return the 99th percentile: the smallest distance that 99 of 100 do not exceed."""
    rank = max(0, int(np.ceil(0.99 * distance.size)) - 1)
    return float(np.partition(distance, rank)[rank])


def _read_buffers(experiment: Experiment) -> list[Array]:
    return [data for data in experiment.inputs if data is not None]


def _inputs_at(
    columns: Sequence[Array], index: int, size: int, text: Callable[[Array], str]
) -> str:
    """Return the inputs of one element, if there are as many elements of each input."""
    if not columns or any(data.size != size for data in columns):
        return f"element {index}"
    picked = [data.reshape(-1)[index : index + 1] for data in columns]
    return ", ".join(map(text, picked))


def _with_bits(value: Array) -> str:
    return f"{bit_texts(value)[0]} ({hexadecimal(value)[0]})"


def _exact_text(value: Array) -> str:
    dtype = from_numpy_dtype(value.dtype)
    return hex_float(float(value[0])) if dtype.is_float else bit_texts(value)[0]


def _observed_behaviour(judgement: Judgement) -> str:
    """Return which allowed behaviour the device shows, if the rule leaves a choice."""
    observe = judgement.expected.observe
    with np.errstate(all="ignore"):
        return "" if observe is None else observe(judgement.actual)


def _message(experiment: Experiment, item: Judgement) -> str:
    index = item.first
    if index < 0:
        return item.problem.message
    expected = item.expected.values.reshape(-1)[index : index + 1]
    actual = item.actual.reshape(-1)[index : index + 1]
    wrong = int(np.count_nonzero(item.bad))
    return (
        f"element {index}: expected {bit_texts(expected)[0]} ({hexadecimal(expected)[0]}), "
        f"got {bit_texts(actual)[0]} ({hexadecimal(actual)[0]}), "
        f"for {_inputs_at(_read_buffers(experiment), index, item.bad.size, _with_bits)}; "
        f"{wrong} of {item.compared} wrong"
    )


def values_of(name: str, data: Array, around: int = 0) -> Values:
    """Return a buffer for a failure: some values from the first mismatch on."""
    flat = np.ascontiguousarray(data).reshape(-1)
    start = min(max(around, 0), max(flat.size - 1, 0))
    part = flat[start : start + SHOWN_VALUES]
    dtype = from_numpy_dtype(data.dtype).name
    return Values(name, dtype, tuple(data.shape), bit_texts(part), hexadecimal(part))


def _failure(device: DeviceUnderTest, experiment: Experiment, item: Judgement | None) -> Failure:
    failure = _describe_failure(device, experiment, item)
    if item is not None:
        expected = values_of("expected", item.expected.values, item.first)
        actual = values_of("actual", item.actual, item.first)
        failure.expected, failure.expected_bits = expected.values, expected.bits
        failure.actual, failure.actual_bits = actual.values, actual.bits
    failure.source = device.source(experiment.kernel)
    return failure


def _before(device: DeviceUnderTest, experiment: Experiment) -> Failure:
    """Return the details of a launch that never ended, without compiling or launching it."""
    failure = _describe_failure(device, experiment, None)
    try:
        program = device.program(experiment.kernel)
        failure.source = Device[device.name].renderer.render(program)
    except Exception as error:  # the vendor's renderer may be at fault
        failure.source = f"not rendered: {type(error).__name__}: {error}"
    return failure


def _describe_failure(
    device: DeviceUnderTest, experiment: Experiment, item: Judgement | None
) -> Failure:
    index = -1 if item is None else item.first
    inputs = [
        values_of(f"slot {slot}", data, index if _is_parallel(item, data) else 0)
        for slot, data in enumerate(experiment.inputs)
        if data is not None
    ]
    failure = Failure(inputs=inputs, index=index, ir=_ir(experiment.kernel))
    elements = _wanted_elements(experiment, item)
    try:
        program = device.program(experiment.kernel)
    except TinyrefError:
        return failure
    if elements:
        flat = [None if data is None else data.reshape(-1) for data in experiment.inputs]
        unaligned = device.unaligned_slots(experiment.kernel, program)
        before = _earlier_launches(device, experiment)
        launch = ReproducedLaunch(
            device.name, program, flat, experiment.bindings, unaligned, before
        )
        failure.script = reproducer.kernel_script(
            experiment.case_id,
            device.name,
            program,
            flat,
            elements,
            bindings=experiment.bindings,
            unaligned=unaligned,
            before=before,
        )
        about = f"{experiment.case_id} of tinyref, on {device.name}"
        failure.tool_script = _tool_script(device, about, launch, elements)
        if item is not None and device.trace_seconds:
            failure.difference = launch.first_difference(device.trace_seconds)
    return failure


def _tool_script(
    device: DeviceUnderTest, about: str, launch: ReproducedLaunch, wanted: Sequence[Wanted]
) -> str:
    """Return the script without tinyref; "" if there is none and the device asks for none."""
    try:
        return script_of(about, launch, wanted, device.language)
    except TinyrefError:
        if device.language:
            raise
        return ""


def _earlier_launches(device: DeviceUnderTest, experiment: Experiment) -> list[MadeLaunch]:
    """Return the earlier launches of the kernel in this case, with flat inputs."""
    return [
        ([None if data is None else data.reshape(-1) for data in inputs], bindings)
        for inputs, bindings in device.launches(experiment.kernel)
        if inputs is not experiment.inputs
    ]


def _wanted_elements(experiment: Experiment, item: Judgement | None) -> list[Wanted]:
    """Return what some elements must be: the wrong ones, or the first of each output.

    Empty if only the whole is wrong, since no single element shows that.
    """
    slots = [slot.number for slot in slots_of(experiment.kernel) if slot.is_written]
    rows = zip(slots, experiment.expected, experiment.rules, strict=True)
    if item is None:
        return [
            reproducer.wanted_elements(slot, expected, rule, _specified_elements(expected))
            for slot, expected, rule in rows
        ]
    wrong = np.flatnonzero(item.bad)
    return [
        reproducer.wanted_elements(slot, expected, rule, wrong)
        for slot, expected, rule in rows
        if expected is item.expected and wrong.size
    ]


def _specified_elements(expected: Expected) -> Array:
    """Return the indices of the elements with a specified value."""
    mask = expected.specified
    return np.arange(expected.values.size) if mask is None else np.flatnonzero(mask)


def _is_parallel(item: Judgement | None, data: Array) -> bool:
    return item is not None and item.actual.size == data.size


def _ir(kernel: Runnable) -> str:
    from tinyref.formats.text import program_to_text, to_text
    from tinyref.optimise.opt import opts_text

    if isinstance(kernel, Optimised):
        return f"# optimised by {opts_text(kernel.opts) or 'nothing'}\n{to_text(kernel.ast)}"
    return program_to_text(kernel) if isinstance(kernel, Program) else to_text(kernel)


def refusal(attempt: object, error: TinyrefError | None, accepted: tuple[type, ...]) -> Measurement:
    """Return the measurement of a case that must be refused with one of the `accepted` errors."""
    if error is None:
        message = f"was accepted, and gave {attempt!r}"
        return Measurement(False, message, compared=1, fault="accepted")
    if not isinstance(error, accepted):
        names = " or ".join(kind.__name__ for kind in accepted)
        return Measurement(
            False, f"refused with {type(error).__name__}, not {names}: {error}", compared=1
        )
    if "\n" in str(error).strip() or len(str(error)) < 8:
        return Measurement(False, f"the error is not one clear line: {error}", compared=1)
    return Measurement(True, compared=1, observed=str(error))
