"""One compile of a kernel, stage by stage, each stage's value computed by means of its own.

The kernel AST by the evaluator, indexed kernels by `graph`, those with accumulators by the naive
order of `order` on the interpreter, the program on the interpreter; where that says that one is
wrong, `scalar` says whether it is the interpreter.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref import config
from tinyref.algebra.evaluate import launch_grid
from tinyref.algebra.rewrite import listening
from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import STAGES, compile_kernel
from tinyref.codegen.linearise.linearise import linearise
from tinyref.errors import TinyrefError, UserError, VerifyError
from tinyref.interpret import Interpreter
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import Opt
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.uops.program import Program
from tinyref.verify import verify
from tinyref.verify.index_bounds import check_index_bounds
from tinyref_fuzz.blame.graph import evaluate_graph, group_of
from tinyref_fuzz.blame.order import naive_program, run_graph
from tinyref_fuzz.blame.scalar import run_scalar
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.oracles import Oracle

Array = npt.NDArray[Any]

GRAPHS = ("lower", "simplify", "expand")
LINEAR_GRAPHS = ("accumulate", "decompose", "narrow")
# Orders of a program's nodes that are tried besides the compiler's own.
SEEDS = (1, 2)


@dataclass(frozen=True)
class Subject:
    """A kernel with its data and what it must give.

    against: what another program gave for it, with which it must agree as far as the oracle says.
    """

    ast: UOp
    buffers: tuple[Array, ...]
    bindings: Mapping[str, int]
    oracle: Oracle
    against: Mapping[int, Array] = field(default_factory=dict)

    @property
    def slots(self) -> dict[int, Array]:
        """The contents by slot."""
        return dict(enumerate(self.buffers))

    def difference(self, written: Mapping[int, Array]) -> str:
        """How the contents after a run differ from what is allowed, or ""."""
        for slot in self.oracle.slots:
            actual = written.get(slot, self.buffers[slot])
            problem = self.oracle.difference(slot, actual, against=self.against.get(slot))
            if problem:
                return problem
        for slot, actual in written.items():
            if slot not in self.oracle.slots and actual.tobytes() != self.buffers[slot].tobytes():
                return f"slot {slot} changes, which is only read"
        return ""


class Chain:
    """One compile with the optimisations `opts`: what each stage gave, and how it ended.

    error: what was raised. reached: the last stage that was compared.
    """

    def __init__(self, subject: Subject, capabilities: Capabilities, opts: Sequence[Opt]) -> None:
        self.subject = subject
        self.capabilities = capabilities
        self.opts = tuple(opts)
        self.given: dict[str, UOp | tuple[UOp, ...]] = {}
        self.error: Exception | None = None
        self.program: Program | None = None
        try:
            self.program = self.compile()
        except Exception as error:  # a compiler that is wrong may raise anything
            self.error = error

    def compile(self) -> Program:
        """The compile itself, to be listened to again."""

        def note(stage: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
            self.given[stage] = after

        flags = config.Context(VERIFY=1, SANITIZE=1, THREADS=THREADS)
        with flags, listening(stages=note):
            return compile_kernel(self.subject.ast, self.capabilities, opts=self.opts)

    def graph(self, stage: str) -> UOp | None:
        """The root that a stage gave."""
        found = self.given.get(stage)
        return found if isinstance(found, UOp) else None

    def graphs(self, last: str) -> list[UOp]:
        """The indexed kernels of all stages up to `last`."""
        stages = STAGES[: STAGES.index(last) + 1] if last in STAGES else STAGES
        found = (self.graph(each) for each in (*GRAPHS, *LINEAR_GRAPHS) if each in stages)
        return [root for root in found if root is not None]

    @functools.cached_property
    def first_wrong(self) -> tuple[str, str] | None:
        """The first stage whose result is wrong, and how; None where all of them are right."""
        invalid = self._first_invalid() if self._breaks_a_rule() else ""
        for stage in STAGES:
            problem = self.problem(stage)
            if not problem and stage == invalid:
                problem = _words(self.error) if self.error is not None else ""
            if problem:
                return stage, problem
        return self.raised_error()

    def _breaks_a_rule(self) -> bool:
        """Whether the compile ended at a graph that its dialect does not allow."""
        return isinstance(self.error, VerifyError) and not self.error.rule.startswith("rewrite")

    def raised_error(self) -> tuple[str, str] | None:
        """The stage that raised an error, and the error; None without one."""
        if self.error is None:
            return None
        text = _words(self.error)
        reached = list(self.given)[-1] if self.given else ""
        if isinstance(self.error, VerifyError) and reached in ("ast", "narrow", "linearise"):
            return reached, text
        if reached == "ast" and self.opts and self._has_plan():
            return "optimise", text
        number = STAGES.index(reached) + 1 if reached else 0
        return STAGES[min(number, len(STAGES) - 1)], text

    def _has_plan(self) -> bool:
        """Whether there is a plan without optimisations."""
        try:
            Plan.of(self.subject.ast, self.capabilities)
        except Exception:  # whatever it is, the normal form raised it
            return False
        return True

    def _first_invalid(self) -> str:
        """The first stage whose graph breaks a rule of its dialect."""
        for stage in (*GRAPHS, *LINEAR_GRAPHS):
            root = self.graph(stage)
            try:
                if root is not None:
                    verify(Dialect.INDEXED, root, allows_index=stage != "narrow")
            except VerifyError:
                return stage
        return ""

    # One stage

    def problem(self, stage: str) -> str:
        """What is wrong with the value after `stage`, or "" also where that cannot be decided."""
        if stage == "linearise":
            return self._program_problem()
        root = self.graph(stage)
        if root is None:
            return ""
        if stage in ("ast", "normal"):
            return value_problem(self.subject, root)
        if stage in GRAPHS:
            return graph_problem(self.subject, root)
        return linear_problem(self.subject, root)

    def _program_problem(self) -> str:
        return "" if self.program is None else self._run(self.program)

    def _run(self, program: Program, backward: bool = False) -> str:
        buffers = [np.array(buffer) for buffer in self.subject.buffers]
        try:
            Interpreter(program).run(buffers, self.subject.bindings, backward=backward)
        except Exception as error:  # the program may be wrong in any way
            return _words(error)
        return self.subject.difference(dict(enumerate(buffers)))

    def is_right_by_reference(self, stage: str) -> bool:
        """Whether the program of a stage is right where each op is the spec's reference.

        Only asked of a value: races and accesses are not looked at. False also for what is not run
        so, see `run_scalar`.
        """
        subject, root = self.subject, self.graph(stage)
        try:
            if self.program is not None and stage == "linearise":
                grid = launch_grid(self.program, subject.bindings)
                launch = self.program.uops, grid, self.program.group
            elif root is not None:
                groups, items = (group_of(root, s, subject.bindings) for s in ("group", "item"))
                launch = naive_program(root).uops, groups, items
            else:
                return False
            found = run_scalar(launch[0], subject.slots, subject.bindings, *launch[1:])
        except Exception:  # a wrong compiler may give what nobody can run
            return False
        return not subject.difference(found)

    def wrong_in_other_orders(self) -> tuple[str, str] | None:
        """Whether the program is wrong in another order of its nodes or of the work-items."""
        root = self.graph("narrow")
        if self.program is None or root is None:
            return None
        problem = self._run(self.program, backward=True)
        if problem:
            return "linearise", f"with work-items in reverse order: {problem}"
        for seed in SEEDS:
            try:
                uops = linearise(root, seed)
                verify(Dialect.PROGRAM, uops)
                problem = self._run(replace(self.program, uops=uops))
            except TinyrefError as error:
                problem = _words(error)
            if problem:
                return "linearise", f"in another order of its nodes: {problem}"
        return None

    def first_outside(self) -> tuple[str, str] | None:
        """The first stage with an access that may leave its buffer for some binding."""
        for stage in (*GRAPHS, *LINEAR_GRAPHS[:-1]):
            root = self.graph(stage)
            try:
                if root is not None:
                    check_index_bounds(root)
            except VerifyError as error:
                return stage, _words(error)
            except Exception:  # nothing that this check could read
                continue
        return None


class _ReachedError(Exception):
    """Ends a compile after the stage that is asked for."""


def graph_after(
    stage: str, ast: UOp, capabilities: Capabilities, opts: Sequence[Opt]
) -> UOp | None:
    """The graph that a stage gives, without the stages behind it; None where it gives none.

    Errors as of `compile_kernel`.
    """
    given: list[UOp] = []

    def note(reached: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
        if reached == stage and isinstance(after, UOp):
            given.append(after)
            raise _ReachedError

    flags = config.Context(VERIFY=1, THREADS=THREADS)
    with flags, contextlib.suppress(_ReachedError), listening(stages=note):
        compile_kernel(ast, capabilities, opts=opts)
    return given[0] if given else None


def value_problem(subject: Subject, ast: UOp) -> str:
    """What the evaluator finds wrong with a kernel AST."""
    try:
        return subject.difference(evaluate(ast, subject.slots, subject.bindings))
    except Exception as error:  # a wrong AST may break the evaluator anywhere
        return _words(error)


def graph_problem(subject: Subject, root: UOp) -> str:
    """What is wrong with an indexed kernel before accumulation; "" where it is too large."""
    try:
        found = evaluate_graph(root, subject.slots, subject.bindings)
    except UserError:
        return ""
    except Exception as error:
        return _words(error)
    if found.faults:
        return f"{found.faults[0].symptom.name}: {found.faults[0].text}"
    return subject.difference(found.written)


def linear_problem(subject: Subject, root: UOp) -> str:
    """What is wrong with an indexed kernel after accumulation."""
    try:
        return subject.difference(run_graph(root, subject.slots, subject.bindings))
    except Exception as error:
        return _words(error)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
