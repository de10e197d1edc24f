"""Rewriting: patterns, named rules, and the engine that applies them to a fixed point."""

from tinyref.algebra.rewrite.engine import RuleSet, firings, listening, rewrite
from tinyref.algebra.rewrite.pattern import Pattern, any_node, commute, constant, is_const, match
from tinyref.algebra.rewrite.rule import Domain, Keeps, Rule, rule, rules_of

__all__ = [
    "Domain",
    "Keeps",
    "Pattern",
    "Rule",
    "RuleSet",
    "any_node",
    "commute",
    "constant",
    "firings",
    "is_const",
    "listening",
    "match",
    "rewrite",
    "rule",
    "rules_of",
]
