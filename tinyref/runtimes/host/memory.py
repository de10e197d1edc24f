"""Memory of devices that compute on the host: aligned byte arrays of numpy."""

from __future__ import annotations

import ctypes
from typing import TypeAlias

from tinyref.arrays import np, npt
from tinyref.errors import DeviceError
from tinyref.runtimes.driver_checks import check_copy_in, check_copy_out, check_part, check_size

# A cache line, and the widest vector register of today's hosts.
ALIGNMENT = 64

# Scratch memory of one call of a kernel: on the stack of its thread, and half of a usual L2 cache.
SCRATCH_BYTES = 512 * 2**10

_NO_BYTES = ctypes.c_char * 0

HostHandle: TypeAlias = "npt.NDArray[np.uint8]"


class HostAllocator:
    """Hands out one-dimensional uint8 arrays whose first byte is 64-byte aligned.

    `device` is the name that errors carry. Sizes and offsets are in bytes; size 0 is fine.
    """

    def __init__(self, device: str) -> None:
        self.device = device

    def allocate(self, nbytes: int) -> HostHandle:
        """`nbytes` of memory with no defined content.

        Raises `UserError` for a negative size, `DeviceError` when the host has not so much.
        """
        check_size(nbytes)
        try:
            memory = np.empty(nbytes + ALIGNMENT, dtype=np.uint8)
        except (MemoryError, ValueError, OverflowError) as error:
            raise DeviceError(self.device, f"cannot allocate {nbytes} bytes: {error}") from error
        start = -address_of(memory) % ALIGNMENT
        return memory[start : start + nbytes]

    def free(self, handle: HostHandle) -> None:
        """Nothing to do: the memory goes with the last reference to the array."""

    def view(self, handle: HostHandle, offset: int, nbytes: int) -> HostHandle:
        """The `nbytes` of `handle` from `offset` on, without a copy.

        Raises `UserError` when they are not all inside.
        """
        check_part(offset, nbytes, handle.size)
        return handle[offset : offset + nbytes]

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        """Copies the bytes of `source` to the start of `handle`.

        Raises `UserError` when there are more than fit.
        """
        check_copy_in(source, handle.size)
        if source.nbytes:
            handle[: source.nbytes] = np.frombuffer(source, dtype=np.uint8)

    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        """Copies between devices of one kind: `source`, which is of `origin`, into `target`."""
        target[:] = source

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        """Fills `destination` from the start of `handle`.

        Raises `UserError` when it wants more bytes than there are.
        """
        check_copy_out(destination, handle.size)
        if destination.nbytes:
            np.frombuffer(destination, dtype=np.uint8)[:] = handle[: destination.nbytes]


def address_of(handle: HostHandle) -> int:
    """The address of the first byte of `handle`, an array of any type."""
    try:
        # A quarter of the time that numpy takes to say where an array is.
        return ctypes.addressof(_NO_BYTES.from_buffer(handle.data))
    except (TypeError, ValueError):
        # What may not be written, or has a type of another library, is no buffer of Python's.
        address: int = handle.__array_interface__["data"][0]
        return address
