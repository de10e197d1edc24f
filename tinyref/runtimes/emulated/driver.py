"""What emulated devices have: memory of their own, and a driver as a device brings one.

The driver has memory, a queue, programs and launches. A backend that `tinyref new-backend` writes
calls it where it will call the driver of its device.
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

# The largest group of an emulated GPU, and the shared memory of one.
MAX_GROUP_SIZE = 1024
MAX_SHARED_BYTES = 64 * 2**10
# Bytes before and after each allocation that nobody may write, and what they hold.
GUARD = ALIGNMENT
_GUARD_BYTES = b"\xc3" * GUARD
# A launch is cut into more pieces than threads, for groups may take unlike times.
PIECES_PER_THREAD = 4
# Work that waits longer than this many calls is done, though nobody has asked for it.
MAX_QUEUED = 256


@dataclass(slots=True, eq=False)
class GuardedAllocation:
    """One allocation between guards; its array is None once it is freed."""

    array: HostHandle | None
    nbytes: int


# A handle is a part of a `GuardedAllocation`. It is no array, and has no address of the host.
EmulatedMemory = BufferPart


class EmulatedAllocator(PartAllocator):
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
        return EmulatedMemory(GuardedAllocation(array, nbytes), 0, nbytes)

    def free(self, handle: EmulatedMemory) -> None:
        """Nobody reaches this memory any more. Raises `DeviceError` when it is freed already."""
        self._array(handle)
        handle.buffer.array = None

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
    """The bytes of this process at `address`."""
    memory = (ctypes.c_uint8 * nbytes).from_address(int(address))
    return np.ctypeslib.as_array(memory)


def run_in_order(
    pieces: Sequence[HostHandle],
    items: int,
    run: Callable[[bool], None],
    differs: Callable[[int, int], DeviceError],
) -> None:
    """Calls `run` with whether the order is reversed, as the flag EMU_ORDER says.

    With "both" it is run forward, then in reverse on the same bytes of its buffers: raises what
    `differs` gives for the buffer and the first byte where the results differ. A launch of one
    work-item has one order: its buffers, which may be larger than this host, are not copied.
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
    for place, (piece, first) in enumerate(zip(pieces, forward, strict=True)):
        if not np.array_equal(piece, first):
            raise differs(place, int(np.flatnonzero(piece != first)[0]))


