"""The memory of emulated devices, and a driver like those of real devices.

The driver has memory, a queue, programs and launches. A backend from `tinyref new-backend` calls it
in the lines where it will later call the driver of its device.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from tinyref import config
from tinyref.contract import Launch
from tinyref.errors import DeviceError
from tinyref.runtimes.driver_checks import BufferPart, NamedBackend, PartAllocator, check_size
from tinyref.runtimes.host.memory import ALIGNMENT, HostAllocator, HostHandle, address_of
from tinyref.runtimes.host.threads import run_groups, thread_count
from tinyref.runtimes.kernel import LaunchesInARow

Extents = tuple[int, int, int]

# The largest group of an emulated GPU, and its shared memory.
MAX_GROUP_SIZE = 1024
MAX_SHARED_BYTES = 64 * 2**10
# Bytes before and after each allocation that nobody may write, and their content.
GUARD = ALIGNMENT
_GUARD_BYTES = b"\xc3" * GUARD
# A launch is cut into more pieces than threads, because groups may take different times.
PIECES_PER_THREAD = 4
# Queued work is done at the latest when this many calls wait.
MAX_QUEUED = 256


@dataclass(slots=True, eq=False)
class GuardedAllocation:
    """One allocation between guards; its array is None once it is freed."""

    array: HostHandle | None
    nbytes: int


# A handle is a part of a `GuardedAllocation`. It is not an array and has no host address.
EmulatedMemory = BufferPart


class EmulatedAllocator(PartAllocator):
    """Allocations of a device that shares no memory with the host: bytes are copied in and out.

    Freed memory cannot be accessed: using its handle raises `DeviceError`. `check` raises one too
    if a kernel wrote before or after an allocation.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._host = HostAllocator(device)

    def allocate(self, nbytes: int) -> EmulatedMemory:
        """Return `nbytes` of memory, 64-byte aligned, with undefined content.

        Raises `UserError` for a negative size, `DeviceError` if the host has too little memory.
        """
        check_size(nbytes)
        array = self._host.allocate(nbytes + 2 * GUARD)
        guard = np.frombuffer(_GUARD_BYTES, np.uint8)
        array[:GUARD] = guard
        array[GUARD + nbytes :] = guard
        return EmulatedMemory(GuardedAllocation(array, nbytes), 0, nbytes)

    def free(self, handle: EmulatedMemory) -> None:
        """Make this memory inaccessible. Raises `DeviceError` if it is freed already."""
        self._array(handle)
        handle.buffer.array = None

    def copy_in(self, handle: EmulatedMemory, source: memoryview) -> None:
        """Copy the bytes of `source` to the start of `handle`; `UserError` if they do not fit."""
        self._host.copy_in(self.bytes_of(handle), source)

    def copy_out(self, destination: memoryview, handle: EmulatedMemory) -> None:
        """Fill `destination` from the start of `handle`; `UserError` if it has fewer bytes."""
        self._host.copy_out(destination, self.bytes_of(handle))

    def transfer(
        self, target: EmulatedMemory, source: EmulatedMemory, origin: EmulatedAllocator
    ) -> None:
        """Copy `source`, of another device of the kind, to `target` of the same size."""
        self.bytes_of(target)[:] = origin.bytes_of(source)

    def bytes_of(self, handle: EmulatedMemory) -> HostHandle:
        """Return the bytes of `handle`. Raises `DeviceError` for freed memory."""
        first = GUARD + handle.offset
        return self._array(handle)[first : first + handle.nbytes]

    def address(self, handle: EmulatedMemory) -> int:
        """Return the address of its first byte. Raises `DeviceError` for freed memory."""
        return address_of(self._array(handle)) + GUARD + handle.offset

    def check(self, handle: EmulatedMemory) -> None:
        """Raise `DeviceError` if a guard of the allocation of `handle` was written."""
        array = self._array(handle)
        for where, guard in (("before", array[:GUARD]), ("after", array[-GUARD:])):
            if guard.tobytes() != _GUARD_BYTES:
                raise DeviceError(
                    self.device,
                    f"out of bounds: bytes {where} an allocation of {handle.buffer.nbytes} bytes "
                    "were written",
                )

    def run(
        self,
        function: EmulatedFunction,
        pieces: Sequence[EmulatedMemory],
        variables: Sequence[int],
        grid: Extents,
        group: Extents,
    ) -> None:
        """Run a kernel on pieces of this memory to its end. Raises `DeviceError` for its faults."""
        addresses = [self.address(piece) for piece in pieces]
        function(addresses, variables, grid, group, [piece.nbytes for piece in pieces])
        for piece in pieces:
            self.check(piece)

    def _array(self, handle: EmulatedMemory) -> HostHandle:
        memory: GuardedAllocation = handle.buffer
        array = memory.array
        if array is None:
            raise DeviceError(
                self.device, f"memory of {memory.nbytes} bytes is used after it was freed"
            )
        return array


