"""Compile a kernel once, find its first wrong stage, and take a limited number of steps.

The evaluator computes a kernel AST, and the interpreter a program. The graphs between them are only
checked against the rules of their dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref import config
from tinyref.algebra.rewrite import Steps, listening
from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import STAGES, compile_kernel
from tinyref.errors import VerifyError
from tinyref.interpret import Interpreter
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.uops.program import Program
from tinyref.verify import verify
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.oracles import Oracle
from tinyref_spec.kernel_case import Array

OPTIMISE = "optimise"


@dataclass(frozen=True)
class BlamedKernel:
    """A kernel with its data and the oracle of its results."""

    ast: UOp
    buffers: tuple[Array, ...]
    bindings: Mapping[str, int]
    oracle: Oracle
    against: Mapping[int, Array] = field(default_factory=dict)
    """The results of another program, which must match as far as the oracle requires."""

    @property
    def slots(self) -> dict[int, Array]:
        """Return the contents by slot."""
        return dict(enumerate(self.buffers))

    def difference(self, written: Mapping[int, Array]) -> str:
        """Describe how the contents after a run differ from what is allowed, or return ""."""
        for slot in self.oracle.slots:
            actual = written.get(slot, self.buffers[slot])
            problem = self.oracle.difference(slot, actual, against=self.against.get(slot))
            if problem:
                return problem
        for slot, actual in written.items():
            if slot not in self.oracle.slots and actual.tobytes() != self.buffers[slot].tobytes():
                return f"input b{slot} changes, although it is only read"
        return ""


@dataclass(frozen=True)
class WrongStage:
    """The first stage with a wrong result, and the problem."""

    stage: str
    problem: str
    is_error: bool = False
    """True if the compiler raised the problem as an error."""


class Compile:
    """One compile with the optimisations `opts`, up to `limit` optional steps.

    `graphs` are the results of the stages, `steps` the optional steps that were taken, and `error`
    is the exception that ended the compile.
    """

    def __init__(
        self,
        subject: BlamedKernel,
        capabilities: Capabilities,
        opts: Sequence[Opt],
        limit: int | None = None,
    ) -> None:
        self.subject = subject
        self.capabilities = capabilities
        self.opts = tuple(opts)
        self.graphs: dict[str, UOp] = {}
        self.error: Exception | None = None
        self.program: Program | None = None
        self.reached = ""
        counted = Steps(limit)
        self.steps = counted.taken

        def note(stage: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
            self.reached = stage
            if isinstance(after, UOp):
                self.graphs[stage] = after

        flags = config.Context(VERIFY=2, SANITIZE=1, THREADS=THREADS)
        try:
            with flags, listening(stages=note, steps=counted):
                self.program = compile_kernel(subject.ast, capabilities, opts=opts)
        except Exception as error:  # a faulty compiler may raise anything
            self.error = error

    def again(self, limit: int) -> Compile:
        """Return the same compile with a limit of optional steps."""
        return Compile(self.subject, self.capabilities, self.opts, limit)

    def first_wrong(self, last: str = STAGES[-1]) -> WrongStage | None:
        """Return the first stage up to `last` whose result is wrong; None if all are right."""
        for stage in STAGES[: STAGES.index(last) + 1]:
            problem = self.problem(stage)
            if problem:
                return WrongStage(stage, problem)
        return self._raised()

    def _raised(self) -> WrongStage | None:
        if self.error is None:
            return None
        text = _words(self.error)
        if isinstance(self.error, KernelOptError):
            return WrongStage(OPTIMISE, text, is_error=True)
        is_of_stage = isinstance(self.error, VerifyError)
        if is_of_stage and self.reached in ("ast", "narrow", "linearise"):
            return WrongStage(self.reached, text, is_error=True)
        number = STAGES.index(self.reached) + 1 if self.reached else 0
        return WrongStage(STAGES[min(number, len(STAGES) - 1)], text, is_error=True)

    # One stage

    def problem(self, stage: str) -> str:
        """Describe the problem of the result of `stage`; "" also if it cannot be decided."""
        if stage == "linearise":
            return self._run() or self._run(backward=True)
        root = self.graphs.get(stage)
        if root is None:
            return ""
        if stage in ("ast", "normal"):
            return value_problem(self.subject, root)
        return self._invalid(stage, root)

    def _invalid(self, stage: str, root: UOp) -> str:
        """Describe the broken rule of the dialect, if it ended the compile."""
        if not isinstance(self.error, VerifyError) or self.error.rule.startswith("rewrite"):
            return ""
        try:
            verify(Dialect.INDEXED, root, allows_index=stage != "narrow")
        except VerifyError as error:
            return _words(error)
        return ""

    def _run(self, backward: bool = False) -> str:
        """Describe the problem of the program's result on the interpreter, or return ""."""
        if self.program is None:
            return ""
        buffers = [np.array(buffer) for buffer in self.subject.buffers]
        try:
            Interpreter(self.program).run(buffers, self.subject.bindings, backward=backward)
        except Exception as error:  # the program may be wrong in any way
            return _words(error)
        return self.subject.difference(dict(enumerate(buffers)))


def value_problem(subject: BlamedKernel, ast: UOp) -> str:
    """Describe the problem that the evaluator finds with a kernel AST, or return ""."""
    try:
        return subject.difference(evaluate(ast, subject.slots, subject.bindings))
    except Exception as error:  # a wrong AST may break the evaluator anywhere
        return _words(error)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
