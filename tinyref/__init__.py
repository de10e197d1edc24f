"""tinyref: a small lazy tensor compiler that other compilers and devices are judged by."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tinyref.config import Context
    from tinyref.device import Device
    from tinyref.dtype import dtypes
    from tinyref.engine.counters import GlobalCounters
    from tinyref.tensor import Tensor, Variable
    from tinyref.tensor.jit import TinyJit

__version__ = "0.1.0"
__all__ = ["Context", "Device", "GlobalCounters", "Tensor", "TinyJit", "Variable", "dtypes"]

# Each name is imported when it is first used: `import tinyref` and the command line stay quick.
_HOMES = {
    "Context": "tinyref.config",
    "Device": "tinyref.device",
    "GlobalCounters": "tinyref.engine.counters",
    "Tensor": "tinyref.tensor",
    "TinyJit": "tinyref.tensor.jit",
    "Variable": "tinyref.tensor",
    "dtypes": "tinyref.dtype",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tinyref' has no attribute {name!r}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
