"""Fuzz tensor programs: the scheduler, views, assignments and replays, instead of one kernel.

The input is a tape of choices. The output is a `TensorProgram`, a list of steps. An eager evaluator
on numpy and tinyref both run it, and the first read that differs is reported.

`steps.py` has programs, and `generator.py` draws them with the steps of `operations.py`.
`oracle.py` evaluates them eagerly, by `arithmetic.py` and, for gradients, `reverse.py`. `script.py`
prints them as Tensor calls, `run.py` runs these calls in several ways, and `judge.py` compares the
results. `reduce.py` and `blame.py` examine a failure, `record.py` stores it, and `isolated.py` does
both in another process.
"""
