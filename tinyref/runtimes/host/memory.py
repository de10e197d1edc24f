"""Memory of devices that compute on the host: aligned byte arrays of numpy."""

from __future__ import annotations

import ctypes
from typing import TypeAlias

from tinyref.arrays import np, npt
from tinyref.errors import DeviceError
from tinyref.runtimes.driver_checks import check_copy_in, check_copy_out, check_part, check_size

# The size of a cache line, and of the widest vector register of today's hosts.
ALIGNMENT = 64

# Scratch memory of one call of a kernel: on the stack of its thread, and half a usual L2 cache.
SCRATCH_BYTES = 512 * 2**10

_NO_BYTES = ctypes.c_char * 0

HostHandle: TypeAlias = "npt.NDArray[np.uint8]"


class HostAllocator:
    """An allocator of one-dimensional uint8 arrays whose first byte is 64-byte aligned.

    device: the name in errors. Sizes and offsets are in bytes; size 0 is accepted.
    """

    def __init__(self, device: str) -> None:
        self.device = device

    def allocate(self, nbytes: int) -> HostHandle:
        """Return `nbytes` of memory with undefined content.

        Raises `UserError` for a negative size, `DeviceError` if the host has too little memory.
        """
        check_size(nbytes)
        try:
            memory = np.empty(nbytes + ALIGNMENT, dtype=np.uint8)
        except (MemoryError, ValueError, OverflowError) as error:
            raise DeviceError(self.device, f"cannot allocate {nbytes} bytes: {error}") from error
        start = -address_of(memory) % ALIGNMENT
        return memory[start : start + nbytes]

    def free(self, handle: HostHandle) -> None:
        """Do nothing: the memory is freed with the last reference to the array."""

    def view(self, handle: HostHandle, offset: int, nbytes: int) -> HostHandle:
        """Return `nbytes` of `handle` from `offset` on, without a copy.

        Raises `UserError` if they are not all inside.
        """
        check_part(offset, nbytes, handle.size)
        return handle[offset : offset + nbytes]

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        """Copy the bytes of `source` to the start of `handle`.

        Raises `UserError` if they do not fit.
        """
        check_copy_in(source, handle.size)
        if source.nbytes:
            handle[: source.nbytes] = np.frombuffer(source, dtype=np.uint8)

    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        """Copy `source`, allocated by `origin`, into `target` on a device of the same kind."""
        target[:] = source

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        """Fill `destination` from the start of `handle`.

        Raises `UserError` if `handle` has fewer bytes.
        """
        check_copy_out(destination, handle.size)
        if destination.nbytes:
            np.frombuffer(destination, dtype=np.uint8)[:] = handle[: destination.nbytes]


def address_of(handle: HostHandle) -> int:
    """Return the address of the first byte of `handle`, an array of any type."""
    try:
        # This takes a quarter of the time that numpy takes.
        return ctypes.addressof(_NO_BYTES.from_buffer(handle.data))
    except (TypeError, ValueError):
        # Read-only arrays and types of other libraries do not support Python's buffers.
        address: int = handle.__array_interface__["data"][0]
        return address
