"""Names the stage to blame for a verdict, and inside of it the pass, rule or optimisation.

The compile that failed is gone through stage by stage (`stages`); the first wrong value names the
stage. Rules fire in many stages, so before a stage is blamed every firing is looked at; before
lowering is blamed, the plan is. What all values share, the evaluator and the interpreter are judged
by the references of the spec alone, never by who agrees with whom. Cause and effect are those of a
single fault, as delta debugging has it (Zeller and Hildebrandt 2002).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tinyref import config
from tinyref.codegen.compile import STAGES as COMPILE_STAGES
from tinyref.codegen.compile import plan_for
from tinyref.errors import TinyrefError, VerifyError
from tinyref.interpret import SanitizerError, run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref_fuzz.blame.firings import Firing, Wrong, first_wrong, first_wrong_fact, record_firings
from tinyref_fuzz.blame.passes import wrong_in_decompose, wrong_in_normal
from tinyref_fuzz.blame.plans import plan_problem
from tinyref_fuzz.blame.rules import needed_without
from tinyref_fuzz.blame.samples import Samples
from tinyref_fuzz.blame.stages import (
    LINEAR_GRAPHS,
    Chain,
    Subject,
    graph_after,
    graph_problem,
)
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.caches import forget
from tinyref_fuzz.judge.judge import Judge
from tinyref_fuzz.judge.oracles import Oracle, oracle_for
from tinyref_fuzz.judge.oracles.reference import (
    THOROUGHLY_SAMPLED,
    evaluator_fault,
    semantics_fault,
)
from tinyref_spec.kernel_case import Array, Blame, Case, Opts, Pair, Verdict

# Stages in which rules fire, or what rules believe is used.
_REWRITING = frozenset({"normal", "lower", "simplify", "expand", "decompose", "narrow"})
# Those whose fault may need an optimisation to show.
_OPTIMISED = frozenset({"lower", "simplify", "expand"})
# Those whose value is that of a program on the interpreter.
_INTERPRETED = frozenset({*LINEAR_GRAPHS, "linearise"})
# Of several optimisations that a fault needs, the one that the stage does most for.
_MAX_OF_LOWER = (
    *(OptOp.TC, OptOp.PACK, OptOp.PADTO, OptOp.GROUP, OptOp.GROUPTOP, OptOp.THREAD),
    *(OptOp.LOCAL, OptOp.NOLOCALS, OptOp.SWAP, OptOp.UNROLL, OptOp.UPCAST),
)
_LANES = (OptOp.TC, OptOp.UNROLL, OptOp.UPCAST)
_MAX_OF_EXPAND = (*_LANES, *(op for op in _MAX_OF_LOWER if op not in _LANES))
# Without a wrong value in the compile: who else it may be. Of a plain program every graph was right
# then, and the order of its nodes is left: so this is not `pair.STAGE_OF`.
_OF_PAIR = {
    Pair.PLAIN: "linearise",
    Pair.OPTIMISED: "optimise",
    Pair.DEVICE: "device",
    Pair.EQUIVALENT: "evaluate",
}


def find_blame(case: Case, verdict: Verdict, device: str) -> Blame:
    """What is to blame for `verdict` of `case` on `device`.

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
            subject = self._subject(self.case)
        except Exception as error:  # the evaluator may be what is wrong
            return Blame("evaluate", "", f"{type(error).__name__}: {error}")
        if self.verdict.pair is Pair.EQUIVALENT:
            return self._of_equivalent(subject)
        for chain in self._chains(subject):
            found = self._of_chain(chain)
            if found is not None:
                return found
        return self._unknown()

    def _by_reference(self) -> Blame | None:
        """What all values may share, and the evaluator: by the spec's references alone."""
        case = self.case
        try:
            fault = semantics_fault(self._nodes()) or evaluator_fault(
                case.ast, case.buffers, case.bindings, THOROUGHLY_SAMPLED
            )
        except Exception:  # an evaluator that raises is asked again below
            return None
        return Blame(fault.stage, fault.cause, fault.detail) if fault else None

    def _nodes(self) -> Iterator[UOp]:
        """The nodes of the kernel and of all that its compiles make of it."""
        yield from self.case.ast.toposort()
        subject = Subject(self.case.ast, self.case.buffers, self.case.bindings, Oracle({}))
        for opts in dict.fromkeys(((), self.judge.failing_opts(self.case, self.verdict))):
            chain = Chain(subject, self.capabilities, opts)
            for root in chain.graphs(COMPILE_STAGES[-1]):
                yield from root.toposort()

    def _subject(self, case: Case) -> Subject:
        return Subject(case.ast, case.buffers, case.bindings, oracle_for(case))

    def _unknown(self) -> Blame:
        stage = _OF_PAIR[self.verdict.pair] if self.verdict.pair else "evaluate"
        text = f"every value is right when computed again; seen was: {self.verdict.detail}"
        return Blame(stage, "", text)

    # Which compile

    def _chains(self, subject: Subject) -> Iterator[Chain]:
        """The plain compile, then the optimised one that failed."""
        plain = Chain(subject, self.capabilities, ())
        yield plain
        opts = self.judge.failing_opts(self.case, self.verdict)
        if opts:
            yield Chain(replace(subject, against=_results_of_plain(plain)), self.capabilities, opts)

    def _of_equivalent(self, subject: Subject) -> Blame:
        """The evaluator, or whatever is wrong in the compile of the equivalent kernel."""
        equivalent = self.case.equivalent
        if equivalent is None:
            return self._unknown()
        label = _first_label(subject, self.case)
        if label:
            return Blame("evaluate", label, "the evaluator gives another value after it")
        for ast in (equivalent.ast, self.case.ast):
            other = replace(subject, ast=ast)
            for opts in dict.fromkeys(((), self._heuristics(other))):
                found = self._of_chain(Chain(other, self.capabilities, opts))
                if found is not None:
                    return found
        return Blame("device", "", self.verdict.detail)

    def _heuristics(self, subject: Subject) -> Opts:
        try:
            with config.Context(THREADS=THREADS):
                return plan_for(subject.ast, self.capabilities).opts
        except TinyrefError:
            return ()

    # Which stage

    def _of_chain(self, chain: Chain) -> Blame | None:
        wrong = chain.first_wrong or chain.first_outside() or chain.wrong_in_other_orders()
        if wrong is None:
            return None
        stage, problem = wrong
        if stage == "ast":
            return Blame("evaluate", "", problem)
        if _is_of_value(chain, stage, problem) and chain.is_right_by_reference(stage):
            return Blame("interpret", "", f"after {stage}: {problem}")
        if stage == "optimise":
            return Blame(stage, self._refused_opt(chain), problem)
        if stage in _REWRITING:
            rule = self._wrong_rule(chain, stage)
            if rule is not None:
                return Blame("simplify", rule.cause, f"after {stage}: {problem}; {rule.detail}")
        if stage == "normal":
            return Blame(stage, wrong_in_normal(chain.subject), problem)
        if stage == "decompose":
            return Blame(stage, self._wrong_decomposition(chain), problem)
        if stage in _OPTIMISED and chain.opts:
            return self._of_optimisation(chain, stage, problem)
        return Blame(stage, "", problem)

    def _refused_opt(self, chain: Chain) -> str:
        """The first optimisation that no plan comes out of."""
        for count, opt in enumerate(chain.opts, 1):
            part = Chain(chain.subject, self.capabilities, chain.opts[:count])
            if part.raised_error() is not None and part.graph("normal") is None:
                return opt.op.value
        return ""

    def _wrong_decomposition(self, chain: Chain) -> str:
        root = chain.graph("accumulate")
        if root is None:
            return ""
        return wrong_in_decompose(chain.subject, root, self.capabilities)

    def _of_optimisation(self, chain: Chain, stage: str, problem: str) -> Blame:
        """The first optimisation after which the plan, or the value after the stage, is wrong."""
        prefixes = [chain.opts[:count] for count in range(1, len(chain.opts) + 1)]
        if stage == "lower":
            for opts in prefixes:
                of_plan = self._plan_problem(chain.subject, opts)
                if of_plan:
                    return Blame("optimise", opts[-1].op.value, f"{of_plan}; {problem}")
        shortest = next(
            (opts for opts in prefixes if self._is_wrong(chain, stage, opts)), chain.opts
        )
        needed = [
            opt
            for number, opt in enumerate(shortest)
            if not self._is_wrong(chain, stage, shortest[:number] + shortest[number + 1 :])
        ]
        order = _MAX_OF_EXPAND if stage == "expand" else _MAX_OF_LOWER
        ops = sorted({opt.op for opt in needed or shortest[-1:]}, key=order.index)
        return Blame(stage, ops[0].value, problem)

    def _is_wrong(self, chain: Chain, stage: str, opts: Opts) -> bool:
        """Whether the value after `stage` is wrong with these optimisations too."""
        try:
            root = graph_after(stage, chain.subject.ast, self.capabilities, opts)
        except Exception:  # not what is asked for
            return False
        return root is not None and graph_problem(chain.subject, root) != ""

    def _plan_problem(self, subject: Subject, opts: tuple[Opt, ...]) -> str:
        try:
            with config.Context(THREADS=THREADS):
                return plan_problem(Plan.of(subject.ast, self.capabilities).apply_all(opts))
        except TinyrefError as error:
            return f"{type(error).__name__}: {error}"

    # Which rule

    def _wrong_rule(self, chain: Chain, stage: str) -> Wrong | None:
        forget()
        firings = record_firings(chain.compile)
        slots, bindings = chain.subject.slots, chain.subject.bindings
        found = _first_wrong_firing(firings, slots, bindings)
        if found is None:
            found = _first_wrong_fact(chain.graphs(stage), slots, bindings)
        error = chain.error
        if found is None and isinstance(error, VerifyError) and error.rule.startswith("rewrite"):
            return Wrong(firings[-1].rule if firings else "", str(error))
        if found is None and stage == "simplify":
            names = {firing.rule for firing in firings}
            rule = needed_without(names, functools.partial(_is_right, chain))
            found = Wrong(rule, "right without it") if rule else None
        return found


