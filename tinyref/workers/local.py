"""Tasks in worker processes of this machine: each death costs one item, and the run continues.

A worker reports an item before it begins it, so a death is attributed to one item. A death that may
not be the item's fault, such as a kill by somebody else, is tried again, finally with nothing else
running. Workers are started as they are needed, and replaced when they die.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tinyref import config
from tinyref.errors import UserError
from tinyref.workers.machine import share_of_memory
from tinyref.workers.processes import (
    UNLIMITED,
    Cause,
    Death,
    Limits,
    Message,
    Pool,
    WorkerProcess,
)
from tinyref.workers.service import OpeningError
from tinyref.workers.tasks import (
    MAX_TRIES,
    DeviceGoneError,
    Event,
    Executor,
    HarnessError,
    Item,
    ItemDeath,
    Job,
    Report,
    Result,
    Task,
    WorkerDied,
    differences,
)

# Largest number of workers in a row that die as they open the device: at the start, and later.
MAX_FIRST_DEATHS = 3
MAX_FAILED_OPENINGS = 8
# After a failed opening the next one waits, each time twice as long.
FIRST_PAUSE_SECONDS = 0.25
OPENING_TICK_SECONDS = 0.1
# Time for a running item once the time of the run is up.
LAST_ITEM_SECONDS = 0.5
# Device libraries leak memory: a retiring worker does so after this many items, or with this share
# of its memory.
MAX_ITEMS = 2000
RETIRING_SHARE = 0.5


@dataclass
class TaskProcess(WorkerProcess):
    """One worker with its task.

    name: its name, as it reported it.
    left: the items of its task that have not ended.
    item: the item that it has begun.
    note: its last note about that item.
    done: how many items it has done.
    since: when its last item ended.
    """

    name: str = ""
    task: Task | None = None
    left: deque[Item] = field(default_factory=deque)
    item: Item | None = None
    note: Any = None
    done: int = 0
    since: float | None = None
    is_retired: bool = False

    @property
    def is_idle(self) -> bool:
        return self.is_open and self.task is None and not self.killed_for and not self.is_retired

    @property
    def is_stoppable(self) -> bool:
        """Return True if its task ends with the time of the run."""
        return self.task is not None and not self.task.is_last

    def drop_task(self) -> None:
        """Drop its task without waiting for the end, and kill the worker."""
        self.task = None
        self.kill(Cause.DISMISSED)


class LocalExecutor(Executor):
    """An executor with workers on this machine, at most `jobs` at a time.

    Raises `HarnessError` if the logs of workers cannot be written.
    """

    def __init__(self, job: Job, jobs: int) -> None:
        super().__init__()
        self.job = job
        self.jobs = jobs
        self.memory = share_of_memory(job.memory, jobs)
        self.opening_seconds = max(config.integer("OPEN_SECONDS"), job.seconds)
        try:
            self._pool = Pool(job.module, job.configuration, TaskProcess)
        except OSError as error:
            raise HarnessError(f"cannot write the logs of workers: {error}") from error
        self._waiting: deque[Task] = deque()
        self._events: list[Event] = []
        self._tries: Counter[Item] = Counter()
        self._problem: HarnessError | None = None
        self._failed_openings = 0
        self._next_start = 0.0
        self._cut_at = math.inf

    @property
    def identity(self) -> Mapping[str, str]:
        identity: Mapping[str, str] = self.opened["identity"]
        return identity

    @property
    def workers(self) -> int:
        return self.jobs

    @property
    def capacity(self) -> int:
        # One task waits, so that no worker has to.
        return self.jobs + 1

    @property
    def busy(self) -> int:
        return len(self._busy) + len(self._waiting)

    @property
    def _busy(self) -> list[TaskProcess]:
        return [worker for worker in self._pool.workers if worker.task is not None]

    def open(self) -> Any:
        """Start one worker and wait for its device, so that a dead device is noticed once."""
        self._start()
        while self.opened is None:
            self._listen(OPENING_TICK_SECONDS)
            if self._problem is not None:
                raise self._problem
        return self.opened

    def submit(self, task: Task) -> None:
        self._waiting.append(task)

    def events(self, seconds: float) -> list[Event]:
        self._give_out()
        if self._problem is not None:
            raise self._problem
        self._listen(seconds)
        if time.monotonic() > self._cut_at:
            self._cut()
        self._give_out()
        events, self._events = self._events, []
        return events

    def wind_down(self) -> None:
        self._waiting = deque(task for task in self._waiting if task.is_last)
        self._cut_at = min(self._cut_at, time.monotonic() + LAST_ITEM_SECONDS)

    def close(self) -> None:
        self._pool.close()

    def _cut(self) -> None:
        """End the items that still run although the time is up."""
        for worker in self._busy:
            if worker.is_stoppable:
                if worker.item is not None:
                    self.unfinished[worker.item] = worker.silence()
                worker.drop_task()

    # Giving out

    def _give_out(self) -> None:
        while self._waiting and not any(self._is_alone(worker) for worker in self._busy):
            is_alone = self._waiting[0].is_alone
            if is_alone and self._busy:
                return
            idle = [worker for worker in self._pool.workers if worker.is_idle]
            if not idle:
                self._grow(1 if is_alone else len(self._waiting))
                return
            self._begin(idle.pop(), self._waiting.popleft())
            if is_alone:
                # Idle workers hold memory.
                for worker in idle:
                    worker.kill(Cause.DISMISSED)

    @staticmethod
    def _is_alone(worker: TaskProcess) -> bool:
        return worker.task is not None and worker.task.is_alone

    def _begin(self, worker: TaskProcess, task: Task) -> None:
        worker.task = task
        worker.left = deque(task.items)
        worker.item = worker.note = None
        if worker.since is not None:
            worker.since = time.monotonic()
        seconds = task.begin_seconds or max(self.opening_seconds, task.seconds or 0.0)
        worker.limit(Limits(seconds, self.memory, "begin"))
        worker.send({"task": task.to_json()})

    def _grow(self, waiting: int) -> None:
        """Start workers for the waiting tasks; after a failed opening only one, after a pause."""
        if time.monotonic() < self._next_start:
            return
        opening = sum(not worker.is_open for worker in self._pool.workers)
        if self._failed_openings or self.opened is None:
            waiting = min(waiting, 1)
        for _ in range(min(waiting - opening, self.jobs - len(self._pool.workers))):
            self._start()

    def _start(self) -> None:
        try:
            self._pool.start().limit(Limits(self.opening_seconds, awaited="answer"))
        except OSError as error:
            # No more processes, memory or disk space: other workers may continue.
            if not self._pool.workers:
                raise HarnessError(f"cannot start a worker: {error}") from error

    # What workers send

    def _listen(self, seconds: float) -> None:
        for worker, event in self._pool.events(seconds):
            if isinstance(event, Death):
                self._on_end(worker, event)
            elif "opened" in event:
                self._on_opened(worker, event["opened"])
            elif "refused" in event:
                worker.kill(Cause.DISMISSED)
                self._on_failed_opening(OpeningError.of(event))
            elif "fatal" in event:
                self._problem = HarnessError(event["fatal"])
            elif worker.task is not None:
                self._on_message(worker, worker.task, event)
            else:
                assert worker.killed_for, "a worker finishes its task"

    def _on_message(self, worker: TaskProcess, task: Task, message: Message) -> None:
        if "begin" in message:
            worker.item, worker.note = message["begin"], None
            worker.limit(Limits(task.seconds or self.job.seconds, self.memory))
        elif "note" in message:
            worker.note = message["note"]
        elif "end" in message:
            self._on_item(worker, task, message)
        elif "done" in message:
            self._release(worker)
        else:
            worker.limit(Limits(self.opening_seconds, self.memory, "begin"))
            self._events.append(Report(task, message))

    def _on_item(self, worker: TaskProcess, task: Task, message: Message) -> None:
        item = message["end"]
        now = time.monotonic()
        seconds = None if worker.since is None else now - worker.since
        worker.since = now
        worker.item = None
        worker.done += 1
        worker.left.remove(item)
        worker.limit(Limits(self.opening_seconds, self.memory, "begin"))
        self._events.append(Result(task, item, message["result"], seconds=seconds))
        if self._cut_at < math.inf and worker.is_stoppable:
            worker.drop_task()

    def _release(self, worker: TaskProcess) -> None:
        """Mark the worker as free, or let it leave before it holds too much memory."""
        worker.task = None
        worker.limit(UNLIMITED)
        if not self.job.retires:
            return
        if worker.done >= MAX_ITEMS or worker.memory_bytes() > self.memory * RETIRING_SHARE:
            worker.is_retired = True
            worker.limit(Limits(self.job.seconds))
            worker.send({"stop": True})

    # Opening

    def _on_opened(self, worker: TaskProcess, opened: Mapping[str, Any]) -> None:
        """Store the report of the first worker; later ones must have the same device."""
        self._failed_openings = 0
        worker.is_open = True
        worker.name = opened.get("worker", "")
        worker.limit(UNLIMITED)
        if self.opened is None:
            self._check_memory(worker)
            self.opened = opened
        elif changes := differences(self.identity, opened["identity"]):
            words = f"the device changed while the run was going on: {'; '.join(changes)}"
            self._problem = HarnessError(words)

    def _check_memory(self, worker: TaskProcess) -> None:
        """Raise `UserError` if every item would seem to hold too much memory."""
        held, limit = worker.memory_bytes(), self.memory
        if self.job.retires and held > limit * RETIRING_SHARE:
            raise UserError(
                f"memory-limit: a worker holds {held >> 20} MiB before its first case, more than "
                f"half of its limit of {limit >> 20} MiB: give a higher one, fewer --jobs, or Dask "
                "workers with more memory"
            )

    def _on_failed_opening(self, error: OpeningError, is_final: bool = True) -> None:
        """Raise the error if the device never opened; otherwise pause, and give up in the end."""
        self._failed_openings += 1
        if self.opened is not None:
            pause = FIRST_PAUSE_SECONDS * 2 ** (self._failed_openings - 1)
            self._next_start = time.monotonic() + pause
            if self._failed_openings >= MAX_FAILED_OPENINGS:
                words = f"the device stopped opening in new workers: {error.description}"
                self._problem = DeviceGoneError(words)
        elif is_final or self._failed_openings >= MAX_FIRST_DEATHS:
            raise error
        else:
            self._start()

    # Deaths

    def _on_end(self, worker: TaskProcess, death: Death) -> None:
        if not worker.is_open:
            if death.cause is not Cause.DISMISSED:
                # Somebody else may have killed it, unless it timed out or gave a reason.
                is_final = death.cause is Cause.TIMEOUT
                self._on_failed_opening(OpeningError.of(death), is_final)
        elif worker.task is not None:
            self._on_death(worker, worker.task, death)
        elif death.cause is Cause.NOISE:
            self._events.append(WorkerDied(None, death, has_begun=False))

    def _on_death(self, worker: TaskProcess, task: Task, death: Death) -> None:
        """Attribute the death to an item, and queue the rest of its task again."""
        left = list(worker.left)
        if not left:
            return
        has_begun = worker.item is not None
        item = worker.item if worker.item is not None else left[0]
        self._tries[item] += 1
        tries = self._tries[item]
        is_its_own = has_begun and death.cause is not Cause.OTHERS
        if is_its_own or tries >= MAX_TRIES:
            seconds = worker.limits.seconds if death.cause is Cause.TIMEOUT else 0.0
            verdict = ItemDeath(death, seconds, worker.note, worker.name, is_its_own)
            self._events.append(Result(task, item, None, verdict))
            left.remove(item)
        else:
            self._events.append(WorkerDied(task, death, has_begun))
        if not is_its_own and tries == MAX_TRIES - 1:
            left.remove(item)
            self._queue_again(task, left)
            self._queue_again(replace(task, is_alone=True), [item])
        else:
            self._queue_again(task, left)

    def _queue_again(self, task: Task, items: list[Item]) -> None:
        is_dropped = self._cut_at < math.inf and not task.is_last
        if items and not is_dropped:
            self._waiting.appendleft(replace(task, items=items, attempt=task.attempt + 1))
