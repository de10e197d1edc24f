"""Devices that launch rightly once, and wrongly when a launch is repeated with other arguments."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.interpret import Hooks
from tinyref.runtimes.host_memory import HostHandle
from tinyref.runtimes.python import Extents, InterpretedKernel
from tinyref_conformance.faulty.broken import BrokenBackend, BrokenKernel


class _Prepared:
    """A launch with its arguments bound, which may or may not take others."""

    def __init__(
        self,
        kernel: InterpretedKernel,
        buffers: Sequence[HostHandle],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> None:
        self.kernel = kernel
        self.buffers = list(buffers)
        self.grid = grid
        self.group = group
        self.variables = list(variables)

    def __call__(self) -> None:
        self.kernel(self.buffers, self.grid, self.group, self.variables)

    def rebind(self, place: int, handle: HostHandle) -> None:
        self.buffers[place] = handle

    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        self.grid = grid
        self.variables = list(variables)


class _KeepsPointers(_Prepared):
    def rebind(self, place: int, handle: HostHandle) -> None:
        return


class _KeepsVariables(_Prepared):
    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        return


class _PreparingKernel(BrokenKernel):
    """A kernel that prepares its own launches."""

    launch: type[_Prepared] = _Prepared

    def prepare(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> _Prepared:
        return self.launch(self, buffers, grid, group, variables)


class _StalePointerKernel(_PreparingKernel):
    launch = _KeepsPointers


class _StaleVariableKernel(_PreparingKernel):
    launch = _KeepsVariables


class StalePointers(BrokenBackend):
    """Repeats a prepared launch on the buffers that it had first, whatever it is given since."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return _StalePointerKernel(self.name, healthy.program, self.wrong, Hooks())


class StaleVariables(BrokenBackend):
    """Repeats a prepared launch with the values of variables that it had first."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return _StaleVariableKernel(self.name, healthy.program, self.wrong, Hooks())
