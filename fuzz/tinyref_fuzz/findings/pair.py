"""The stage that a pair of values is about."""

from __future__ import annotations

from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair

# The stage that a pair of values is about as a whole, where nothing more can be said. Blame, which
# has looked at every stage, says something else of a plain program.
STAGE_OF = {
    Pair.PLAIN: "lower",
    Pair.OPTIMISED: "optimise",
    Pair.DEVICE: "device",
    Pair.EQUIVALENT: "evaluate",
}


def blame_of_pair(verdict: KernelVerdict) -> Blame:
    """The stage that the pair of values is about, without a look at the case."""
    return Blame(STAGE_OF[verdict.pair] if verdict.pair is not None else "")
