"""`reduce_case`: every step of a reduction, again and again, until none makes the case smaller."""

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

# What makes a judgement cheap comes first: few optimisations, one output, small axes. Data
# come last: every change of the kernel before would undo them.
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
    """The smallest case that was found, and the verdict on it.

    nodes, opts: as of `node_count` and `opt_count`. seconds: how long it took. tried: how many
    smaller cases were judged. is_complete: False where the time was over before a fixed point.
    """

    case: KernelCase
    verdict: KernelVerdict
    nodes: int
    opts: int
    seconds: float
    tried: int
    is_complete: bool = True


def reduce_case(
    case: KernelCase,
    verdict: KernelVerdict,
    device: str,
    seconds: float = 10.0,
    judge: JudgeFunction | None = None,
) -> ReducedCase:
    """The smallest case that fails by the same pair and symptom as `case` does.

    Every step keeps the fault, a valid kernel, and data of its mode; the result is never larger
    than `case`, and the same for the same arguments, given the time. After `seconds` the best so
    far is returned. `judge` is asked about every candidate; without it the judge with as few of its
    checks as show the fault. Raises `UserError` for a case that does not fail.

    The list of optimisations is reduced by delta debugging (Zeller and Hildebrandt, "Simplifying
    and isolating failure-inducing input", 2002), the kernel by what is known of its structure, as
    hierarchical delta debugging does (Misherghi and Su, "HDD", 2006).
    """
    start = time.monotonic()
    if verdict.agrees:
        raise UserError(_AGREES)
    case, seen, asked = _begin(_explicit(case, device), verdict, device, judge)
    search = Search(case, seen, device, asked, start + seconds)
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
    """The case with the failing list alone, else as it is, and the judge that sees it fail.

    An equivalent kernel that fails by itself is a simpler case. Where nothing fails just as
    `verdict` says, what fails otherwise has to do.
    """
    judges = (_quick, _thorough) if judge is None else (judge,)
    otherwise = _alone(case, device, judges[0])
    if otherwise is not None:
        return otherwise
    failing = _with_failing_list(case, verdict)
    for asked in judges:
        for start in (failing,) if failing is case else (failing, case):
            found = asked(start, device)
            if is_same_fault(found, verdict):
                return start, found, asked
            if not found.agrees and otherwise is None:
                otherwise = (start, found, asked)
    if otherwise is None:
        raise UserError(_AGREES)
    return otherwise


def _alone(
    case: KernelCase, device: str, judge: JudgeFunction
) -> tuple[KernelCase, KernelVerdict, JudgeFunction] | None:
    """The equivalent kernel as a case of its own, if it fails."""
    if case.equivalent is None:
        return None
    alone = replace(case, ast=case.equivalent.ast, equivalent=None, opts=())
    found = judge(alone, device)
    # Compiled plainly, it may be refused for want of the optimisations that images need.
    if found.agrees or found.symptom is Symptom.ERROR:
        return None
    return alone, found, judge


def _explicit(case: KernelCase, device: str) -> KernelCase:
    """The case with the optimisations that the heuristics choose, where it names none."""
    try:
        return replace(case, opts=Judge(device).trials(case))
    except Exception:  # the heuristics may be what is broken
        return case


def _with_failing_list(case: KernelCase, verdict: KernelVerdict) -> KernelCase:
    """The case with the list of optimisations that the verdict names; none where it names none."""
    opts = case.opts[verdict.trial : verdict.trial + 1] if verdict.trial >= 0 else ()
    if opts == case.opts or (not opts and verdict.pair is Pair.OPTIMISED):
        return case
    return replace(case, opts=opts)


def _run(search: Search) -> bool:
    """Whether the search came to its end before the time was over."""
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
        # Views, plans and types belong to the compiler that is broken: without this step.
        return
