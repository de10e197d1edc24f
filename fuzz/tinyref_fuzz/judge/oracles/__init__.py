"""Oracles: the expected values of a kernel, derived bounds, and unspecified elements."""

from tinyref_fuzz.judge.oracles.analysis import STRICT, Arithmetic
from tinyref_fuzz.judge.oracles.expected import evaluator_problem, oracle_for
from tinyref_fuzz.judge.oracles.oracle import AllowedElements, Oracle

__all__ = ["STRICT", "AllowedElements", "Arithmetic", "Oracle", "evaluator_problem", "oracle_for"]
