"""Memory of a GPU of AMD: addresses, which a view only adds to."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from tinyref.runtimes.drivers import check_copy_in, check_copy_out, check_part, check_size
from tinyref.runtimes.hip.driver import PROCESS, Session


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """`nbytes` bytes of the device from `address` on."""

    address: int
    nbytes: int

    @property
    def pointer(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.address)


class HipAllocator:
    """Memory of one session; sizes and offsets are in bytes, size 0 is fine."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def allocate(self, nbytes: int) -> Memory:
        """Raises `UserError` for a negative size, `DeviceError` where there is not so much."""
        check_size(nbytes)
        # Of no bytes there is no address.
        address = self.session.made("hipMalloc", ctypes.c_size_t(max(nbytes, 1)))
        return Memory(address.value or 0, nbytes)

    def free(self, handle: Memory) -> None:
        """Waits for what uses it. A forked child frees nothing: it is the parent's."""
        if not PROCESS.is_forked:
            self.session.finish()
            self.session.call("hipFree", handle.pointer)

    def view(self, handle: Memory, offset: int, nbytes: int) -> Memory:
        """Raises `UserError` when not all of it is inside."""
        check_part(offset, nbytes, handle.nbytes)
        return Memory(handle.address + offset, nbytes)

    def copy_in(self, handle: Memory, source: memoryview) -> None:
        """Raises `UserError` when there are more bytes than fit."""
        check_copy_in(source, handle.nbytes)
        if source.nbytes:
            data = (ctypes.c_char * source.nbytes).from_buffer_copy(source)
            session = self.session
            size = ctypes.c_size_t(source.nbytes)
            session.call("hipMemcpyHtoDAsync", handle.pointer, data, size, session.stream)
            # `data` ends with this call.
            session.finish()

    def copy_out(self, destination: memoryview, handle: Memory) -> None:
        """Raises `UserError` when it wants more bytes than there are."""
        check_copy_out(destination, handle.nbytes)
        session = self.session
        if destination.nbytes:
            data = (ctypes.c_char * destination.nbytes).from_buffer(destination)
            size = ctypes.c_size_t(destination.nbytes)
            session.call("hipMemcpyDtoHAsync", data, handle.pointer, size, session.stream)
        session.finish()

    def transfer(self, target: Memory, source: Memory, origin: Any) -> None:
        """Copies from the device of `origin`, by its peer connection where there is one.

        The copy comes after what is queued on that device, and before what is queued there later.
        """
        here, there = self.session, origin.session
        here.wait_for(there)
        here.call(
            "hipMemcpyPeerAsync",
            target.pointer,
            here.index,
            source.pointer,
            there.index,
            ctypes.c_size_t(source.nbytes),
            here.stream,
        )
        there.wait_for(here)
