"""Devices on which some launches never end, or end the process."""

from __future__ import annotations

import os
import time
from typing import Any

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


class SecondLaunch(Aborting):
    """Ends the process in the second launch of any kernel."""

    class kernel(_Dying):  # type: ignore[assignment]
        launches = 0

        def __call__(self, *arguments: Any, **named: Any) -> float | None:
            self.launches += 1
            if self.launches == 2:
                self.die()
            return super().__call__(*arguments, **named)
