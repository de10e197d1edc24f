"""One library of kernel ASTs, for the rows of kernels, the fuzzer, the tests and the bench.

What comes in are sizes and dtypes; what goes out is one SINK of STOREs over views of buffers.

`notation.py` is how a kernel AST is written down; `named.py` has the kernels that more than one
place needs, each once; `elementwise.py`, `reduces.py` and `contractions.py` are the corpus of
exact kernels, which `corpus.py` collects, checks and gives data. A kernel that only one place
needs is written there, in this notation.
"""
