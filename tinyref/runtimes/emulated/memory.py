"""Memory of emulated devices: not of the host's arrays, but of a device of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from tinyref import config
from tinyref.errors import DeviceError
from tinyref.runtimes.checks import check_part, check_size
from tinyref.runtimes.host.memory import ALIGNMENT, HostAllocator, HostHandle, address_of

# The largest group of an emulated GPU, and the shared memory of one.
MAX_GROUP_SIZE = 1024
MAX_SHARED_BYTES = 64 * 2**10
# Bytes before and after each allocation that nobody may write, and what they hold.
GUARD = ALIGNMENT
_GUARD_BYTES = b"\xc3" * GUARD


class Allocation:
    """One allocation between guards; its array is None once it is freed."""

    __slots__ = ("array", "nbytes")

    def __init__(self, array: HostHandle, nbytes: int) -> None:
        self.array: HostHandle | None = array
        self.nbytes = nbytes


class EmulatedMemory:
    """A handle: `nbytes` of an allocation from `offset` on. It is no array, and has no address."""

    __slots__ = ("memory", "nbytes", "offset")

    def __init__(self, memory: Allocation, offset: int, nbytes: int) -> None:
        self.memory = memory
        self.offset = offset
        self.nbytes = nbytes


class EmulatedAllocator:
    """Allocations of a device that shares nothing with the host: bytes are copied in and out.

    What was freed cannot be reached any more: using a handle of it is a `DeviceError`. So is a
    kernel that wrote before or after an allocation, by `check`.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._host = HostAllocator(device)

    def allocate(self, nbytes: int) -> EmulatedMemory:
        """`nbytes` of memory, 64-byte aligned, with no defined content.

        Raises `UserError` for a negative size, `DeviceError` when the host has not so much.
        """
        check_size(nbytes)
        array = self._host.allocate(nbytes + 2 * GUARD)
        guard = np.frombuffer(_GUARD_BYTES, np.uint8)
        array[:GUARD] = guard
        array[GUARD + nbytes :] = guard
        return EmulatedMemory(Allocation(array, nbytes), 0, nbytes)

    def free(self, handle: EmulatedMemory) -> None:
        """Nobody reaches this memory any more. Raises `DeviceError` when it is freed already."""
        self._array(handle)
        handle.memory.array = None

    def view(self, handle: EmulatedMemory, offset: int, nbytes: int) -> EmulatedMemory:
        """The `nbytes` of `handle` from `offset` on; `UserError` when they are not all inside."""
        check_part(offset, nbytes, handle.nbytes)
        return EmulatedMemory(handle.memory, handle.offset + offset, nbytes)

    def copy_in(self, handle: EmulatedMemory, source: memoryview) -> None:
        """Copies the bytes of `source` to the start of `handle`; `UserError` if they do not fit."""
        self._host.copy_in(self.bytes_of(handle), source)

    def copy_out(self, destination: memoryview, handle: EmulatedMemory) -> None:
        """Fills `destination` from the start of `handle`; `UserError` for more than there is."""
        self._host.copy_out(destination, self.bytes_of(handle))

    def transfer(
        self, target: EmulatedMemory, source: EmulatedMemory, origin: EmulatedAllocator
    ) -> None:
        """Copies `source`, of another device of the kind, to `target`, which has as many bytes."""
        self.bytes_of(target)[:] = origin.bytes_of(source)

    def bytes_of(self, handle: EmulatedMemory) -> HostHandle:
        """The bytes of `handle`. Raises `DeviceError` for freed memory."""
        first = GUARD + handle.offset
        return self._array(handle)[first : first + handle.nbytes]

    def address(self, handle: EmulatedMemory) -> int:
        """Where a kernel finds its first byte. Raises `DeviceError` for freed memory."""
        return address_of(self._array(handle)) + GUARD + handle.offset

    def check(self, handle: EmulatedMemory) -> None:
        """Raises `DeviceError` where a guard of the allocation of `handle` was written."""
        array = self._array(handle)
        for where, guard in (("before", array[:GUARD]), ("after", array[-GUARD:])):
            if guard.tobytes() != _GUARD_BYTES:
                raise DeviceError(
                    self.device,
                    f"out of bounds: bytes {where} an allocation of {handle.memory.nbytes} bytes "
                    "were written",
                )

    def _array(self, handle: EmulatedMemory) -> HostHandle:
        array = handle.memory.array
        if array is None:
            raise DeviceError(
                self.device, f"memory of {handle.memory.nbytes} bytes is used after it was freed"
            )
        return array


def bytes_at(address: int, nbytes: int) -> HostHandle:
    """The bytes of this process at `address`."""
    memory = (ctypes.c_uint8 * nbytes).from_address(int(address))
    return np.ctypeslib.as_array(memory)


def run_in_order(
    pieces: Sequence[HostHandle],
    run: Callable[[bool], None],
    differs: Callable[[int, int], DeviceError],
) -> None:
    """Calls `run` with whether the order is reversed, as the flag EMU_ORDER says.

    With "both" it is run forward, then in reverse on the same bytes of its buffers: raises what
    `differs` gives for the buffer and the first byte where the results differ.
    """
    order = config.text("EMU_ORDER")
    if order != "both":
        run(order == "reverse")
        return
    before = [piece.copy() for piece in pieces]
    run(False)
    forward = [piece.copy() for piece in pieces]
    for piece, old in zip(pieces, before, strict=True):
        piece[:] = old
    run(True)
    for place, (piece, first) in enumerate(zip(pieces, forward, strict=True)):
        if not np.array_equal(piece, first):
            raise differs(place, int(np.flatnonzero(piece != first)[0]))
