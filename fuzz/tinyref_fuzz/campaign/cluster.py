"""Tasks on a Dask cluster: each of its threads has a worker process of ours beside it.

So a case that crashes or hangs costs that process and one case, as on one machine, and the cluster
sees nothing of it. A machine that dies loses only what it had under way: the scheduler gives that
to another one.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tinyref.errors import UserError
from tinyref_fuzz.campaign.cases import CaseResult
from tinyref_fuzz.campaign.examination import unexamined
from tinyref_fuzz.campaign.local import LocalExecutor
from tinyref_fuzz.campaign.task import CampaignError, Done, Executor, Setup, Task
from tinyref_fuzz.case import Pair, Symptom, Verdict

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 20.0
# How long a cluster may have no worker before the campaign ends.
DESERTED_SECONDS = 120.0
TASKS_PER_THREAD = 2

# On a machine of the cluster: the worker process of each thread and campaign.
_executors: dict[tuple[int, str], LocalExecutor] = {}
_lock = threading.Lock()


def run_task(setup: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """Carries out a task on a machine of the cluster; a `CampaignError` comes back as words."""
    key = (threading.get_ident(), repr(sorted(setup.items())))
    with _lock:
        executor = _executors.get(key)
        if executor is None:
            executor = _executors[key] = LocalExecutor(Setup(**setup), 1)
    try:
        executor.submit(Task.from_json(task))
        while True:
            for done in executor.finished(1.0):
                return done.to_json()
    except (CampaignError, UserError) as error:
        with _lock:
            del _executors[key]
        executor.close()
        return {"problem": str(error)}


def release() -> None:
    """Ends the worker processes of this machine."""
    with _lock:
        executors = list(_executors.values())
        _executors.clear()
    for executor in executors:
        executor.close()


atexit.register(release)


class ClusterExecutor(Executor):
    """The scheduler at an address, such as tcp://10.0.0.7:8786.

    Raises `UserError` where dask.distributed is not installed or nobody answers.
    """

    def __init__(self, setup: Setup, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise UserError(
                "cluster: dask.distributed is not installed: pip install 'tinyref[cluster]'"
            ) from error
        try:
            self._client: Client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise UserError(f"cluster: no scheduler answers at {address}: {error}") from error
        self.setup = setup
        self.address = address
        self._pending: dict[Future, _Pending] = {}
        # What was with a machine when it died again and again: to be done with nothing beside it.
        self._suspects: deque[_Pending] = deque()
        self._deserted_since: float | None = None

    @property
    def capacity(self) -> int:
        if self._suspects or any(pending.is_alone for pending in self._pending.values()):
            return 0
        threads: int = sum(self._client.nthreads().values())
        return max(1, TASKS_PER_THREAD * threads)

    @property
    def is_ready(self) -> bool:
        return bool(self._client.nthreads())

    def recall(self) -> list[Task]:
        # What a machine has begun only the machine knows.
        return []

    @property
    def busy(self) -> int:
        pending = (*self._pending.values(), *self._suspects)
        return len({id(each.whole) for each in pending})

    def submit(self, task: Task) -> None:
        self._send(_Pending(task, _Whole(task)))

    def finished(self, seconds: float) -> list[Done]:
        from distributed import wait

        if self._suspects and not self._pending:
            self._send(self._suspects.popleft())
        with contextlib.suppress(TimeoutError), self._client.as_current():
            wait(list(self._pending), timeout=seconds, return_when="FIRST_COMPLETED")
        self._check_cluster()
        done = []
        for future in [future for future in self._pending if future.done()]:
            pending = self._pending.pop(future)
            for found in self._outcome(future, pending):
                done += pending.whole.add(found)
        return done

    def close(self) -> None:
        with contextlib.suppress(Exception):
            # What is under way ends first, and then its processes do.
            self._client.cancel(list(self._pending), force=True)
            self._client.run(release)
        with contextlib.suppress(Exception):
            self._client.close(timeout=CONNECT_SECONDS)

    def _send(self, pending: _Pending) -> None:
        task = pending.task.to_json()
        future = self._client.submit(run_task, self.setup.to_json(), task, pure=False)
        self._pending[future] = pending

    def _check_cluster(self) -> None:
        """Raises `CampaignError` where nobody is left to do anything."""
        if self._client.status != "running":
            raise CampaignError(f"the cluster at {self.address} is gone")
        if self._client.nthreads():
            self._deserted_since = None
            return
        self._deserted_since = self._deserted_since or time.monotonic()
        if time.monotonic() - self._deserted_since > DESERTED_SECONDS:
            raise CampaignError(
                f"the cluster at {self.address} had no worker for {DESERTED_SECONDS:g} s"
            )

    def _outcome(self, future: Future, pending: _Pending) -> list[Done]:
        """What a future gave; nothing yet where its cases are to be done again one by one."""
        from distributed import KilledWorker

        error = future.exception() if future.status != "cancelled" else None
        if future.status == "cancelled":
            raise CampaignError(f"the cluster at {self.address} forgot what it was given")
        if error is None:
            answer = future.result()
            if "problem" in answer:
                raise CampaignError(answer["problem"])
            return [Done.from_json(answer)]
        if not isinstance(error, KilledWorker):
            raise CampaignError(f"the cluster failed: {type(error).__name__}: {error}")
        return self._killed(pending, error)

    def _killed(self, pending: _Pending, error: Exception) -> list[Done]:
        """Machines died with it: its own fault only where it was alone."""
        task = pending.task
        if not pending.is_alone:
            for number in range(task.first, task.stop):
                alone = Task(number, number + 1, task.guide, task.verdict)
                self._suspects.append(_Pending(alone, pending.whole, is_alone=True))
            return []
        if task.is_examination:
            problem = f"its examination ended machines of the cluster: {error}"
            return [Done(task, examination=unexamined(task, problem))]
        verdict = Verdict(Pair.DEVICE, Symptom.CRASH, f"it ends machines: {error}")
        return [Done(task, (CaseResult(task.first, 0.0, verdict=verdict),))]


@dataclass
class _Whole:
    """A task as it was submitted, and the results of its parts where it was cut up."""

    task: Task
    results: list[CaseResult] = field(default_factory=list)

    def add(self, part: Done) -> list[Done]:
        """The whole, once this part completes it."""
        if part.examination is not None:
            return [part]
        self.results += part.results
        if len(self.results) < self.task.stop - self.task.first:
            return []
        return [Done(self.task, tuple(sorted(self.results, key=lambda each: each.number)))]


@dataclass(frozen=True)
class _Pending:
    """What a future works on, and the task that it is a part of."""

    task: Task
    whole: _Whole
    is_alone: bool = False
