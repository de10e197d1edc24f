"""Simplification of expressions to a fixed point of all rules, also under given conditions."""

from __future__ import annotations

from tinyref.uops.node import UOp
from tinyref.uops.rewrite import RuleSet, rewrite, rules_of
from tinyref.uops.rules import (
    boolean,
    casts,
    comparison,
    division,
    floats,
    folding,
    integer,
    select,
)

ALL_RULES = RuleSet(
    rules_of(boolean, casts, comparison, division, floats, folding, integer, select), "simplify"
)


def simplify(node: UOp) -> UOp:
    """The simplest known node with the value of `node`, by every rule; kept with the node."""
    return rewrite(node, ALL_RULES)
