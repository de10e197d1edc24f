"""Which checks of the judge a reduction asks for: as few as show the fault, the same every time."""

from __future__ import annotations

from dataclasses import replace

from tinyref_fuzz.judge.judge import Judge
from tinyref_fuzz.reduce.search import JudgeFunction
from tinyref_spec.kernel_case import Case, Pair, Verdict


def quick(case: Case, device: str) -> Verdict:
    """The verdict on `case` without the checks that only a share of the programs gets."""
    return Judge(device).verdict(case, thorough=False)


def thorough(case: Case, device: str) -> Verdict:
    """The verdict on `case` with all checks."""
    return Judge(device).verdict(case, thorough=True)


def explicit(case: Case, device: str) -> Case:
    """The case with the optimisations that the heuristics choose, where it names none."""
    try:
        return replace(case, opts=Judge(device).trials(case))
    except Exception:
        # The heuristics may be what is broken.
        return case


def with_failing_list(case: Case, verdict: Verdict) -> Case:
    """The case with the list of optimisations that the verdict names; none where it names none."""
    opts = case.opts[verdict.trial : verdict.trial + 1] if verdict.trial >= 0 else ()
    if opts == case.opts or (not opts and verdict.pair is Pair.OPTIMISED):
        return case
    return replace(case, opts=opts)


# The quick one is tried first.
JUDGES: tuple[JudgeFunction, ...] = (quick, thorough)
