"""The NULL device: nothing is compiled, nothing runs and nothing is stored.

Graphs are scheduled, kernels lowered and counted as for a GPU, and memory of any size is planned. A
request for values is refused. `programs_of` uses such a device to find the programs of a
computation in advance.
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
    """An allocator without memory: a handle is its size in bytes."""

    def __init__(self, device: str) -> None:
        self.device = device

    def allocate(self, nbytes: int) -> int:
        return nbytes

    def free(self, handle: int) -> None:
        """Do nothing: no memory was taken."""

    def view(self, handle: int, offset: int, nbytes: int) -> int:
        return nbytes

    def copy_in(self, handle: int, source: memoryview) -> None:
        """Drop the bytes."""

    def transfer(self, target: int, source: int, origin: NullAllocator) -> None:
        """Do nothing: `source` holds nothing."""

    def copy_out(self, destination: memoryview, handle: int) -> NoReturn:
        """Raise `UserError`: no value was ever computed."""
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
    """Stand for every kernel: do nothing, in a time that is not measured."""


class NullBackend(TextBackend):
    """A device with the capabilities of PYTHON that runs nothing: programs are text for readers."""

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


class _ValueReadError(BaseException):
    """Ends a computation at its first read of a value; no handler of errors catches it."""


class _PlanningAllocator(NullAllocator):
    def copy_out(self, destination: memoryview, handle: int) -> NoReturn:
        raise _ValueReadError


class PlanningBackend(NullBackend):
    """Records the programs for the device that `programs_of` models, and runs nothing.

    It has the capabilities and the renderer of that device, which need not exist (`CompileTarget`).
    It calls nothing else of it: it takes no memory, and neither compiles nor launches kernels. A
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
    """Return the programs that `compute` requests before it reads the first value.

    model: the name of a device, or a target that need not exist. A process may model only one
    target, because kernels are cached by name.
    compute: called with the name of the device to compute on. Its errors are ignored, as it
    computes with nothing. Programs that an earlier call returned may be left out.
    """
    PlanningBackend.model = Device[model] if isinstance(model, str) else model
    PlanningBackend.programs.clear()
    with contextlib.suppress(Exception, _ValueReadError):
        compute(_NAME)
    return list(PlanningBackend.programs)
