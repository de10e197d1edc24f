"""What the fuzzer passes around, and how it is kept.

In: a kernel AST, its data, its lists of optimisations. Out: a `Case`, which is also a file.

`case.py` has the case, its verdict and its blame; `tape.py` the choices from which a generated case
is built again; `inputs.py` the contents of its buffers; `store.py` and `migrate.py` its files;
`equivalent/` the kernels that must compute the same.
"""
