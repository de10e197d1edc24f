"""Many workers that open a device and then work at tasks, each supervised until it dies.

A run owns its supervisor: it gives tasks to workers that are idle, and gets what they send and how
they end. Which part of a task a worker is at it sends itself, before it begins it, so that a
death is pinned to one item.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tinyref.workers import processes
from tinyref.workers.processes import UNLIMITED, Cause, Death, Limits, Message, Pool
from tinyref.workers.service import FatalError, OpeningError

# Workers in a row that die as they open the device: at the start of a run, and later on.
MAX_FIRST_DEATHS = 3
MAX_FAILED_OPENINGS = 8
# After a failed opening the next one waits, twice as long each time.
FIRST_PAUSE_SECONDS = 0.25
OPENING_TICK_SECONDS = 0.1
# An item whose worker dies of what may be no fault of its own is tried so often.
MAX_TRIES = 3

T = TypeVar("T")


@dataclass
class WorkerProcess(processes.WorkerProcess, Generic[T]):
    """One worker with its task; `item` is the part of it that it has begun and not ended."""

    task: T | None = None
    item: Any = None
    is_retired: bool = False

    @property
    def is_idle(self) -> bool:
        return self.is_open and self.task is None and not self.killed_for and not self.is_retired


W = TypeVar("W", bound=WorkerProcess[Any])
W_contra = TypeVar("W_contra", bound=WorkerProcess[Any], contravariant=True)


class Owner(Protocol[W_contra]):
    """The run that gives the tasks."""

    def on_opened(self, worker: W_contra, opened: Any) -> None:
        """A worker has opened its device, and reported that of it."""

    def on_message(self, worker: W_contra, message: Message) -> None:
        """A worker sent something of its own task."""

    def on_death(self, worker: W_contra, death: Death) -> None:
        """A worker that had opened its device ended."""


class Supervisor(Generic[W]):
    """Starts workers, listens to them, and replaces those that do not open.

    pool: of the workers. opening_seconds: what opening a device may take.
    """

    def __init__(self, pool: Pool[W], owner: Owner[W], opening_seconds: float) -> None:
        self.pool = pool
        self.owner = owner
        self.opening_seconds = opening_seconds
        self.has_opened = False
        self._failed_openings = 0
        self._next_start = 0.0

    @property
    def busy(self) -> list[W]:
        """The workers that have a task."""
        return [worker for worker in self.pool.workers if worker.task is not None]

    @property
    def idle(self) -> list[W]:
        """The workers that may be given a task."""
        return [worker for worker in self.pool.workers if worker.is_idle]

    def open_first(self) -> None:
        """Starts one worker and waits for its device, so that a dead device is found once.

        Raises `OpeningError` where it does not open.
        """
        self._start()
        while not self.has_opened:
            self.listen(OPENING_TICK_SECONDS)

    def grow(self, waiting: int, limit: int) -> None:
        """Starts workers for so many waiting tasks, at most `limit` in all.

        After a failed opening they come one at a time, and after a pause.
        """
        if time.monotonic() < self._next_start:
            return
        opening = sum(not worker.is_open for worker in self.pool.workers)
        if self._failed_openings or not self.has_opened:
            waiting = min(waiting, 1)
        for _ in range(min(waiting - opening, limit - len(self.pool.workers))):
            self._start()

    def listen(self, seconds: float) -> None:
        """Takes what workers send within `seconds`, and enforces their limits.

        Raises `OpeningError` for a device that does not open, or does not any more, and
        `FatalError` where a worker reports that all work is useless.
        """
        for worker, event in self.pool.events(seconds):
            if isinstance(event, Death):
                self._on_death(worker, event)
            elif "opened" in event:
                self._failed_openings = 0
                self.has_opened = worker.is_open = True
                worker.limit(UNLIMITED)
                self.owner.on_opened(worker, event["opened"])
            elif "refused" in event:
                worker.kill(Cause.DISMISSED)
                self._on_failed_opening(OpeningError.of(event))
            elif "fatal" in event:
                raise FatalError(event["fatal"])
            else:
                self.owner.on_message(worker, event)

    def _start(self) -> None:
        try:
            self.pool.start().limit(Limits(self.opening_seconds, awaited="answer"))
        except OSError:
            # Of processes, memory or room for a log there is none left: others may go on.
            if not self.pool.workers:
                raise

    def _on_death(self, worker: W, death: Death) -> None:
        if worker.is_open:
            self.owner.on_death(worker, death)
        elif death.cause is not Cause.DISMISSED:
            # What dies may be somebody's kill, unlike what does not answer or says why.
            is_final = death.cause is Cause.TIMEOUT
            self._on_failed_opening(OpeningError.of(death), is_final)

    def _on_failed_opening(self, error: OpeningError, is_final: bool = True) -> None:
        self._failed_openings += 1
        if self.has_opened:
            pause = FIRST_PAUSE_SECONDS * 2 ** (self._failed_openings - 1)
            self._next_start = time.monotonic() + pause
            if self._failed_openings >= MAX_FAILED_OPENINGS:
                raise error
        elif is_final or self._failed_openings >= MAX_FIRST_DEATHS:
            raise error
        else:
            self._start()


class Tries:
    """Pins deaths to items: what may be no fault of an item is tried again, so often at most."""

    def __init__(self) -> None:
        self._tries: Counter[Hashable] = Counter()

    def is_pinned(self, item: Hashable, death: Death, has_begun: bool) -> bool:
        """Whether a death is the verdict on an item, which was begun or would have come next."""
        self._tries[item] += 1
        is_its_own = has_begun and death.cause is not Cause.OTHERS
        return is_its_own or self._tries[item] >= MAX_TRIES

    def is_last(self, item: Hashable) -> bool:
        """Whether the next try of an item is its last."""
        return self._tries[item] == MAX_TRIES - 1
