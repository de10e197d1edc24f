"""Tasks in worker processes of this machine: each death costs one case, and the rest goes on."""

from __future__ import annotations

import re
import signal
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from tinyref import config, processes
from tinyref.errors import UserError
from tinyref.machine import usable_memory
from tinyref.runtimes.identity import differences
from tinyref_fuzz.campaign.cases import CaseResult
from tinyref_fuzz.campaign.examination import unexamined
from tinyref_fuzz.campaign.task import CampaignError, Done, Examination, Executor, Setup, Task
from tinyref_spec.kernel_case import Pair, Symptom, Verdict

OPENING_TICK_SECONDS = 0.2
# What an examination may take beyond its own limit, which it checks between its steps.
EXAMINATION_GRACE = 30.0
# Between the signal that leaves the stack in the log, and the one that nothing survives.
LAST_WORDS_SECONDS = 2.0
# Device libraries leak: a worker is replaced after so many cases, or with this share of its limit.
MAX_CASES = 2000
RETIRING_SHARE = 0.5
# Workers in a row that die as they open the device: at the start of a campaign, and later on.
MAX_FIRST_DEATHS = 3
MAX_FAILED_OPENINGS = 8
# A case at which somebody else kills the worker is tried so often.
TRIES = 3
MAX_DEATHS_BETWEEN_CASES = 3


@dataclass
class Work:
    """A task under way: the results so far, and how often a worker died in it."""

    task: Task
    results: list[CaseResult] = field(default_factory=list)
    attempt: int = 1
    deaths_between_cases: int = 0

    @property
    def is_untouched(self) -> bool:
        return not self.results and not self.deaths_between_cases and self.attempt == 1

    @property
    def next_number(self) -> int:
        return self.task.first + len(self.results)


@dataclass
class WorkerProcess(processes.WorkerProcess):
    """One worker; `number` is the case that it has begun and not ended."""

    is_open: bool = False
    is_retired: bool = False
    work: Work | None = None
    number: int | None = None
    cases: int = 0

    @property
    def is_idle(self) -> bool:
        return self.is_open and self.work is None and not self.killed_for and not self.is_retired

    def begin(self, work: Work) -> None:
        """Gives the worker what is left of a task."""
        self.work = work
        self.note_message()
        message = {"task": work.task.to_json(), "from": work.next_number, "again": work.attempt}
        self.send(message)


