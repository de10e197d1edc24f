"""Find the stage to blame for a verdict, and in it the pass, rule or optimisation.

The number of optional steps of the failing compile is bisected, as LLVM's opt-bisect-limit does.
The step at which the result changes is a rule, an optimisation or a pass. If the program is wrong
without any step, a mandatory lowering is to blame. Another order of its nodes, a device that needs
less, or a kernel without loops tells which.

Semantics, evaluator and interpreter are judged by other means: the references of the spec, a second
evaluator, and a device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tinyref import config
from tinyref.algebra.rewrite import OptionalStep
from tinyref.capabilities import OP_NAMES, Capabilities
from tinyref.codegen.compile import STAGES, plan_for
from tinyref.codegen.decompose import SMALL_FLOATS, WIDE_INTEGERS
from tinyref.codegen.decompose.small_integers import SMALL_INTEGERS
from tinyref.errors import TinyrefError
from tinyref.interpret import SanitizerError, run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.runtimes.kernel import compile_program
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind
from tinyref_fuzz.blame.rules import guilty_rule
from tinyref_fuzz.blame.stages import OPTIMISE, BlamedKernel, Compile, WrongStage
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.judge import Judge, buffers_with
from tinyref_fuzz.judge.lacks import has_long_positions
from tinyref_fuzz.judge.oracles import Oracle, evaluator_problem, oracle_for
from tinyref_fuzz.judge.oracles.reference import semantics_fault
from tinyref_fuzz.judge.runs import LinearisedKernel
from tinyref_spec.kernel_case import Array, Blame, KernelCase, KernelVerdict, Opts, Pair

# The device that decides whether the interpreter is wrong.
REFEREE = "GPU_EMU"
_STAGE_OF_PASS = {"constant_division": "decompose"}
# Optimisations that split an axis in the same way, but need no expansion of lanes.
_WITHOUT_LANES = {"UPCAST": OptOp.LOCAL, "UNROLL": OptOp.GROUP}
# The stage of a fault that no compile reproduces. The plain program was right in its own order, so
# other orders of its nodes remain; that is why this is not `pair.STAGE_OF`.
_OF_PAIR: dict[Pair | None, str] = {
    Pair.PLAIN: "linearise",
    Pair.OPTIMISED: OPTIMISE,
    Pair.DEVICE: "device",
    Pair.EQUIVALENT: "evaluate",
}


def find_blame(case: KernelCase, verdict: KernelVerdict, device: str) -> Blame:
    """Return what is to blame for `verdict` of `case` on `device`.

    The cause is empty if nothing inside the stage can be identified. If every value is right when
    it is computed again, the stage is the one that the pair suggests, and the detail says so.
    Raises `UserError` for an unknown device.
    """
    return _Search(case, verdict, device).blame()


class _Search:
    def __init__(self, case: KernelCase, verdict: KernelVerdict, device: str) -> None:
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
            subject = BlamedKernel(
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
        """Check the semantics by the spec's references, and the evaluator by a second one."""
        case = self.case
        try:
            fault = semantics_fault(self._nodes())
            problem = evaluator_problem(case)
        except Exception:  # an evaluator that raises is examined below
            return None
        if fault is not None:
            return Blame("semantics", fault.cause, fault.detail)
        return Blame("evaluate", "", problem) if problem else None

    def _nodes(self) -> Iterator[UOp]:
        """Yield the nodes of the kernel and of all graphs of its compiles."""
        yield from self.case.ast.toposort()
        subject = BlamedKernel(self.case.ast, self.case.buffers, self.case.bindings, Oracle({}))
        for opts in dict.fromkeys(((), self.judge.failing_opts(self.case, self.verdict))):
            for root in Compile(subject, self.capabilities, opts).graphs.values():
                yield from root.toposort()

    def _compiles(self, subject: BlamedKernel) -> Iterator[Compile]:
        """Yield the plain compile, then the optimised one that failed."""
        plain = Compile(subject, self.capabilities, ())
        yield plain
        opts = self.judge.failing_opts(self.case, self.verdict)
        if opts:
            against = replace(subject, against=_results_of(plain))
            yield Compile(against, self.capabilities, opts)

    def _of_equivalent(self, subject: BlamedKernel) -> Blame:
        """Blame the evaluator, or what is wrong in the compile of the equivalent kernel."""
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
        text = f"every value is right when computed again; the verdict was: {self.verdict.detail}"
        return Blame(stage, "", text)


def _is_evaluated_alike(subject: BlamedKernel, ast: UOp) -> bool:
    try:
        return not subject.difference(evaluate(ast, subject.slots, subject.bindings))
    except Exception:  # whatever it is, the evaluator raised it
        return False


def _results_of(compiled: Compile) -> dict[int, Array]:
    """Return the results of the plain program, which optimised programs must match."""
    if compiled.program is None:
        return {}
    buffers = [np.array(buffer) for buffer in compiled.subject.buffers]
    try:
        run_program(compiled.program, buffers, compiled.subject.bindings)
    except Exception:  # then there is nothing to compare with
        return {}
    return {slot: buffers[slot] for slot in compiled.subject.oracle.slots}


# One compile


