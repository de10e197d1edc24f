"""Tasks on a Dask cluster: each thread of a Dask worker has a worker process of ours.

An item that crashes or hangs therefore costs that process and one item, as on one machine, and the
cluster notices nothing. If a machine dies, the scheduler gives its current tasks to another one.
The tasks of machines that died again and again are split and run item by item, with nothing else of
ours running. An item is blamed if the scheduler gives it up twice in this way.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tinyref.errors import UserError
from tinyref.workers.local import LocalExecutor
from tinyref.workers.machine import share_of_memory
from tinyref.workers.processes import Cause, Death
from tinyref.workers.service import OpeningError
from tinyref.workers.tasks import (
    DeviceGoneError,
    Event,
    Executor,
    HarnessError,
    ItemDeath,
    Job,
    R,
    Result,
    Task,
    differences,
)

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 20.0
# The run ends when a cluster has had no worker for this long.
DESERTED_SECONDS = 120.0
# Limit for a machine to answer, or to hand over a result.
ANSWER_SECONDS = 10.0
TASKS_PER_THREAD = 2
# An item that runs alone is blamed after the scheduler gave it up this many times.
DEATHS_TO_PIN = 2
TICK_SECONDS = 0.2

# On a machine of the cluster: the worker process of each run and thread.
_executors: dict[tuple[str, int], LocalExecutor] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Answer:
    """The answer of a machine: what its worker reported of the device, and the events of a task.

    problem: why it could do nothing.
    """

    opened: Any = None
    events: tuple[Event, ...] = ()
    problem: Exception | None = None


def run_task(run: str, job: Job, task: Task | None) -> Answer:
    """Execute a task on a machine of the cluster; without a task only open the device."""
    key = (run, threading.get_ident())
    with _lock:
        executor = _executors.get(key)
    try:
        if executor is None:
            executor = LocalExecutor(job_here(job), 1)
            with _lock:
                _executors[key] = executor
            executor.open()
        events: list[Event] = []
        if task is not None:
            executor.submit(task)
        while executor.busy:
            events += executor.events(1.0)
        return Answer(executor.opened, tuple(events))
    except Exception as error:
        # The next task on this thread starts with a new executor.
        with _lock:
            _executors.pop(key, None)
        if executor is not None:
            executor.close()
        if not isinstance(error, HarnessError | OpeningError | UserError):
            raise
        return Answer(problem=error)


def job_here(job: Job) -> Job:
    """Return the job with the limit of memory for one of the threads of this Dask worker."""
    from distributed import get_worker

    worker = get_worker()
    # This is less than the machine has if it runs several Dask workers.
    most = worker.memory_manager.memory_limit
    return replace(job, memory=share_of_memory(job.memory, worker.state.nthreads, most))


def release(run: str = "") -> None:
    """End the worker processes that this machine has for a run, or for all of them."""
    with _lock:
        keys = [key for key in _executors if run in ("", key[0])]
        executors = [_executors.pop(key) for key in keys]
    for executor in executors:
        executor.close()


atexit.register(release)


def portable(identity: Mapping[str, str]) -> dict[str, str]:
    """Return what must be equal on all machines of a cluster: processors may differ."""
    kinds = ("flag", "environment", "sources")
    return {name: value for name, value in identity.items() if name.startswith(kinds)}


@dataclass
class _Pending:
    """A task that a future works on.

    is_suspect: it has one item and was on machines that died.
    deaths: how often the scheduler gave it up although it was alone.
    """

    task: Task
    is_suspect: bool = False
    deaths: int = 0


class ClusterExecutor(Executor):
    """An executor for the scheduler at an address, such as tcp://10.0.0.7:8786.

    Raises `UserError` if dask.distributed is not installed or no scheduler answers.
    """

    is_awaited = True

    def __init__(self, job: Job, address: str) -> None:
        super().__init__()
        try:
            from distributed import Client
        except ImportError as error:
            raise UserError(
                "cluster: dask.distributed is not installed: pip install '.[cluster]' in a clone "
                "of tinyref"
            ) from error
        problem = ""
        try:
            self._client: Client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            problem = str(error)
        if problem:
            # The half-made client, which the error refers to, would hang when the process ends.
            gc.collect()
            raise UserError(f"cluster: no scheduler answers at {address}: {problem}")
        self.job = job
        self.address = address
        # Others may use the cluster too; their processes must not be ended.
        self._run = uuid.uuid4().hex
        self._pending: dict[Future, _Pending] = {}
        self._suspects: deque[_Pending] = deque()
        self._deserted_since: float | None = None

    @property
    def identity(self) -> Mapping[str, str]:
        return portable(self.opened["identity"])

    @property
    def workers(self) -> int:
        return max(1, sum(self._machines().values()))

    @property
    def capacity(self) -> int:
        if self._suspects or any(pending.is_suspect for pending in self._pending.values()):
            return 0
        return TASKS_PER_THREAD * self.workers

    @property
    def busy(self) -> int:
        return len(self._pending) + len(self._suspects)

    def open(self) -> Any:
        """Wait for a machine, and open the device there."""
        future = self._client.submit(run_task, self._run, self.job, None, pure=False)
        while not future.done():
            self._check_that_there_are_some(self._machines())
            time.sleep(TICK_SECONDS)
        try:
            answer = future.result(timeout=ANSWER_SECONDS)
        except Exception as error:  # of the cluster: an error while opening comes as an answer
            raise HarnessError(f"the cluster failed: {type(error).__name__}: {error}") from error
        if answer.problem is not None:
            raise answer.problem
        self.opened = answer.opened
        return self.opened

    def submit(self, task: Task) -> None:
        self._send(_Pending(task))

    def events(self, seconds: float) -> list[Event]:
        if self._suspects and not self._pending:
            self._send(self._suspects.popleft())
        self._wait(seconds)
        self._check_that_there_are_some(self._machines())
        events: list[Event] = []
        for future, pending in list(self._pending.items()):
            if future.done():
                events += self._outcome(future, pending)
        return events

    def wind_down(self) -> None:
        # Only the machine knows which items it has begun, and tasks are short.
        return

    def end_workers(self) -> None:
        self._client.run(release, self._run)

    def call(self, function: Callable[..., R], *arguments: object) -> R | None:
        future = self._client.submit(function, *arguments, pure=False)
        try:
            result: R = future.result()
        except Exception:  # of the cluster, as when the machine dies
            return None
        return result

    def close(self) -> None:
        with contextlib.suppress(Exception):
            # Running tasks end first, then their processes.
            self._client.cancel(list(self._pending), force=True)
            self._client.run(release, self._run)
        with contextlib.suppress(Exception):
            self._client.close(timeout=CONNECT_SECONDS)

    def _wait(self, seconds: float) -> None:
        from distributed import wait

        if not self._pending:
            time.sleep(seconds)
            return
        # Cancelled futures, as after a restart of the scheduler, are recognised by their status.
        with contextlib.suppress(TimeoutError, CancelledError), self._client.as_current():
            wait(list(self._pending), timeout=seconds, return_when="FIRST_COMPLETED")

    def _machines(self) -> dict[str, int]:
        """Return the workers of the cluster by address, with their threads."""
        if self._client.status != "running":
            raise HarnessError(f"the cluster at {self.address} is gone")
        try:
            return dict(self._client.nthreads())
        except OSError as error:
            raise HarnessError(f"the cluster at {self.address} is gone: {error}") from error

    def _check_that_there_are_some(self, machines: Mapping[str, int]) -> None:
        """Raise `HarnessError` if the cluster has had no worker for too long."""
        if machines:
            self._deserted_since = None
            return
        self._deserted_since = self._deserted_since or time.monotonic()
        if time.monotonic() - self._deserted_since > DESERTED_SECONDS:
            raise HarnessError(
                f"the cluster at {self.address} had no worker for {DESERTED_SECONDS:g} s"
            )

    def _send(self, pending: _Pending) -> None:
        future = self._client.submit(run_task, self._run, self.job, pending.task, pure=False)
        self._pending[future] = pending

    def _outcome(self, future: Future, pending: _Pending) -> list[Event]:
        """Return the events of a future, or nothing if its result is lost and made again."""
        from distributed import KilledWorker

        if future.status == "cancelled":
            raise HarnessError(
                f"the cluster at {self.address} forgot its tasks: did its scheduler restart?"
            )
        try:
            answer = future.result(timeout=ANSWER_SECONDS)
        except TimeoutError:
            # The machine with the result died: the scheduler computes it again.
            return []
        except KilledWorker as error:
            del self._pending[future]
            return self._events_of_death(pending, str(error))
        except Exception as error:  # of the cluster: an error of a task comes as an answer
            words = f"the cluster failed: {type(error).__name__}: {error}"
            raise HarnessError(words) from error
        del self._pending[future]
        if isinstance(answer.problem, OpeningError):
            words = f"the device does not open on a machine of the cluster: {answer.problem}"
            raise DeviceGoneError(words) from answer.problem
        if answer.problem is not None:
            raise answer.problem
        if changes := differences(self.identity, portable(answer.opened["identity"])):
            raise HarnessError(f"machines of the cluster are not alike: {'; '.join(changes)}")
        return list(answer.events)

    def _events_of_death(self, pending: _Pending, words: str) -> list[Event]:
        """Handle a death of machines; blame the item only if it ran alone, and repeatedly."""
        task = pending.task
        if not pending.is_suspect:
            alone = [replace(task, items=(item,), attempt=task.attempt + 1) for item in task.items]
            self._suspects += [_Pending(single, is_suspect=True) for single in alone]
            return []
        pending.deaths += 1
        if pending.deaths < DEATHS_TO_PIN:
            self._suspects.appendleft(pending)
            return []
        death = Death(Cause.EXIT, f"it ends machines of the cluster: {words}")
        return [Result(task, task.items[0], None, ItemDeath(death, 0.0))]
