"""Steps on what is done to the kernel: optimisations and the equivalent kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyref.optimise.opt import Argument, Opt, OptOp
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.delta_debugging import ddmin
from tinyref_spec.kernel_case import Equivalent, Opts, Pair

# What an optimisation is tried as instead: simpler ones of its kind.
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
    if case.equivalent is None:
        return
    if search.offer(replace, equivalent=None):
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
        return next(iter(search.case.opts), ()) if _with_opts(search, tuple(opts)) else None

    if search.case.opts:
        ddmin(search.case.opts[0], attempt)


def _with_opts(search: Search, opts: Opts) -> bool:
    return search.offer(replace, opts=(opts,))


def simpler_opts(search: Search) -> None:
    """Simpler optimisations instead, smaller amounts, and axes further to the front."""
    for at in range(sum(map(len, search.case.opts[:1]))):
        for op in _SIMPLER.get(search.case.opts[0][at].op, ()):
            opt = search.case.opts[0][at]
            if _with_opt(search, at, replace(opt, op=op)):
                break
        for arg in smaller_amounts(search.case.opts[0][at]):
            if _with_opt(search, at, replace(search.case.opts[0][at], arg=arg)):
                break
        for axis in range(search.case.opts[0][at].axis):
            if _with_opt(search, at, replace(search.case.opts[0][at], axis=axis)):
                break


def smaller_amounts(opt: Opt) -> list[int]:
    """Amounts to try instead of that of `opt`, the smallest first."""
    if not opt.spec.has_axis:
        return []
    if opt.spec.takes in (Argument.AXIS, Argument.SLOT):
        return list(range(opt.arg))
    return sorted({less for less in (2, 3, 4, opt.arg // 2) if 1 < less < (opt.arg or 3)})


def _with_opt(search: Search, at: int, opt: Opt) -> bool:
    opts = search.case.opts[0]
    return _with_opts(search, (*opts[:at], opt, *opts[at + 1 :]))
