"""From a kernel AST and a plan to a program that a renderer can write.

In: a kernel AST, the plan of its axes, what the device can do. Out: a `Program`.

`compile.py` runs the stages in their order: `lower.py` (axes become ranges and launch indices),
`expand/` (upcast and unrolled ranges become copies and vectors), `accumulate.py` (reduces become
loops over accumulators), `decompose/` (ops and types that the device lacks), `narrow.py` (indices
get a width), `blocks.py` (what must come before what) and `linearise.py` (one legal order of few
live values).
"""
