"""The GPU_EMU device: a GPU made of the host by LLVM from the llvmlite wheel, with no compiler."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence

import llvmlite.binding as llvm

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.contract import Availability, Backend, Launch
from tinyref.dtype import dtypes
from tinyref.renderers.llvm import LLVM_DTYPES, LLVM_OPS
from tinyref.renderers.llvm_gpu import LlvmGpuRenderer
from tinyref.runtimes.emulated.llvm_engine import (
    Extents,
    GroupFunction,
    GroupLaunch,
    LlvmEmulator,
)
from tinyref.runtimes.emulated.memory import (
    MAX_GROUP_SIZE,
    MAX_SHARED_BYTES,
    EmulatedAllocator,
    EmulatedMemory,
)
from tinyref.runtimes.host.cpu import llvm_availability, llvm_versions
from tinyref.runtimes.kernel import LaunchesInARow
from tinyref.uops.tiles import TILES

# Those of types that the host has; the others would be of emulated numbers.
_TILES = tuple(tile for tile in TILES.values() if {tile.dtype_in, tile.dtype_out} <= LLVM_DTYPES)


class GpuEmuBackend(Backend):
    """Kernels with groups, barriers and shared memory, on the cores of the host.

    Its memory is its own: handles are no arrays, and what was freed cannot be reached.
    """

    title = "GPU made of the host, LLVM through llvmlite"
    survives_fork = True

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"GPU_EMU:{index}" if index else "GPU_EMU"
        self._allocator = EmulatedAllocator(self.name)
        self._emulator = LlvmEmulator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return llvm_availability()

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            dtypes=LLVM_DTYPES,
            # As on CPU: decomposed they are faster, and their bits those of other devices.
            ops=LLVM_OPS - ELEMENTARY_OPS,
            emulated=frozenset({*dtypes.fp8s, dtypes.float16, dtypes.bfloat16}),
            vector_lanes=(1, 2, 4, 8, 16),
            has_grid=True,
            has_groups=True,
            shared_bytes=MAX_SHARED_BYTES,
            group_size_limit=MAX_GROUP_SIZE,
            images=_converts_halves(),
            matrix_tiles=_TILES,
            # Made of single products: as slow as these are.
            tiles_pay=False,
            division_traps=True,
        )

    @property
    def renderer(self) -> LlvmGpuRenderer:
        return self._emulator.renderer

    @property
    def compiler(self) -> LlvmEmulator:
        return self._emulator

    @property
    def allocator(self) -> EmulatedAllocator:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> GroupKernel:
        return GroupKernel(self._allocator, self._emulator.load(entry, binary))

    def record(self, launches: Sequence[Launch]) -> LaunchesInARow:
        return LaunchesInARow(launches)

    def versions(self) -> dict[str, str]:
        return llvm_versions()


class GroupKernel:
    """A loaded kernel that takes pieces of the device's memory."""

    def __init__(self, memory: EmulatedAllocator, function: GroupFunction) -> None:
        self.memory = memory
        self.function = function

    def __call__(
        self,
        buffers: Sequence[EmulatedMemory],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Runs all groups to their end; with `wait`, returns the seconds that it took.

        Raises `DeviceError` for the first fault that is found, and for memory that was freed.
        """
        start = time.perf_counter()
        self.prepare(buffers, grid, group, variables)()
        return time.perf_counter() - start if wait else None

    def prepare(
        self,
        buffers: Sequence[EmulatedMemory],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> PreparedGroups:
        """The same launch, to be repeated. Raises as a launch does."""
        return PreparedGroups(self, buffers, grid, group, variables)


class PreparedGroups:
    """A launch whose record is kept: where its buffers lie is looked at by each call."""

    def __init__(
        self,
        kernel: GroupKernel,
        buffers: Sequence[EmulatedMemory],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> None:
        self._kernel = kernel
        self._buffers = list(buffers)
        self._group = group
        self.vary(grid, variables)

    def __call__(self) -> None:
        memory = self._kernel.memory
        self._launch.move([memory.address(buffer) for buffer in self._buffers])
        self._launch.run_in_order()
        for buffer in self._buffers:
            memory.check(buffer)

    def rebind(self, place: int, handle: EmulatedMemory) -> None:
        """From now on the buffer at `place` is `handle`."""
        self._buffers[place] = handle

    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        """From now on the launch has another grid and other values of the variables."""
        kernel = self._kernel
        addresses = [kernel.memory.address(buffer) for buffer in self._buffers]
        self._launch = GroupLaunch(kernel.function, addresses, variables, grid, self._group)


def _converts_halves() -> bool:
    """Whether the processor converts float16, which texels may be; each but an old x86 does."""
    found: bool = llvm.get_host_cpu_features().get("f16c", True)
    return found
