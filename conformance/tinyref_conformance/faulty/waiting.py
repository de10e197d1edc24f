"""Devices that do not wait, or that lie about how long it took."""

from __future__ import annotations

import functools
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np

from tinyref.interpret import Hooks
from tinyref.runtimes.checks import check_copy_in
from tinyref.runtimes.host.memory import HostAllocator, HostHandle, address_of
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
        self.work: list[Callable[[], object]] = []

    def put(self, work: Callable[[], object]) -> None:
        self.work.append(work)

    def wait(self) -> None:
        work, self.work = self.work, []
        for each in work:
            each()


class QueuedLaunch:
    """A launch that is not done yet."""

    def __init__(self, kernel: QueuedKernel, buffers: Sequence[HostHandle], *rest: Any) -> None:
        self.kernel = kernel
        self.buffers = list(buffers)
        self.rest = rest

    def __call__(self) -> float | None:
        return self.kernel.at_once(self.buffers, *self.rest)


class QueuedKernel(BrokenKernel):
    """Returns before its launch is done, unless it is to wait."""

    def __init__(self, device: str, program: Program, queue: Queue) -> None:
        super().__init__(device, program, {}, Hooks())
        self.queue = queue

    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        launch = QueuedLaunch(self, buffers, grid, group, tuple(variables), wait)
        return self.submit(launch, wait)

    def submit(self, launch: Callable[[], float | None], wait: bool) -> float | None:
        """Queues a launch, or makes it when all before it are done."""
        if wait:
            self.queue.wait()
            return launch()
        self.queue.put(launch)
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
    """Copies that wait for the launches before them."""

    def __init__(self, device: str, queue: Queue) -> None:
        super().__init__(device)
        self.queue = queue

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        self.queue.wait()
        super().copy_in(handle, source)

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        self.queue.wait()
        super().copy_out(destination, handle)

    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        self.wait_for(origin)
        super().transfer(target, source, origin)

    def wait_for(self, origin: HostAllocator) -> None:
        """Returns when the launches of both devices of a transfer are done."""
        for allocator in (self, origin):
            if isinstance(allocator, WaitingAllocator):
                allocator.queue.wait()


class Queueing(BrokenBackend):
    """Launches when somebody waits for it, as late as a device may, and is right.

    The faults are those of its subclasses: as nothing depends on how busy the host is, each shows
    in every run.
    """

    queue_class: ClassVar[type[Queue]] = Postponed
    allocator_class: ClassVar[type[WaitingAllocator]] = WaitingAllocator
    queued_kernel: ClassVar[type[QueuedKernel]] = QueuedKernel

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.queue = self.queue_class()
        self._allocator = self.allocator_class(self.name, self.queue)

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return self.queued_kernel(self.name, healthy.program, self.queue)

    def synchronize(self) -> None:
        self.queue.wait()


class Threaded(Queueing):
    """Launches in a thread of its own, and is right."""

    queue_class = ThreadQueue


class IdleSynchronize(Queueing):
    """Launches without waiting, as devices do, and synchronize does not wait either."""

    def synchronize(self) -> None:
        return


class _EarlyEventKernel(QueuedKernel):
    def submit(self, launch: Callable[[], float | None], wait: bool) -> float | None:
        self.queue.put(launch)
        return 1e-4 if wait else None


class EarlyEvents(Queueing):
    """Signals the end of a launch as soon as it is queued: who waits for it does not wait."""

    queued_kernel = _EarlyEventKernel


# --- copies and memory ----------------------------------------------------------------------------


class _CopiesInEarly(WaitingAllocator):
    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        HostAllocator.copy_in(self, handle, source)


class EarlyCopies(Queueing):
    """Copies to memory that launches before the copy have still to read."""

    allocator_class = _CopiesInEarly


class _CopiesInLate(WaitingAllocator):
    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        check_copy_in(source, handle.size)
        self.queue.put(functools.partial(HostAllocator.copy_in, self, handle, source))


class LateSources(Queueing):
    """Reads what is copied in when the turn of the copy comes, and not when it is called."""

    allocator_class = _CopiesInLate


class _CopiesOutEarly(WaitingAllocator):
    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        HostAllocator.copy_out(self, destination, handle)
        self.queue.wait()


class EarlyReads(Queueing):
    """The host reads what is there before it waits for the launches that write it."""

    allocator_class = _CopiesOutEarly


class _FreesEarly(WaitingAllocator):
    def free(self, handle: HostHandle) -> None:
        handle[:] = 0xDD
        super().free(handle)


class EarlyFrees(Queueing):
    """Gives memory back that launches have still to read: another one writes there."""

    allocator_class = _FreesEarly


