"""Tasks in worker processes of this machine: each death costs one case, and the rest goes on."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from tinyref import config
from tinyref.errors import UserError
from tinyref.runtimes.identity import differences
from tinyref.workers import supervisor
from tinyref.workers.machine import usable_memory
from tinyref.workers.processes import UNLIMITED, Cause, Death, Limits, Message, Pool
from tinyref.workers.service import FatalError, OpeningError
from tinyref.workers.supervisor import Supervisor, Tries
from tinyref_fuzz.campaign.results import CaseResult
from tinyref_fuzz.campaign.task import CampaignError, Done, Examination, Executor, Setup, Task
from tinyref_fuzz.campaign.unexamined import without_case
from tinyref_fuzz.judge.deaths import EXAMINATION_GRACE, verdict_of_death

# Device libraries leak: a worker is replaced after so many cases, or with this share of its limit.
MAX_CASES = 2000
RETIRING_SHARE = 0.5


@dataclass
class Work:
    """A task under way: the results so far, and the how many-th attempt at an examination it is.

    is_cut: it ends with the case that it is at.
    """

    task: Task
    results: list[CaseResult] = field(default_factory=list)
    attempt: int = 1
    is_untouched: bool = True
    is_cut: bool = False

    @property
    def next_number(self) -> int:
        return self.task.first + len(self.results)

    @property
    def is_over(self) -> bool:
        return self.next_number == self.task.stop or (self.is_cut and bool(self.results))

    def done(self) -> Done:
        """The task as far as it was carried out, and what came of it."""
        return Done(replace(self.task, stop=self.next_number), tuple(self.results))


@dataclass
class WorkerProcess(supervisor.WorkerProcess[Work]):
    """One worker; its item is the number of a case."""

    cases: int = 0

    def begin(self, work: Work, limits: Limits) -> None:
        """Gives the worker what is left of a task."""
        self.task = work
        work.is_untouched = False
        self.limit(limits)
        message = {"task": work.task.to_json(), "from": work.next_number, "again": work.attempt}
        self.send(message)


class LocalExecutor(Executor):
    """Workers of this machine, started when they are needed and replaced when they die.

    Raises `UserError` where the device does not even open the first time.
    """

    def __init__(self, setup: Setup, jobs: int) -> None:
        super().__init__()
        self.setup = setup
        self.jobs = jobs
        self.memory = share_of_memory(setup, jobs)
        self._pool = _pool(setup)
        seconds = max(config.integer("OPEN_SECONDS"), setup.timeout)
        self._supervisor = Supervisor(self._pool, self, seconds)
        self._waiting: deque[Work] = deque()
        self._done: list[Done] = []
        self._tries = Tries()
        self._problem = ""

    @property
    def capacity(self) -> int:
        # One task waits, so that a worker need not.
        return self.jobs + 1

    @property
    def busy(self) -> int:
        return len(self._supervisor.busy) + len(self._waiting) + len(self._done)

    @property
    def is_ready(self) -> bool:
        return self._supervisor.has_opened

    def open(self) -> None:
        try:
            self._supervisor.open_first()
        except OpeningError as error:
            raise self._error_of_opening(error) from error
        except FatalError as error:
            self._problem = str(error)
        except OSError as error:
            raise CampaignError(f"cannot start a worker: {error}") from error

    def recall(self) -> list[Task]:
        recalled = [work.task for work in self._waiting if work.is_untouched]
        begun = [work for work in self._waiting if not work.is_untouched]
        begun += [worker.task for worker in self._supervisor.busy if worker.task]
        for work in begun:
            work.is_cut = not work.task.is_examination
        # What waits for another worker, as one has died over it, waits no longer.
        waiting = [work for work in self._waiting if not work.is_untouched]
        self._done += [work.done() for work in waiting if work.is_over]
        self._waiting = deque(work for work in waiting if not work.is_over)
        return recalled

    def cut(self) -> list[Task]:
        dropped = []
        for worker in self._supervisor.busy:
            work = worker.task
            if work is None or work.task.is_examination:
                continue
            if worker.item is not None:
                self.unfinished[worker.item] = worker.silence()
            worker.task = None
            worker.kill(Cause.DISMISSED)
            if work.results:
                self._done.append(work.done())
            else:
                dropped.append(work.task)
        return dropped

    @property
    def cases_under_way(self) -> int:
        under_way = [worker.task for worker in self._supervisor.busy if worker.task]
        return sum(len(work.results) for work in (*under_way, *self._waiting))

    def submit(self, task: Task) -> None:
        self._waiting.append(Work(task))

    def finished_tasks(self, seconds: float) -> list[Done]:
        self._give_out()
        if not self._done:
            self._listen(seconds)
            self._give_out()
        done, self._done = self._done, []
        if self._problem and not done:
            raise CampaignError(self._problem)
        return done

    def _listen(self, seconds: float) -> None:
        """Takes what workers send within `seconds`, and enforces their limits."""
        try:
            self._supervisor.listen(seconds)
        except OpeningError as error:
            if not self._supervisor.has_opened:
                raise self._error_of_opening(error) from error
            device = self.setup.device
            self._problem = f"the device {device} stopped opening in new workers: {error}"
        except FatalError as error:
            self._problem = str(error)

    def _error_of_opening(self, error: OpeningError) -> UserError:
        return UserError(f"device: {self.setup.device} does not open: {error}")

    def close(self) -> None:
        self._pool.close()

    def _give_out(self) -> None:
        idle = self._supervisor.idle
        while self._waiting and idle:
            work = self._waiting.popleft()
            idle.pop().begin(work, self._limits(work.task))
        try:
            self._supervisor.grow(len(self._waiting), self.jobs)
        except OSError as error:
            raise CampaignError(f"cannot start a worker: {error}") from error

    def _limits(self, task: Task) -> Limits:
        seconds = self.setup.timeout
        if task.is_examination:
            seconds += self.setup.examine_seconds + EXAMINATION_GRACE
        return Limits(seconds, self.memory)

    def on_message(self, worker: WorkerProcess, message: Message) -> None:
        """Takes what a worker sends of its task."""
        work = worker.task
        if work is None:
            assert worker.killed_for, "a worker ends what it was given"
            return
        worker.reset_silence()
        if "begin" in message:
            worker.item = message["begin"]
            return
        worker.item = None
        if "end" in message:
            worker.cases += 1
            work.results.append(CaseResult.from_json(message["end"]))
            if work.is_cut:
                self._done.append(work.done())
                worker.task = None
                # It knows of no end but that of its task.
                worker.kill(Cause.DISMISSED)
        elif "examined" in message:
            found = Examination.from_json(message["examined"])
            self._done.append(Done(work.task, examination=found))
            self._release(worker)
        elif "done" in message:
            self._done.append(work.done())
            self._release(worker)

    def on_opened(self, worker: WorkerProcess, opened: dict[str, str]) -> None:
        """A worker that opens later must find the device as the first one did."""
        if self.identity is None:
            self._check_memory(worker)
            self.identity = opened
        elif changes := differences(self.identity, opened):
            self._problem = f"the device changed while the campaign went on: {'; '.join(changes)}"

    def _check_memory(self, worker: WorkerProcess) -> None:
        """Raises `UserError` where every case would look as if it held too much."""
        held, limit = worker.memory_bytes(), self.memory
        if held > limit * RETIRING_SHARE:
            raise UserError(
                f"memory-limit: a worker holds {held >> 20} MiB before its first case, more than "
                f"half of its limit of {limit >> 20} MiB: give a higher one, fewer --jobs, or Dask "
                "workers with more memory"
            )

    def _release(self, worker: WorkerProcess) -> None:
        """The worker is free, or leaves before it holds too much."""
        worker.task = None
        worker.limit(UNLIMITED)
        if worker.cases >= MAX_CASES or worker.memory_bytes() > self.memory * RETIRING_SHARE:
            worker.is_retired = True
            worker.limit(Limits(self.setup.timeout))
            worker.send({"stop": True})

    # Deaths

    def on_death(self, worker: WorkerProcess, death: Death) -> None:
        """Pins the death to a case, and has what is left of its task done by others."""
        work = worker.task
        if work is None:
            return
        if work.task.is_examination:
            self._died_examining(work, death)
            return
        number = work.next_number
        if self._tries.is_pinned(number, death, has_begun=worker.item is not None):
            seconds = worker.limits.seconds if death.cause is Cause.TIMEOUT else 0.0
            work.results.append(CaseResult(number, seconds, verdict=verdict_of_death(death)))
        if work.is_over:
            self._done.append(work.done())
        else:
            self._waiting.appendleft(work)

    def _died_examining(self, work: Work, death: Death) -> None:
        """Once more, only to keep the case; and if even that fails, without it."""
        work.attempt += 1
        if work.attempt <= 2:
            self._waiting.appendleft(work)
            return
        problem = f"its case cannot be kept: {death.words}"
        self._done.append(Done(work.task, examination=without_case(work.task, problem)))


def share_of_memory(setup: Setup, workers: int, most: int | None = None) -> int:
    """How many bytes one of the workers of this machine may hold, of `most` where that is less."""
    if setup.memory is not None:
        return setup.memory
    usable = usable_memory()
    return (usable if most is None else min(usable, most)) // workers


def _pool(setup: Setup) -> Pool[WorkerProcess]:
    try:
        return Pool("tinyref_fuzz.campaign.worker", setup.to_json(), WorkerProcess)
    except OSError as error:
        raise CampaignError(f"cannot keep the logs of workers: {error}") from error
