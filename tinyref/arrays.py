"""A lazy numpy, imported when one of its names is first read.

Importing numpy takes as long as importing all of tinyref. Modules that `Tensor` loads take `np` and
`npt` from here and read none of their names during import. Modules that are loaded to work on
arrays import numpy itself.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Array", "np", "npt"]

Array: TypeAlias = "npt.NDArray[Any]"


def _import_later(name: str) -> ModuleType:
    """Return a stand-in for the module `name`, which it imports when an attribute is read."""
    module = ModuleType(name)

    def read(attribute: str) -> object:
        value = getattr(importlib.import_module(name), attribute)
        # From now on the stand-in has the attribute: reading it is as fast as in the module.
        setattr(module, attribute, value)
        return value

    setattr(module, "__getattr__", read)  # noqa: B010 - mypy knows no such name of a module
    return module


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = _import_later("numpy")
    npt = _import_later("numpy.typing")
