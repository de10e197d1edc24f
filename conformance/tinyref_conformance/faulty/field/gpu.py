"""A GPU made of the host that reports no races, like real devices: for lost barriers."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref import config
from tinyref.runtimes.emulated.gpu_emu import GpuEmuBackend, GroupKernel, PreparedGroups
from tinyref.runtimes.emulated.memory import EmulatedMemory
from tinyref.runtimes.python import Extents


class OneOrderGpu(GpuEmuBackend):
    """GPU_EMU whose launches run once, forward, instead of in both orders of work-items."""

    def load(self, entry: str, binary: bytes) -> GroupKernel:
        return _OneOrderKernel(self._allocator, self._emulator.load(entry, binary))


class _OneOrderKernel(GroupKernel):
    def prepare(
        self,
        buffers: Sequence[EmulatedMemory],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> PreparedGroups:
        return _OneOrderLaunch(self, buffers, grid, group, variables)


class _OneOrderLaunch(PreparedGroups):
    def __call__(self) -> None:
        with config.Context(EMU_ORDER="forward"):
            super().__call__()


HEALTHY = f"{__name__}:{OneOrderGpu.__name__}"
