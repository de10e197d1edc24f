"""Devices that fail on some candidates of a search: they crash, hang or refuse."""

from __future__ import annotations

import functools
import os
import time
from dataclasses import replace
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.errors import DeviceError
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops.program import Program


class FragileBackend(TextBackend):
    """Device that crashes on vectors of 2 lanes, hangs on 4 lanes, and refuses 8 lanes."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, has_groups=False, shared_bytes=0, matrix_tiles=())

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        if b"float32x2" in binary:
            os.abort()
        if b"float32x4" in binary:
            time.sleep(1000)
        if b"float32x8" in binary:
            raise DeviceError(self.name, "no vectors of 8 lanes today")
        return super().load(entry, binary)


class StickyAllocator(HostAllocator):
    """Memory of a device that returns only an error after a kernel has failed."""

    is_lost = False

    def check(self) -> None:
        if self.is_lost:
            raise DeviceError(self.device, "an illegal address was reached by an earlier launch")

    def allocate(self, nbytes: int) -> HostHandle:
        self.check()
        return super().allocate(nbytes)

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        self.check()
        super().copy_in(handle, source)

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        self.check()
        super().copy_out(destination, handle)


class StickyKernel(InterpretedKernel):
    """Kernel whose failure with 2 lanes appears in the next call."""

    def __init__(self, device: str, program: Program, memory: StickyAllocator) -> None:
        super().__init__(device, program)
        self._memory = memory

    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        self._memory.check()
        if any(node.dtype.lanes == 2 for node in self.program.uops):
            self._memory.is_lost = True
            return 1e-9
        return super().__call__(*arguments, **named)


class StickyBackend(FragileBackend):
    """Device whose illegal address is an error of all later calls, as in a context of CUDA."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = StickyAllocator(self.name)

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        program = TextBackend.load(self, entry, binary).program
        return StickyKernel(self.name, program, self._allocator)
