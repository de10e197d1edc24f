"""numpy, imported when the first of its names is read and not before.

It takes as long to import as all of tinyref. What is loaded with `Tensor` takes `np` and `npt` from
here, and reads none of their names while it is imported; a module that is loaded for its work on
arrays imports numpy itself.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Array", "np", "npt"]

Array: TypeAlias = "npt.NDArray[Any]"


def _import_later(name: str) -> ModuleType:
    """A stand-in for the module `name`, which is imported when a name of it is first read."""
    module = ModuleType(name)

    def read(attribute: str) -> object:
        value = getattr(importlib.import_module(name), attribute)
        # The next reading finds it in the stand-in, as fast as in the module.
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
