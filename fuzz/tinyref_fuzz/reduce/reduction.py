"""`reduce_case`: every step of a reduction, again and again, until none makes the case smaller."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tinyref.errors import UserError
from tinyref_fuzz.reduce import (
    steps_axes,
    steps_data,
    steps_nodes,
    steps_opts,
    steps_types,
    steps_views,
)
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.judging import JUDGES, explicit, with_failing_list
from tinyref_fuzz.reduce.measure import node_count, opt_count
from tinyref_fuzz.reduce.search import JudgeFunction, OutOfTimeError, Search
from tinyref_spec.kernel_case import Case, Verdict

Step = Callable[[Search], None]

# What makes a judgement cheap comes first: one list of optimisations, one output, small axes.
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
    steps_views.plain_loads,
    steps_views.plain_stores,
    steps_views.plain_masks,
    steps_opts.simpler_opts,
    steps_types.simpler_types,
    steps_nodes.simpler_constants,
    steps_data.exact_mode,
)


_AGREES = "reduce: the case does not fail: accepted is one on which values differ"


@dataclass(frozen=True)
class Reduction:
    """The smallest case that was found, and the verdict on it.

    nodes, opts: as of `node_count` and `opt_count`. seconds: how long it took. tried: how many
    smaller cases were judged. is_complete: False where the time was over before a fixed point.
    """

    case: Case
    verdict: Verdict
    nodes: int
    opts: int
    seconds: float
    tried: int
    is_complete: bool = True


def reduce_case(
    case: Case,
    verdict: Verdict,
    device: str,
    seconds: float = 10.0,
    judge: JudgeFunction | None = None,
) -> Reduction:
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
    case, found, asked = _begin(explicit(case, device), verdict, device, judge)
    search = Search(case, found, device, asked, start + seconds)
    is_complete = _run(search)
    smallest = search.case
    return Reduction(
        smallest,
        search.verdict,
        node_count(smallest.ast),
        opt_count(smallest),
        time.monotonic() - start,
        search.tried,
        is_complete,
    )


def _begin(
    case: Case, verdict: Verdict, device: str, judge: JudgeFunction | None
) -> tuple[Case, Verdict, JudgeFunction]:
    """The case with the failing list alone, else as it is, and the judge that sees it fail.

    Where nothing fails just as `verdict` says, what fails otherwise has to do.
    """
    judges = JUDGES if judge is None else (judge,)
    otherwise = None
    for asked in judges:
        for start in _either(with_failing_list(case, verdict), case):
            found = asked(start, device)
            if is_same_fault(found, verdict):
                return start, found, asked
            if not found.agrees and otherwise is None:
                otherwise = (start, found, asked)
    if otherwise is None:
        raise UserError(_AGREES)
    return otherwise


def _either(first: Case, second: Case) -> tuple[Case, ...]:
    return (first,) if first is second else (first, second)


def _run(search: Search) -> bool:
    """Whether the search came to its end before the time was over."""
    try:
        steps_opts.only_the_failing_list(search)
        search.trust_plans()
        _to_fixed_point(search, STEPS)
        # Data last: every change of the kernel before would undo it.
        _to_fixed_point(search, (steps_data.simpler_data,))
        _to_fixed_point(search, (*STEPS, steps_data.simpler_data))
    except OutOfTimeError:
        return False
    return True


def _to_fixed_point(search: Search, steps: tuple[Step, ...]) -> None:
    size = None
    while size != search.size:
        size = search.size
        for step in steps:
            try:
                step(search)
            except OutOfTimeError:
                raise
            except Exception:
                # Views, plans and types belong to the compiler that is broken: without this step.
                continue
