"""TinyJit: runs a function once, records its kernels, and launches them again."""

from tinyref.tensor.jit.calls import TinyJit

__all__ = ["TinyJit"]
