"""The modules of cuda-bindings, and where the parts of CUDA are that come as wheels.

They are imported where they are wanted first: most machines have none of it.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from tinyref.errors import DeviceError

INSTALL = "pip install '.[cuda]' in a clone of tinyref"


def bindings(device: str, name: str) -> Any:
    """A module of cuda-bindings: "driver" or "nvrtc". Raises `DeviceError` where there is none."""
    try:
        return importlib.import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise DeviceError(device, f"cuda-bindings does not import: {INSTALL} ({error})") from error


@functools.cache
def header_folder() -> str | None:
    """Where cuda_fp16.h and its kin are: those of the wheel, or of a toolkit that is installed."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return None
    found = pathfinder.find_nvidia_header_directory("cudart")
    return None if found is None else str(found)


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return str(error).strip().partition("\n")[0]
