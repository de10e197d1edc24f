"""Which programs a computation needs, before it is made: a device that notes them and runs nothing.

It declares and renders what another device does, or one that is not there (`CompileTarget`), and
calls nothing else of it: memory is not taken, kernels are neither compiled nor launched. Where
values are read, the computation ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NoReturn

from tinyref.capabilities import Capabilities
from tinyref.contract import Backend, CompileTarget, Launchable, Renderer
from tinyref.device import Device
from tinyref.runtimes.null import NullAllocator, NullBackend
from tinyref.uops.program import Program


class _ValuesWanted(BaseException):
    """Ends a computation; nobody who handles errors catches it."""


class _PlanningAllocator(NullAllocator):
    def copy_out(self, destination: memoryview, handle: int) -> NoReturn:
        raise _ValuesWanted


class PlanningBackend(NullBackend):
    """Stands in for what `programs_of` is given; there is one at a time in a process."""

    model: Backend | CompileTarget | None = None
    programs: dict[Program, None] = {}

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._no_memory = _PlanningAllocator(self.name)

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities if self.model is None else self.model.capabilities

    @property
    def renderer(self) -> Renderer:  # type: ignore[override] # of the other device
        return super().renderer if self.model is None else self.model.renderer

    @property
    def allocator(self) -> _PlanningAllocator:  # type: ignore[override] # as NULL's
        return self._no_memory

    def interpret(self, program: Program) -> Launchable:
        self.programs[program] = None
        return super().interpret(program)


_NAME = f"{PlanningBackend.__module__}:{PlanningBackend.__qualname__}"


def programs_of(model: str | CompileTarget, compute: Callable[[str], object]) -> list[Program]:
    """The programs that `compute` asks for, up to where it reads the first value.

    model: the name of a device, or one that need not be there; a process stands in for one of
    these alone, for kernels are kept by what they are of. compute: called with the name of the
    device on which it is to compute; what it raises says nothing, as it computes with nothing. A
    program that an earlier call gave may be left out.
    """
    PlanningBackend.model = Device[model] if isinstance(model, str) else model
    PlanningBackend.programs.clear()
    with contextlib.suppress(Exception, _ValuesWanted):
        compute(_NAME)
    return list(PlanningBackend.programs)
