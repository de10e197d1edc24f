"""Which programs a computation needs, before it is made: a device that notes them and runs nothing.

It declares and renders what another device does, and never calls that one otherwise: memory is not
taken, kernels are neither compiled nor launched. Where values are read, the computation ends.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import NoReturn

from tinyref.device import Capabilities, Device, Launchable, Renderer
from tinyref.runtimes.null import NullAllocator, NullBackend
from tinyref.uops.program import Program


class _ValuesWanted(BaseException):
    """Ends a computation; nobody who handles errors catches it."""


class _PlanningAllocator(NullAllocator):
    def copy_out(self, destination: memoryview, handle: int) -> NoReturn:
        raise _ValuesWanted


class PlanningBackend(NullBackend):
    """Stands in for the device that `programs_of` names; there is one at a time in a process."""

    model = "NULL"
    programs: dict[Program, None] = {}

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._no_memory = _PlanningAllocator(self.name)

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Device[self.model].capabilities

    @functools.cached_property
    def renderer(self) -> Renderer:  # type: ignore[override] # of the other device
        return Device[self.model].renderer

    @property
    def allocator(self) -> _PlanningAllocator:  # type: ignore[override] # as NULL's
        return self._no_memory

    def interpret(self, program: Program) -> Launchable:
        self.programs[program] = None
        return super().interpret(program)


_NAME = f"{PlanningBackend.__module__}:{PlanningBackend.__qualname__}"


def programs_of(device: str, compute: Callable[[str], object]) -> list[Program]:
    """The programs that `compute` asks for, up to where it reads the first value.

    compute: called with the name of the device on which it is to compute; what it raises says
    nothing, as it computes with nothing. A program that an earlier call gave may be left out.
    """
    PlanningBackend.model = Device.canonical(device)
    PlanningBackend.programs.clear()
    with contextlib.suppress(Exception, _ValuesWanted):
        compute(_NAME)
    return list(PlanningBackend.programs)