class LocalExecutor(Executor):
    """Workers of this machine, started when they are needed and replaced when they die.

    Raises `UserError` where the device does not even open the first time.
    """

    def __init__(self, setup: Setup, jobs: int) -> None:
        self.setup = setup
        self.jobs = jobs
        self.memory = share_of_memory(setup, jobs)
        self._pool = _pool(setup)
        self._waiting: deque[Work] = deque()
        self._done: list[Done] = []
        self._kills: Counter[int] = Counter()
        self._failed_openings = 0
        self._has_opened = False
        self._problem = ""

    @property
    def capacity(self) -> int:
        # One task waits, so that a worker need not.
        return self.jobs + 1

    @property
    def busy(self) -> int:
        working = sum(worker.work is not None for worker in self._pool.workers)
        return working + len(self._waiting) + len(self._done)

    @property
    def is_ready(self) -> bool:
        return self._has_opened

    def open(self) -> None:
        self._start()
        while not self._has_opened and not self._problem:
            self._listen(OPENING_TICK_SECONDS)

    def recall(self) -> list[Task]:
        recalled = [work.task for work in self._waiting if work.is_untouched]
        self._waiting = deque(work for work in self._waiting if not work.is_untouched)
        return recalled

    def submit(self, task: Task) -> None:
        self._waiting.append(Work(task))

    def finished(self, seconds: float) -> list[Done]:
        self._give_out()
        if not self._done:
            self._listen(seconds)
            self._give_out()
        done, self._done = self._done, []
        if self._problem and not done:
            raise CampaignError(self._problem)
        return done

    def _listen(self, seconds: float) -> None:
        """Takes what workers say within `seconds`, and checks their limits."""
        for worker, message in self._pool.said(seconds):
            if message is None:
                self._on_death(worker)
            else:
                self._on_message(worker, message)
        for worker in list(self._pool.workers):
            self._check_limits(worker)

    def close(self) -> None:
        self._pool.close()

    def _give_out(self) -> None:
        idle = [worker for worker in self._pool.workers if worker.is_idle]
        while self._waiting and idle:
            idle.pop().begin(self._waiting.popleft())
        opening = sum(not worker.is_open for worker in self._pool.workers)
        # The first one finds out alone whether the device opens at all.
        most = self.jobs if self._has_opened else 1
        for _ in range(min(len(self._waiting) - opening, most - len(self._pool.workers))):
            self._start()

    def _start(self) -> None:
        try:
            self._pool.start()
        except OSError as error:
            # Of processes, memory or room for a log there is none left: others may go on.
            if not self._pool.workers:
                raise CampaignError(f"cannot start a worker: {error}") from error

    def _on_message(self, worker: WorkerProcess, message: dict[str, Any]) -> None:
        worker.note_message()
        if "begin" in message:
            worker.number = message["begin"]
        elif "end" in message:
            worker.number = None
            worker.cases += 1
            assert worker.work is not None, "a worker ends what it was given"
            worker.work.results.append(CaseResult.from_json(message["end"]))
        elif "examined" in message:
            self._examined(worker, Examination.from_json(message["examined"]))
        elif "done" in message:
            self._complete(worker)
        elif "opened" in message:
            if not self._has_opened:
                self._check_memory(worker)
            self._check_identity(message["opened"])
            worker.is_open = self._has_opened = True
            self._failed_openings = 0
        elif "refused" in message:
            self._failed_to_open(message["refused"])
            worker.kill("the device does not open")
        elif "fatal" in message:
            self._problem = message["fatal"]

    def _check_identity(self, found: dict[str, str]) -> None:
        """A worker that opens later must find the device as the first one did."""
        if self.identity is None:
            self.identity = found
        elif changes := differences(self.identity, found):
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

    def _complete(self, worker: WorkerProcess) -> None:
        assert worker.work is not None, "a worker ends what it was given"
        self._done.append(Done(worker.work.task, tuple(worker.work.results)))
        self._release(worker)

    def _examined(self, worker: WorkerProcess, found: Examination) -> None:
        assert worker.work is not None, "a worker ends what it was given"
        self._done.append(Done(worker.work.task, examination=found))
        worker.number = None
        self._release(worker)

    def _release(self, worker: WorkerProcess) -> None:
        """The worker is free, or leaves before it holds too much."""
        worker.work = None
        if worker.cases >= MAX_CASES or worker.memory_bytes() > self.memory * RETIRING_SHARE:
            worker.is_retired = True
            worker.send({"stop": True})

    # Limits and deaths

    def _check_limits(self, worker: WorkerProcess) -> None:
        worker.trim_log()
        silent = worker.silence()
        if worker.killed_for or worker.is_retired:
            if silent > self._limit(worker) + LAST_WORDS_SECONDS:
                worker.kill("no end")
        elif silent > self._limit(worker):
            # With this signal the log gets the stack, which shows where it hangs.
            worker.kill("no end", signal.SIGABRT)
        elif worker.work is not None and worker.memory_bytes() > self.memory:
            worker.kill("memory")

    @property
    def _opening_seconds(self) -> float:
        return max(config.integer("OPEN_SECONDS"), self.setup.timeout)

    def _limit(self, worker: WorkerProcess) -> float:
        if not worker.is_open:
            return self._opening_seconds
        if worker.work is None:
            # One that was asked to exit, or has nothing to report; only the former is limited.
            return self.setup.timeout if worker.is_retired else float("inf")
        if worker.work.task.is_examination:
            return self.setup.examine_seconds + EXAMINATION_GRACE + self.setup.timeout
        return self.setup.timeout

    def _on_death(self, worker: WorkerProcess) -> None:
        tail = worker.log_tail()
        code = self._pool.remove(worker)
        if not worker.is_open:
            if worker.killed_for != "the device does not open":
                reason = self._opening_in_words(worker, code, tail)
                self._failed_to_open(reason, is_death=worker.killed_for != "no end")
            return
        work = worker.work
        if work is None:
            return
        if work.task.is_examination:
            self._died_examining(work, worker.ending(code))
            return
        if worker.number is not None:
            self._pin(work, worker, code, tail)
        else:
            work.deaths_between_cases += 1
            if work.deaths_between_cases >= MAX_DEATHS_BETWEEN_CASES:
                self._kills[work.next_number] = TRIES
                self._pin(work, worker, code, tail)
        if work.next_number < work.task.stop:
            self._waiting.appendleft(work)
        else:
            self._done.append(Done(work.task, tuple(work.results)))

    def _is_tried_again(self, number: int, code: int, worker: WorkerProcess) -> bool:
        """Whether a death was somebody else's kill, or memory short for another's sake."""
        if code != -signal.SIGKILL or worker.noise:
            return False
        self._kills[number] += 1
        return self._kills[number] < TRIES

    def _failed_to_open(self, reason: str, is_death: bool = False) -> None:
        """A device that says why it does not open, does not; what dies may be somebody's kill."""
        if not self._has_opened:
            if is_death and self._failed_openings + 1 < MAX_FIRST_DEATHS:
                self._failed_openings += 1
                self._start()
                return
            raise UserError(f"device: {self.setup.device} does not open: {reason}")
        self._failed_openings += 1
        if self._failed_openings >= MAX_FAILED_OPENINGS:
            self._problem = (
                f"the device {self.setup.device} stopped opening in new workers: {reason}"
            )

    def _opening_in_words(self, worker: WorkerProcess, code: int, tail: str) -> str:
        words = worker.ending(code)
        if worker.killed_for == "no end":
            words = f"no answer within {self._opening_seconds:g} s"
        return f"{words}\n{tail}".strip()

    def _died_examining(self, work: Work, ending: str) -> None:
        """Once more, only to keep the case; and if even that fails, without it."""
        work.attempt += 1
        if work.attempt <= 2:
            self._waiting.appendleft(work)
            return
        problem = f"its case cannot be kept: {ending}"
        self._done.append(Done(work.task, examination=unexamined(work.task, problem)))

    def _pin(self, work: Work, worker: WorkerProcess, code: int, tail: str) -> None:
        """The verdict on the case in which a worker ended."""
        number, seconds = work.next_number, 0.0
        if worker.killed_for == "no end":
            seconds = self.setup.timeout
            symptom, words = Symptom.HANG, f"no end within {seconds:g} s"
        elif worker.killed_for == "memory":
            symptom = Symptom.MEMORY
            words = f"the worker held over {self.memory >> 20} MiB"
        elif self._is_tried_again(number, code, worker):
            return
        else:
            symptom, words = Symptom.CRASH, worker.ending(code)
        detail = f"{words}\n{tail}".strip()
        verdict = Verdict(pair_of_death(tail), symptom, detail)
        work.results.append(CaseResult(number, seconds, verdict=verdict))


def share_of_memory(setup: Setup, workers: int, most: int | None = None) -> int:
    """How many bytes one of the workers of this machine may hold, of `most` where that is less."""
    if setup.memory is not None:
        return setup.memory
    usable = usable_memory()
    return (usable if most is None else min(usable, most)) // workers


def _pool(setup: Setup) -> processes.Pool[WorkerProcess]:
    try:
        return processes.Pool("tinyref_fuzz.campaign.worker", setup.to_json(), WorkerProcess)
    except OSError as error:
        raise CampaignError(f"cannot keep the logs of workers: {error}") from error


# Where a stack says that it is the compiler or the interpreter that died, or the device.
_COMPILER = re.compile(
    "/tinyref/(uops|algebra|views|formats|verify|optimise|codegen|interpret)/", re.ASCII
)
_DEVICE = re.compile("/tinyref/(runtimes|renderers)/", re.ASCII)


def pair_of_death(log: str) -> Pair:
    """Where a process died, by the stack that it left: in our own stages, or on the device."""
    for frame in re.findall(r'File "([^"]+)"', log):
        if _DEVICE.search(frame):
            return Pair.DEVICE
        if _COMPILER.search(frame):
            return Pair.PLAIN
    return Pair.DEVICE
