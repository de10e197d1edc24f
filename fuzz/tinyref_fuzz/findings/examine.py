"""What is done with a finding: reduce it, blame a stage for it, and name its bucket."""

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
    """A case that fails, examined.

    case, verdict: reduced. original: the case that it was found with. seconds: that reduction and
    blame took together. problem: why it could not be reduced, empty if it could.
    """

    case: KernelCase
    original: KernelCase
    verdict: KernelVerdict
    blame: Blame
    seconds: float = 0.0
    problem: str = ""

    @property
    def bucket(self) -> str:
        """The key under which findings of one cause meet."""
        return bucket_of(self.blame, self.case, self.verdict)

    @property
    def nodes(self) -> int:
        """The size of the reduced kernel, as of `node_count`."""
        return node_count(self.case.ast)

    @property
    def opts(self) -> int:
        """How many optimisations the reduced case has, as of `opt_count`."""
        return opt_count(self.case)


def examine(
    case: KernelCase,
    verdict: KernelVerdict,
    device: str,
    seconds: float = 10.0,
    judge: JudgeFunction | None = None,
    blame: BlameFunction = find_blame,
) -> Finding:
    """The finding that a case with its verdict is on `device`.

    `seconds` and `judge` are for the reduction, see `reduce_case`, which says what is
    raised too. Where blame fails, the pair of values that differ has to name the stage.
    """
    start = time.monotonic()
    reduction = reduce_case(case, verdict, device, seconds, judge)
    blamed = blame_or_pair(reduction.case, reduction.verdict, device, blame)
    return Finding(reduction.case, case, reduction.verdict, blamed, time.monotonic() - start)


def blame_or_pair(
    case: KernelCase, verdict: KernelVerdict, device: str, blame: BlameFunction = find_blame
) -> Blame:
    """What `blame` says, or the stage of the pair where it fails itself."""
    try:
        return blame(case, verdict, device)
    except Exception as error:
        # It runs a compiler that is broken: a finding without a cause is still one.
        why = f"blame failed: {type(error).__name__}: {error}".split("\n")[0]
        return Blame(blame_of_pair(verdict).stage, "", why)
