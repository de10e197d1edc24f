"""Reduction: the smallest case that still fails with the same fault.

In: a `Case` that fails, its `Verdict`, seconds. Out: a `ReducedCase`: case and verdict.

`reduction.py` goes through the steps (`steps_*.py`) until none helps: each offers smaller cases to
the `search.py`, which takes those of the same fault (`fault.py`) that are smaller (`measure.py`).
"""

from tinyref_fuzz.reduce.measure import node_count, opt_count
from tinyref_fuzz.reduce.reduction import ReducedCase, reduce_case

__all__ = ["ReducedCase", "node_count", "opt_count", "reduce_case"]
