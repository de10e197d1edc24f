"""Runs programs in a library, compares what they read, and says what of the library is wrong.

A library that compiles is asked twice where a value is wrong: compiled, and at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyref.dtype import from_numpy_dtype
from tinyref.errors import describe_error
from tinyref_fuzz.programs.arithmetic import InexactError, UndefinedError
from tinyref_fuzz.programs.library.functions import op_name
from tinyref_fuzz.programs.library.oracle import PureEnvironment, evaluate_pure
from tinyref_fuzz.programs.library.spelling import spelling_of
from tinyref_fuzz.programs.library.writing import function_of
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.catalogue import matches
from tinyref_spec.error_rules import Bounded
from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair, Symptom
from tinyref_spec.subjects import opened
from tinyref_spec.subjects.name import DEFAULT_PLACE, parse_subject

COMPILER = "compiler"
OP = "op"
# Errors by which a library says that it does not have something.
_NOT_OFFERED = ("not implemented for", "not supported")
_INPUTS = frozenset({"data", "read"})


@dataclass(frozen=True)
class Difference:
    """The first read that is wrong: its number, the wrong elements, and words; or an error."""

    words: str
    read: int = -1
    elements: tuple[int, ...] = ()
    is_error: bool = False


class Library:
    """A library that runs functions of its own words. Raises as `opened` and `spelling_of`."""

    def __init__(self, device: str) -> None:
        name = parse_subject(device)
        self.device = device
        self.spelling = spelling_of(name)
        if name.library == "torch-compile":
            _use_one_thread()
        self.subject = opened(device)
        self.names: dict[str, Any] = {}
        exec("\n".join(self.spelling.imports), self.names)
        self.to_library, self.from_library = _transfers(name.library, self.subject)

    @property
    def compiles(self) -> bool:
        return bool(self.spelling.compiled)

    @property
    def about(self) -> str:
        """The library, its device and versions in a few words."""
        versions = ", ".join(f"{name} {v}" for name, v in self.subject.versions().items())
        return f"{self.device}, {versions}, numpy {np.__version__}"

    @property
    def device_statement(self) -> str:
        """The statement by which a script chooses the device; empty for the host."""
        is_torch = self.device.startswith("torch")
        is_host = self.subject.place in ("cpu", DEFAULT_PLACE)
        return (
            f"torch.set_default_device({self.subject.place!r})" if is_torch and not is_host else ""
        )

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(sorted(dtype.name for dtype in self.subject.dtypes))

    def run(self, text: str, inputs: Mapping[str, Array], is_compiled: bool) -> list[Array]:
        """What the function `f` of a text gives for inputs. Lets out errors of the library."""
        names = dict(self.names)
        exec(compile(text, "<program>", "exec", dont_inherit=True), names)
        function = names["f"]
        if is_compiled:
            exec(self.spelling.before, names)
            function = eval(self.spelling.compiled.format(f="f"), names)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # A library may warn of what it does with a type.
            warnings.simplefilter("ignore")
            results = function(*map(self.to_library, inputs.values()))
            return [self.from_library(result) for result in results]


def _use_one_thread() -> None:
    """Compile in this process: a campaign has a worker for each core."""
    import torch
    import torch._inductor.config

    torch.set_num_threads(1)
    torch._inductor.config.compile_threads = 1


def _transfers(library: str, subject: Any) -> tuple[Callable[[Array], Any], Callable[[Any], Array]]:
    if library.startswith("torch"):
        from tinyref_spec.subjects.torch_library import from_torch, to_torch

        return lambda array: to_torch(array, subject.place), from_torch
    from tinyref_spec.subjects.array_api import to_numpy

    return lambda array: subject.tensor(array).array, to_numpy


class LibraryJudge:
    """Judges programs in one library.

    known: queries of the functions with known faults, joined by commas. A program that fails is
    judged again with the results of these functions as inputs.
    """

    def __init__(self, device: str, known: str = "") -> None:
        self.device = device
        self.known = tuple(part.strip() for part in known.split(",") if part.strip())
        self.library = Library(device)

    def verdict(self, program: TensorProgram, thorough: bool = False) -> KernelVerdict:
        """The verdict on a program; `judged` is 0 where the oracle or the library refuses it.

        thorough: of no meaning here, every check is made anyway.
        """
        try:
            environment = evaluate_pure(program)
        except (InexactError, UndefinedError):
            return KernelVerdict()
        try:
            difference = self.difference(program, environment, self.library.compiles)
            if difference is None:
                return KernelVerdict(judged=1)
            fresh = self.without_known(program, environment)
            if fresh is not program:
                return self.verdict(fresh)
            return self._failed(program, environment, difference)
        except NotOfferedError:
            return KernelVerdict()

    def difference(
        self, program: TensorProgram, environment: PureEnvironment, is_compiled: bool
    ) -> Difference | None:
        """What is wrong first. Raises `NotOfferedError` where the library says that it lacks it."""
        function = function_of(program, environment, self.library.spelling)
        try:
            results = self.library.run(function.text, function.inputs, is_compiled)
        except Exception as error:  # a library may raise anything
            _check_offered(error)
            return Difference(f"error: {describe_error(error).splitlines()[0]}", is_error=True)
        pairs = zip(environment.expected, environment.read_arrays, results, strict=True)
        for number, (expected, like, actual) in enumerate(pairs):
            problem = _problem(expected, like.shape, like.dtype, actual)
            if problem is not None:
                words, elements = problem
                return Difference(f"{function.results[number]}: {words}", number, elements)
        return None

    def blame(self, program: TensorProgram, verdict: KernelVerdict) -> Blame:
        """The compiler if the library is right where it runs at once, else the op.

        The cause has the operations that are left, and the type of what they give.
        """
        is_op = verdict.pair is Pair.PLAIN or not self.library.compiles
        stage = OP if is_op else COMPILER
        ops = sorted({op_name(step) for step in program.steps if step.op not in _INPUTS})
        types = sorted(self._result_types(program))
        return Blame(stage, f"{' '.join(ops)} {' '.join(types)}".strip(), verdict.detail)

    def without_known(self, program: TensorProgram, environment: PureEnvironment) -> TensorProgram:
        """The program with results of functions that have known faults given as inputs."""
        if not self.known:
            return program
        steps = tuple(self._without_known(step, environment) for step in program.steps)
        return program if steps == program.steps else program.with_steps(steps)

    def _without_known(self, step: ProgramStep, environment: PureEnvironment) -> ProgramStep:
        if step.op in _INPUTS:
            return step
        case = case_of(step, environment)
        return data_of(step, environment) if any(matches(case, q) for q in self.known) else step

    def _failed(
        self, program: TensorProgram, environment: PureEnvironment, difference: Difference
    ) -> KernelVerdict:
        again = self.difference(program, environment, self.library.compiles)
        pair = Pair.PLAIN
        if self.library.compiles and self.difference(program, environment, False) is None:
            pair = Pair.DEVICE
        symptom = Symptom.ERROR if difference.is_error else Symptom.VALUE
        if again is None:
            symptom = Symptom.UNSTABLE
        return KernelVerdict(pair, symptom, difference.words, judged=1)

    def _result_types(self, program: TensorProgram) -> set[str]:
        try:
            environment = evaluate_pure(program)
        except (InexactError, UndefinedError):
            return set()
        return {array.dtype for array in environment.read_arrays}


def case_of(step: ProgramStep, environment: PureEnvironment) -> str:
    """The name of a step as a case of the tensor rows, which queries of expectations name."""
    dtype = environment.arrays[step.args[0] if step.args else step.target].dtype
    return f"tensor.{op_name(step)}.{dtype}.forward:fuzz"


def data_of(step: ProgramStep, environment: PureEnvironment) -> ProgramStep:
    """The result of a step given as data."""
    array = environment.arrays[step.target]
    elements = tuple(array.elements.reshape(-1).tolist())
    return ProgramStep("data", (), step.targets, (array.dtype, array.shape, elements, 0, False))


def _check_offered(error: Exception) -> None:
    """Raise `NotOfferedError` for an error that says the library does not have something."""
    words = str(error)
    kinds = {each.__name__ for each in type(error).__mro__}
    is_refusal = "NotImplementedError" in kinds or "NotOfferedError" in kinds
    if is_refusal or any(each in words for each in _NOT_OFFERED):
        raise NotOfferedError(describe_error(error)) from error


def _problem(
    expected: Any, shape: tuple[int, ...], dtype: str, actual: Array
) -> tuple[str, tuple[int, ...]] | None:
    """What is wrong with a result, and which elements; None where nothing is."""
    if tuple(actual.shape) != shape or actual.dtype.name != dtype:
        have = f"{actual.dtype.name}{actual.shape}"
        return f"is {have}, expected {dtype}{shape}", ()
    flat = np.asarray(actual).reshape(-1)
    good = Bounded().judge(flat, expected).good
    wrong = tuple(int(number) for number in np.flatnonzero(~good))
    if not wrong:
        return None
    first = wrong[0]
    low, high = limits_of(expected)
    within = f"{low[first]}" if low[first] == high[first] else f"{low[first]} to {high[first]}"
    words = f"element {first} of {flat.size} is {flat[first]}, expected {within}"
    return words + (f"; {len(wrong)} are wrong" if len(wrong) > 1 else ""), wrong


def limits_of(expected: Any) -> tuple[Array, Array]:
    """The least and the largest value that each element may have."""
    if expected.tolerance is None or not from_numpy_dtype(expected.values.dtype).is_float:
        return expected.values, expected.values
    return expected.wide - expected.tolerance, expected.wide + expected.tolerance


def joined(programs: Sequence[TensorProgram]) -> TensorProgram:
    """One program of several: they share nothing, as none has a side effect."""
    steps: list[ProgramStep] = []
    offset = 0
    for program in programs:
        top = max((number for step in program.steps for number in step.targets), default=0)
        steps += [_shifted(step, offset) for step in program.steps]
        offset += top
    return TensorProgram(tuple(steps))


def _shifted(step: ProgramStep, by: int) -> ProgramStep:
    args = tuple(number + by for number in step.args)
    return ProgramStep(step.op, args, tuple(number + by for number in step.targets), step.values)


def check_library(device: str) -> None:
    """Raise `UserError` for a library that the fuzzer has no words for."""
    spelling_of(parse_subject(device))
