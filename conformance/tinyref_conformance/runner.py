"""The runner: gives rows to workers, pins every death to one case, and loses nothing measured."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyref import config
from tinyref.device import Capabilities
from tinyref.errors import UserError
from tinyref.machine import bounded_jobs, usable_memory
from tinyref.runtimes.identity import differences
from tinyref_conformance import journal as journals
from tinyref_conformance.certificate import capabilities_from_json
from tinyref_conformance.deaths import MEMORY, TIMEOUT, Deaths, Limits
from tinyref_conformance.describe import describe_deaths
from tinyref_conformance.ladder import Suppression
from tinyref_conformance.plan import Plan, PlannedRow
from tinyref_conformance.pool import Pool, Task, WorkerProcess
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import DEFAULT_CATALOGUE
from tinyref_spec.case import Case

TICK_SECONDS = 0.1
# Workers that die in a row as they open the device: at the start of a run, and later on.
MAX_FIRST_DEATHS = 3
MAX_FAILED_OPENINGS = 8
# After a failed opening the next one waits, twice as long each time.
FIRST_PAUSE_SECONDS = 0.25
REFUSED = "the device does not open"


@dataclass(frozen=True)
class Settings:
    """How a run is carried out; what it covers is the `Plan`.

    folder: where journal and reports go. timeout: seconds a case may take. memory_limit: bytes a
    worker may hold, None for a fair share of the machine. restart: begin anew where what is to be
    resumed is of another run or device. keep_going: run also what rests on something broken.
    """

    device: str
    folder: Path
    jobs: int = 0
    timeout: float = 30.0
    memory_limit: int | None = None
    resume: bool = False
    restart: bool = False
    rerun_failures: bool = False
    fail_fast: bool = False
    keep_going: bool = False
    catalogue: str = DEFAULT_CATALOGUE

    @property
    def workers(self) -> int:
        return bounded_jobs(self.jobs, self.memory_limit)

    @property
    def memory_bytes(self) -> int:
        if self.memory_limit is not None:
            return self.memory_limit
        return usable_memory() // self.workers


@dataclass
class Outcome:
    """All that a run found, before expectations are applied.

    records: the attempts at each case. derived: Skip and Suppressed with their reasons.
    open_failure: why the device did not open. opened: what it declares.
    """

    opened: Mapping[str, Any] | None = None
    open_failure: str = ""
    records: dict[str, list[Record]] = field(default_factory=dict)
    derived: dict[str, tuple[Status, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    resumed: int = 0

    def add(self, record: Record) -> bool:
        """Keeps a record; False for an attempt that is there already."""
        attempts = self.records.setdefault(record.case, [])
        if any(known.attempt == record.attempt for known in attempts):
            return False
        attempts.append(record)
        return True

    def has(self, case_id: str, attempt: int) -> bool:
        return any(known.attempt == attempt for known in self.records.get(case_id, ()))


IsExpected = Callable[[Record], bool]
Skipped = Callable[[str], str | None]
Progress = Callable[[int, str], None]


class Runner:
    """Carries out one plan on one device.

    is_expected: whether an expectation covers a failure, so that it suppresses nothing.
    skipped: why a case is not to be run, None where it is.
    progress: called with the number of decided cases and the row that was last given out.
    """

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        journal: journals.Journal,
        is_expected: IsExpected = lambda record: False,
        progress: Progress = lambda done, row: None,
        skipped: Skipped = lambda case_id: None,
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.journal = journal
        self.is_expected = is_expected
        self.progress = progress
        self.skipped = skipped
        self.outcome = Outcome()
        self._rows = {planned.id: planned for planned in plan.rows}
        self._cases = {case.id: case for planned in plan.rows for case in planned.cases}
        self._below = {planned.id: self._rows_below(planned) for planned in plan.rows}
        self._suppression = Suppression()
        self._tasks: deque[Task] = deque()
        self._unsettled: set[str] = set()
        self._deaths = Deaths(Limits(settings.timeout, settings.memory_bytes))
        self._failed_openings = 0
        self._next_start = 0.0
        self._stopped = False

    def run(self) -> Outcome:
        """The outcome; lets `KeyboardInterrupt` out, with all that was measured in the journal."""
        started = time.monotonic()
        self._absorb()
        self.outcome.resumed = sum(len(found) for found in self.outcome.records.values())
        self._pool = Pool(self._config())
        try:
            if self._open_first():
                self._queue_first_attempts()
                self._work()
                if self.settings.rerun_failures and not self._stopped:
                    self._queue_second_attempts()
                    self._work()
                describe_deaths(self.outcome, self._cases, self._config(), self.settings.timeout)
        finally:
            self._pool.close()
            self._absorb()
            self.outcome.seconds = time.monotonic() - started
        return self.outcome

    def _config(self) -> dict[str, Any]:
        return {
            "catalogue": self.settings.catalogue,
            "suite_hash": self.plan.suite_hash,
            "profile": self.plan.profile.value,
            "device": self.settings.device,
            "journal": str(self.journal.path.resolve()),
        }

    # Opening

    def _open_first(self) -> bool:
        """Starts one worker and waits for its device, so that a dead device is found once."""
        self._pool.start()
        while self.outcome.opened is None and not self.outcome.open_failure:
            self._turn()
        return not self.outcome.open_failure

    def _opened(self, worker: WorkerProcess, found: Mapping[str, Any]) -> None:
        worker.opened = found
        self._failed_openings = 0
        if self.outcome.opened is None:
            self.journal.bind_device(found["identity"])
            self.outcome.opened = found
        elif changes := differences(self.outcome.opened["identity"], found["identity"]):
            raise UserError(
                f"run: the device changed while the run was going on: {'; '.join(changes)}; what "
                f"was measured before is in {self.journal.path}"
            )

    def _failed_to_open(self, reason: str, is_death: bool = False) -> None:
        """A device that says why it does not open, does not; what dies may be somebody's kill."""
        self._failed_openings += 1
        if self.outcome.opened is None:
            if not is_death or self._failed_openings >= MAX_FIRST_DEATHS:
                self.outcome.open_failure = reason
            else:
                self._pool.start()
            return
        pause = FIRST_PAUSE_SECONDS * 2 ** (self._failed_openings - 1)
        self._next_start = time.monotonic() + pause
        if self._failed_openings >= MAX_FAILED_OPENINGS:
            self._give_up(f"the device stopped opening in new workers: {reason}")

    def _give_up(self, problem: str) -> None:
        """Ends the run; every case that did not have its turn says why."""
        self._stop(problem)
        reason = problem.partition("\n")[0]
        for case_id in self._cases:
            if not self.outcome.has(case_id, 1):
                self.outcome.derived.setdefault(case_id, (Status.SUPPRESSED, reason))

    def _stop(self, problem: str) -> None:
        self._stopped = True
        self.outcome.problems.append(problem)

    @property
    def _opening_seconds(self) -> float:
        return max(config.integer("OPEN_SECONDS"), self.settings.timeout)

    # Queueing

    def _queue_first_attempts(self) -> None:
        for planned in self.plan.rows:
            for case in planned.cases:
                for record in self.outcome.records.get(case.id, ()):
                    self._judge(record)
            self._unsettled.add(planned.id)
            self._tasks.append(Task(planned.id, [case.id for case in planned.cases]))

    def _queue_second_attempts(self) -> None:
        for planned in self.plan.rows:
            failing = [
                case.id
                for case in planned.cases
                if any(_fails(record) for record in self.outcome.records.get(case.id, ())[:1])
                and not self.outcome.has(case.id, 2)
                and case.id not in self.outcome.derived
            ]
            if failing:
                self._tasks.append(Task(planned.id, failing, attempt=2))

    def _next_task(self) -> Task | None:
        """The first task whose ground is known: the rows that its cases depend on are settled."""
        for task in self._tasks:
            if task.is_alone and self._busy():
                return None
            if task.attempt > 1 or not self._below[task.row] & self._unsettled:
                self._tasks.remove(task)
                return task
        return None

    def _rows_below(self, planned: PlannedRow) -> set[str]:
        """The rows that the cases of a row depend on, by name or by one of their cases."""
        names = {name for case in planned.cases for name in case.depends_on}
        return {self._cases[name].row if name in self._cases else name for name in names}

    def _prune(self, task: Task) -> Task:
        """The task without the cases that are decided without running."""
        if task.attempt > 1:
            return task
        left = []
        for case_id in task.cases:
            decided = self._decide(self._cases[case_id])
            if decided is not None:
                self.outcome.derived[case_id] = decided
                if decided[0] is Status.SUPPRESSED:
                    self._suppression.note_suppressed(case_id, task.row, decided[1])
            elif not self.outcome.has(case_id, task.attempt):
                left.append(case_id)
        return Task(task.row, left, task.attempt, task.is_alone)

    def _decide(self, case: Case) -> tuple[Status, str] | None:
        unmet = case.needs.unmet(self._capabilities())
        if unmet is not None:
            if not unmet.strip():
                return Status.FAIL, "skipped without a reason: a skip must say what is not declared"
            return Status.SKIP, unmet
        skipped = self.skipped(case.id)
        if skipped is not None:
            return Status.NOT_RUN, skipped
        if self.outcome.has(case.id, 1):
            return None
        if self.settings.keep_going:
            return None
        reason = self._suppression.reason(case.depends_on)
        return None if reason is None else (Status.SUPPRESSED, reason)

    def _capabilities(self) -> Capabilities:
        if self._known_capabilities is None:
            opened = self.outcome.opened or {}
            self._known_capabilities = capabilities_from_json(opened["capabilities"])
        return self._known_capabilities

    _known_capabilities: Capabilities | None = None

    # The loop

    def _work(self) -> None:
        """Until every task is done."""
        while not self._stopped and (self._tasks or self._busy()):
            self._give_out()
            if self._tasks or self._busy():
                self._turn()

    def _busy(self) -> list[WorkerProcess]:
        return [worker for worker in self._pool.workers if worker.task is not None]

    def _give_out(self) -> None:
        idle = [worker for worker in self._pool.workers if worker.is_idle]
        while self._tasks and not self._stopped:
            if any(worker.task.is_alone for worker in self._busy() if worker.task):
                return
            if not idle:
                self._start_another()
                return
            task = self._next_task()
            if task is None:
                self._check_progress_is_possible()
                return
            pruned = self._prune(task)
            if pruned.cases:
                idle.pop().begin(pruned)
                if pruned.is_alone:
                    _retire(idle)
                    return
                self.progress(self._decided(), task.row)
            else:
                self._settle(task.row)

    def _start_another(self) -> None:
        """One more worker, if there may be more; after a failed opening one at a time."""
        opening = any(worker.opened is None for worker in self._pool.workers)
        is_full = len(self._pool.workers) >= self.settings.workers
        if is_full or time.monotonic() < self._next_start or (opening and self._failed_openings):
            return
        self._pool.start()

    def _decided(self) -> int:
        return len(self.outcome.records) + len(self.outcome.derived)

    def _check_progress_is_possible(self) -> None:
        if not self._busy():
            rows = ", ".join(task.row for task in list(self._tasks)[:3])
            raise UserError(f"suite: rows depend on each other in a circle: {rows}")

    def _settle(self, row: str) -> None:
        if all(task.row != row for task in self._tasks):
            self._unsettled.discard(row)
        self.progress(self._decided(), row)

    def _turn(self) -> None:
        """Waits a moment, takes what workers say, and checks their limits."""
        for worker, message in self._pool.said(TICK_SECONDS):
            if message is None:
                self._on_death(worker)
            else:
                self._on_message(worker, message)
        for worker in list(self._pool.workers):
            self._check_limits(worker)
        self.journal.sync()

    def _on_message(self, worker: WorkerProcess, message: Mapping[str, Any]) -> None:
        if "begin" in message:
            worker.case = message["begin"]
            worker.launch = 0
            worker.note_message()
        elif "launch" in message:
            worker.launch = message["launch"]
        elif "end" in message:
            worker.case = None
            worker.note_message()
            self._absorb()
            self.progress(self._decided(), worker.task.row if worker.task else "")
        elif "row_done" in message:
            worker.task = None
            self._settle(message["row_done"])
        elif "opened" in message:
            self._opened(worker, message["opened"])
        elif "refused" in message:
            if message["misnamed"] and self.outcome.opened is None:
                raise UserError(message["refused"])
            self._failed_to_open(message["refused"])
            worker.kill(REFUSED)
        elif "fatal" in message:
            raise UserError(f"run: {message['fatal']}; what was measured is in {self.journal.path}")

    def _absorb(self) -> None:
        for record in self.journal.read_new():
            if self.outcome.add(record):
                self._judge(record)

    def _judge(self, record: Record) -> None:
        if record.attempt > 1 or not _fails(record) or self.is_expected(record):
            return
        case = self._cases.get(record.case)
        if case is not None:
            self._suppression.note(case.id, case.row)
        if self.settings.fail_fast:
            self._stop(f"stopped at the first failure, {record.case}, because of --fail-fast")

    # Limits and deaths

    def _check_limits(self, worker: WorkerProcess) -> None:
        if worker.killed_for:
            return
        silent = worker.silence()
        if worker.opened is None:
            if silent > self._opening_seconds:
                worker.kill(TIMEOUT)
        elif worker.case is not None and silent > self.settings.timeout:
            worker.kill(TIMEOUT)
        elif worker.task is not None:
            worker.held = worker.memory_bytes()
            if worker.held > self.settings.memory_bytes:
                worker.kill(MEMORY)

    def _on_death(self, worker: WorkerProcess) -> None:
        tail = worker.log_tail()
        code = self._pool.remove(worker)
        self._absorb()
        if worker.opened is None:
            if worker.killed_for != REFUSED:
                reason = self._opening_in_words(worker, code, tail)
                self._failed_to_open(reason, is_death=worker.killed_for != TIMEOUT)
            return
        task = worker.task
        left = [] if task is None else self._left(task)
        blamed = None if task is None else self._deaths.blamed(worker, task, left)
        if worker.noise and blamed is None:
            self.outcome.problems.append(f"a worker was ended: {worker.noise}")
        if blamed is not None:
            record = self._deaths.record(worker, blamed, code, tail)
            if record is not None:
                self.journal.append(record)
                self._absorb()
        if task is not None:
            self._try_again(task, blamed)

    def _left(self, task: Task) -> list[str]:
        return [name for name in task.cases if not self.outcome.has(name, task.attempt)]

    def _try_again(self, task: Task, blamed: str | None) -> None:
        """Queues what is left of a task whose worker died."""
        left = self._left(task)
        is_alone = blamed in left and self._deaths.is_alone_next(str(blamed), task.attempt)
        rest = [name for name in left if not is_alone or name != blamed]
        if rest:
            self._tasks.appendleft(Task(task.row, rest, task.attempt))
        if is_alone:
            self._tasks.appendleft(Task(task.row, [str(blamed)], task.attempt, is_alone=True))
        self._settle(task.row)

    def _opening_in_words(self, worker: WorkerProcess, code: int, tail: str) -> str:
        words = worker.ending(code)
        if worker.killed_for == TIMEOUT:
            words = f"no answer within {self._opening_seconds:g} s"
        return f"while opening the device: {words}" + (f"\n{tail}" if tail else "")


def _retire(idle: list[WorkerProcess]) -> None:
    """Ends workers that wait, so that they hold no memory."""
    for worker in idle:
        worker.kill("room")


def _fails(record: Record) -> bool:
    return record.status in (Status.FAIL, Status.CRASH, Status.TIMEOUT)
