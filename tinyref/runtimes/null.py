"""The NULL device: nothing is compiled, nothing runs and nothing is kept.

Graphs are scheduled, kernels lowered and counted as for a GPU, and memory is planned, of any size.
What asks for values is refused. `programs_of` tells by such a device which programs a computation
needs, before it is made.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Backend, CompileTarget, Launchable, Renderer
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.runtimes.python import Extents, TextBackend
from tinyref.uops.program import Program


class NullAllocator:
    """Memory that is not there: a handle is its size in bytes."""

    def __init__(self, device: str) -> None:
        self.device = device

    def allocate(self, nbytes: int) -> int:
        return nbytes

    def free(self, handle: int) -> None:
        """Nothing to do: nothing was taken."""

    def view(self, handle: int, offset: int, nbytes: int) -> int:
        return nbytes

    def copy_in(self, handle: int, source: memoryview) -> None:
        """Nothing to do: the bytes are dropped."""

    def transfer(self, target: int, source: int, origin: NullAllocator) -> None:
        """Nothing to do: there is nothing in `source`."""

    def copy_out(self, destination: memoryview, handle: int) -> NoReturn:
        """Raises `UserError`: whatever is asked for, it was never computed."""
        raise UserError(
            f"device: {self.device} runs nothing and keeps no values, it is for schedules and "
            "counts: compute on another device, such as CPU"
        )


def _launch(
    buffers: Sequence[int],
    grid: Extents = (1, 1, 1),
    group: Extents = (1, 1, 1),
    variables: Sequence[int] = (),
    wait: bool = False,
) -> None:
    """Every kernel: it does nothing, in a time that is not measured."""


class NullBackend(TextBackend):
    """What PYTHON declares, of which nothing is run: programs are text for those who read it."""

    title = "runs nothing: schedules and counts"
    base = "NULL"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = NullAllocator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True)

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, is_interpreted=False, keeps_values=False)

    def interpret(self, program: Program) -> Launchable:
        return _launch

    def load(self, entry: str, binary: bytes) -> Launchable:  # type: ignore[override] # does nothing
        return _launch

    def versions(self) -> dict[str, str]:
        return {}


class _ValuesWanted(BaseException):
    """Ends a computation; nobody who handles errors catches it."""


class _PlanningAllocator(NullAllocator):
    def copy_out(self, destination: memoryview, handle: int) -> NoReturn:
        raise _ValuesWanted


class PlanningBackend(NullBackend):
    """Notes the programs of the device that `programs_of` is given, and runs nothing.

    It declares and renders what that device does, which need not be there (`CompileTarget`), and
    calls nothing else of it: memory is not taken, kernels are neither compiled nor launched. A
    process has one at a time.
    """

    model: Backend | CompileTarget | None = None
    programs: dict[Program, None] = {}

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = _PlanningAllocator(self.name)

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities if self.model is None else self.model.capabilities

    @property
    def renderer(self) -> Renderer:  # type: ignore[override] # of the other device
        return super().renderer if self.model is None else self.model.renderer

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