def _of_compile(compiled: Compile) -> Blame | None:
    """Return the blame for a wrong compile, or None for a right one."""
    wrong = compiled.first_wrong()
    if wrong is None:
        return None
    if wrong.stage == "ast":
        return Blame("evaluate", "", wrong.problem)
    is_of_program = wrong.stage == STAGES[-1] and not wrong.is_error
    if is_of_program and _is_right_on_referee(compiled, wrong):
        return Blame("interpret", "", wrong.problem)
    step = _first_wrong_step(compiled, wrong)
    if step is not None and step.kind == "pass":
        return Blame(_STAGE_OF_PASS.get(step.name, "normal"), step.name, wrong.problem)
    if step is not None and step.kind == "rule":
        rule = step.name if wrong.is_error else guilty_rule(step, compiled.subject.bindings)
        if rule:
            detail = f"{wrong.problem}; {step}: {step.node} -> {step.result}"
            return Blame("simplify", rule, detail)
    opt = _opt_at_fault(compiled, wrong) if step is not None else ""
    if not is_of_program:
        return Blame(wrong.stage, opt, wrong.problem)
    if opt in _WITHOUT_LANES and not _is_wrong_without_lanes(compiled, opt):
        return Blame(OPTIMISE, opt, wrong.problem)
    if opt:
        # Another split of the axis is wrong too, so this one is not to blame.
        return Blame("lower", "" if opt in _WITHOUT_LANES else opt, wrong.problem)
    return Blame(*_mandatory_stage(compiled), wrong.problem)


def _is_right_on_referee(compiled: Compile, wrong: WrongStage) -> bool:
    """Return True if the program is right on a device, although it is wrong on the interpreter."""
    # If the sanitizer reports a race or an access, a device may still return the right value.
    if compiled.program is None or wrong.problem.startswith(SanitizerError.__name__):
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
    except Exception:  # the device cannot run every program
        return False
    return not subject.difference(written)


def _first_wrong_step(compiled: Compile, wrong: WrongStage) -> OptionalStep | None:
    """Return the step at which the stage becomes wrong; None if no step is needed."""
    if _is_as_wrong(compiled.again(0), wrong):
        return None
    right, failing = 0, len(compiled.steps)
    while failing - right > 1:
        middle = (right + failing) // 2
        if _is_as_wrong(compiled.again(middle), wrong):
            failing = middle
        else:
            right = middle
    return compiled.steps[failing - 1] if failing else None


def _is_as_wrong(compiled: Compile, wrong: WrongStage) -> bool:
    """Return True if the stage is wrong in this compile too, in the same way."""
    stage = wrong.stage if wrong.stage in STAGES else "normal"
    again = compiled.first_wrong(stage)
    return again is not None and (again.stage, again.is_error) == (wrong.stage, wrong.is_error)


def _opt_at_fault(compiled: Compile, wrong: WrongStage) -> str:
    """Return the name of the optimisation with which the stage becomes wrong, or ""."""
    for count in range(len(compiled.opts) + 1):
        opts = compiled.opts[:count]
        if _is_as_wrong(Compile(compiled.subject, compiled.capabilities, opts), wrong):
            return opts[-1].op.value if opts else ""
    return ""


def _is_wrong_without_lanes(compiled: Compile, name: str) -> bool:
    """Return True if the program is also wrong with another split instead of this one."""
    opts = [
        replace(opt, op=_WITHOUT_LANES[name]) if opt.op.value == name else opt
        for opt in compiled.opts
    ]
    other = Compile(compiled.subject, compiled.capabilities, opts)
    return other.program is not None and other.first_wrong() is not None


# Mandatory stages


def _mandatory_stage(compiled: Compile) -> tuple[str, str]:
    """Return the stage and the pass without which the program is right."""
    if _is_right_in_another_order(compiled):
        return "linearise", ""
    for name, capabilities in _without_decompositions(compiled.capabilities):
        if Compile(compiled.subject, capabilities, compiled.opts).first_wrong() is None:
            return "decompose", name
    if any(map(has_long_positions, compiled.subject.ast.toposort())):
        return "narrow", ""
    return ("accumulate" if _is_right_without_loops(compiled) else "lower"), ""


def _is_right_in_another_order(compiled: Compile) -> bool:
    graph = compiled.graphs.get("narrow")
    if compiled.program is None or graph is None:
        return False
    buffers = [np.array(buffer) for buffer in compiled.subject.buffers]
    try:
        run_program(
            LinearisedKernel(compiled.program, graph).shuffle(1), buffers, compiled.subject.bindings
        )
    except Exception:  # then it is wrong too
        return False
    return not compiled.subject.difference(dict(enumerate(buffers)))


def _without_decompositions(device: Capabilities) -> Iterator[tuple[str, Capabilities]]:
    """Yield each decomposition by name, and a device that needs all others but not this one."""
    for name, types in (
        ("small_floats", SMALL_FLOATS),
        ("wide_integers", WIDE_INTEGERS),
        ("small_integers", SMALL_INTEGERS),
    ):
        if device.emulated.intersection(types):
            yield name, replace(device, dtypes=device.dtypes.union(types))
    if device.stored_in_words:
        yield "word_storage", replace(device, stored_in_words=frozenset())
    if device.slow_division:
        yield "constant_division", replace(device, slow_division=False)
    if device.division_traps:
        yield "guards", replace(device, division_traps=False)
    if not device.ops >= OP_NAMES:
        yield "missing_ops", replace(device, ops=OP_NAMES)


def _is_right_without_loops(compiled: Compile) -> bool:
    """Return True if the kernel has reduces, and is right when they are unrolled."""
    try:
        plan = Plan.of(compiled.subject.ast, compiled.capabilities)
        while reduced := [at for at, axis in enumerate(plan.axes) if axis.kind is AxisKind.REDUCE]:
            plan = plan.apply(Opt(OptOp.UNROLL, reduced[0], 0))
    except Exception:  # not every loop can be unrolled
        return False
    unrolled = Compile(compiled.subject, compiled.capabilities, plan.opts)
    return bool(plan.opts) and unrolled.first_wrong() is None
