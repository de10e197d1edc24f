"""Devices that do not wait, or that lie about how long it took."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

from tinyref.interpret import Hooks
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.runtimes.python import Extents, InterpretedKernel
from tinyref.uops.program import Program
from tinyref_conformance.faulty.broken import BrokenBackend, BrokenKernel


class Queue(ABC):
    """Launches that are done later, one after the other."""

    @abstractmethod
    def put(self, work: Callable[[], object]) -> None: ...

    @abstractmethod
    def wait(self) -> None:
        """Returns when all that was put is done."""


class ThreadQueue(Queue):
    """They are done by a thread of their own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[object] | None = None

    def put(self, work: Callable[[], object]) -> None:
        self._last = self._thread.submit(work)

    def wait(self) -> None:
        if self._last is not None:
            self._last.result()


class Postponed(Queue):
    """They are done when somebody waits for them."""

    def __init__(self) -> None:
        self._work: list[Callable[[], object]] = []

    def put(self, work: Callable[[], object]) -> None:
        self._work.append(work)

    def wait(self) -> None:
        work, self._work = self._work, []
        for each in work:
            each()


class QueuedKernel(BrokenKernel):
    """Returns before its launch is done, unless it is to wait."""

    def __init__(self, device: str, program: Program, queue: Queue) -> None:
        super().__init__(device, program, {}, Hooks())
        self._queue = queue

    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        arguments = (list(buffers), grid, group, tuple(variables), wait)
        if wait:
            self._queue.wait()
            return self.at_once(*arguments)
        self._queue.put(functools.partial(self.at_once, *arguments))
        return None

    def at_once(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        """The launch, whatever is queued."""
        return super().__call__(buffers, grid, group, variables, wait)


class WaitingAllocator(HostAllocator):
    """Copies that wait for the launches before them; `waits_in` is False where those in do not."""

    def __init__(self, device: str, queue: Queue, waits_in: bool) -> None:
        super().__init__(device)
        self._queue = queue
        self._waits_in = waits_in

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        if self._waits_in:
            self._queue.wait()
        super().copy_in(handle, source)

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        self._queue.wait()
        super().copy_out(destination, handle)

    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        self.wait_for(origin)
        super().transfer(target, source, origin)

    def wait_for(self, origin: HostAllocator) -> None:
        """Returns when the launches of both devices of a transfer are done."""
        for allocator in (self, origin):
            if isinstance(allocator, WaitingAllocator):
                allocator._queue.wait()


class Queueing(BrokenBackend):
    """Launches without waiting, as devices do; the faults are those of its subclasses."""

    waits_in = True
    queue_class: ClassVar[type[Queue]] = ThreadQueue
    allocator_class: ClassVar[type[WaitingAllocator]] = WaitingAllocator

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.queue = self.queue_class()
        self._allocator = self.allocator_class(self.name, self.queue, self.waits_in)

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return QueuedKernel(self.name, healthy.program, self.queue)

    def synchronize(self) -> None:
        self.queue.wait()


class IdleSynchronize(Queueing):
    """Launches without waiting, as devices do, and synchronize does not wait either."""

    def synchronize(self) -> None:
        return


class EarlyCopies(Queueing):
    """Copies to memory that launches before the copy have still to read."""

    waits_in = False


class _ReportingKernel(BrokenKernel):
    """Waits, and reports the time that it is given."""

    seconds = 0.01

    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        return None if super().__call__(*arguments, **named) is None else self.seconds


class ConstantSeconds(BrokenBackend):
    """Says of every launch that it took a hundredth of a second."""

    kernel = _ReportingKernel


class _NoSecondsKernel(_ReportingKernel):
    seconds = 0.0


class NoSeconds(BrokenBackend):
    """Says of every launch that it took no time."""

    kernel = _NoSecondsKernel


class _NegativeSecondsKernel(_ReportingKernel):
    seconds = -0.01


class NegativeSeconds(BrokenBackend):
    """Subtracts the ends of a launch the wrong way round."""

    kernel = _NegativeSecondsKernel
