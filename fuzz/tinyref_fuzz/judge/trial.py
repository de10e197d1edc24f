"""Judge one case step by step: compile, run and compare, in a fixed order.

Each value is computed once, and compared with the one before it, so that the first pair that
differs names the stage. Every program is checked against the capabilities, and every launch by red
zones, poison and the interpreter's sanitizer.

Three outcomes are fine: agreement, refusal of a kernel that needs what the device lacks, and
`KernelOptError`. Everything else is a fault.
"""

from __future__ import annotations

import contextlib
import functools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyref import config
from tinyref.dtype import ImageDType
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt
from tinyref.runtimes.kernel import Kernel
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref_fuzz.judge.guard import PATTERNS, GuardedMemory, WrittenElements
from tinyref_fuzz.judge.judged_device import JudgedDevice
from tinyref_fuzz.judge.lacks import declared_lack
from tinyref_fuzz.judge.oracles import STRICT, Oracle, evaluator_problem, oracle_for
from tinyref_fuzz.judge.oracles.reference import semantics_fault
from tinyref_fuzz.judge.runs import (
    LinearisedKernel,
    RunError,
    compile_checked,
    differing_bits,
    errors_from,
    has_float_maximum,
    has_float_tiles,
    interpret,
    is_approximate,
    launch,
    load_kernel,
    other_data,
)
from tinyref_spec.kernel_case import (
    Array,
    Equivalent,
    KernelCase,
    KernelVerdict,
    Opts,
    Pair,
    Symptom,
)

Results = Mapping[int, Array]
# The results of a run, and the oracle for them.
CheckedRun = tuple[Results, Oracle]

# One of this many programs gets the checks that cost as much as all others together. Programs of
# one case are alike: another case reveals more than another program.
THOROUGH_SHARE = 6
# With more outputs than `MANY_OUTPUTS`, all programs of one of this many cases get all checks.
SELDOM_SHARE = 16
MANY_OUTPUTS = 4
# Suffix of a verdict on a device for which LLVM compiles at several levels.
AT_LEVEL = "at CPU_LEVEL="
# Seed for `linearise`: any number gives a legal order.
SHUFFLE = 1


def has_many_outputs(case: KernelCase) -> bool:
    """Return True if the kernel tests many values, rather than axes, orders and launches."""
    return len(case.ast.src) > MANY_OUTPUTS


def case_number(case: KernelCase) -> int:
    """Return a number of the case that is the same on any machine."""
    ops = ",".join(node.op.name for node in case.ast.toposort())
    return zlib.crc32(f"{case.choices} {ops}".encode())


class DisagreementError(Exception):
    """Disagreement that ends the judging of a case."""

    def __init__(self, pair: Pair, symptom: Symptom, detail: str) -> None:
        self.verdict = KernelVerdict(pair, symptom, detail)
        super().__init__(detail)


@contextlib.contextmanager
def between(pair: Pair) -> Iterator[None]:
    """Turn a `RunError` inside into a disagreement of `pair`."""
    try:
        yield
    except RunError as trouble:
        raise DisagreementError(pair, trouble.symptom, trouble.detail) from trouble