def _is_of_value(chain: Chain, stage: str, problem: str) -> bool:
    """Whether it is a wrong value that a program of a compile without errors has, and no race."""
    is_race = problem.startswith(SanitizerError.__name__)
    return stage in _INTERPRETED and chain.error is None and not is_race


def _first_wrong_firing(
    firings: list[Firing], slots: Mapping[int, Array], bindings: Mapping[str, int]
) -> Wrong | None:
    try:
        return first_wrong(firings, slots, bindings)
    except Exception:  # what a wrong compiler hands to its rules need not have values
        return None


def _first_wrong_fact(
    roots: list[UOp], slots: Mapping[int, Array], bindings: Mapping[str, int]
) -> Wrong | None:
    try:
        return first_wrong_fact(roots, Samples(slots, bindings))
    except Exception:  # a graph that is wrong need not have values
        return None


def _is_right(chain: Chain) -> bool:
    """Whether the kernel is right when it is compiled again."""
    again = Chain(chain.subject, chain.capabilities, chain.opts)
    return again.error is None and again.problem("simplify") == ""


def _results_of_plain(chain: Chain) -> dict[int, Array]:
    """What the plain program gives, with which optimised ones must agree."""
    if chain.program is None:
        return {}
    buffers = [np.array(buffer) for buffer in chain.subject.buffers]
    try:
        run_program(chain.program, buffers, chain.subject.bindings)
    except Exception:  # then there is nothing to agree with
        return {}
    return {slot: buffers[slot] for slot in chain.subject.oracle.slots}


def _first_label(subject: Subject, case: Case) -> str:
    """The first transformation after which the evaluator gives another value, or ""."""
    for label, ast in case.equivalent.trail if case.equivalent else ():
        try:
            if subject.difference(evaluate(ast, subject.slots, subject.bindings)):
                return label
        except Exception:  # whatever it is, the evaluator raised it
            return label
    return ""
