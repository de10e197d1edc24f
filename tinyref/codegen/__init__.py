"""From a kernel AST and a plan to a program that a renderer can write.

In: a kernel AST, the plan of its axes, the capabilities of the device. Out: a `Program`.

`compile.py` runs the stages in this order:

* `lower.py`: axes become ranges and launch indices.
* `expand/`: upcast and unrolled ranges become copies and vectors.
* `accumulate.py`: reduces become loops over accumulators.
* `decompose/`: ops and types that the device lacks are computed with others.
* `narrow.py`: indices get a width.
* `linearise.py`: nodes get one legal order of few live values; `blocks.py` has the dependencies.
"""
