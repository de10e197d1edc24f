"""Steps on what is done to the kernel: optimisations and the equivalent kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyref.optimise.opt import Opt, OptOp
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.delta_debugging import ddmin
from tinyref_spec.kernel_case import Equivalent, Opts, Pair

# Simpler optimisations of its kind that one is tried as.
_SIMPLER = {
    OptOp.GROUPTOP: (OptOp.UNROLL, OptOp.GROUP),
    OptOp.GROUP: (OptOp.UNROLL,),
    OptOp.LOCAL: (OptOp.UPCAST,),
    OptOp.THREAD: (OptOp.UPCAST, OptOp.LOCAL),
}


def only_the_failing_list(search: Search) -> None:
    """Of the lists of optimisations, the one that fails; none where the plain kernel does."""
    case, trial = search.case, search.verdict.trial
    if search.verdict.pair in (Pair.PLAIN, Pair.EQUIVALENT) or trial < 0:
        search.offer(replace, opts=())
    if 0 <= trial < len(case.opts):
        search.offer(replace, opts=(case.opts[trial],))
    # Where the judge does not say which: each of them alone.
    for opts in case.opts if len(search.case.opts) > 1 else ():
        if search.offer(replace, opts=(opts,)):
            break


def without_equivalent(search: Search) -> None:
    """No equivalent kernel, or only its first step that fails."""
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
    """Delta debugging of the list of optimisations.

    A complement whose later optimisations no longer fit is tried with those that do.
    """

    def attempt(opts: Sequence[Opt]) -> Opts | None:
        taken = search.offer(replace, opts=(tuple(opts),))
        return next(iter(search.case.opts), ()) if taken else None

    if search.case.opts:
        ddmin(search.case.opts[0], attempt)


def simpler_opts(search: Search) -> None:
    """Simpler optimisations instead."""
    for at in range(sum(map(len, search.case.opts[:1]))):
        opts = search.case.opts[0]
        for op in _SIMPLER.get(opts[at].op, ()):
            simpler = (*opts[:at], replace(opts[at], op=op), *opts[at + 1 :])
            if search.offer(replace, opts=(simpler,)):
                break
