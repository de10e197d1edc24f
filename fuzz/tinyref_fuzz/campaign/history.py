"""Findings that depend on what was judged before them: each alone in a fresh process, then after
the cases whose numbers come before its own.

Workers take cases in order of their numbers, each worker some of them, so that what one of them
had judged is among these.
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
# So many cases before a finding are tried at most, and so many are named.
MAX_BEFORE = 256
MAX_NAMED = 8
DEPENDS = "alone in a fresh process it agrees: it depends on what was judged before it"


class FreshJudge(Protocol[Case_contra]):
    """Judges cases, one after another, in a process of its own."""

    def verdict(self, case: Case_contra) -> KernelVerdict:
        """The verdict on a case, or on how the process ended."""
        ...


def dependence(
    found: AnyCase,
    number: int,
    make: Callable[[int], AnyCase],
    open_judge: Callable[[], AbstractContextManager[FreshJudge[AnyCase]]],
    seconds: float,
) -> str:
    """On which cases before it a finding depends, in words; empty where it shows alone.

    make: the case of a number. open_judge: a process of its own for each trial. seconds: of the
    processor, which all of them may take. Empty too where the device opens no more: the campaign
    says so itself.
    """
    begin = seconds_of_children()

    def is_late() -> bool:
        return seconds_of_children() - begin >= seconds

    def fails(before: Sequence[int]) -> bool:
        with open_judge() as judge:
            for each in before:
                if is_late():
                    return False
                # Where it ends the process, the next one knows nothing of what was before.
                judge.verdict(make(each))
            return not judge.verdict(found).agrees

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
