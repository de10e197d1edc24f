"""Whether the compiler keeps the values of expressions and views, without a program of them.

In: a kernel of outputs that reduce nothing, its data, what a device declares. Out: the first output
that some service of the compiler makes another value of, or knows something wrong of.

Each service is a column, with what it must keep: `algebra.py` has rules, ranges and sums,
`views.py` views and their movements, `stages.py` what lowering, decompositions and narrow indices
make of a whole kernel, for devices of `lacks.py`. Values are those of the fuzzer's own evaluators:
`points.py` of kernels, `indexed.py` of what is made of them. `judge.py` asks every column.
"""
