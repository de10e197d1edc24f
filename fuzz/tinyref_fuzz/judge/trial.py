"""One case on its way through the judge: what is compiled, run and compared, in order.

Each value is computed once, and compared with the one before it, so that the first pair that
differs names the stage. On the way every program is checked against what the device declares, and
every launch by red zones, poison and the interpreter's sanitizer. Whatever is no agreement, no
refusal of what the device declares to lack, and no `KernelOptError`, is a fault.
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
from tinyref_fuzz.judge.guard import PATTERNS, Guarded, WrittenElements
from tinyref_fuzz.judge.judged_device import JudgedDevice
from tinyref_fuzz.judge.lacks import declared_lack
from tinyref_fuzz.judge.oracles import STRICT, Oracle, evaluator_problem, oracle_for
from tinyref_fuzz.judge.oracles.reference import semantics_fault
from tinyref_fuzz.judge.runs import (
    LinearisedKernel,
    TroubleError,
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
# What ran gave, and what it owed.
Owed = tuple[Results, Oracle]

# One program of so many gets the checks that cost as much as all others together. Programs of one
# case are alike: another case tells more than another program of the same.
THOROUGH_SHARE = 6
# All programs of one case of so many if it has more outputs than these.
SELDOM_SHARE = 16
MANY_OUTPUTS = 4
# How a verdict of a device ends for which LLVM compiles at several levels.
AT_LEVEL = "at CPU_LEVEL="
# Of `linearise`: any number gives a legal order.
SHUFFLE = 1


def has_many_outputs(case: KernelCase) -> bool:
    """Whether the kernel is one that tries many values, rather than axes, orders and launches."""
    return len(case.ast.src) > MANY_OUTPUTS


def case_number(case: KernelCase) -> int:
    """A number of the case that is the same on any machine."""
    ops = ",".join(node.op.name for node in case.ast.toposort())
    return zlib.crc32(f"{case.choices} {ops}".encode())


class DisagreementError(Exception):
    """Ends the judging of a case: what does not agree."""

    def __init__(self, pair: Pair, symptom: Symptom, detail: str) -> None:
        self.verdict = KernelVerdict(pair, symptom, detail)
        super().__init__(detail)


@contextlib.contextmanager
def between(pair: Pair) -> Iterator[None]:
    """A `TroubleError` inside is a disagreement of `pair`."""
    try:
        yield
    except TroubleError as trouble:
        raise DisagreementError(pair, trouble.symptom, trouble.detail) from trouble


class Trial:
    """One case on its way; `number` is the list of optimisations at work.

    lot: a number of the case that decides which of its programs get all checks.
    """

    def __init__(
        self,
        judge: JudgedDevice,
        case: KernelCase,
        lot: int,
        thorough: bool | None,
        levels: tuple[int, ...],
    ) -> None:
        self.judge = judge
        self.case = case
        self.lot = lot
        self.thorough = thorough
        self.levels = levels
        self.number = -1
        self.is_quick = thorough is None and has_many_outputs(case) and not self.everything
        self.judged = 0
        # What the programs gave of which interpreter and device agree.
        self.known: dict[Program, Results] = {}

    @property
    def everything(self) -> bool:
        """Whether the program at work gets all checks."""
        if self.thorough is not None:
            return self.thorough
        if has_many_outputs(self.case):
            return self.lot % SELDOM_SHARE == 0
        return (self.lot + self.number) % THOROUGH_SHARE == 0

    def run(self) -> None:
        """Raises `DisagreementError` where two values differ."""
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
        """The semantics of the ops, by the spec's references; of some cases also the evaluator."""
        fault = semantics_fault(self.case.ast.toposort())
        problem = fault.detail if fault is not None else ""
        if not problem and self.everything:
            problem = evaluator_problem(self.case)
        if problem:
            raise TroubleError(Symptom.VALUE, f"evaluator: {problem}")

    def _is_right_optimised(self) -> bool:
        """Whether a case of many values is right in its only optimised program.

        Then the plain one has little to add. Where it is wrong all are judged, in their order.
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
            # The same values again: another kernel of many outputs tells more in that time.
            return ()
        with between(Pair.OPTIMISED), errors_from(lambda: "heuristics"):
            try:
                return self.judge.trials(self.case)
            except KernelOptError as error:
                raise TroubleError(Symptom.ERROR, f"heuristics: {error}") from error

    def _judge_optimised(self, opts: Opts, plain: Results | None = None) -> None:
        """Judges one list. Raises `KernelOptError` where this device refuses it.

        `plain` is what the program without optimisations gave, if it ran.
        """
        with between(Pair.OPTIMISED):
            program = self._compile(self.case.ast, opts)

        def differs(slot: int, actual: Array) -> str:
            against = None if plain is None else plain[slot]
            return self.oracle.difference(slot, actual, against=against)

        self._value(Pair.OPTIMISED, program, differs)
        self.judged += 1

    def _compile(self, ast: UOp, opts: Sequence[Opt] | None) -> LinearisedKernel:
        """Return the compiled program. Raises `TroubleError`."""
        # The interpreter sees all accesses of this launch; with variables there are others. Without
        # them it is the check itself that is tried, on one program of a case.
        checks_bounds = bool(self.case.bindings) or (self.everything and opts == ())
        return compile_checked(ast, self.judge.capabilities, opts, checks_bounds)

    def _differs_from_evaluator(self, slot: int, actual: Array) -> str:
        return self.oracle.difference(slot, actual)

    def _device_oracle(self, program: Program) -> Oracle:
        """What a program may give on the device, by what that declares of its floats."""
        return self._tile_oracle if has_float_tiles(program) else self.device_oracle

    @functools.cached_property
    def _tile_oracle(self) -> Oracle:
        arithmetic = replace(self.judge.arithmetic, multiplies_tiles=True)
        return oracle_for(self.case, arithmetic)

    # One program

    def _value(
        self, pair: Pair, program: LinearisedKernel, differs: Callable[[int, Array], str]
    ) -> Results:
        """What the interpreter gives for a program, once it and the device agree.

        Where the interpreter is the device, some programs go through their text, too. Lists of
        optimisations that come to one program are judged once, but for those with all checks.
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
            except DisagreementError as found:
                fault = found.verdict
        with between(pair):
            results = interpret(program.program, self._memory(), self.case.bindings)
            self._compare(results, differs)
            self._check_orders(program, results)
        if fault is not None and fault.symptom is not None:
            # The program is right, so that its text, or the reading of it, is not.
            raise DisagreementError(Pair.DEVICE, fault.symptom, fault.detail)
        if self.everything or not self.judge.is_reference:
            self._check_device(program.program, results)
        return results

    def _compare(self, results: Results, differs: Callable[[int, Array], str]) -> None:
        for slot, actual in results.items():
            problem = differs(slot, actual)
            if problem:
                raise TroubleError(Symptom.VALUE, problem)

    def _memory(self, pattern: int = 0, shifted: bool = False) -> Guarded:
        alignment = self.judge.capabilities.view_alignment
        return Guarded(self.case.buffers, self.outputs, PATTERNS[pattern], shifted, alignment)

    def _launch(self, program: Program) -> Results:
        """What the device gives, after a compile of its own."""
        return launch(self._load(program), self._memory(), self.case.bindings)

    # Two runs of one program

    def _check_same(
        self,
        program: Program,
        actual: Results,
        wanted: Results,
        symptom: Symptom,
        how: str = "",
    ) -> None:
        """Two runs of one program gave the same. Raises `TroubleError`."""
        if is_approximate(program) or not config.integer("STRICT_FLOAT"):
            # Only the evaluator decides, for which the caller's data need not be.
            return
        zeros_differ = not has_float_maximum(program)
        for slot, values in actual.items():
            differs = differing_bits(values, wanted[slot], zeros_differ)
            allowed = self.oracle.allowed[slot]
            numbers = np.flatnonzero(allowed.where_known(differs))
            if numbers.size:
                raise TroubleError(symptom, _sentence(slot, numbers, values, wanted[slot], how))

    def _check_orders(self, made: LinearisedKernel, results: Results) -> None:
        """The same on the interpreter with other poison, and in other orders."""
        if not self.everything:
            return
        with errors_from(lambda: "another order of the nodes"):
            shuffled = made.shuffle(SHUFFLE)
        how = "with other poison around, in other orders of nodes and work-items"
        try:
            # All at once, as it seldom matters; one by one where it does.
            again = interpret(shuffled, self._memory(1), self.case.bindings, backward=True)
            self._check_same(made.program, again, results, Symptom.VALUE, how)
        except TroubleError:
            self._check_each_order(made.program, shuffled, results)
            raise

    def _check_each_order(self, program: Program, shuffled: Program, results: Results) -> None:
        """Raises `TroubleError` for the first change alone that matters."""
        bindings = self.case.bindings
        again = interpret(program, self._memory(1), bindings)
        self._check_same(program, again, results, Symptom.ACCESS, "with other poison around")
        again = interpret(program, self._memory(1), bindings, backward=True)
        self._check_same(program, again, results, Symptom.RACE, "with work-items in reverse order")
        again = interpret(shuffled, self._memory(), bindings)
        self._check_same(program, again, results, Symptom.VALUE, "in another order of the nodes")

    # The device

    def _check_device(self, program: Program, results: Results) -> None:
        """The device gives what the interpreter gave, at each level of LLVM that it has."""
        with between(Pair.DEVICE):
            for level in self.levels:
                try:
                    self._check_at_level(level, program, results)
                except TroubleError as trouble:
                    if not self.judge.has_levels:
                        raise
                    detail = f"{trouble.detail}, {AT_LEVEL}{level}"
                    raise TroubleError(trouble.symptom, detail) from trouble

    def _check_at_level(self, level: int, program: Program, results: Results) -> None:
        with config.Context(CPU_LEVEL=level):
            repeats = self.everything and level == self.levels[-1]
            if self.thorough or not repeats:
                self._check_launch(self._load(program), self._memory(), results)
            if repeats:
                self._check_launches(program, results)

    def _load(self, program: Program) -> Kernel:
        return load_kernel(self.judge.backend, self.judge.device, program)

    def _check_launch(self, kernel: Kernel, memory: Guarded, results: Results) -> Results:
        """Return what one launch gives, which is right. Raises `TroubleError`."""
        program = kernel.program
        measured = launch(kernel, memory, self.case.bindings)
        if self.judge.arithmetic == STRICT and not has_float_tiles(program):
            self._check_same(program, measured, results, Symptom.VALUE)
        self._compare(measured, self._device_oracle(program).difference)
        return measured

    def _check_launches(self, program: Program, results: Results) -> None:
        """Check launches of one kernel: after one with other data, and then in other memory.

        The second uses the memory of the first. Raises what a launch alone shows, if that fails.
        """
        kernel, memory, number = self._load(program), self._memory(), 1
        memory.fill(other_data(self.case))
        try:
            launch(kernel, memory, self.case.bindings)
            number += 1
            memory.fill(self.case.buffers)
            measured = self._check_launch(kernel, memory, results)
            number += 1
            # The buffers lie elsewhere, and start at any element.
            shifts = not any(isinstance(node.dtype, ImageDType) for node in program.uops)
            again = launch(kernel, self._memory(1, shifts), self.case.bindings)
            self._check_same(program, again, measured, Symptom.VALUE)
        except TroubleError as trouble:
            self._check_launch(self._load(program), self._memory(), results)
            symptom = Symptom.UNSTABLE if trouble.symptom is Symptom.VALUE else trouble.symptom
            detail = f"{trouble.detail}, in launch {number} of 3, the first has other data"
            raise TroubleError(symptom, detail) from trouble

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

    def _problem_of(self, run: Callable[[UOp], Owed], ast: UOp) -> TroubleError | None:
        try:
            results, oracle = run(ast)
            self._compare(results, oracle.difference)
        except TroubleError as trouble:
            return trouble
        return None

    def _first_wrong_step(self, equivalent: Equivalent, run: Callable[[UOp], Owed]) -> str:
        """The label of the first transformation after which the value is another."""
        for label, ast in equivalent.trail:
            if self._problem_of(run, ast) is not None:
                return label
        return "no step"

    def _evaluate(self, ast: UOp) -> Owed:
        with errors_from(lambda: "evaluator"):
            results = evaluate(ast, dict(enumerate(self.case.buffers)), self.case.bindings)
            return results, self.oracle
        raise AssertionError("unreachable")

    def _run_optimised(self, ast: UOp) -> Owed:
        with errors_from(lambda: "heuristics"), config.Context(CPU_LEVEL=self.levels[0]):
            program = self._compile(ast, None).program
            return self._launch(program), self._device_oracle(program)
        raise AssertionError("unreachable")


def _sentence(
    slot: int, numbers: npt.NDArray[np.intp], actual: Array, wanted: Array, how: str
) -> str:
    """What differs first."""
    at = int(numbers[0])
    found = f"output b{slot}: element {at} of {actual.size} is {actual[at]!s}"
    if how:
        return f"{found} {how}, and {wanted[at]!s} in the first run"
    return f"{found}, the reference gives {wanted[at]!s}"
