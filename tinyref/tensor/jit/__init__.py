"""TinyJit: runs a function once, records its kernels, and launches them again.

In: a function of tensors and numbers. Out: what it returns, from the third call on by kernels
alone.

`calls.py` has TinyJit, `arguments.py` what it is called with, `results.py` what it returns,
`session.py` the tensors from outside that the function uses, `capture.py` puts a capture together,
replays and pickles it.
"""

from tinyref.tensor.jit.calls import TinyJit

__all__ = ["TinyJit"]
