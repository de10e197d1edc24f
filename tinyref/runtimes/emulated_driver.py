"""A driver as a device brings one, for a GPU made of the host: memory, a queue, programs, launches.

A backend that `tinyref new-backend` writes calls it where it will call the driver of its device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.host_memory import HostAllocator, HostHandle, address_of

Extents = tuple[int, int, int]

# No value that anybody could take for a result: floats of these bytes are NaN.
POISON = 0xFF
# Work that waits longer than this many calls is done, though nobody has asked for it.
LONGEST_QUEUE = 256


class Function(Protocol):
    """A loaded kernel: it runs on addresses of this host, and returns when it is done."""

    def __call__(
        self, addresses: Sequence[int], variables: Sequence[int], grid: Extents, group: Extents
    ) -> None: ...


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

    def load(self, entry: str, binary: bytes) -> Function:
        """Raises `DeviceError` where there is no such kernel."""
        ...


class DeviceMemory:
    """A piece of the device's own memory: only the driver reaches its bytes."""

    def __init__(self, nbytes: int, host: HostHandle) -> None:
        self.nbytes = nbytes
        self._host: HostHandle | None = host

    def bytes_from(self, device: str, offset: int) -> HostHandle:
        """The bytes from `offset` on. Raises `DeviceError` once the memory is freed."""
        if self._host is None:
            raise DeviceError(device, "memory is used that was freed")
        return self._host[offset:]

    def release(self, device: str) -> None:
        """Raises `DeviceError` for memory that is freed twice."""
        self.bytes_from(device, 0)
        self._host = None


class EmulatedDriver:
    """The driver of the device called `device`, whose kernels `emulator` compiles and runs.

    Work is queued and done in the order of the calls, at the latest when somebody waits for it. A
    launch that fails is reported by the call that waits, and what was queued after it is given up.
    """

    def __init__(self, device: str, emulator: Emulator) -> None:
        self.device = device
        self.emulator = emulator
        self._host = HostAllocator(device)
        self._queue: list[Callable[[], object]] = []
        self._lock = threading.RLock()

    def malloc(self, nbytes: int) -> DeviceMemory:
        """Memory with no defined content. Raises `DeviceError` where there is not so much."""
        host = self._host.allocate(nbytes)
        host.fill(POISON)
        return DeviceMemory(nbytes, host)

    def free(self, memory: DeviceMemory) -> None:
        """Gives memory back when what is queued has used it."""
        self._submit(lambda: memory.release(self.device))

    def write(self, memory: DeviceMemory, offset: int, source: memoryview) -> None:
        """Copies bytes of the host to `offset`; `source` may change once the call is back."""
        _check_range("write", memory, offset, source.nbytes)
        data = bytes(source)
        self._submit(
            lambda: self._host.copy_in(memory.bytes_from(self.device, offset), memoryview(data))
        )

    def read(self, destination: memoryview, memory: DeviceMemory, offset: int) -> None:
        """Copies bytes from `offset` to the host, when all work so far is done."""
        _check_range("read", memory, offset, destination.nbytes)
        self.synchronize()
        self._host.copy_out(destination, memory.bytes_from(self.device, offset))

    def launch(
        self,
        function: Function,
        buffers: Sequence[tuple[DeviceMemory, int]],
        variables: Sequence[int],
        grid: Extents,
        group: Extents,
    ) -> None:
        """Queues `grid` groups of `group` work-items; a buffer is memory and an offset in bytes."""
        pieces, values = list(buffers), list(variables)

        def run() -> None:
            parts = [memory.bytes_from(self.device, offset) for memory, offset in pieces]
            function([address_of(part) for part in parts], values, grid, group)

        self._submit(run)

    def synchronize(self) -> None:
        """Returns when all work so far is done. Raises `DeviceError` for what failed of it."""
        with self._lock:
            queue, self._queue = self._queue, []
            for work in queue:
                work()

    def _submit(self, work: Callable[[], object]) -> None:
        with self._lock:
            self._queue.append(work)
            if len(self._queue) >= LONGEST_QUEUE:
                self.synchronize()


def _check_range(call: str, memory: DeviceMemory, offset: int, nbytes: int) -> None:
    if offset < 0 or offset + nbytes > memory.nbytes:
        raise UserError(
            f"{call}: bytes {offset} to {offset + nbytes} are outside the memory's {memory.nbytes}"
        )
