"""TinyJit: runs a function, records its kernels, and launches them again.

In: a function of tensors and numbers. Out: the function's results. From the third call on,
TinyJit launches the recorded kernels and runs no Python of the function.

`calls.py` has TinyJit, `arguments.py` its arguments, `results.py` its results. `session.py` has the
outside tensors that the function uses. `capture.py` builds, replays and pickles a capture.
"""

from tinyref.tensor.jit.calls import TinyJit

__all__ = ["TinyJit"]
