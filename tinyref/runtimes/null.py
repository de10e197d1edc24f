"""The NULL device: nothing is compiled, nothing runs and nothing is kept.

Graphs are scheduled, kernels lowered and counted as for a GPU, and memory is planned, of any size.
What asks for values is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Launchable
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

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"NULL:{index}" if index else "NULL"
        self._nothing = NullAllocator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True)

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, is_interpreted=False, keeps_values=False)

    @property
    def allocator(self) -> NullAllocator:  # type: ignore[override] # handles are sizes
        return self._nothing

    def interpret(self, program: Program) -> Launchable:
        return _launch

    def load(self, entry: str, binary: bytes) -> Launchable:  # type: ignore[override] # does nothing
        return _launch

    def versions(self) -> dict[str, str]:
        return {}
