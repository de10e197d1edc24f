"""tinyref: a small lazy tensor compiler that other compilers and devices are judged by."""

import sys

# `python -m tinyref` puts the current folder first in the path. Remove it before other imports: a
# file typing.py or random.py there would replace Python's.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    words = dict(zip(sys.orig_argv, sys.orig_argv[1:], strict=False))
    if words.get("-m") in ("tinyref", "tinyref.cli"):
        del sys.path[0]
    del words

import importlib
import os
from typing import TYPE_CHECKING

from tinyref.garbage import collection_paused

if TYPE_CHECKING:
    from tinyref.config import Context
    from tinyref.device import Device
    from tinyref.dtype import dtypes
    from tinyref.engine.accounting import GlobalCounters
    from tinyref.tensor import Tensor, Variable
    from tinyref.tensor.jit.calls import TinyJit

__version__ = "0.1.0"
__all__ = ["Context", "Device", "GlobalCounters", "Tensor", "TinyJit", "Variable", "dtypes"]

# Each name is imported at its first use, so `import tinyref` and the command line start quickly.
_HOMES = {
    "Context": "tinyref.config",
    "Device": "tinyref.device",
    "GlobalCounters": "tinyref.engine.accounting",
    "Tensor": "tinyref.tensor",
    "TinyJit": "tinyref.tensor.jit.calls",
    "Variable": "tinyref.tensor",
    "dtypes": "tinyref.dtype",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tinyref' has no attribute {name!r}")
    with collection_paused():
        value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


# The page of a program that is not run by `tinyref explain`.
if os.environ.get("TINYREF_EXPLAIN"):
    importlib.import_module("tinyref.cli.explain.at_exit").start()
