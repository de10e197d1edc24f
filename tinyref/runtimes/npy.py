"""The NPY device: arrays of the host that hold data and run nothing."""

from __future__ import annotations

import functools
from typing import NoReturn

import numpy as np

from tinyref.device import Availability, Backend, Capabilities
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.runtimes.host_memory import HostAllocator
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


class NpyBackend(Backend):
    """Host arrays as a device: allocate, copy in, copy out. Every kernel is refused."""

    title = "arrays of the host, no kernels"
    runs_kernels = False

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"NPY:{index}" if index else "NPY"
        self._allocator = HostAllocator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True, f"numpy {np.__version__}")

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(dtypes=frozenset(dtypes.all), ops=frozenset())

    @functools.cached_property
    def renderer(self) -> Refusal:
        return Refusal(self.name)

    @functools.cached_property
    def compiler(self) -> Refusal:
        return Refusal(self.name)

    @property
    def allocator(self) -> HostAllocator:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> NoReturn:
        self.renderer.refuse(entry)

    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}
