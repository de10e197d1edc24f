"""Reduce a case to the smallest one that still fails with the same fault.

The input is a failing `KernelCase`, its `KernelVerdict` and a time limit; the output is a
`ReducedCase`.

`reduction.py` repeats the steps (`steps_*.py`) until none helps. Each step offers candidates to
`search.py`, which accepts those that are smaller (`measure.py`) and fail by the same fault
(`fault.py`).
"""

from tinyref_fuzz.reduce.measure import node_count, opt_count
from tinyref_fuzz.reduce.reduction import ReducedCase, reduce_case

__all__ = ["ReducedCase", "node_count", "opt_count", "reduce_case"]
