"""Names the stage to blame for a verdict, and inside of it the pass, rule or optimisation.

First the values after each stage of the failing compile are compared (`stages`): the first wrong
one names the stage. Then the number of optional steps is bisected, as LLVM's opt-bisect-limit does:
the step at which the value of that stage changes is a rule, an optimisation or a pass. If the value
is wrong without any step, the mandatory lowering of the stage is to blame. Semantics, evaluator and
interpreter are judged by other means alone: the references of the spec, and a device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tinyref import config
from tinyref.algebra.bounds import value_range
from tinyref.algebra.rewrite import Step
from tinyref.codegen.compile import STAGES as COMPILE_STAGES
from tinyref.codegen.compile import plan_for
from tinyref.codegen.decompose import passes
from tinyref.errors import TinyrefError
from tinyref.interpret import Fault, run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.runtimes.kernel import compile_program
from tinyref.uops.node import UOp
from tinyref_fuzz.blame.graph import node_values
from tinyref_fuzz.blame.stages import OPTIMISE, Compile, Subject, Wrong, graph_problem
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.judge import Judge, buffers_with
from tinyref_fuzz.judge.oracles import Oracle, oracle_for
from tinyref_fuzz.judge.oracles.reference import (
    THOROUGHLY_SAMPLED,
    evaluator_fault,
    semantics_fault,
)
from tinyref_spec.kernel_case import Array, Blame, Case, Opts, Pair, Verdict

# The device that has the last word on the interpreter.
REFEREE = "GPU_EMU"
BOUNDS = "bounds"
_OF_ITEMS = (Fault.RACE, Fault.DIVERGENCE)
# No optional step changes the values of these.
_MANDATORY = frozenset({"accumulate", "linearise"})
# The stage of a fault that no compile shows again. Every graph of a plain program was right then,
# and the order of its nodes is left: so this is not `pair.STAGE_OF`.
_OF_PAIR: dict[Pair | None, str] = {
    Pair.PLAIN: "linearise",
    Pair.OPTIMISED: OPTIMISE,
    Pair.DEVICE: "device",
    Pair.EQUIVALENT: "evaluate",
}


def find_blame(case: Case, verdict: Verdict, device: str) -> Blame:
    """Return what is to blame for `verdict` of `case` on `device`.

    The cause is empty where nothing inside of the stage can be found. Where every value is right
    when it is computed again, the stage is the one that the pair of the verdict suggests, and the
    detail says so. Raises `UserError` for an unknown device.
    """
    return _Search(case, verdict, device).blame()


class _Search:
    def __init__(self, case: Case, verdict: Verdict, device: str) -> None:
        self.case = case
        self.verdict = verdict
        self.judge = Judge(device)
        self.capabilities = self.judge.capabilities

    def blame(self) -> Blame:
        by_reference = self._by_reference()
        if by_reference is not None:
            return by_reference
        if self.verdict.pair is Pair.DEVICE:
            return Blame("device", "", self.verdict.detail)
        if self.verdict.detail.startswith("evaluator:"):
            return Blame("evaluate", "", self.verdict.detail)
        try:
            subject = Subject(
                self.case.ast, self.case.buffers, self.case.bindings, oracle_for(self.case)
            )
        except Exception as error:  # the evaluator may be what is wrong
            return Blame("evaluate", "", f"{type(error).__name__}: {error}")
        if self.verdict.pair is Pair.EQUIVALENT:
            return self._of_equivalent(subject)
        for compiled in self._compiles(subject):
            blame = _of_compile(compiled)
            if blame is not None:
                return blame
        return self._unknown()

    def _by_reference(self) -> Blame | None:
        """Judge by the spec's references what all values may share, and the evaluator."""
        case = self.case
        try:
            fault = semantics_fault(self._nodes()) or evaluator_fault(
                case.ast, case.buffers, case.bindings, THOROUGHLY_SAMPLED
            )
        except Exception:  # an evaluator that raises is asked again below
            return None
        return Blame(fault.stage, fault.cause, fault.detail) if fault else None

    def _nodes(self) -> Iterator[UOp]:
        """The nodes of the kernel and of all graphs that its compiles make of it."""
        yield from self.case.ast.toposort()
        subject = Subject(self.case.ast, self.case.buffers, self.case.bindings, Oracle({}))
        for opts in dict.fromkeys(((), self.judge.failing_opts(self.case, self.verdict))):
            for root in Compile(subject, self.capabilities, opts).graphs.values():
                yield from root.toposort()

    def _compiles(self, subject: Subject) -> Iterator[Compile]:
        """The plain compile, then the optimised one that failed."""
        plain = Compile(subject, self.capabilities, ())
        yield plain
        opts = self.judge.failing_opts(self.case, self.verdict)
        if opts:
            against = replace(subject, against=_results_of(plain))
            yield Compile(against, self.capabilities, opts)

    def _of_equivalent(self, subject: Subject) -> Blame:
        """The evaluator, or whatever is wrong in the compile of the equivalent kernel."""
        equivalent = self.case.equivalent
        if equivalent is None:
            return self._unknown()
        for label, ast in equivalent.trail:
            if not _is_evaluated_alike(subject, ast):
                return Blame("evaluate", label, "the evaluator gives another value after it")
        for ast in (equivalent.ast, self.case.ast):
            other = replace(subject, ast=ast)
            for opts in dict.fromkeys(((), self._heuristics(ast))):
                blame = _of_compile(Compile(other, self.capabilities, opts))
                if blame is not None:
                    return blame
        return Blame("device", "", self.verdict.detail)

    def _heuristics(self, ast: UOp) -> Opts:
        try:
            with config.Context(THREADS=THREADS):
                return plan_for(ast, self.capabilities).opts
        except TinyrefError:
            return ()

    def _unknown(self) -> Blame:
        stage = _OF_PAIR.get(self.verdict.pair, "evaluate")
        text = f"every value is right when computed again; seen was: {self.verdict.detail}"
        return Blame(stage, "", text)


