"""Judges one case: the AST evaluator, the program on the interpreter, and the device must agree.

The first pair that differs names the stage: the evaluator against the interpreter blames lowering,
the interpreter against the device blames the renderer, the compiler or the device. A kernel that
computes the same by construction must give the same too; the first transformation after which it
does not is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tinyref.device import Buffer, Device
from tinyref.dtype import from_numpy_dtype
from tinyref.errors import TinyrefError
from tinyref.runtimes.kernel import Kernel, compile_program
from tinyref.uops.compile import compile_kernel
from tinyref.uops.evaluate import evaluate
from tinyref.uops.interpreter import run_program
from tinyref.uops.node import UOp
from tinyref.uops.optimise.opt import Opt
from tinyref_fuzz.case import Case, Pair, Symptom, Verdict
from tinyref_fuzz.equivalent import Equivalent

Array = npt.NDArray[np.generic]


def judge(case: Case, device: str) -> Verdict:
    """Runs `case` in every way that `device` allows and compares bit for bit."""
    expected = evaluate(case.ast, dict(enumerate(case.buffers)))[0]
    backend = Device[device]
    try:
        program = compile_kernel(case.ast, backend.capabilities)
        reference = compile_kernel(case.ast, Device["PYTHON"].capabilities)
    except TinyrefError as error:
        return Verdict(Pair.PLAIN, Symptom.ERROR, str(error))
    try:
        interpreted = [buffer.copy() for buffer in case.buffers]
        run_program(reference, interpreted)
    except TinyrefError as error:
        return Verdict(Pair.PLAIN, Symptom.ERROR, str(error))
    difference = first_difference(expected, interpreted[0])
    if difference:
        return Verdict(Pair.PLAIN, Symptom.VALUE, f"evaluator against interpreter: {difference}")
    try:
        measured = run_on_device(device, compile_program(device, program), case.buffers)
    except TinyrefError as error:
        return Verdict(Pair.DEVICE, Symptom.ERROR, str(error))
    difference = first_difference(interpreted[0], measured)
    if difference:
        return Verdict(Pair.DEVICE, Symptom.VALUE, f"interpreter against {device}: {difference}")
    if case.equivalent is None:
        return Verdict()
    return judge_equivalent(case.equivalent, case.buffers, expected, device)


def judge_equivalent(
    equivalent: Equivalent, buffers: tuple[Array, ...], expected: Array, device: str
) -> Verdict:
    """Whether the equivalent kernel gives `expected`, which the original gives everywhere."""
    capabilities = Device[device].capabilities

    def evaluated(ast: UOp) -> Array:
        return evaluate(ast, dict(enumerate(buffers)))[0]

    def measured(ast: UOp) -> Array:
        program = compile_kernel(ast, capabilities)
        return run_on_device(device, compile_program(device, program), buffers)

    for where, run in (("evaluator", evaluated), (device, measured)):
        problem = problem_of(run, equivalent.ast, expected)
        if problem:
            blamed = first_wrong_step(equivalent, run, expected)
            steps = " ".join(equivalent.labels)
            return Verdict(
                Pair.EQUIVALENT,
                Symptom.VALUE,
                f"{where} against itself after {blamed} in {steps}: {problem}",
            )
    return Verdict()


def problem_of(run: Callable[[UOp], Array], ast: UOp, expected: Array) -> str:
    """How the value of a kernel differs from `expected`, or why it has none; else nothing."""
    try:
        return first_difference(expected, run(ast))
    except TinyrefError as error:
        return str(error)


def first_wrong_step(equivalent: Equivalent, run: Callable[[UOp], Array], expected: Array) -> str:
    """The label of the first transformation after which the value is not `expected`."""
    for label, ast in equivalent.trail:
        if problem_of(run, ast, expected):
            return label
    return "no step"


def measured_outputs(
    device: str,
    ast: UOp,
    contents: Sequence[Array],
    bindings: Mapping[str, int] | None = None,
    opts: Sequence[Opt] | None = None,
) -> dict[int, Array]:
    """What each written slot holds after the kernel `ast` ran on `device`.

    `opts` are the optimisations, those of the heuristics without them. Errors as of
    `compile_kernel` and of the device.
    """
    program = compile_kernel(ast, Device[device].capabilities, opts=opts)
    kernel = compile_program(device, program)
    buffers = filled(device, contents)
    kernel(buffers, bindings, wait=True)
    written = range(len(ast.src))
    return {slot: np.frombuffer(buffers[slot].copy_out(), contents[slot].dtype) for slot in written}


def filled(device: str, contents: Sequence[Array]) -> list[Buffer]:
    """Buffers on `device` that hold `contents`."""
    buffers = []
    for content in contents:
        buffer = Buffer(device, content.size, from_numpy_dtype(content.dtype)).allocate()
        buffers.append(buffer.copy_in(content.view(np.uint8).data))
    return buffers


def run_on_device(device: str, kernel: Kernel, contents: tuple[Array, ...]) -> Array:
    """Copies `contents` to `device`, launches `kernel`, and returns what slot 0 holds then."""
    buffers = filled(device, contents)
    kernel(buffers, wait=True)
    return np.frombuffer(buffers[0].copy_out(), contents[0].dtype)


def first_difference(expected: Array, actual: Array) -> str:
    """Where two arrays differ first, or nothing; zeros of either sign are equal."""
    unequal = np.flatnonzero(expected != actual)
    if not unequal.size:
        return ""
    at = int(unequal[0])
    return f"element {at} of {expected.size} is {actual[at]!s} instead of {expected[at]!s}"