def bytes_at(address: int, nbytes: int) -> HostHandle:
    """Return the bytes of this process at `address`."""
    memory = (ctypes.c_uint8 * nbytes).from_address(int(address))
    return np.ctypeslib.as_array(memory)


def run_in_order(
    pieces: Sequence[HostHandle],
    items: int,
    run: Callable[[bool], None],
    differs: Callable[[int, int], DeviceError],
) -> None:
    """Call `run` with True for the reversed order, with False, or both, by the flag EMU_ORDER.

    With "both" it runs forward, then in reverse on the same bytes of its buffers. If results
    differ, raises the result of `differs` for the buffer and the first different byte. A launch of
    one work-item has one order: its buffers, possibly larger than this host, are not copied.
    """
    order = config.text("EMU_ORDER") if items > 1 else "forward"
    if order != "both":
        run(order == "reverse")
        return
    before = [piece.copy() for piece in pieces]
    run(False)
    forward = [piece.copy() for piece in pieces]
    for piece, old in zip(pieces, before, strict=True):
        piece[:] = old
    run(True)
    for number, (piece, first) in enumerate(zip(pieces, forward, strict=True)):
        if not np.array_equal(piece, first):
            raise differs(number, int(np.flatnonzero(piece != first)[0]))


def share_groups(count: int, run: Callable[[int, int], object], is_reverse: bool = False) -> None:
    """Call `run` for stretches of `count` groups on host threads, with first group and end.

    With `is_reverse` the last stretch comes first. Raises the errors of the calls.
    """
    threads = thread_count()
    pieces = min(count, threads * PIECES_PER_THREAD if threads > 1 else 1)

    def run_piece(index: int) -> None:
        index = pieces - 1 - index if is_reverse else index
        run(count * index // pieces, count * (index + 1) // pieces)

    run_groups(run_piece, pieces)


class EmulatedFunction(Protocol):
    """A loaded kernel: it runs on addresses of this host and returns when it is done."""

    def __call__(
        self,
        addresses: Sequence[int],
        variables: Sequence[int],
        grid: Extents,
        group: Extents,
        sizes: Sequence[int] = (),
    ) -> None:
        """Run all groups; `sizes` are the bytes of the buffer from each address on."""
        ...


class EmulatedKernel:
    """A loaded kernel that takes pieces of the device's memory.

    takes_offsets: the kernel itself adds the byte at which each buffer begins. It gets these bytes
    as variables before its own.
    """

    def __init__(
        self, memory: EmulatedAllocator, function: EmulatedFunction, takes_offsets: bool = False
    ) -> None:
        self._memory = memory
        self._function = function
        self._takes_offsets = takes_offsets

    def __call__(
        self,
        buffers: Sequence[EmulatedMemory],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """Run all groups to their end; with `wait`, return the seconds that it took.

        Raises `DeviceError` for the first fault, and for freed memory.
        """
        pieces, values = list(buffers), list(variables)
        if self._takes_offsets:
            values = [*(piece.offset for piece in pieces), *values]
            pieces = [EmulatedMemory(piece.buffer, 0, piece.buffer.nbytes) for piece in pieces]
        start = time.perf_counter()
        self._memory.run(self._function, pieces, values, grid, group)
        return time.perf_counter() - start if wait else None


# --- the driver -----------------------------------------------------------------------------------


class Emulator(Protocol):
    """Compiles and runs kernels of one language on the host."""

    @property
    def version(self) -> str:
        """Return the version of its parts. Raises `DeviceError` if something is missing."""
        ...

    @property
    def key(self) -> str:
        """Return everything but the source that decides the result of `compile`."""
        ...

    def compile(self, source: str) -> bytes:
        """Compile a source. Raises `DeviceError` with the compiler's message."""
        ...

    def load(self, entry: str, binary: bytes) -> EmulatedFunction:
        """Load a kernel. Raises `DeviceError` if there is none of this name."""
        ...


class EmulatedBackend(NamedBackend):
    """A GPU emulated on the host, with a separate memory; subclasses set `_emulator`.

    takes_offsets: kernels take the byte at which each buffer begins, before the variables.
    """

    survives_fork = True
    takes_offsets: ClassVar[bool] = False

    _emulator: Emulator

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._memory = EmulatedAllocator(self.name)
        self._allocator = self._memory

    @property
    def compiler(self) -> Emulator:
        return self._emulator

    def load(self, entry: str, binary: bytes) -> EmulatedKernel:
        function = self._emulator.load(entry, binary)
        return EmulatedKernel(self._memory, function, self.takes_offsets)

    def record(self, launches: Sequence[Launch]) -> LaunchesInARow:
        return LaunchesInARow(launches)


class Event:
    """A position in the queue of a driver, for which another driver's queue can wait."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self._driver = driver
        self.is_done = False
        self.error: DeviceError | None = None

    def wait(self) -> None:
        """Return when the work before it is done. Raises `DeviceError` if that failed."""
        self._driver.run_until(self)
        if self.error is not None:
            raise self.error


# One thread at a time works on queues that wait for each other.
_lock = threading.RLock()


class EmulatedDriver:
    """The driver of the device called `device`, whose kernels `emulator` compiles and runs.

    Work is queued and done in the order of the calls, at the latest when somebody waits for it. If
    a launch fails, the call that waits reports it, and the work queued after it is dropped.
    """

    def __init__(self, device: str, emulator: Emulator) -> None:
        self.device = device
        self.emulator = emulator
        self._memory = EmulatedAllocator(device)
        self._queue: deque[Callable[[], object] | Event] = deque()

    @property
    def version(self) -> str:
        """Return the version of its parts. Raises `DeviceError` if something is missing."""
        return self.emulator.version

    @property
    def compiler_key(self) -> str:
        """Return what decides the result of `compile`; packages of `new-backend` read it."""
        return self.emulator.key

    def compile(self, source: str) -> bytes:
        """Compile a source. Raises `DeviceError` with the compiler's message."""
        return self.emulator.compile(source)

    def load(self, entry: str, binary: bytes) -> EmulatedFunction:
        """Load the kernel called `entry`. Raises `DeviceError` if there is none."""
        return self.emulator.load(entry, binary)

    def malloc(self, nbytes: int) -> EmulatedMemory:
        """Return memory with undefined content. Raises `DeviceError` if there is not enough."""
        return self._memory.allocate(nbytes)

    def free(self, memory: EmulatedMemory) -> None:
        """Free memory after the queued work has used it.

        The garbage collector may call this in any thread, also in one for which a launch waits, so
        it takes no lock.
        """
        self._queue.append(lambda: self._memory.free(memory))

    def write(self, memory: EmulatedMemory, offset: int, source: memoryview) -> None:
        """Copy bytes of the host to `offset`; `source` may change after the call returns.

        Raises `UserError` if they do not fit.
        """
        target = self._memory.view(memory, offset, source.nbytes)
        data = bytes(source)
        self._submit(lambda: self._memory.copy_in(target, memoryview(data)))

    def read(self, destination: memoryview, memory: EmulatedMemory, offset: int) -> None:
        """Copy bytes from `offset` to the host, when all work so far is done.

        Raises `UserError` if there are fewer bytes.
        """
        source = self._memory.view(memory, offset, destination.nbytes)
        self.synchronize()
        self._memory.copy_out(destination, source)

    def launch(
        self,
        function: EmulatedFunction,
        buffers: Sequence[tuple[EmulatedMemory, int]],
        variables: Sequence[int],
        grid: Extents,
        group: Extents,
    ) -> None:
        """Queue `grid` groups of `group` work-items; a buffer is memory and an offset in bytes."""
        pieces = [
            self._memory.view(memory, offset, memory.nbytes - offset) for memory, offset in buffers
        ]
        values = list(variables)
        self._submit(lambda: self._memory.run(function, pieces, values, grid, group))

    def copy(
        self,
        target: tuple[EmulatedMemory, int],
        source: tuple[EmulatedMemory, int],
        nbytes: int,
        origin: EmulatedDriver,
    ) -> None:
        """Copy bytes from memory of `origin`, maybe this driver itself, to memory of this one.

        Both are memory and an offset in bytes. An event in each queue orders the copy after all
        earlier work of both drivers and before all later work. Raises `UserError` if the bytes are
        not there.
        """
        there = self._memory.view(*target, nbytes)
        here = origin._memory.view(*source, nbytes)
        with _lock:
            if origin is not self:
                self.wait_for(origin.record())
            self._submit(lambda: self._memory.transfer(there, here, origin._memory))
            if origin is not self:
                origin.wait_for(self.record())

    def record(self) -> Event:
        """Return an event after all work so far."""
        event = Event(self)
        self._submit(event)
        return event

    def wait_for(self, event: Event) -> None:
        """Let all work that is queued later wait for an event of another driver."""
        self._submit(event.wait)

    def synchronize(self) -> None:
        """Return when all work so far is done. Raises `DeviceError` if any of it failed."""
        self.run_until(None)

    def run_until(self, last: Event | None) -> None:
        """Do the queued work up to an event, or all of it. Raises as `synchronize` does."""
        with _lock:
            while self._queue and not (last and last.is_done):
                work = self._queue.popleft()
                if isinstance(work, Event):
                    work.is_done = True
                    continue
                with self._gives_up():
                    work()

    @contextlib.contextmanager
    def _gives_up(self) -> Iterator[None]:
        """Drop the queued work if the block fails, and pass the error to waiting events."""
        try:
            yield
        except DeviceError as error:
            lost, self._queue = self._queue, deque()
            for work in lost:
                if isinstance(work, Event):
                    work.is_done, work.error = True, error
            raise

    def _submit(self, work: Callable[[], object] | Event) -> None:
        with _lock:
            self._queue.append(work)
            if len(self._queue) >= MAX_QUEUED:
                self.synchronize()