def _is_evaluated_alike(subject: Subject, ast: UOp) -> bool:
    try:
        return not subject.difference(evaluate(ast, subject.slots, subject.bindings))
    except Exception:  # whatever it is, the evaluator raised it
        return False


def _results_of(compiled: Compile) -> dict[int, Array]:
    """Return the results of the plain program, with which optimised ones must agree."""
    if compiled.program is None:
        return {}
    buffers = [np.array(buffer) for buffer in compiled.subject.buffers]
    try:
        run_program(compiled.program, buffers, compiled.subject.bindings)
    except Exception:  # then there is nothing to agree with
        return {}
    return {slot: buffers[slot] for slot in compiled.subject.oracle.slots}


# One compile


def _of_compile(compiled: Compile) -> Blame | None:
    """Return the blame for a wrong compile, or None for one that is right."""
    wrong = compiled.first_wrong()
    if wrong is None:
        return None
    if wrong.stage == "ast":
        return Blame("evaluate", "", wrong.problem)
    if wrong.stage == "linearise" and _is_right_on_referee(compiled, wrong):
        return Blame("interpret", "", wrong.problem)
    if wrong.stage in _MANDATORY and compiled.is_decided:
        return Blame(wrong.stage, "", wrong.problem)
    number = _first_wrong_step(compiled, wrong)
    if number is None:
        return Blame(wrong.stage, _mandatory_pass(compiled, wrong.stage), wrong.problem)
    step = compiled.steps[number]
    if step.kind == "pass":
        return Blame(wrong.stage, step.name, wrong.problem)
    if step.kind == "rule":
        rule = _guilty_rule(compiled, wrong, number)
        if rule:
            detail = f"after {wrong.stage}: {wrong.problem}; {step}: {step.node} -> {step.result}"
            return Blame("simplify", rule, detail)
    # A stage between the plan and the first value that could be computed may be wrong.
    stage = wrong.stage if compiled.is_decided else OPTIMISE
    return Blame(stage, _opt_at_fault(compiled, wrong), wrong.problem)


