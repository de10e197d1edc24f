"""Reduction: the smallest case that still fails with the same fault."""

from tinyref_fuzz.reduce.measure import node_count, opt_count
from tinyref_fuzz.reduce.reduction import Reduction, reduced

__all__ = ["Reduction", "node_count", "opt_count", "reduced"]
