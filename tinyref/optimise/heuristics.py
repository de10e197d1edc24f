"""Which optimisations a kernel gets without a search."""

from __future__ import annotations

from tinyref.optimise.heuristics_groups import optimised_for_groups
from tinyref.optimise.heuristics_loops import LIMITS, NO_LIMITS, optimised_for_loops
from tinyref.optimise.plan import Plan


def heuristic_plan(plan: Plan, as_large: bool = False) -> Plan:
    """`plan` with what the heuristics choose for its device: only legal optimisations.

    `as_large` gives a small kernel what a large one of its form gets.
    """
    if not plan.axes:
        return plan
    if plan.capabilities.has_grid:
        return optimised_for_groups(plan)
    return optimised_for_loops(plan, NO_LIMITS if as_large else LIMITS)