def share_groups(count: int, run: Callable[[int, int], object], is_reverse: bool = False) -> None:
    """Call `run` for each stretch of `count` groups, on threads of the host: first and end.

    With `is_reverse` the last stretch comes first. Raises what a call raises.
    """
    threads = thread_count()
    pieces = min(count, threads * PIECES_PER_THREAD if threads > 1 else 1)

    def run_piece(index: int) -> None:
        index = pieces - 1 - index if is_reverse else index
        run(count * index // pieces, count * (index + 1) // pieces)

    run_groups(run_piece, pieces)


class EmulatedFunction(Protocol):
    """A loaded kernel: it runs on addresses of this host, and returns when it is done."""

    def __call__(
        self,
        addresses: Sequence[int],
        variables: Sequence[int],
        grid: Extents,
        group: Extents,
        sizes: Sequence[int] = (),
    ) -> None:
        """`sizes` are the bytes from each address on that belong to the buffer."""
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

        Raises `DeviceError` for the first fault that is found, and for memory that was freed.
        """
        pieces, values = list(buffers), list(variables)
        if self._takes_offsets:
            values = [*(piece.offset for piece in pieces), *values]
            pieces = [EmulatedMemory(each.buffer, 0, each.buffer.nbytes) for each in pieces]
        start = time.perf_counter()
        self._memory.run(self._function, pieces, values, grid, group)
        return time.perf_counter() - start if wait else None


# --- the driver -----------------------------------------------------------------------------------


class Emulator(Protocol):
    """Compiles and runs kernels of one language on the host."""

    @property
    def version(self) -> str:
        """What it is made of. Raises `DeviceError` where something is missing."""
        ...

    @property
    def key(self) -> str:
        """All that decides what `compile` makes of a source."""
        ...

    def compile(self, source: str) -> bytes:
        """Raises `DeviceError` with the compiler's words."""
        ...

    def load(self, entry: str, binary: bytes) -> EmulatedFunction:
        """Raises `DeviceError` where there is no such kernel."""
        ...


class EmulatedBackend(NamedBackend):
    """A GPU made of the host, with memory of its own; subclasses set `_emulator`.

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
    """A place in the queue of a driver, for which another driver's queue can wait."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self._driver = driver
        self.is_done = False
        self.error: DeviceError | None = None

    def wait(self) -> None:
        """Returns when the work before it is done. Raises `DeviceError` where that failed."""
        self._driver.run_until(self)
        if self.error is not None:
            raise self.error


# Queues that wait for each other are worked off by one thread at a time.
_lock = threading.RLock()


class EmulatedDriver:
    """The driver of the device called `device`, whose kernels `emulator` compiles and runs.

    Work is queued and done in the order of the calls, at the latest when somebody waits for it. A
    launch that fails is reported by the call that waits, and what was queued after it is given up.
    """

    def __init__(self, device: str, emulator: Emulator) -> None:
        self.device = device
        self.emulator = emulator
        self._memory = EmulatedAllocator(device)
        self._queue: deque[Callable[[], object] | Event] = deque()

    @property
    def version(self) -> str:
        """What the device is made of. Raises `DeviceError` where something is missing."""
        return self.emulator.version

    @property
    def compiler_key(self) -> str:
        """All that decides what `compile` makes of a source; packages of `new-backend` read it."""
        return self.emulator.key

    def compile(self, source: str) -> bytes:
        """Raises `DeviceError` with the compiler's words."""
        return self.emulator.compile(source)

    def load(self, entry: str, binary: bytes) -> EmulatedFunction:
        """The kernel called `entry`. Raises `DeviceError` where there is none."""
        return self.emulator.load(entry, binary)

    def malloc(self, nbytes: int) -> EmulatedMemory:
        """Memory with no defined content. Raises `DeviceError` where there is not so much."""
        return self._memory.allocate(nbytes)

    def free(self, memory: EmulatedMemory) -> None:
        """Give memory back after the queued work has used it.

        The collector of garbage may call this in any thread, also in one for which a launch waits.
        So it takes no lock.
        """
        self._queue.append(lambda: self._memory.free(memory))

    def write(self, memory: EmulatedMemory, offset: int, source: memoryview) -> None:
        """Copies bytes of the host to `offset`; `source` may change once the call is back.

        Raises `UserError` where they do not fit.
        """
        target = self._memory.view(memory, offset, source.nbytes)
        data = bytes(source)
        self._submit(lambda: self._memory.copy_in(target, memoryview(data)))

    def read(self, destination: memoryview, memory: EmulatedMemory, offset: int) -> None:
        """Copies bytes from `offset` to the host, when all work so far is done.

        Raises `UserError` where there are not so many.
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
        """Queues `grid` groups of `group` work-items; a buffer is memory and an offset in bytes."""
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
        """Copies bytes from memory of `origin`, maybe this driver itself, to memory of this one.

        Both are memory and an offset in bytes. It comes after all that either driver was given
        before, and before all that either is given later, by an event in each queue. Raises
        `UserError` where the bytes are not there.
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
        """An event after all work so far."""
        event = Event(self)
        self._submit(event)
        return event

    def wait_for(self, event: Event) -> None:
        """What is queued later waits for an event of another driver."""
        self._submit(event.wait)

    def synchronize(self) -> None:
        """Returns when all work so far is done. Raises `DeviceError` for what failed of it."""
        self.run_until(None)

    def run_until(self, last: Event | None) -> None:
        """Does what is queued up to an event, or all of it. Raises as `synchronize` does."""
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
        """What is queued is lost with work that fails; who waits for it is told."""
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
