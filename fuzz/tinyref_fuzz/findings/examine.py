"""Examine a finding: reduce it, blame a stage, and name its bucket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tinyref_fuzz.blame.find import find_blame
from tinyref_fuzz.findings.bucket import bucket_of
from tinyref_fuzz.findings.pair import blame_of_pair
from tinyref_fuzz.reduce import node_count, opt_count, reduce_case
from tinyref_fuzz.reduce.search import JudgeFunction
from tinyref_spec.kernel_case import Blame, KernelCase, KernelVerdict

BlameFunction = Callable[[KernelCase, KernelVerdict, str], Blame]


@dataclass(frozen=True)
class Finding:
    """A case that fails, examined."""

    case: KernelCase
    """The reduced case, which `verdict` and `blame` are about."""
    original: KernelCase
    """The case before reduction."""
    verdict: KernelVerdict
    blame: Blame
    seconds: float = 0.0
    """The duration of reduction and blame."""
    problem: str = ""
    """Why it could not be reduced; empty if it could."""

    @property
    def bucket(self) -> str:
        """Return the key of findings with one cause."""
        return bucket_of(self.blame, self.case, self.verdict)

    @property
    def nodes(self) -> int:
        """Return the size of the reduced kernel; see `node_count`."""
        return node_count(self.case.ast)

    @property
    def opts(self) -> int:
        """Return the number of optimisations of the reduced case; see `opt_count`."""
        return opt_count(self.case)


def examine(
    case: KernelCase,
    verdict: KernelVerdict,
    device: str,
    seconds: float = 10.0,
    judge: JudgeFunction | None = None,
    blame: BlameFunction = find_blame,
) -> Finding:
    """Examine a case and its verdict on `device`.

    `seconds` and `judge` are arguments of `reduce_case`, whose errors pass through. If blame fails,
    the pair of values that differ names the stage.
    """
    start = time.monotonic()
    reduction = reduce_case(case, verdict, device, seconds, judge)
    blamed = blame_or_pair(reduction.case, reduction.verdict, device, blame)
    return Finding(reduction.case, case, reduction.verdict, blamed, time.monotonic() - start)


def blame_or_pair(
    case: KernelCase, verdict: KernelVerdict, device: str, blame: BlameFunction = find_blame
) -> Blame:
    """Return the result of `blame`, or the stage of the pair if it raises."""
    try:
        return blame(case, verdict, device)
    except Exception as error:
        # It runs a faulty compiler: a finding without a cause is still a finding.
        why = f"blame failed: {type(error).__name__}: {error}".split("\n")[0]
        return Blame(blame_of_pair(verdict).stage, "", why)