def _is_right_on_referee(compiled: Compile, wrong: Wrong) -> bool:
    """Return True if a device runs the program right that is wrong on the interpreter."""
    # A device that takes one work-item after the other shows no race.
    if compiled.program is None or any(f": {kind.value}" in wrong.problem for kind in _OF_ITEMS):
        return False
    subject = compiled.subject
    try:
        kernel = compile_program(REFEREE, compiled.program)
        buffers = buffers_with(REFEREE, subject.buffers)
        kernel(buffers, subject.bindings, wait=True)
        written = {
            slot: np.frombuffer(buffer.copy_out(), subject.buffers[slot].dtype)
            for slot, buffer in enumerate(buffers)
        }
    except Exception:  # it cannot run every program
        return False
    return not subject.difference(written)


def _first_wrong_step(compiled: Compile, wrong: Wrong) -> int | None:
    """Return the index of the step at which the stage goes wrong; None if no step is needed."""
    if _is_wrong_after(compiled, wrong, 0):
        return None
    right, failing = 0, len(compiled.steps)
    while failing - right > 1:
        middle = (right + failing) // 2
        if _is_wrong_after(compiled, wrong, middle):
            failing = middle
        else:
            right = middle
    return failing - 1 if failing else None


def _is_wrong_after(compiled: Compile, wrong: Wrong, limit: int) -> bool:
    return _is_as_wrong(compiled.again(limit), wrong)


def _is_as_wrong(compiled: Compile, wrong: Wrong) -> bool:
    """Return True if the stage is wrong in this compile too, in the same manner."""
    stage = wrong.stage if wrong.stage in COMPILE_STAGES else "normal"
    again = compiled.first_wrong(stage)
    return again is not None and (again.stage, again.is_error) == (wrong.stage, wrong.is_error)


def _mandatory_pass(compiled: Compile, stage: str) -> str:
    """Return the name of the first wrong pass of a stage that consists of passes, or ""."""
    root = compiled.graphs.get("accumulate")
    if stage == "normal":
        return "normal_form"
    if stage != "decompose" or root is None:
        return ""
    for name, apply in passes(root, compiled.capabilities):
        try:
            root = apply(root)
            if graph_problem(compiled.subject, root):
                return name
        except Exception:  # a pass that raises is wrong too
            return name
    return ""


# Which rule


def _guilty_rule(compiled: Compile, wrong: Wrong, number: int) -> str:
    """Return the rule of a step, or the range that it believed; "" if it only enables the fault.

    The values of earlier stages are right, so their rules are innocent.
    """
    before = COMPILE_STAGES.index(wrong.stage) - 1 if wrong.stage in COMPILE_STAGES else 0
    if compiled.is_decided and number < compiled.counts.get(COMPILE_STAGES[before], 0):
        return ""
    step = compiled.steps[number]
    if wrong.stage != "simplify" and not wrong.is_error and _has_equal_sides(compiled, step):
        return ""
    return BOUNDS if _has_wrong_range(compiled, step) else step.name


def _has_equal_sides(compiled: Compile, step: Step) -> bool:
    subject = compiled.subject
    if step.node is None or step.result is None:
        return False
    try:
        before, after = node_values((step.node, step.result), subject.slots, subject.bindings)
    except Exception:  # a node without a value by itself
        return False
    with np.errstate(all="ignore"):
        return bool(((before == after) | ((before != before) & (after != after))).all())


def _has_wrong_range(compiled: Compile, step: Step) -> bool:
    """Return True if the known range of a value below the rule's node does not hold the value."""
    subject = compiled.subject
    for node in step.node.toposort() if step.node is not None else ():
        if not (node.dtype.is_int or node.dtype.is_bool):
            continue
        try:
            span = value_range(node)
            (value,) = node_values((node,), subject.slots, subject.bindings)
        except Exception:  # a node without a value by itself
            continue
        exact = value.astype(object)
        if span is not None and ((exact < span[0]) | (exact > span[1])).any():
            return True
    return False


# Which optimisation


def _opt_at_fault(compiled: Compile, wrong: Wrong) -> str:
    """Return the name of the optimisation with which the stage goes wrong, or ""."""
    for count in range(len(compiled.opts) + 1):
        opts = compiled.opts[:count]
        if _is_as_wrong(Compile(compiled.subject, compiled.capabilities, opts), wrong):
            return opts[-1].op.value if opts else ""
    return ""
