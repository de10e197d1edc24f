"""Launches of kernels of Metal."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinyref.contract import Launch
from tinyref.errors import DeviceError
from tinyref.runtimes.drivers import is_empty_launch
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

        Raises `DeviceError` as `encode` does.
        """
        if is_empty_launch(self.entry, grid, group):
            return 0.0 if wait else None
        commands = MetalCommandList([Launch(self, tuple(buffers), grid, group, tuple(variables))])()
        if not wait:
            return None
        self.session.finish()
        return max(float(commands.GPUEndTime() - commands.GPUStartTime()), 1e-9)

    def encode(self, encoder: Any, launch: Launch) -> None:
        """Adds a launch of this kernel to an encoder of commands, which does them in their order.

        Raises `DeviceError` for a group that is larger than what the registers of the GPU allow,
        and for memory that was freed.
        """
        limit = self._pipeline.maxTotalThreadsPerThreadgroup()
        if math.prod(launch.group) > limit:
            raise DeviceError(
                self.session.name,
                f"{self.entry}: the GPU has registers for groups of {limit} work-items, "
                f"got {launch.group}",
            )
        encoder.setComputePipelineState_(self._pipeline)
        for number, memory in enumerate(launch.buffers):
            buffer = self._memory.buffer_of(memory)
            encoder.setBuffer_offset_atIndex_(buffer, memory.offset, number)
        for number, value in enumerate(launch.variables, len(launch.buffers)):
            word = struct.pack("<i", value)
            encoder.setBytes_length_atIndex_(word, len(word), number)
        size = self.session.metal.MTLSizeMake
        grid, group = size(*launch.grid), size(*launch.group)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(grid, group)


class MetalCommandList:
    """Launches of one session in one command buffer, which is encoded anew by each call."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = list(launches)

    def __call__(self) -> Any:
        """Queues all; gives the command buffer. Nothing is queued where one of them is refused."""
        session = self._kernel(0).session
        with session.pool():
            commands = session.command_buffer()
            encoder = commands.computeCommandEncoder()
            try:
                for number, launch in enumerate(self._launches):
                    self._kernel(number).encode(encoder, launch)
            finally:
                # An encoder that is given up without this ends the process.
                encoder.endEncoding()
            session.commit(commands)
        return commands

    def rebind(self, launch: int, place: int, handle: Memory) -> None:
        """From the next call on the buffer at `place` of a launch is `handle`."""
        old = self._launches[launch]
        buffers = (*old.buffers[:place], handle, *old.buffers[place + 1 :])
        self._launches[launch] = replace(old, buffers=buffers)

    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        """From the next call on a launch has another grid and other values of the variables."""
        changed = replace(self._launches[launch], grid=grid, variables=tuple(variables))
        self._launches[launch] = changed

    def _kernel(self, number: int) -> MetalKernel:
        kernel = self._launches[number].kernel
        assert isinstance(kernel, MetalKernel), "a device records launches of its own kernels"
        return kernel
