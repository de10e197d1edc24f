"""Rewriting: patterns, named rules, and the engine that applies them to a fixed point."""

from tinyref.algebra.rewrite.engine import RuleSet, rewrite
from tinyref.algebra.rewrite.listen import (
    counting_rules,
    listeners,
    listening,
    takes_step,
    uncached,
)
from tinyref.algebra.rewrite.pattern import Pattern, any_node, commute, constant, is_const, match
from tinyref.algebra.rewrite.rule import Domain, Keeps, Rule, rule, rules_of
from tinyref.algebra.rewrite.steps import Step, Steps

__all__ = [
    "Domain",
    "Keeps",
    "Pattern",
    "Rule",
    "RuleSet",
    "Step",
    "Steps",
    "any_node",
    "commute",
    "constant",
    "counting_rules",
    "is_const",
    "listeners",
    "listening",
    "match",
    "rewrite",
    "rule",
    "rules_of",
    "takes_step",
    "uncached",
]
