"""Which checks of the judge a reduction asks for: as few as show the fault, the same every time."""

from __future__ import annotations

from dataclasses import replace

from tinyref_fuzz.case import Case, Verdict
from tinyref_fuzz.judge import Judge
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.search import JudgeFunction


def judge_for(case: Case, verdict: Verdict, device: str) -> JudgeFunction:
    """The quick judge where it sees the fault of `verdict` in `case`, else the thorough one."""
    return quick if is_same_fault(quick(case, device), verdict) else thorough


def quick(case: Case, device: str) -> Verdict:
    """The verdict on `case` without the checks that only a share of the cases gets."""
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
