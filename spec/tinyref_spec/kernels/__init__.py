"""A library of kernel ASTs, for the rows of kernels, the fuzzer, the tests and the bench.

Functions take sizes and dtypes, and return one SINK of STOREs over views of buffers. `notation.py`
has the notation for kernel ASTs. `named.py` has the kernels with more than one user, each once.
`elementwise.py`, `reduces.py` and `contractions.py` are the corpus of exact kernels, which
`corpus.py` collects, checks and gives data. A kernel with one user is written there, in this
notation.
"""
