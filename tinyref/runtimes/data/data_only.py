"""What backends share that hold data and run nothing: NPY and DISK."""

from __future__ import annotations

import functools
from typing import NoReturn

from tinyref.capabilities import Capabilities
from tinyref.contract import Backend
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.uops.program import Program


class Refusal:
    """Stands where other devices have a renderer and a compiler, and says that there is none."""

    def __init__(self, device: str) -> None:
        self.device = device

    @property
    def key(self) -> str:
        return "no kernels"

    def refuse(self, kernel: str) -> NoReturn:
        """Raises the `DeviceError` for a kernel of this name."""
        raise DeviceError(
            self.device,
            f"runs no kernels ({kernel} was given): it only holds data; compute on another "
            "device, such as CPU, and copy",
        )

    def render(self, program: Program) -> str:
        self.refuse(program.name)

    def compile(self, source: str) -> bytes:
        self.refuse("source text")


class DataOnlyBackend(Backend):
    """Memory as a device: allocate, copy in, copy out. Every kernel is refused, by `name`."""

    runs_kernels = False
    name: str

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(dtypes=frozenset(dtypes.all), ops=frozenset())

    @functools.cached_property
    def renderer(self) -> Refusal:
        return Refusal(self.name)

    @functools.cached_property
    def compiler(self) -> Refusal:
        return Refusal(self.name)

    def load(self, entry: str, binary: bytes) -> NoReturn:
        self.renderer.refuse(entry)
