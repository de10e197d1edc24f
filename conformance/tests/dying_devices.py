"""Devices on which some launches never end, or end the process."""

from __future__ import annotations

import os
import time
from typing import Any

from tinyref.errors import DeviceError
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops.ops import Ops


class _Dying(InterpretedKernel):
    def die(self) -> None:
        os.abort()

    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        # A kernel of two additions, and no other.
        if sum(node.op is Ops.ADD for node in self.program.uops) == 2:
            self.die()
        return super().__call__(*arguments, **named)


class _Hanging(_Dying):
    def die(self) -> None:
        while True:
            time.sleep(1)


class _Raising(_Dying):
    def die(self) -> None:
        raise RuntimeError("the driver says no")


class _Wordy(_Dying):
    def die(self) -> None:
        raise DeviceError("WORDY", "said again. " * 100_000, "source. " * 100_000)


class Aborting(TextBackend):
    """Ends the process in a launch of a kernel with two additions."""

    kernel: type[_Dying] = _Dying

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        return self.kernel(self.name, super().load(entry, binary).program)


class Hanging(Aborting):
    """Never ends one."""

    kernel = _Hanging


class Raising(Aborting):
    """Raises an error of no class of ours."""

    kernel = _Raising


class Wordy(Aborting):
    """Raises an error of a megabyte, with a source of as much."""

    kernel = _Wordy


class _LosingAllocator(HostAllocator):
    """Refuses everything from the moment that the device is lost."""

    is_lost = False

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        self.check()
        super().copy_in(handle, source)

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        self.check()
        super().copy_out(destination, handle)

    def check(self) -> None:
        if self.is_lost:
            raise DeviceError(self.device, "device lost")


class Losing(Aborting):
    """Is lost in a launch of a kernel with two additions; the process goes on."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = allocator = _LosingAllocator(self.name)

        class Kernel(_Dying):
            def die(self) -> None:
                allocator.is_lost = True
                allocator.check()

        self.kernel = Kernel


class DeadLaunches(Aborting):
    """From a launch of a kernel with two additions on nothing is launched; copies go on."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        dead: list[bool] = []

        class Kernel(_Dying):
            def die(self) -> None:
                dead.append(True)

            def __call__(self, *arguments: Any, **named: Any) -> float | None:
                if sum(node.op is Ops.ADD for node in self.program.uops) == 2:
                    self.die()
                return None if dead else InterpretedKernel.__call__(self, *arguments, **named)

        self.kernel = Kernel


class SecondLaunch(Aborting):
    """Ends the process in the second launch of any kernel."""

    class kernel(_Dying):  # type: ignore[assignment]
        launches = 0

        def __call__(self, *arguments: Any, **named: Any) -> float | None:
            self.launches += 1
            if self.launches == 2:
                self.die()
            return super().__call__(*arguments, **named)


class _Miscopying(HostAllocator):
    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        super().copy_out(destination, handle ^ 1)


class Miscopying(TextBackend):
    """Gives other bytes than it was given."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = _Miscopying(self.name)