class Started(Queue):
    """An idle device begins at once, and is done before anything else is called; others wait."""

    def __init__(self) -> None:
        self.is_busy = False
        self.behind = Postponed()

    def put(self, work: Callable[[], object]) -> None:
        if self.is_busy:
            self.behind.put(work)
        else:
            self.is_busy = True
            work()

    def wait(self) -> None:
        self.behind.wait()
        self.is_busy = False


class EarlyFreesBehind(EarlyFrees):
    """Begins a launch at once, and gives back what those behind it have still to read."""

    queue_class = Started


class _ForgetsUsers(WaitingAllocator):
    """Has memory that was freed for others of its size; the first copy there waits for nobody."""

    def __init__(self, device: str, queue: Queue) -> None:
        super().__init__(device, queue)
        self._freed: dict[int, list[HostHandle]] = {}
        self._reused: set[int] = set()

    def allocate(self, nbytes: int) -> HostHandle:
        freed = self._freed.get(nbytes)
        if not freed:
            return super().allocate(nbytes)
        found = freed.pop()
        self._reused.add(address_of(found))
        return found

    def free(self, handle: HostHandle) -> None:
        self._freed.setdefault(handle.size, []).append(handle)

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        if address_of(handle) not in self._reused:
            super().copy_in(handle, source)
            return
        self._reused.discard(address_of(handle))
        HostAllocator.copy_in(self, handle, source)


class EarlyReuse(Queueing):
    """Gives freed memory out again to a copy that does not wait for the launches that use it."""

    allocator_class = _ForgetsUsers


# --- order of launches ----------------------------------------------------------------------------


class _Several(Queue):
    """Several queues of which none waits for another: the one that was begun last is done first."""

    def __init__(self) -> None:
        self._queues: dict[Any, Postponed] = {}

    @abstractmethod
    def choose(self, work: Callable[[], object]) -> Any:
        """What the queue of some work is known by."""

    def put(self, work: Callable[[], object]) -> None:
        self._queues.setdefault(self.choose(work), Postponed()).put(work)

    def wait(self) -> None:
        queues, self._queues = self._queues, {}
        for queue in reversed(queues.values()):
            queue.wait()


class _InTurn(_Several):
    def __init__(self) -> None:
        super().__init__()
        self._turn = itertools.cycle((0, 1))

    def choose(self, work: Callable[[], object]) -> Any:
        return next(self._turn)


class TwoQueues(Queueing):
    """Launches into two queues in turn, of which none waits for the other."""

    queue_class = _InTurn


class _OfEachKernel(_Several):
    def choose(self, work: Callable[[], object]) -> Any:
        return work.kernel if isinstance(work, QueuedLaunch) else None


class KernelQueues(Queueing):
    """Has a queue for each kernel: launches of one are in order, those of two are not."""

    queue_class = _OfEachKernel


class _KnowsWriters(Postponed):
    """A launch comes behind the last that writes what it touches, before those that only read."""

    def put(self, work: Callable[[], object]) -> None:
        place = len(self.work)
        if isinstance(work, QueuedLaunch):
            while place and not _is_written(work.buffers, self.work[place - 1]):
                place -= 1
        self.work.insert(place, work)


def _is_written(buffers: Sequence[HostHandle], work: Callable[[], object]) -> bool:
    if not isinstance(work, QueuedLaunch):
        return True
    return any(np.may_share_memory(own, other) for own in _written(work) for other in buffers)


def _written(launch: QueuedLaunch) -> list[HostHandle]:
    parameters = launch.kernel.program.parameters
    pairs = zip(parameters, launch.buffers, strict=True)
    return [buffer for parameter, buffer in pairs if parameter.is_written]


class LostReaders(Queueing):
    """Lets a launch wait for those that write its memory, and not for those that still read it."""

    queue_class = _KnowsWriters


class _SharedBlockKernel(QueuedKernel):
    """Its launches read their arguments, when their turn comes, from one block."""

    _block: Callable[[], float | None]

    def submit(self, launch: Callable[[], float | None], wait: bool) -> float | None:
        self._block = launch
        return super().submit(launch if wait else self._launch_of_block, wait)

    def _launch_of_block(self) -> float | None:
        return self._block()


class SharedArguments(Queueing):
    """Keeps the arguments of a kernel in one place, which its next launch overwrites."""

    queued_kernel = _SharedBlockKernel


# --- seconds --------------------------------------------------------------------------------------


class _StartingKernel(BrokenKernel):
    """Takes a while before it begins, and counts that as time of the launch."""

    start = 0.05

    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        time.sleep(self.start)
        seconds = super().__call__(*arguments, **named)
        return None if seconds is None else seconds + self.start


class Starting(BrokenBackend):
    """Right, but needs a twentieth of a second for each launch, as simulators do."""

    kernel = _StartingKernel


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
