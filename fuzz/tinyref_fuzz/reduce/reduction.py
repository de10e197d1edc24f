"""Run every step of a reduction repeatedly, until none makes the case smaller."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tinyref.errors import UserError
from tinyref_fuzz.judge.judge import Judge
from tinyref_fuzz.reduce import steps_axes, steps_data, steps_nodes, steps_opts
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.measure import node_count, opt_count
from tinyref_fuzz.reduce.search import JudgeFunction, OutOfTimeError, Search
from tinyref_spec.kernel_case import KernelCase, KernelVerdict, Pair, Symptom

Step = Callable[[Search], None]

# Steps that make judging cheap come first: few optimisations, one output, small axes. Data come
# last, because any change of the kernel would undo their steps.
STEPS: tuple[Step, ...] = (
    steps_opts.fewer_opts,
    steps_opts.without_equivalent,
    steps_nodes.fewer_outputs,
    steps_axes.constant_sizes,
    steps_axes.fewer_axes,
    steps_nodes.parts,
    steps_axes.smaller_extents,
    steps_nodes.simpler_nodes,
    steps_nodes.simpler_leaves,
    steps_data.plain_loads,
    steps_opts.simpler_opts,
    steps_data.simpler_data,
)
_AGREES = "reduce: the case does not fail: accepted is one on which values differ"


@dataclass(frozen=True)
class ReducedCase:
    """The smallest case that was reached, and its verdict."""

    case: KernelCase
    verdict: KernelVerdict
    nodes: int
    """See `node_count`."""
    opts: int
    """See `opt_count`."""
    seconds: float
    tried: int
    """The number of candidates that were judged."""
    is_complete: bool = True
    """False if the time ended before a fixed point."""


def reduce_case(
    case: KernelCase,
    verdict: KernelVerdict,
    device: str,
    seconds: float = 10.0,
    judge: JudgeFunction | None = None,
) -> ReducedCase:
    """Return the smallest case that fails by the same pair and symptom as `case`.

    Every step keeps the fault, the validity of the kernel, and the mode of its data. The result is
    never larger than `case`. It is deterministic if the time suffices; after `seconds` the best
    case so far is returned. `judge` judges the candidates; the default makes as few checks as show
    the fault. Raises `UserError` for a case that does not fail.

    The list of optimisations is reduced by delta debugging (Zeller and Hildebrandt, "Simplifying
    and isolating failure-inducing input", 2002). The kernel is reduced by its structure, as in
    hierarchical delta debugging (Misherghi and Su, "HDD", 2006).
    """
    start = time.monotonic()
    if verdict.agrees:
        raise UserError(_AGREES)
    case, verdict, chosen_judge = _begin(_explicit(case, device), verdict, device, judge)
    search = Search(case, verdict, device, chosen_judge, start + seconds)
    is_complete = _run(search)
    return ReducedCase(
        search.case,
        search.verdict,
        node_count(search.case.ast),
        opt_count(search.case),
        time.monotonic() - start,
        search.tried,
        is_complete,
    )


def _quick(case: KernelCase, device: str) -> KernelVerdict:
    return Judge(device).verdict(case, thorough=False)


def _thorough(case: KernelCase, device: str) -> KernelVerdict:
    return Judge(device).verdict(case, thorough=True)


def _begin(
    case: KernelCase, verdict: KernelVerdict, device: str, judge: JudgeFunction | None
) -> tuple[KernelCase, KernelVerdict, JudgeFunction]:
    """Return the case to start from, its verdict, and the judge that shows the fault.

    The case keeps only the failing list, if that fails alone. An equivalent kernel that fails by
    itself is a simpler case. If nothing fails as `verdict` says, another failure is used.
    """
    judges = (_quick, _thorough) if judge is None else (judge,)
    otherwise = _alone(case, device, judges[0])
    if otherwise is not None:
        return otherwise
    failing = _with_failing_list(case, verdict)
    for candidate_judge in judges:
        for start in (failing,) if failing is case else (failing, case):
            own_verdict = candidate_judge(start, device)
            if is_same_fault(own_verdict, verdict):
                return start, own_verdict, candidate_judge
            if not own_verdict.agrees and otherwise is None:
                otherwise = (start, own_verdict, candidate_judge)
    if otherwise is None:
        raise UserError(_AGREES)
    return otherwise


def _alone(
    case: KernelCase, device: str, judge: JudgeFunction
) -> tuple[KernelCase, KernelVerdict, JudgeFunction] | None:
    """Return the equivalent kernel as its own case, if it fails."""
    if case.equivalent is None:
        return None
    alone = replace(case, ast=case.equivalent.ast, equivalent=None, opts=())
    verdict = judge(alone, device)
    # Without optimisations, a kernel with images may be refused.
    if verdict.agrees or verdict.symptom is Symptom.ERROR:
        return None
    return alone, verdict, judge


def _explicit(case: KernelCase, device: str) -> KernelCase:
    """Return the case with the optimisations of the heuristics, if it has no list."""
    try:
        return replace(case, opts=Judge(device).trials(case))
    except Exception:  # the heuristics may be faulty
        return case


def _with_failing_list(case: KernelCase, verdict: KernelVerdict) -> KernelCase:
    """Return the case with only the list that the verdict names, or without lists."""
    opts = case.opts[verdict.trial : verdict.trial + 1] if verdict.trial >= 0 else ()
    if opts == case.opts or (not opts and verdict.pair is Pair.OPTIMISED):
        return case
    return replace(case, opts=opts)


def _run(search: Search) -> bool:
    """Return True if the search ended before the time did."""
    size = None
    try:
        while size != search.size:
            size = search.size
            for step in STEPS:
                _take(step, search)
    except OutOfTimeError:
        return False
    return True


def _take(step: Step, search: Search) -> None:
    try:
        step(search)
    except OutOfTimeError:
        raise
    except Exception:
        # Views, plans and types belong to the faulty compiler: skip this step.
        return
