"""TinyJit: runs a function once, records its kernels, and launches them again.

In: a function of tensors and numbers. Out: what it returns, from the third call on by kernels
alone.

`calls.py` has TinyJit, `arguments.py` what it is called with, `session.py` what is read while the
function runs, `inputs.py`, `results.py` and `state.py` the tensors that a replay takes, gives and
keeps, `capture.py` puts a capture together and replays it, `saving.py` pickles it.
"""

from tinyref.tensor.jit.calls import TinyJit

__all__ = ["TinyJit"]
