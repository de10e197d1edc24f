"""Find the earlier cases that a finding depends on, by judging in new processes.

Each worker takes some of the cases in order of their numbers. So the earlier cases of the worker
are among the smaller numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from tinyref.errors import UserError
from tinyref.workers.machine import seconds_of_children
from tinyref_spec.delta_debugging import shortest_ending
from tinyref_spec.kernel_case import KernelVerdict

Case_contra = TypeVar("Case_contra", contravariant=True)
AnyCase = TypeVar("AnyCase")
# Numbers of earlier cases to try, and to name.
MAX_BEFORE = 256
MAX_NAMED = 8
DEPENDS = "alone in a fresh process it agrees: it depends on what was judged before it"


class FreshJudge(Protocol[Case_contra]):
    """Judge of cases, one after another, in its own process."""

    def verdict(self, case: Case_contra) -> KernelVerdict:
        """Return the verdict on a case, or on how the process ended."""
        ...


def dependence(
    case: AnyCase,
    number: int,
    make: Callable[[int], AnyCase],
    open_judge: Callable[[], AbstractContextManager[FreshJudge[AnyCase]]],
    seconds: float,
) -> str:
    """Describe the earlier cases that a finding depends on; "" if it fails alone.

    Args:
        make: Returns the case of a number.
        open_judge: Opens a new process for each trial.
        seconds: Limit of processor time for all trials.

    The result is also "" if the device no longer opens: the campaign reports that itself.
    """
    begin = seconds_of_children()

    def is_late() -> bool:
        return seconds_of_children() - begin >= seconds

    def fails(before: Sequence[int]) -> bool:
        with open_judge() as judge:
            for earlier in before:
                if is_late():
                    return False
                # If it ends the process, the next one knows nothing of the earlier cases.
                judge.verdict(make(earlier))
            return not judge.verdict(case).agrees

    try:
        if fails([]):
            return ""
        first = max(number - MAX_BEFORE, 0)
        sequence = shortest_ending(range(first, number), fails, is_late) if number > first else None
    except UserError:
        return ""
    if sequence is None:
        return DEPENDS
    named = ", ".join(map(str, sequence[:MAX_NAMED]))
    more = f" and {len(sequence) - MAX_NAMED} more" if len(sequence) > MAX_NAMED else ""
    return f"{DEPENDS}; it fails after {named}{more} of the same seed"
