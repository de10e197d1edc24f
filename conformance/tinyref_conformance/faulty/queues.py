"""Queues of launches: when they are done, and in which order."""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

Work = Callable[[], Any]


class Queue(ABC):
    """Launches, and copies that wait for their turn, of one device."""

    @abstractmethod
    def put(self, work: Work) -> None: ...

    @abstractmethod
    def wait(self) -> None:
        """Return when all work is done."""

    def submit(self, work: Work, wait: bool) -> float | None:
        """Queue a launch or, with `wait`, run it after all work before it; return its seconds."""
        if not wait:
            self.put(work)
            return None
        self.wait()
        seconds: float | None = work()
        return seconds


class AtOnce(Queue):
    """Runs everything as it is called."""

    def put(self, work: Work) -> None:
        work()

    def wait(self) -> None:
        return


class InThread(Queue):
    """Runs everything in a thread of its own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[Any] | None = None

    def put(self, work: Work) -> None:
        self._last = self._thread.submit(work)

    def wait(self) -> None:
        if self._last is not None:
            self._last.result()


class Postponed(Queue):
    """Runs everything when somebody waits for it, as late as a device may.

    Nothing depends on how busy the host is: each fault of order shows in every run.
    """

    def __init__(self) -> None:
        self.work: list[Work] = []

    def put(self, work: Work) -> None:
        self.work.append(work)

    def wait(self) -> None:
        work, self.work = self.work, []
        for item in work:
            item()


class EarlySignal(Postponed):
    """Says that a launch is done when it is queued."""

    def submit(self, work: Work, wait: bool) -> float | None:
        self.put(work)
        return 1e-4 if wait else None


class FirstAtOnce(Postponed):
    """Runs the first launch at once, while the device is idle; others wait behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_busy = False

    def put(self, work: Work) -> None:
        if self.is_busy:
            super().put(work)
        else:
            self.is_busy = True
            work()

    def wait(self) -> None:
        super().wait()
        self.is_busy = False


class Several(Queue):
    """Several queues that do not wait for each other: the last one to begin is done first."""

    def __init__(self) -> None:
        self._queues: dict[Any, Postponed] = {}
        self._turn = itertools.cycle((0, 1))

    def choose(self, work: Work) -> Any:
        """Return the key of the queue for some work: here, two queues take turns."""
        return next(self._turn)

    def put(self, work: Work) -> None:
        self._queues.setdefault(self.choose(work), Postponed()).put(work)

    def wait(self) -> None:
        queues, self._queues = self._queues, {}
        for queue in reversed(queues.values()):
            queue.wait()


class OneForEachKernel(Several):
    """A queue for each kernel: launches of one kernel are in order, others are not."""

    def choose(self, work: Work) -> Any:
        return getattr(work, "kernel", None)


class BehindWriters(Postponed):
    """Puts a launch behind the last one that writes what it touches, before those that read it."""

    def put(self, work: Work) -> None:
        position = len(self.work)
        if hasattr(work, "kernel"):
            buffers = work.arguments[0]  # type: ignore[attr-defined] # a QueuedLaunch
            while position and not _is_written(buffers, self.work[position - 1]):
                position -= 1
        self.work.insert(position, work)


def _is_written(buffers: Sequence[Any], work: Any) -> bool:
    if not hasattr(work, "kernel"):
        return True
    pairs = zip(work.kernel.program.parameters, work.arguments[0], strict=True)
    written = [buffer for parameter, buffer in pairs if parameter.is_written]
    return any(np.may_share_memory(own, other) for own in written for other in buffers)


class SharedArguments(Postponed):
    """Keeps the arguments of a kernel in one block, which its next launch overwrites."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[Any, Work] = {}

    def put(self, work: Work) -> None:
        kernel = getattr(work, "kernel", None)
        self._blocks[kernel] = work
        super().put(work if kernel is None else functools.partial(self._run, kernel))

    def _run(self, kernel: Any) -> None:
        self._blocks[kernel]()
