"""Memory of an OpenCL device: buffers with byte offsets.

A sub-buffer of OpenCL begins at a multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN bits only (OpenCL 1.2,
5.2.1), a view of ours at any element. So a handle is a buffer and an offset, and kernels take both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinyref.errors import DeviceError
from tinyref.runtimes.drivers import check_copy_in, check_copy_out, check_part, check_size
from tinyref.runtimes.opencl.driver import PROCESS, Session


@dataclass(frozen=True, slots=True)
class Memory:
    """`nbytes` bytes of `buffer` from `offset` on."""

    buffer: Any
    offset: int
    nbytes: int


class OpenCLAllocator:
    """Buffers of one session; sizes and offsets are in bytes, size 0 is fine."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def allocate(self, nbytes: int) -> Memory:
        """Raises `UserError` for a negative size, `DeviceError` where there is not so much."""
        check_size(nbytes)
        session = self.session
        limit = session.device.max_mem_alloc_size
        if nbytes > limit:
            raise DeviceError(
                session.name, f"cannot allocate {nbytes} bytes: one buffer has at most {limit}"
            )
        with session.errors(f"cannot allocate {nbytes} bytes"):
            flags = session.cl.mem_flags.READ_WRITE
            # OpenCL has no buffers of no bytes.
            return Memory(session.cl.Buffer(session.context, flags, max(nbytes, 1)), 0, nbytes)

    def free(self, handle: Memory) -> None:
        """The driver keeps the memory until what is queued is done with it (OpenCL 1.2, 5.4.1).

        A forked child frees nothing: it is the parent's.
        """
        if PROCESS.is_forked:
            return
        with self.session.errors("cannot free memory"):
            handle.buffer.release()

    def view(self, handle: Memory, offset: int, nbytes: int) -> Memory:
        """Raises `UserError` when not all of it is inside."""
        check_part(offset, nbytes, handle.nbytes)
        return Memory(handle.buffer, handle.offset + offset, nbytes)

    def copy_in(self, handle: Memory, source: memoryview) -> None:
        """Raises `UserError` when there are more bytes than fit."""
        check_copy_in(source, handle.nbytes)
        if source.nbytes:
            session = self.session
            with session.errors("copy_in"):
                session.cl.enqueue_copy(
                    session.queue, handle.buffer, source, dst_offset=handle.offset
                )

    def copy_out(self, destination: memoryview, handle: Memory) -> None:
        """Raises `UserError` when it wants more bytes than there are."""
        check_copy_out(destination, handle.nbytes)
        session = self.session
        session.finish()
        if destination.nbytes:
            with session.errors("copy_out"):
                session.cl.enqueue_copy(
                    session.queue, destination, handle.buffer, src_offset=handle.offset
                )
