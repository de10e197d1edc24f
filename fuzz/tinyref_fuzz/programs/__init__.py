"""Fuzzed tensor programs: the scheduler, views, assignments and replays, not single kernels.

In: a tape of choices. Out: a `Program`, a list of steps; what an eager evaluator on numpy reads
from it, what tinyref reads, and where the two first differ.

`steps.py` has programs, `generator.py` makes them of `operations.py`. `oracle.py`
evaluates them at once, by `arithmetic.py` and, for gradients, `reverse.py`. `script.py` prints them
as Tensor calls, `run.py` runs these calls in several ways, `judge.py` compares. `reduce.py` and
`blame.py` examine, `record.py` keeps; `isolated.py` does so in another process.
"""
