"""Reduce what is done to the kernel: optimisations and the equivalent kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyref.optimise.opt import Opt, OptOp
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.delta_debugging import ddmin
from tinyref_spec.kernel_case import Equivalent, Opts

# Simpler optimisations to try instead of one.
_SIMPLER = {
    OptOp.GROUPTOP: (OptOp.UNROLL, OptOp.GROUP),
    OptOp.GROUP: (OptOp.UNROLL,),
    OptOp.LOCAL: (OptOp.UPCAST,),
    OptOp.THREAD: (OptOp.UPCAST, OptOp.LOCAL),
}


def without_equivalent(search: Search) -> None:
    """Remove the equivalent kernel, or keep only its first step that fails."""
    case = search.case
    if case.equivalent is None or search.offer(replace, equivalent=None):
        return
    before = case.equivalent.origin
    for label, ast in case.equivalent.trail if len(case.equivalent.trail) > 1 else ():
        step = Equivalent(before, ((label, ast),))
        if search.offer(replace, ast=step.origin, equivalent=step):
            return
        before = ast


def fewer_opts(search: Search) -> None:
    """Keep one list of optimisations, and shorten it by delta debugging.

    In a complement, optimisations that no longer fit are adapted or dropped.
    """
    case = search.case
    for opts in case.opts if len(case.opts) > 1 else ():
        if search.offer(replace, opts=(opts,)):
            break

    def attempt(opts: Sequence[Opt]) -> Opts | None:
        is_accepted = search.offer(replace, opts=(tuple(opts),))
        return next(iter(search.case.opts), ()) if is_accepted else None

    if search.case.opts:
        ddmin(search.case.opts[0], attempt)


def simpler_opts(search: Search) -> None:
    """Replace optimisations by simpler ones."""
    for at in range(sum(map(len, search.case.opts[:1]))):
        opts = search.case.opts[0]
        for op in _SIMPLER.get(opts[at].op, ()):
            simpler = (*opts[:at], replace(opts[at], op=op), *opts[at + 1 :])
            if search.offer(replace, opts=(simpler,)):
                break
