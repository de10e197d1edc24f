"""Memory of a GPU of Metal: shared buffers, which the processor reaches too, and byte offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinyref.errors import DeviceError
from tinyref.runtimes.drivers import check_copy_in, check_copy_out, check_part, check_size
from tinyref.runtimes.metal.driver import PROCESS, Session


@dataclass(eq=False, slots=True)
class Allocation:
    """An MTLBuffer; None once it is freed."""

    buffer: Any


@dataclass(frozen=True, eq=False, slots=True)
class Memory:
    """`nbytes` bytes of an allocation from `offset` on."""

    allocation: Allocation
    offset: int
    nbytes: int


class MetalAllocator:
    """Buffers of one session; sizes and offsets are in bytes, size 0 is fine."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def allocate(self, nbytes: int) -> Memory:
        """Raises `UserError` for a negative size, `DeviceError` where there is not so much."""
        check_size(nbytes)
        PROCESS.check(self.session.name)
        limit = self.session.device.maxBufferLength()
        # Metal has no buffers of no bytes, and gives none where it has no memory.
        shared = self.session.metal.MTLResourceStorageModeShared
        buffer = None
        if nbytes <= limit:
            buffer = self.session.device.newBufferWithLength_options_(max(nbytes, 1), shared)
        if buffer is None:
            raise DeviceError(
                self.session.name, f"cannot allocate {nbytes} bytes: one buffer has at most {limit}"
            )
        return Memory(Allocation(buffer), 0, nbytes)

    def free(self, handle: Memory) -> None:
        """Gives the buffer back; command buffers that use it keep it until they are done.

        Raises `DeviceError` for memory that was freed.
        """
        self.buffer_of(handle)
        handle.allocation.buffer = None

    def view(self, handle: Memory, offset: int, nbytes: int) -> Memory:
        """Raises `UserError` when not all of it is inside."""
        check_part(offset, nbytes, handle.nbytes)
        return Memory(handle.allocation, handle.offset + offset, nbytes)

    def copy_in(self, handle: Memory, source: memoryview) -> None:
        """Raises `UserError` when there are more bytes than fit."""
        check_copy_in(source, handle.nbytes)
        bytes_of = self._bytes(handle)
        bytes_of[: source.nbytes] = source.cast("B")

    def copy_out(self, destination: memoryview, handle: Memory) -> None:
        """Raises `UserError` when it wants more bytes than there are."""
        check_copy_out(destination, handle.nbytes)
        destination.cast("B")[:] = self._bytes(handle)[: destination.nbytes]

    def buffer_of(self, handle: Memory) -> Any:
        """The MTLBuffer. Raises `DeviceError` for memory that was freed."""
        if handle.allocation.buffer is None:
            raise DeviceError(
                self.session.name, f"memory of {handle.nbytes} bytes is used after it was freed"
            )
        return handle.allocation.buffer

    def _bytes(self, handle: Memory) -> memoryview:
        """The bytes of `handle`, where all launches called so far have left them."""
        buffer = self.buffer_of(handle)
        self.session.finish()
        whole = memoryview(buffer.contents().as_buffer(buffer.length())).cast("B")
        return whole[handle.offset : handle.offset + handle.nbytes]
