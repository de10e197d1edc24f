"""Reduce a program that a library gets wrong, blame a part, and write the script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tinyref.errors import explain_error
from tinyref_fuzz.findings.bucket import DEATHS
from tinyref_fuzz.programs.arithmetic import InexactError, UndefinedError
from tinyref_fuzz.programs.examine import ProgramFinding
from tinyref_fuzz.programs.library.judge import Difference, LibraryJudge, joined
from tinyref_fuzz.programs.library.oracle import PureEnvironment, evaluate_pure
from tinyref_fuzz.programs.library.script import library_script
from tinyref_fuzz.programs.reduce import reduce_program
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_spec.case import NotOfferedError
from tinyref_spec.kernel_case import KernelVerdict

_INPUTS = frozenset({"data", "read"})


def examine_library(
    judge: LibraryJudge, program: TensorProgram, verdict: KernelVerdict, seconds: float
) -> ProgramFinding:
    """Return the finding of a program and its verdict, reduced and blamed."""
    problem = ""
    try:
        program, verdict = _one_step(judge, program, verdict)
        program, verdict = reduce_program(
            program, verdict, judge.verdict, seconds, judge.environment
        )
        program, verdict = _fewer_elements(judge, program, verdict)
    except Exception as error:  # a bug of the reducer must not hide the finding
        problem = f"not reduced: {explain_error(error)}"
    return ProgramFinding(program, verdict, judge.blame(program, verdict), problem)


def _one_step(
    judge: LibraryJudge, program: TensorProgram, verdict: KernelVerdict
) -> tuple[TensorProgram, KernelVerdict]:
    """Return the first step that fails alone with the same fault, else the program.

    All steps run first as one function, so that a compiler runs once.
    """
    environment = evaluate_pure(program)
    singles = [
        TensorProgram((*_operands(step, environment), step, ProgramStep("read", step.targets)))
        for step in program.steps
        if step.op not in _INPUTS
    ]
    difference = _difference(judge, joined(singles))
    if difference is None or difference.is_error:
        return program, verdict
    chosen = singles[difference.read]
    own = judge.verdict(chosen)
    return (chosen, own) if is_same_fault(verdict, own) else (program, verdict)


def _operands(step: ProgramStep, environment: PureEnvironment) -> Iterator[ProgramStep]:
    """Yield the operands of a step as data."""
    for number in dict.fromkeys(step.args):
        array = environment.arrays[number]
        elements = tuple(array.elements.reshape(-1).tolist())
        yield ProgramStep("data", (), (number,), (array.dtype, array.shape, elements, 0, False))


def _fewer_elements(
    judge: LibraryJudge, program: TensorProgram, verdict: KernelVerdict
) -> tuple[TensorProgram, KernelVerdict]:
    """Return the program with one wrong element, or with few, if that fails too."""
    difference = _difference(judge, program)
    data = [step.values for step in program.steps if step.op == "data"]
    if difference is None or len({shape for _, shape, *_ in data}) != 1:
        return program, verdict
    # Some faults need a full vector of the processor, or one more element.
    for chosen in (difference.elements[:1], range(16), range(17)):
        if 0 < len(chosen) < len(data[0][2]):
            steps = tuple(_with_elements(step, chosen) for step in program.steps)
            candidate = program.with_steps(steps)
            own = judge.verdict(candidate)
            if is_same_fault(verdict, own):
                return candidate, own
    return program, verdict


def _with_elements(step: ProgramStep, chosen: Sequence[int]) -> ProgramStep:
    """Return a step with only these elements of its data; other steps do not change."""
    if step.op != "data":
        return step
    dtype, _, elements, *others = step.values
    fewer = tuple(elements[number] for number in chosen)
    return replace(step, values=(dtype, (len(fewer),), fewer, *others))


def _difference(judge: LibraryJudge, program: TensorProgram) -> Difference | None:
    """Return the first difference of a program; None if it has none or cannot be judged."""
    try:
        environment = evaluate_pure(program)
        return judge.difference(program, environment, judge.library.compiles)
    except (InexactError, UndefinedError, NotOfferedError):
        return None


def script_of_library(judge: LibraryJudge, program: TensorProgram, verdict: KernelVerdict) -> str:
    """Return the script of a failing program; it compares nothing if the process ends."""
    words = verdict.detail.partition("\n")[0]
    about = f"{judge.library.about}: {judge.blame(program, verdict)}: {words}"
    difference = None if verdict.symptom in DEATHS else _difference(judge, program)
    return library_script(judge.library, about, program, difference, evaluate_pure(program))
