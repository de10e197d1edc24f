"""The runner: gives rows to workers, pins every death to one case, and loses nothing measured."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyref import config
from tinyref.device import Capabilities
from tinyref.errors import UserError
from tinyref.processes import usable_memory
from tinyref.runtimes.identity import differences
from tinyref_conformance import journal as journals
from tinyref_conformance import pool as pools
from tinyref_conformance.certificate import capabilities_from_json
from tinyref_conformance.expectations import Phase
from tinyref_conformance.ladder import Suppression
from tinyref_conformance.plan import Plan, PlannedRow
from tinyref_conformance.pool import Pool, Task, WorkerProcess
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import DEFAULT_CATALOGUE
from tinyref_spec.case import Case

TICK_SECONDS = 0.1
# Workers in a row that do not even open the device, and deaths of one row between its cases.
MAX_FAILED_OPENINGS = 3
MAX_DEATHS_BETWEEN_CASES = 3


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
        return self.jobs if self.jobs > 0 else os.cpu_count() or 1

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
    progress: told the number of decided cases and the row that was last given out.
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
        self._excused: set[tuple[str, int]] = set()
        self._deaths: dict[str, int] = {}
        self._failed_openings = 0
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

    def _failed_to_open(self, reason: str) -> None:
        if self.outcome.opened is None:
            self.outcome.open_failure = reason
            return
        self._failed_openings += 1
        if self._failed_openings >= MAX_FAILED_OPENINGS:
            self._stop(f"the device stopped opening in new workers: {reason}")

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
        return Task(task.row, left, task.attempt)

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
            if not idle:
                if len(self._pool.workers) < self.settings.workers:
                    self._pool.start()
                return
            task = self._next_task()
            if task is None:
                self._check_progress_is_possible()
                return
            pruned = self._prune(task)
            if pruned.cases:
                idle.pop().begin(pruned)
                self.progress(self._decided(), task.row)
            else:
                self._settle(task.row)

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
            worker.heard()
        elif "end" in message:
            worker.case = None
            worker.heard()
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
            worker.kill("the device does not open")
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
                worker.kill("timeout")
        elif worker.case is not None and silent > self.settings.timeout:
            worker.kill("timeout")
        elif worker.task is not None and worker.memory_bytes() > self.settings.memory_bytes:
            worker.kill("memory")

    def _on_death(self, worker: WorkerProcess) -> None:
        tail = worker.log_tail()
        code = self._pool.remove(worker)
        self._absorb()
        if worker.opened is None:
            if worker.killed_for != "the device does not open":
                self._failed_to_open(self._opening_in_words(worker, code, tail))
            return
        task = worker.task
        if task is None:
            return
        if worker.case is not None and not self.outcome.has(worker.case, task.attempt):
            self._pin(worker.case, task, worker.killed_for, code, tail)
        elif worker.case is None:
            self._count_death_between_cases(task, code, tail)
        left = [name for name in task.cases if not self.outcome.has(name, task.attempt)]
        if left:
            self._tasks.appendleft(Task(task.row, left, task.attempt))
        else:
            self._settle(task.row)

    def _opening_in_words(self, worker: WorkerProcess, code: int, tail: str) -> str:
        words = worker.ending(code)
        if worker.killed_for == "timeout":
            words = f"no answer within {self._opening_seconds:g} s"
        return f"while opening the device: {words}" + (f"\n{tail}" if tail else "")

    def _pin(self, case_id: str, task: Task, killed_for: str, code: int, tail: str) -> None:
        """The verdict on the case in which a worker ended."""
        details = {"log": tail} if tail else None
        seconds = self.settings.timeout if killed_for == "timeout" else 0.0
        status = Status.TIMEOUT if killed_for == "timeout" else Status.CRASH
        if killed_for == "timeout":
            message = f"no end within {self.settings.timeout:g} s"
        elif killed_for == "memory":
            message = f"out of memory: the worker held over {self.settings.memory_bytes >> 20} MiB"
        elif code == -9 and (case_id, task.attempt) not in self._excused:
            # Not by us: somebody else's kill, or memory short for another's sake. Once is excused.
            self._excused.add((case_id, task.attempt))
            return
        else:
            message = pools.death_in_words(code)
        self.journal.append(
            Record(
                case=case_id,
                status=status,
                attempt=task.attempt,
                phase=Phase.RUN.value,
                message=message,
                seconds=seconds,
                details=details,
            )
        )
        self._absorb()

    def _count_death_between_cases(self, task: Task, code: int, tail: str) -> None:
        """A worker that dies between cases of a row again and again: its next case gets it."""
        self._deaths[task.row] = self._deaths.get(task.row, 0) + 1
        left = [name for name in task.cases if not self.outcome.has(name, task.attempt)]
        if left and self._deaths[task.row] >= MAX_DEATHS_BETWEEN_CASES:
            self._excused.add((left[0], task.attempt))
            self._pin(left[0], task, "", code, tail)


def _fails(record: Record) -> bool:
    return record.status in (Status.FAIL, Status.CRASH, Status.TIMEOUT)
