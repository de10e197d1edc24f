"""Which optimisations a kernel gets without a search."""

from __future__ import annotations

from tinyref.uops.optimise.plan import Plan


def optimised(plan: Plan) -> Plan:
    """`plan` with what the heuristics choose for its device."""
    return plan