class Trial:
    """The judging of one case; `number` is the list of optimisations that is judged now.

    `sample` is a number of the case that decides which of its programs get all checks.
    """

    def __init__(
        self,
        judge: JudgedDevice,
        case: KernelCase,
        sample: int,
        thorough: bool | None,
        levels: tuple[int, ...],
    ) -> None:
        self.judge = judge
        self.case = case
        self.sample = sample
        self.thorough = thorough
        self.levels = levels
        self.number = -1
        self.is_quick = thorough is None and has_many_outputs(case) and not self.everything
        self.judged = 0
        # Results of programs on which interpreter and device agree.
        self.known: dict[Program, Results] = {}

    @property
    def everything(self) -> bool:
        """Return True if the current program gets all checks."""
        if self.thorough is not None:
            return self.thorough
        if has_many_outputs(self.case):
            return self.sample % SELDOM_SHARE == 0
        return (self.sample + self.number) % THOROUGH_SHARE == 0

    def run(self) -> None:
        """Raise `DisagreementError` if two values differ."""
        case = self.case
        with between(Pair.PLAIN), errors_from(lambda: "evaluator"):
            self.oracle = oracle_for(case)
            arithmetic = self.judge.arithmetic
            is_strict = arithmetic == STRICT
            self.device_oracle = self.oracle if is_strict else oracle_for(case, arithmetic)
            self.outputs = WrittenElements.of(case.ast, case.buffers, case.bindings)
            self._check_evaluator()
        if declared_lack(case.ast, self.judge.capabilities):
            return
        if not self._is_right_optimised():
            with between(Pair.PLAIN):
                program = self._compile(case.ast, ())
            plain = self._value(Pair.PLAIN, program, self._differs_from_evaluator)
            for number, opts in enumerate(self._trials()):
                self.number = number
                with contextlib.suppress(KernelOptError):
                    self._judge_optimised(opts, plain)
            self.number = -1
        if case.equivalent is not None:
            self._equivalent(case.equivalent)

    def _check_evaluator(self) -> None:
        """Check the ops by the spec's references, and in some cases the evaluator."""
        fault = semantics_fault(self.case.ast.toposort())
        problem = fault.detail if fault is not None else ""
        if not problem and self.everything:
            problem = evaluator_problem(self.case)
        if problem:
            raise RunError(Symptom.VALUE, f"evaluator: {problem}")

    def _is_right_optimised(self) -> bool:
        """Return True if a case of many values is right in its only optimised program.

        Then the plain program has little to add. If it is wrong, all are judged in their order.
        """
        if not self.is_quick or len(self.case.opts) != 1:
            return False
        try:
            self._judge_optimised(self.case.opts[0])
        except (DisagreementError, KernelOptError):
            return False
        return self.judged > 0

    def _trials(self) -> tuple[Opts, ...]:
        if self.is_quick and not self.case.opts:
            # They would compute the same values: in that time another kernel reveals more.
            return ()
        with between(Pair.OPTIMISED), errors_from(lambda: "heuristics"):
            try:
                return self.judge.trials(self.case)
            except KernelOptError as error:
                raise RunError(Symptom.ERROR, f"heuristics: {error}") from error

    def _judge_optimised(self, opts: Opts, plain: Results | None = None) -> None:
        """Judge one list. Raises `KernelOptError` if the device refuses it.

        `plain` are the results of the program without optimisations, if it ran.
        """
        with between(Pair.OPTIMISED):
            program = self._compile(self.case.ast, opts)

        def differs(slot: int, actual: Array) -> str:
            against = None if plain is None else plain[slot]
            return self.oracle.difference(slot, actual, against=against)

        self._value(Pair.OPTIMISED, program, differs)
        self.judged += 1

    def _compile(self, ast: UOp, opts: Sequence[Opt] | None) -> LinearisedKernel:
        """Return the compiled program. Raises `RunError`."""
        # The interpreter sees all accesses of this launch; with variables there are other launches.
        # Without variables this tests the bounds check itself, on one program of a case.
        checks_bounds = bool(self.case.bindings) or (self.everything and opts == ())
        return compile_checked(ast, self.judge.capabilities, opts, checks_bounds)

    def _differs_from_evaluator(self, slot: int, actual: Array) -> str:
        return self.oracle.difference(slot, actual)

    def _device_oracle(self, program: Program) -> Oracle:
        """Return the oracle of a program on the device, by what it declares of its floats."""
        return self._tile_oracle if has_float_tiles(program) else self.device_oracle

    @functools.cached_property
    def _tile_oracle(self) -> Oracle:
        arithmetic = replace(self.judge.arithmetic, multiplies_tiles=True)
        return oracle_for(self.case, arithmetic)

    # One program

    def _value(
        self, pair: Pair, program: LinearisedKernel, differs: Callable[[int, Array], str]
    ) -> Results:
        """Return the interpreter's results for a program, once the device agrees with them.

        If the interpreter is the device, some programs also run from their text. Lists of
        optimisations with equal programs are judged once, except those with all checks.
        """
        if not self.everything and program.program in self.known:
            results = self.known[program.program]
            with between(pair):
                self._compare(results, differs)
            return results
        results = self._judged_value(pair, program, differs)
        self.known[program.program] = results
        return results

    def _judged_value(
        self, pair: Pair, program: LinearisedKernel, differs: Callable[[int, Array], str]
    ) -> Results:
        fault = None
        if self.judge.is_reference and self.everything:
            try:
                with between(pair):
                    results = self._launch(program.program)
                    self._compare(results, differs)
                    self._check_orders(program, results)
                    return results
            except DisagreementError as error:
                fault = error.verdict
        with between(pair):
            results = interpret(program.program, self._memory(), self.case.bindings)
            self._compare(results, differs)
            self._check_orders(program, results)
        if fault is not None and fault.symptom is not None:
            # The program is right, so its text, or the parsing of it, is wrong.
            raise DisagreementError(Pair.DEVICE, fault.symptom, fault.detail)
        if self.everything or not self.judge.is_reference:
            self._check_device(program.program, results)
        return results

    def _compare(self, results: Results, differs: Callable[[int, Array], str]) -> None:
        for slot, actual in results.items():
            problem = differs(slot, actual)
            if problem:
                raise RunError(Symptom.VALUE, problem)

    def _memory(self, pattern: int = 0, shifted: bool = False) -> GuardedMemory:
        alignment = self.judge.capabilities.view_alignment
        return GuardedMemory(self.case.buffers, self.outputs, PATTERNS[pattern], shifted, alignment)

    def _launch(self, program: Program) -> Results:
        """Return the results of the device, after its own compile."""
        return launch(self._load(program), self._memory(), self.case.bindings)

    # Two runs of one program

    def _check_same(
        self,
        program: Program,
        actual: Results,
        expected: Results,
        symptom: Symptom,
        how: str = "",
    ) -> None:
        """Check that two runs of one program agree. Raises `RunError`."""
        if is_approximate(program) or not config.integer("STRICT_FLOAT"):
            # Only the oracle decides, and the caller compares with it.
            return
        zeros_differ = not has_float_maximum(program)
        for slot, values in actual.items():
            differs = differing_bits(values, expected[slot], zeros_differ)
            allowed = self.oracle.allowed[slot]
            numbers = np.flatnonzero(allowed.where_known(differs))
            if numbers.size:
                raise RunError(symptom, _sentence(slot, numbers, values, expected[slot], how))

    def _check_orders(self, kernel: LinearisedKernel, results: Results) -> None:
        """Check that other poison and other orders do not change results on the interpreter."""
        if not self.everything:
            return
        with errors_from(lambda: "another order of the nodes"):
            shuffled = kernel.shuffle(SHUFFLE)
        how = "with other poison around, in other orders of nodes and work-items"
        try:
            # Change everything at once, as it seldom matters; if it does, change one thing at a
            # time.
            again = interpret(shuffled, self._memory(1), self.case.bindings, backward=True)
            self._check_same(kernel.program, again, results, Symptom.VALUE, how)
        except RunError:
            self._check_each_order(kernel.program, shuffled, results)
            raise

    def _check_each_order(self, program: Program, shuffled: Program, results: Results) -> None:
        """Raise `RunError` for the first single change that matters."""
        bindings = self.case.bindings
        again = interpret(program, self._memory(1), bindings)
        self._check_same(program, again, results, Symptom.ACCESS, "with other poison around")
        again = interpret(program, self._memory(1), bindings, backward=True)
        self._check_same(program, again, results, Symptom.RACE, "with work-items in reverse order")
        again = interpret(shuffled, self._memory(), bindings)
        self._check_same(program, again, results, Symptom.VALUE, "in another order of the nodes")

    # The device

    def _check_device(self, program: Program, results: Results) -> None:
        """Check that the device agrees with the interpreter, at each judged level of LLVM."""
        with between(Pair.DEVICE):
            for level in self.levels:
                try:
                    self._check_at_level(level, program, results)
                except RunError as trouble:
                    if not self.judge.has_levels:
                        raise
                    detail = f"{trouble.detail}, {AT_LEVEL}{level}"
                    raise RunError(trouble.symptom, detail) from trouble

    def _check_at_level(self, level: int, program: Program, results: Results) -> None:
        with config.Context(CPU_LEVEL=level):
            repeats = self.everything and level == self.levels[-1]
            if self.thorough or not repeats:
                self._check_launch(self._load(program), self._memory(), results)
            if repeats:
                self._check_launches(program, results)

    def _load(self, program: Program) -> Kernel:
        return load_kernel(self.judge.backend, self.judge.device, program)

    def _check_launch(self, kernel: Kernel, memory: GuardedMemory, results: Results) -> Results:
        """Return the results of one launch, which must be right. Raises `RunError`."""
        program = kernel.program
        measured = launch(kernel, memory, self.case.bindings)
        if self.judge.arithmetic == STRICT and not has_float_tiles(program):
            self._check_same(program, measured, results, Symptom.VALUE)
        self._compare(measured, self._device_oracle(program).difference)
        return measured

    def _check_launches(self, program: Program, results: Results) -> None:
        """Check repeated launches of one kernel: first with other data, and last in other memory.

        The second launch uses the memory of the first. If one fails, a single launch is checked
        first, and its error is raised instead.
        """
        kernel, memory, number = self._load(program), self._memory(), 1
        memory.fill(other_data(self.case))
        try:
            launch(kernel, memory, self.case.bindings)
            number += 1
            memory.fill(self.case.buffers)
            measured = self._check_launch(kernel, memory, results)
            number += 1
            # The buffers move, and start at any element.
            shifts = not any(isinstance(node.dtype, ImageDType) for node in program.uops)
            again = launch(kernel, self._memory(1, shifts), self.case.bindings)
            self._check_same(program, again, measured, Symptom.VALUE)
        except RunError as trouble:
            self._check_launch(self._load(program), self._memory(), results)
            symptom = Symptom.UNSTABLE if trouble.symptom is Symptom.VALUE else trouble.symptom
            detail = f"{trouble.detail}, in launch {number} of 3, the first has other data"
            raise RunError(symptom, detail) from trouble

    # Kernels that compute the same

    def _equivalent(self, equivalent: Equivalent) -> None:
        """Check that evaluator and device give the same for the equivalent kernel."""
        if declared_lack(equivalent.ast, self.judge.capabilities):
            return
        for where, run in (("evaluator", self._evaluate), ("device", self._run_optimised)):
            problem = self._problem_of(run, equivalent.ast)
            if problem is not None:
                steps = " ".join(equivalent.labels)
                blamed = self._first_wrong_step(equivalent, run)
                detail = f"{where}, wrong after {blamed} in {steps}: {problem.detail}"
                raise DisagreementError(Pair.EQUIVALENT, problem.symptom, detail)

    def _problem_of(self, run: Callable[[UOp], CheckedRun], ast: UOp) -> RunError | None:
        try:
            results, oracle = run(ast)
            self._compare(results, oracle.difference)
        except RunError as trouble:
            return trouble
        return None

    def _first_wrong_step(self, equivalent: Equivalent, run: Callable[[UOp], CheckedRun]) -> str:
        """Return the label of the first transformation after which the value changes."""
        for label, ast in equivalent.trail:
            if self._problem_of(run, ast) is not None:
                return label
        return "no step"

    def _evaluate(self, ast: UOp) -> CheckedRun:
        with errors_from(lambda: "evaluator"):
            results = evaluate(ast, dict(enumerate(self.case.buffers)), self.case.bindings)
            return results, self.oracle
        raise AssertionError("unreachable")

    def _run_optimised(self, ast: UOp) -> CheckedRun:
        with errors_from(lambda: "heuristics"), config.Context(CPU_LEVEL=self.levels[0]):
            program = self._compile(ast, None).program
            return self._launch(program), self._device_oracle(program)
        raise AssertionError("unreachable")


def _sentence(
    slot: int, numbers: npt.NDArray[np.intp], actual: Array, expected: Array, how: str
) -> str:
    """Describe the first difference."""
    at = int(numbers[0])
    subject = f"output b{slot}: element {at} of {actual.size} is {actual[at]!s}"
    if how:
        return f"{subject} {how}, and {expected[at]!s} in the first run"
    return f"{subject}, the reference gives {expected[at]!s}"
