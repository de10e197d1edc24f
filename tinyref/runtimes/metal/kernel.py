"""Launches of kernels of Metal."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.metal.memory import Memory, MetalAllocator

Extents = tuple[int, int, int]


class MetalKernel:
    """A pipeline, launched in the order of the session's queue.

    Buffers have the numbers 0, 1 ... of its arguments, the variables those after them.
    """

    def __init__(self, memory: MetalAllocator, entry: str, pipeline: Any) -> None:
        self.session = memory.session
        self.entry = entry
        self._memory = memory
        self._pipeline = pipeline

    def __call__(
        self,
        buffers: Sequence[Memory],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Queues the launch; with `wait`, gives the seconds that the GPU took.

        Raises `DeviceError` for a group that is larger than what the registers of the GPU allow.
        """
        if min(grid) < 0 or min(group) < 1:
            raise UserError(f"{self.entry}: got grid {grid} and group {group}: accepted from 0, 1")
        limit = self._pipeline.maxTotalThreadsPerThreadgroup()
        if math.prod(group) > limit:
            raise DeviceError(
                self.session.name,
                f"{self.entry}: the GPU has registers for groups of {limit} work-items, "
                f"got {group}",
            )
        if 0 in grid:
            return 0.0 if wait else None
        with self.session.pool():
            commands = self._commands(buffers, grid, group, variables)
            self.session.commit(commands)
        if not wait:
            return None
        self.session.finish()
        return max(float(commands.GPUEndTime() - commands.GPUStartTime()), 1e-9)

    def _commands(
        self, buffers: Sequence[Memory], grid: Extents, group: Extents, variables: Sequence[int]
    ) -> Any:
        commands = self.session.command_buffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(self._pipeline)
        for number, memory in enumerate(buffers):
            buffer = self._memory.buffer_of(memory)
            encoder.setBuffer_offset_atIndex_(buffer, memory.offset, number)
        for number, value in enumerate(variables, len(buffers)):
            word = struct.pack("<i", value)
            encoder.setBytes_length_atIndex_(word, len(word), number)
        size = self.session.metal.MTLSizeMake
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(size(*grid), size(*group))
        encoder.endEncoding()
        return commands
