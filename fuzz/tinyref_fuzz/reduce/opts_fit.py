"""Optimisations that fit a kernel that has become smaller: other axes, other amounts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tinyref.capabilities import Capabilities
from tinyref.optimise.opt import REUSED, Argument, Opt
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref_spec.kernel_case import Opts


def fit_opts(ast: UOp, opts: Opts, capabilities: Capabilities) -> Opts | None:
    """The list with each optimisation as near as may be to what it was, all of them legal.

    None where one of them fits nowhere. Axes that are gone move those behind them to the front,
    and a smaller axis takes a smaller amount.
    """
    plan = Plan.of(ast, capabilities)
    found = []
    for opt in opts:
        for near in _near(opt):
            reached = plan.legal(near)
            if reached is not None:
                plan = reached
                found.append(near)
                break
        else:
            return None
    return tuple(found)


def _near(opt: Opt) -> Iterator[Opt]:
    """The optimisation itself, then on another axis and with smaller amounts."""
    takes = opt.spec.takes
    if takes is Argument.NOTHING:
        yield opt
        return
    amounts = [opt.arg]
    if takes in (Argument.AMOUNT, Argument.MULTIPLE):
        amounts += [less for less in (2, 3, 4) if less < opt.arg]
        amounts += [0] if opt.spec.may_be_whole and opt.arg else []
    is_number = takes in (Argument.AXIS, Argument.SLOT) and opt.arg != REUSED
    others = range(opt.arg, -1, -1) if is_number else amounts
    for arg in others:
        # An axis comes back where nothing consumes it any more.
        for axis in (*range(opt.axis, -1, -1), opt.axis + 1, opt.axis + 2):
            yield replace(opt, axis=axis, arg=arg)
