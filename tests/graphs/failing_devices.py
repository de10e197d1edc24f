"""Devices that fail on demand: at an allocation, a compile, a copy or a launch."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.errors import DeviceError
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops.program import Program

# Events that can fail: `launch` is before a launch has effects, `launched` after all of them.
KINDS = ("allocate", "compile", "copy in", "copy out", "launch", "launched")

Fault = BaseException | Callable[[], None] | None


class Faults:
    """The event that fails, and its error."""

    def __init__(self) -> None:
        self._kind = ""
        self._left = 0
        self._error: Fault = None

    @contextmanager
    def at(self, kind: str, number: int, error: Fault = None) -> Iterator[None]:
        """Make event number `number` of `kind` fail inside the block, and no other; count from 0.

        error: The error to raise (default: a `DeviceError`), or a function to call.
        """
        self._kind, self._left = kind, number
        self._error = error
        try:
            yield
        finally:
            self._kind = ""

    def meet(self, kind: str, device: str) -> None:
        """Report an event; raise if it is the one that must fail."""
        if kind != self._kind:
            return
        self._left -= 1
        if self._left < 0:
            self._kind = ""
            if callable(self._error):
                self._error()
            else:
                raise self._error or DeviceError(device, f"{kind} fails as a test demands")


FAULTS = Faults()


class _Allocator(HostAllocator):
    def allocate(self, nbytes: int) -> HostHandle:
        FAULTS.meet("allocate", self.device)
        return super().allocate(nbytes)

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        FAULTS.meet("copy in", self.device)
        super().copy_in(handle, source)

    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        FAULTS.meet("copy in", self.device)
        super().transfer(target, source, origin)

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        FAULTS.meet("copy out", self.device)
        super().copy_out(destination, handle)


class _Kernel(InterpretedKernel):
    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        FAULTS.meet("launch", self.device)
        seconds = super().__call__(*arguments, **named)
        FAULTS.meet("launched", self.device)
        return seconds


class Failing(TextBackend):
    """The interpreter, with the failures of `FAULTS`."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"failing_devices:{type(self).__name__}" + (f":{index}" if index else "")
        self._allocator = _Allocator(self.name)

    def interpret(self, program: Program) -> InterpretedKernel:
        FAULTS.meet("compile", self.name)
        return _Kernel(self.name, program)


class FailingLoops(Failing):
    """The same failures on a device whose kernels are loops, so that they are fused differently."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(
            super().capabilities, has_grid=False, has_groups=False, shared_bytes=0, matrix_tiles=()
        )


DEVICES = ("failing_devices:Failing", "failing_devices:FailingLoops")
