"""Run programs in a library, compare their results, and decide which part of it is wrong.

If a compiled program is wrong, the library runs it again without its compiler.
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
from tinyref_fuzz.programs.library.spelling import function_of, spelling_of
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.error_rules import Bounded
from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair, Symptom
from tinyref_spec.subjects import open_subject
from tinyref_spec.subjects.name import parse_subject

COMPILER = "compiler"
OP = "op"
# Error messages of a library that lacks something.
_NOT_OFFERED = ("not implemented for", "not supported", "types are supported")
_INPUTS = frozenset({"data", "read"})


@dataclass(frozen=True)
class Difference:
    """The first wrong read of a program, or the error of the library."""

    words: str
    """A description."""
    read: int = -1
    """The number of the read."""
    elements: tuple[int, ...] = ()
    """The numbers of its wrong elements."""
    is_error: bool = False


class FuzzedLibrary:
    """A library that runs functions. Raises the errors of `open_subject` and `spelling_of`."""

    def __init__(self, device: str) -> None:
        name = parse_subject(device)
        self.device = device
        self.spelling = spelling_of(name)
        if name.library == "torch-compile":
            import torch

            # A campaign has a worker for each core.
            torch.set_num_threads(1)
        subject = open_subject(device)
        self.dtypes = tuple(sorted(dtype.name for dtype in subject.dtypes))
        self.versions: Mapping[str, str] = subject.versions()
        self.package: str = subject.wording.package
        self.names: dict[str, Any] = {}
        exec("\n".join([*self.spelling.imports, *self.spelling.helpers]), self.names)

    @property
    def compiles(self) -> bool:
        return bool(self.spelling.compiled)

    @property
    def about(self) -> str:
        """Return the library, its device and versions as text."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.device}, {versions}, numpy {np.__version__}"

    @property
    def builds_graphs(self) -> bool:
        """Return True if the library runs graphs of ONNX."""
        return "graphs" in self.names

    def function(self, text: str) -> Callable[..., Any]:
        """Return the function `f` of a text."""
        names = dict(self.names)
        exec(compile(text, "<program>", "exec", dont_inherit=True), names)
        function: Callable[..., Any] = names["f"]
        return function

    def run(self, text: str, inputs: Mapping[str, Array], is_compiled: bool) -> list[Array]:
        """Return the results of the function `f` of a text. Errors of the library pass through."""
        spelling = self.spelling
        names = {**self.names, "f": self.function(text)}
        if is_compiled:
            exec(spelling.before, names)
        function = eval((spelling.compiled if is_compiled else spelling.eager).format(f="f"), names)
        tensors = [
            eval(spelling.tensor_of("array", array.dtype.name), {**names, "array": array})
            for array in inputs.values()
        ]
        from_library = eval(f"lambda actual: {spelling.read.format(actual='actual')}", names)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # A library may warn about a type.
            warnings.simplefilter("ignore")
            results = function(*tensors)
            return [np.asarray(from_library(result)) for result in results]


class LibraryJudge:
    """Judge of programs in one library. Raises the errors of opening the library."""

    environment = PureEnvironment

    def __init__(self, device: str) -> None:
        self.device = device
        self.library = FuzzedLibrary(device)

    def verdict(self, program: TensorProgram, thorough: bool = False) -> KernelVerdict:
        """Return the verdict on a program; `judged` is 0 if the oracle or the library refuses it.

        `thorough` has no effect: every check always runs.
        """
        try:
            environment = evaluate_pure(program)
            difference = self.difference(program, environment, self.library.compiles)
            if difference is None:
                return KernelVerdict(judged=1)
            return self._failed(program, environment, difference)
        except (InexactError, UndefinedError, NotOfferedError):
            return KernelVerdict()

    def difference(
        self, program: TensorProgram, environment: PureEnvironment, is_compiled: bool
    ) -> Difference | None:
        """Return the first difference. Raises `NotOfferedError` if the library lacks something."""
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
        """Blame the compiler if the library is right without it, else the op.

        The cause names the operations of the program, and the types of its results.
        """
        is_op = verdict.pair is Pair.PLAIN or not self.library.compiles
        try:
            read_arrays = evaluate_pure(program).read_arrays
        except (InexactError, UndefinedError):
            read_arrays = []
        ops = sorted({op_name(step) for step in program.steps if step.op not in _INPUTS})
        types = sorted({array.dtype for array in read_arrays})
        return Blame(OP if is_op else COMPILER, " ".join([*ops, *types]), verdict.detail)

    def _failed(
        self, program: TensorProgram, environment: PureEnvironment, difference: Difference
    ) -> KernelVerdict:
        is_compiled = self.library.compiles
        symptom = Symptom.ERROR if difference.is_error else Symptom.VALUE
        if self.difference(program, environment, is_compiled) is None:
            symptom = Symptom.UNSTABLE
        pair = Pair.PLAIN
        if is_compiled and self.difference(program, environment, is_compiled=False) is None:
            pair = Pair.DEVICE
        return KernelVerdict(pair, symptom, difference.words, judged=1)


def _check_offered(error: Exception) -> None:
    """Raise `NotOfferedError` for an error that says the library lacks something."""
    words = str(error)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    is_refusal = not kinds.isdisjoint(("NotImplementedError", "NotOfferedError"))
    if is_refusal or any(phrase in words for phrase in _NOT_OFFERED):
        raise NotOfferedError(describe_error(error)) from error


def _problem(
    expected: Any, shape: tuple[int, ...], dtype: str, actual: Array
) -> tuple[str, tuple[int, ...]] | None:
    """Describe what is wrong with a result, and list its wrong elements; None if it is right."""
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
    """Return the smallest and largest accepted value of each element."""
    if expected.tolerance is None or not from_numpy_dtype(expected.values.dtype).is_float:
        return expected.values, expected.values
    return expected.wide - expected.tolerance, expected.wide + expected.tolerance


def joined(programs: Sequence[TensorProgram]) -> TensorProgram:
    """Join programs into one: they share nothing, as they have no side effects."""
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
