"""Tasks on a Dask cluster: each of its threads has a worker process of ours beside it.

So a case that crashes or hangs costs that process and one case, as on one machine, and the cluster
sees nothing of it. A machine that dies loses only what it had under way: the scheduler gives that
to another one. What was with machines that died again and again is done case by case, with nothing
beside it: a case is pinned only where it alone ends a machine that had just answered and had no
process of ours left, twice.
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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tinyref.errors import UserError
from tinyref.runtimes.identity import differences
from tinyref_fuzz.campaign.local import LocalExecutor, share_of_memory
from tinyref_fuzz.campaign.results import CaseResult
from tinyref_fuzz.campaign.task import CampaignError, Done, Executor, Setup, Task
from tinyref_fuzz.campaign.unexamined import without_case
from tinyref_spec.kernel_case import Pair, Symptom, Verdict

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 20.0
# How long a cluster may have no worker before the campaign ends.
DESERTED_SECONDS = 120.0
# How long a machine may take to say that it is there, or to hand over a result.
ANSWER_SECONDS = 10.0
TASKS_PER_THREAD = 2
# Machines that a case must end, alone and one after the other, before it is its own fault: the
# first may have had an old process of ours, the others have none.
DEATHS_TO_PIN = 3
# How often the cluster may lose what it was given before the campaign ends.
MAX_LOSSES = 3

# On a machine of the cluster: the worker process of each campaign and thread.
_executors: dict[tuple[str, int], LocalExecutor] = {}
_lock = threading.Lock()


def run_task(campaign: str, setup: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """Carries out a task on a machine of the cluster; a `CampaignError` comes back as words."""
    key = (campaign, threading.get_ident())
    with _lock:
        executor = _executors.get(key)
        if executor is None:
            executor = _executors[key] = LocalExecutor(setup_here(setup), 1)
    try:
        executor.submit(Task.from_json(task))
        while True:
            for done in executor.finished_tasks(1.0):
                return {**done.to_json(), "identity": _portable(executor.identity)}
    except Exception as error:
        # The next task here begins with a new one.
        with _lock:
            _executors.pop(key, None)
        executor.close()
        if not isinstance(error, CampaignError | UserError):
            raise
        return {"problem": str(error)}


def setup_here(setup: Mapping[str, Any]) -> Setup:
    """The setup with the limit of memory for one of the threads that this Dask worker has."""
    from distributed import get_worker

    worker = get_worker()
    # Less than the machine has where several Dask workers are on it.
    most = worker.memory_manager.memory_limit
    sent = Setup(**setup)
    return replace(sent, memory=share_of_memory(sent, worker.state.nthreads, most))


def answer() -> None:
    """What a machine can do that is there."""


def release(campaign: str = "") -> None:
    """Ends the worker processes that this machine has for a campaign, or for all of them."""
    with _lock:
        keys = [key for key in _executors if campaign in ("", key[0])]
        executors = [_executors.pop(key) for key in keys]
    for executor in executors:
        executor.close()


atexit.register(release)


def _portable(identity: Mapping[str, str] | None) -> dict[str, str]:
    """What all machines of a cluster must have alike: their processors may differ."""
    kinds = ("flag", "environment", "sources")
    return {name: (identity or {})[name] for name in identity or {} if name.startswith(kinds)}


class ClusterExecutor(Executor):
    """The scheduler at an address, such as tcp://10.0.0.7:8786.

    Raises `UserError` where dask.distributed is not installed or nobody answers.
    """

    def __init__(self, setup: Setup, address: str) -> None:
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
            # What is half made and kept by its error would hang when the process ends.
            gc.collect()
            raise UserError(f"cluster: no scheduler answers at {address}: {problem}")
        self.setup = setup
        self.address = address
        # Others may use the cluster too, and their processes are not ours to end.
        self._campaign = uuid.uuid4().hex
        self._pending: dict[Future, _Pending] = {}
        self._suspects: deque[_Pending] = deque()
        self._deserted_since: float | None = None

    is_awaited = True

    @property
    def capacity(self) -> int:
        if self._suspects or any(pending.is_alone for pending in self._pending.values()):
            return 0
        return max(1, TASKS_PER_THREAD * sum(self._machines().values()))

    @property
    def is_ready(self) -> bool:
        return bool(self._machines())

    def recall(self) -> list[Task]:
        # What a machine has begun only the machine knows.
        return []

    @property
    def busy(self) -> int:
        pending = (*self._pending.values(), *self._suspects)
        return len({id(each.whole) for each in pending})

    def submit(self, task: Task) -> None:
        self._send(_Pending(task, _Whole(task)))

    def finished_tasks(self, seconds: float) -> list[Done]:
        if self._suspects and not self._pending:
            self._begin_alone()
        self._wait(seconds)
        machines = self._machines()
        self._check_that_there_are_some(machines)
        done = []
        for future, pending in list(self._pending.items()):
            found = []
            if future.done():
                found = self._outcome(future, pending)
            elif pending.machine and pending.machine not in machines:
                self._client.cancel([future], force=True)
                del self._pending[future]
                found = self._results_of_death(pending, f"{pending.machine} died")
            for part in found:
                done += pending.whole.add(part)
        return done

    def close(self) -> None:
        with contextlib.suppress(Exception):
            # What is under way ends first, and then its processes do.
            self._client.cancel(list(self._pending), force=True)
            self._client.run(release, self._campaign)
        with contextlib.suppress(Exception):
            self._client.close(timeout=CONNECT_SECONDS)

    def _wait(self, seconds: float) -> None:
        from distributed import wait

        if not self._pending:
            time.sleep(seconds)
            return
        # What is cancelled, as when the scheduler begins afresh, is seen by its status.
        with contextlib.suppress(TimeoutError, CancelledError), self._client.as_current():
            wait(list(self._pending), timeout=seconds, return_when="FIRST_COMPLETED")

    def _machines(self) -> dict[str, int]:
        """The workers of the cluster by address, with their threads. Raises `CampaignError`."""
        if self._client.status != "running":
            raise CampaignError(f"the cluster at {self.address} is gone")
        try:
            return dict(self._client.nthreads())
        except OSError as error:
            raise CampaignError(f"the cluster at {self.address} is gone: {error}") from error

    def _check_that_there_are_some(self, machines: Mapping[str, int]) -> None:
        """Raises `CampaignError` where for long nobody was left to do anything."""
        if machines:
            self._deserted_since = None
            return
        self._deserted_since = self._deserted_since or time.monotonic()
        if time.monotonic() - self._deserted_since > DESERTED_SECONDS:
            raise CampaignError(
                f"the cluster at {self.address} had no worker for {DESERTED_SECONDS:g} s"
            )

    def _send(self, pending: _Pending) -> None:
        setup, task = self.setup.to_json(), pending.task.to_json()
        # One that is to be alone stays where it was sent: who died with it is then known.
        where = {"workers": [pending.machine], "allow_other_workers": False}
        future = self._client.submit(
            run_task, self._campaign, setup, task, pure=False, **(where if pending.machine else {})
        )
        self._pending[future] = pending

    def _begin_alone(self) -> None:
        """Gives the next suspect to a machine that answers.

        One may have died without the scheduler having noticed; then the case would be blamed.
        """
        pending = self._suspects[0]
        for machine in self._machines():
            # A new process for each takes long: only for one that has ended a machine before.
            if self._does(machine, *((release, self._campaign) if pending.deaths else (answer,))):
                self._suspects.popleft()
                pending.machine = machine
                self._send(pending)
                return

    def _does(self, machine: str, function: Callable[..., None], *given: str) -> bool:
        """Whether the machine carries that out."""
        where = {"workers": [machine], "allow_other_workers": False}
        future = self._client.submit(function, *given, pure=False, **where)
        try:
            future.result(timeout=ANSWER_SECONDS)
        except Exception:  # whatever it is, this machine is not one to rely on
            self._client.cancel([future], force=True)
            return False
        return True

    def _outcome(self, future: Future, pending: _Pending) -> list[Done]:
        """What a future gave; nothing where it is not there yet, or is to be done again."""
        from distributed import KilledWorker

        if future.status == "cancelled":
            return self._submit_again(future, pending)
        try:
            answer = future.result(timeout=ANSWER_SECONDS)
        except TimeoutError:
            # Who had the result died with it: the scheduler has it made again.
            return []
        except KilledWorker as error:
            del self._pending[future]
            return self._results_of_death(pending, str(error))
        except Exception as error:  # of the cluster: what tasks raise comes as an answer
            if future.status == "cancelled":
                return self._submit_again(future, pending)
            words = f"the cluster failed: {type(error).__name__}: {error}"
            raise CampaignError(words) from error
        del self._pending[future]
        if "problem" in answer:
            raise CampaignError(answer["problem"])
        self._check_identity(answer["identity"])
        return [Done.from_json(answer)]

    def _check_identity(self, found: Mapping[str, str]) -> None:
        if self.identity is None:
            self.identity = found
        elif changes := differences(self.identity, found):
            raise CampaignError(f"machines of the cluster are not alike: {'; '.join(changes)}")

    def _submit_again(self, future: Future, pending: _Pending) -> list[Done]:
        """Sends anew what the cluster has forgotten, as after a scheduler that began afresh."""
        del self._pending[future]
        pending.losses += 1
        if pending.losses > MAX_LOSSES:
            raise CampaignError(f"the cluster at {self.address} forgot what it was given")
        if pending.is_alone:
            self._suspects.appendleft(pending)
        else:
            self._send(pending)
        return []

    def _results_of_death(self, pending: _Pending, words: str) -> list[Done]:
        """Machines died with it: its own fault only where it was alone, and not for the first time.

        So it is done again one by one, and then once and once more; nothing comes of it yet.
        """
        task = pending.task
        if not pending.is_alone:
            for number in range(task.first, task.stop):
                alone = Task(number, number + 1, task.guide, task.verdict)
                self._suspects.append(_Pending(alone, pending.whole, is_alone=True))
            return []
        pending.deaths += 1
        if pending.deaths < DEATHS_TO_PIN:
            self._suspects.appendleft(pending)
            return []
        if task.is_examination:
            problem = f"its examination ended machines of the cluster: {words}"
            return [Done(task, examination=without_case(task, problem))]
        verdict = Verdict(Pair.DEVICE, Symptom.CRASH, f"it ends machines of the cluster: {words}")
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


@dataclass
class _Pending:
    """What a future works on, and the task that it is a part of.

    machine: where it is alone. deaths: of machines on which it was alone. losses: how often the
    cluster forgot it.
    """

    task: Task
    whole: _Whole
    is_alone: bool = False
    machine: str = ""
    deaths: int = 0
    losses: int = 0
