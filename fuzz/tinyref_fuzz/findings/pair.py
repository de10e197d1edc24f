"""Blame a stage by the pair of values that differ."""

from __future__ import annotations

from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair

# The stage of a pair, if nothing more is known. For a plain program, blame (which examined every
# stage) chooses differently.
STAGE_OF = {
    Pair.PLAIN: "lower",
    Pair.OPTIMISED: "optimise",
    Pair.DEVICE: "device",
    Pair.EQUIVALENT: "evaluate",
}


def blame_of_pair(verdict: KernelVerdict) -> Blame:
    """Return the stage of the verdict's pair, without examining the case."""
    return Blame(STAGE_OF[verdict.pair] if verdict.pair is not None else "")
