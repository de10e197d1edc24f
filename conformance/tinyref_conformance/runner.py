"""The runner: gives rows to workers, pins every death to one case, and loses nothing measured."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.errors import UserError
from tinyref.runtimes.identity import differences
from tinyref.workers.processes import UNLIMITED, Cause, Death, Limits, Pool
from tinyref.workers.service import FatalError, OpeningError
from tinyref.workers.supervisor import Supervisor, Tries
from tinyref_conformance import history
from tinyref_conformance import journal as journals
from tinyref_conformance.batches import Batches, returned
from tinyref_conformance.budget import budget_text, telling_order
from tinyref_conformance.certificate import capabilities_from_json
from tinyref_conformance.describe import describe_deaths
from tinyref_conformance.ladder import Suppression
from tinyref_conformance.plan import Plan, PlannedRow
from tinyref_conformance.records import Outcome, Record, headline
from tinyref_conformance.settings import Settings, worker_configuration
from tinyref_conformance.statuses import Status
from tinyref_conformance.time_left import SlowStart, TimeLeft
from tinyref_conformance.workers import Task, WorkerProcess, record_of
from tinyref_spec.case import Case, Rung
from tinyref_spec.ladder import TOGETHER
from tinyref_spec.subjects.name import is_subject

TICK_SECONDS = 0.1
ALONE = "failures run again, each alone"
SEQUENCES = "failures that pass alone: what they depend on is looked for"
# What takes seconds of the processor may take so many times as long.
IDLE_SHARE = 6.0


IsExpected = Callable[[Record], bool]
Skipped = Callable[[str], str | None]
Progress = Callable[[int, str, float | None], None]
Again = Callable[[str, int, int], None]


class Runner:
    """Carries out one plan on one device.

    is_expected: whether an expectation covers a failure, so that it suppresses nothing.
    skipped: why a case is not to be run, None where it is.
    progress: called with the number of decided cases, the row that was last given out, and the
    seconds that are left, where they are known.
    again: called while failures run again; see `progress.Reporter.again`.
    """

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        journal: journals.Journal,
        is_expected: IsExpected = lambda record: False,
        progress: Progress = lambda done, row, left: None,
        skipped: Skipped = lambda case_id: None,
        again: Again = lambda what, done, total: None,
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.journal = journal
        self.is_expected = is_expected
        self.progress = progress
        self.skipped = skipped
        self.again = again
        self.outcome = Outcome()
        self._rows = {planned.id: planned for planned in plan.rows}
        self._cases = {case.id: case for planned in plan.rows for case in planned.cases}
        self._below = {planned.id: self._cases_below(planned) for planned in plan.rows}
        # Of those that others depend on.
        self._unsettled: set[str] = set().union(*self._below.values()) & self._cases.keys()
        self._suppression = Suppression()
        self._tasks: deque[Task] = deque()
        # They are read from the system each time that they are asked for.
        self._memory = settings.memory_bytes
        self._jobs = settings.workers
        self._tries = Tries()
        self._batches = Batches()
        # The cases of batches that ended their worker, and how it ended.
        self._crashes: list[tuple[list[str], str]] = []
        self._start = SlowStart()
        self._stopped = False
        self._next_show = 0.0

    def run(self) -> Outcome:
        """The outcome; lets `KeyboardInterrupt` out, with all that was measured in the journal."""
        started = time.monotonic()
        self._deadline = started + (self.settings.budget or math.inf)
        self._absorb()
        self.outcome.resumed = sum(len(found) for found in self.outcome.records.values())
        pool = Pool("tinyref_conformance.worker", self._config(), WorkerProcess)
        self._supervisor = Supervisor(pool, self, self._opening_seconds)
        try:
            if self._open_first():
                self._queue_first_attempts()
                self._work()
                self._rerun_failures()
                self._say_crashes()
                describe_deaths(self.outcome, self._cases, self._config(), self.settings.timeout)
        finally:
            pool.close()
            self._absorb()
            self._note_budget()
            self.outcome.seconds = time.monotonic() - started
        return self.outcome

    def _config(self) -> dict[str, str]:
        return worker_configuration(self.settings, self.plan)

    # Opening

    def _open_first(self) -> bool:
        """Starts one worker and waits for its device, so that a dead device is found once."""
        try:
            self._supervisor.open_first()
        except OpeningError as error:
            # A library is not in a list of names: that it does not open is in the report.
            if error.is_misnamed and not is_subject(self.settings.device):
                raise UserError(str(error)) from error
            self.outcome.open_failure = _describe_opening(error)
        except FatalError as error:
            raise self._ended_by(error) from error
        return not self.outcome.open_failure

    def on_opened(self, worker: WorkerProcess, opened: Mapping[str, Any]) -> None:
        """Binds the run to the first device, and refuses another one."""
        worker.name = opened.get("worker", "")
        if self.outcome.opened is None:
            self.journal.bind_device(opened["identity"])
            self.outcome.opened = opened
            self._count_cases()
            self._batches.offered = bool(opened.get("compiles_many"))
        elif changes := differences(self.outcome.opened["identity"], opened["identity"]):
            raise UserError(
                f"run: the device changed while the run was going on: {'; '.join(changes)}; what "
                f"was measured before is in {self.journal.path}"
            )

    def _ended_by(self, error: FatalError) -> UserError:
        return UserError(f"run: {error}; what was measured is in {self.journal.path}")

    def _note_end(self, record: Record) -> None:
        """Give up on a library that does not end its first cases in time: that is no verdict."""
        if not is_subject(self.settings.device) or not self._start.is_too_slow(record):
            return
        self._stop(self._start.words(self.settings.timeout))
        self.outcome.cut_short = self.outcome.problems[-1]
        open_cases = [name for name in self._cases if not self.outcome.has(name, 1)]
        for name in (*self._start.cases, *open_cases):
            decided = self.outcome.derived.setdefault(name, (Status.NOT_RUN, "too slow here"))
            self.outcome.late += decided[0] is Status.NOT_RUN

    def _give_up(self, problem: str) -> None:
        """Ends the run; every case that did not have its turn says why."""
        self._stop(problem)
        reason = headline(problem)
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
        if self.settings.sequence:
            parts = [(self._cases[name].row, [name]) for name in self.settings.sequence]
        elif self.settings.budget:
            parts = telling_order(self.plan.rows)
        else:
            parts = [(row.id, [case.id for case in row.cases]) for row in self.plan.rows]
        self._tasks.extend(Task(row, cases) for row, cases in parts)

    def _next_task(self, worker: WorkerProcess) -> Task | None:
        """The first task whose ground is known: the cases that it depends on had their turn.

        What is reserved for the worker comes before, what is reserved for others after all else.
        """
        if self._tasks and self._tasks[0].is_alone:
            return None if self._supervisor.busy else self._tasks.popleft()
        if worker.reserved:
            return worker.reserved.popleft()
        if self._tasks and self.settings.sequence:
            return self._tasks.popleft()
        for task in self._tasks:
            if self._is_ready(task):
                self._tasks.remove(task)
                return task
        richest = max(self._supervisor.pool.workers, key=lambda other: len(other.reserved))
        return richest.reserved.pop() if richest.reserved else None

    def _is_ready(self, task: Task) -> bool:
        return not self._below[task.row] & self._unsettled

    def _cases_below(self, planned: PlannedRow) -> set[str]:
        """The cases that those of a row depend on, by name or by the name of their row."""
        names = {name for case in planned.cases for name in case.depends_on}
        return {
            case
            for name in names
            for case in (
                [each.id for each in self._rows[name].cases] if name in self._rows else [name]
            )
        }

    @property
    def _waiting(self) -> Iterator[Task]:
        """The tasks that nobody has begun."""
        yield from self._tasks
        for worker in self._supervisor.pool.workers:
            yield from worker.reserved

    @property
    def _has_work(self) -> bool:
        return bool(self._supervisor.busy) or any(True for _ in self._waiting)

    def _prune(self, task: Task) -> Task:
        """The task without the cases that are decided without running."""
        left = []
        for case_id in task.cases:
            decided = self._decide(self._cases[case_id])
            if decided is not None:
                self.outcome.derived[case_id] = decided
                if decided[0] is Status.SUPPRESSED:
                    self._time_left.drop(self._rows[task.row].rung)
                    self._suppression.note_suppressed(case_id, task.row, decided[1])
            elif not self.outcome.has(case_id, 1):
                left.append(case_id)
        return replace(task, cases=left)

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
        if self.settings.keep_going or self.settings.sequence:
            return None
        reason = self._suppression.reason(case.depends_on)
        return None if reason is None else (Status.SUPPRESSED, reason)

    def _capabilities(self) -> Capabilities:
        if self._known_capabilities is None:
            opened = self.outcome.opened or {}
            found = capabilities_from_json(opened["capabilities"])
            if self.settings.second:
                # Another one is there, whether or not it is of this kind.
                found = replace(found, is_single=False)
            self._known_capabilities = found
        return self._known_capabilities

    _known_capabilities: Capabilities | None = None

    # The loop

    def _work(self) -> None:
        """Until every task is done."""
        while not self._stopped and self._has_work:
            if time.monotonic() > self._deadline:
                self._stopped = True
                return
            self._give_out()
            if self._has_work:
                self._listen()

    def _give_out(self) -> None:
        idle = self._supervisor.idle
        while not self._stopped and any(True for _ in self._waiting):
            if any(worker.task.is_alone for worker in self._supervisor.busy if worker.task):
                return
            if not idle:
                self._supervisor.grow(len(self._tasks), self._jobs)
                return
            task = self._next_task(idle[-1])
            if task is None:
                self._check_progress_is_possible()
                return
            pruned = self._prune(task)
            if pruned.cases:
                self._begin(idle.pop(), pruned)
                if pruned.is_alone:
                    _dismiss(idle)
                    return
                self._show(task.row)
            else:
                self._settle(task.row)

    def _begin(self, worker: WorkerProcess, task: Task) -> None:
        batch = []
        if self._may_compile_together():
            chosen = self._batches.choose(task, self._tasks_to_prepare())
            batch = [(each.row, self._undecided(each)) for each in chosen]
            worker.reserved.extend(chosen[1:])
            for reserved in chosen[1:]:
                self._tasks.remove(reserved)
        # The time of each case is counted from its own beginning, and that of a batch from now.
        seconds = self.settings.timeout if batch else math.inf
        worker.begin(task, Limits(seconds, self._memory, "batch of kernels"), batch)

    def _tasks_to_prepare(self) -> Iterator[Task]:
        """Those that may come next."""
        for task in self._tasks:
            if not task.is_alone and self._is_ready(task) and self._undecided(task):
                yield task

    def _may_compile_together(self) -> bool:
        """Whether what is compiled together is known to be right, or is not asked."""
        if self.settings.sequence:
            return False
        cases = [case.id for case in self._rows[TOGETHER].cases] if TOGETHER in self._rows else []
        attempts = [self.outcome.attempts(name) for name in cases]
        decided = all(
            found or name in self.outcome.derived
            for name, found in zip(cases, attempts, strict=True)
        )
        return decided and not any(_fails(each) for found in attempts for each in found)

    def _undecided(self, task: Task) -> list[str]:
        """The cases of a task that are to run, as far as that is known now."""
        return [
            name
            for name in task.cases
            if self._decide(self._cases[name]) is None and not self.outcome.has(name, 1)
        ]

    def _decided(self) -> int:
        return len(self.outcome.records) + len(self.outcome.derived)

    def _count_cases(self) -> None:
        """The device is open: which cases are to run is known."""
        todo = Counter(
            self._rows[case.row].rung
            for case in self._cases.values()
            if not self.outcome.has(case.id, 1) and self._decide(case) is None
        )
        self._time_left = TimeLeft(todo, self._jobs)

    def _show(self, row: str) -> None:
        """Tells the progress, now and then: to say what is left takes as long as a short case."""
        now = time.monotonic()
        if now < self._next_show and self._has_work:
            return
        self._next_show = now + TICK_SECONDS
        self._absorb()
        left = self._time_left.seconds()
        if left is not None:
            left = min(left, max(self._deadline - time.monotonic(), 0.0))
        self.progress(self._decided(), row, left)

    def _note_budget(self) -> None:
        """What a run of limited time came to; every case without its turn says why."""
        if not self.settings.budget or self.outcome.opened is None:
            return
        budget = budget_text(self.settings.budget)
        late = f"not run: the time budget of {budget} was over before its turn"
        for case in self._cases.values():
            if not self.outcome.has(case.id, 1) and case.id not in self.outcome.derived:
                decided = self._decide(case)
                self.outcome.derived[case.id] = decided or (Status.NOT_RUN, late)
                self.outcome.late += decided is None
        if self.outcome.late and not self.outcome.cut_short:
            run = f"{len(self._cases) - self.outcome.late:,} of {len(self._cases):,} cases"
            self.outcome.cut_short = f"a time budget of {budget}: {run}"

    def _check_progress_is_possible(self) -> None:
        if not self._supervisor.busy:
            rows = ", ".join(task.row for task in list(self._tasks)[:3])
            raise UserError(f"suite: rows depend on each other in a circle: {rows}")

    def _settle(self, row: str) -> None:
        """Cases of a row have had their turn: what depends on them may come."""
        mine = self._unsettled & {case.id for case in self._rows[row].cases}
        if mine:
            begun = [worker.task for worker in self._supervisor.busy if worker.task]
            for task in (*self._waiting, *begun):
                if task.row == row:
                    mine -= set(task.cases)
            self._unsettled -= mine
        self._show(row)

    def _listen(self) -> None:
        """Waits a moment, takes what workers send, and enforces their limits."""
        try:
            self._supervisor.listen(TICK_SECONDS)
        except OpeningError as error:
            self.journal.check()
            reason = _describe_opening(error)
            self._give_up(f"the device stopped opening in new workers: {reason}")
        except FatalError as error:
            self.journal.check()
            raise self._ended_by(error) from error
        self.journal.sync()

    def on_message(self, worker: WorkerProcess, message: Mapping[str, Any]) -> None:
        """Takes what a worker sends of its cases."""
        if "prepared" in message:
            worker.batch = []
            worker.limit(Limits(math.inf, self._memory))
            self._batches.on_prepared(message)
            if message["problem"]:
                self._say_unprepared(message["problem"])
        elif "begin" in message:
            worker.item = message["begin"]
            worker.launch = 0
            worker.limit(Limits(self.settings.timeout, self._memory))
        elif "launch" in message:
            worker.launch = message["launch"]
        elif "end" in message:
            seconds = worker.seconds_since_last()
            if seconds is not None:
                self._time_left.note(self._rung_of(message["end"]), seconds)
            worker.item = None
            worker.limit(Limits(math.inf, self._memory))
            if self.settings.fail_fast:
                self._absorb()
            self._show(worker.task.row if worker.task else "")
        elif "row_done" in message:
            self._absorb()
            worker.task = None
            worker.limit(UNLIMITED)
            self._settle(message["row_done"])

    def _absorb(self) -> None:
        for record in self.journal.read_new():
            # Workers go on until they are told: what they still did is no part of such a report.
            if self._stopped and self.settings.fail_fast:
                continue
            if self.outcome.add(record):
                self._judge(record)
                self._note_end(record)
                if record.attempt == 1 and self.outcome.opened and record.case in self._cases:
                    self._time_left.drop(self._rung_of(record.case))

    def _rung_of(self, case_id: str) -> Rung:
        return self._rows[self._cases[case_id].row].rung

    def _judge(self, record: Record) -> None:
        if record.attempt > 1 or not _fails(record) or self.is_expected(record):
            return
        case = self._cases.get(record.case)
        if case is not None:
            self._suppression.note(case.id, case.row)
        if self.settings.fail_fast and not self._stopped:
            self._stop(
                f"stopped at the first failure, {record.case}, because of --fail-fast: it was not "
                "run again alone, and may depend on what ran before"
            )

    # What failed, again

    def _rerun_failures(self) -> None:
        """Runs failures again, each alone, and finds what those depend on that then pass."""
        seconds = self.settings.rerun_seconds
        failing = self._failures_to_rerun()
        if self._stopped or not seconds or not failing:
            return
        self._supervisor.pool.close()
        limits = Limits(self.settings.timeout, self._memory)
        end = min(time.monotonic() + IDLE_SHARE * seconds, self._deadline)
        # The sequences have the other half.
        trials = history.Trials(self._config(), self._cases, limits, seconds / 2, end)
        passing = []
        self.again(ALONE, 0, len(failing))
        for number, record in enumerate(trials.alone(failing, self._jobs), start=1):
            self.again(ALONE, number, len(failing))
            if _fails(record):
                self.journal.append(record)
            else:
                passing.append(record)
        trials.seconds = seconds
        for number, record in enumerate(passing):
            self.again(SEQUENCES, number, len(passing))
            before = history.cases_before(self.outcome, self.outcome.attempts(record.case)[0])
            self.journal.append(history.explain(trials, before, record))
        self._absorb()

    def _failures_to_rerun(self) -> list[str]:
        """Those that nobody expects and that were not run again, one of each row before more."""
        return history.in_order_of_rows(
            case
            for case in self._cases.values()
            for record in self.outcome.attempts(case.id)[:1]
            if _fails(record)
            and not self.is_expected(record)
            and not self.outcome.has(case.id, 2)
            and case.id not in self.outcome.derived
        )

    # Deaths

    def on_death(self, worker: WorkerProcess, death: Death) -> None:
        """Pins the death to a case, or has what is left tried again."""
        self._absorb()
        task = worker.task
        self._tasks.extendleft(reversed(returned(worker)))
        if task is not None and worker.batch:
            self._batches.on_death()
            if death.cause is Cause.EXIT:
                self._crashes.append((worker.batch, death.words))
            self._tasks.appendleft(replace(task, is_prepared=True))
            return
        left = [] if task is None else self._left(task)
        blamed: str | None = worker.item or next(iter(left), None)
        if task is not None and blamed is not None and self._is_pinned(worker, blamed, death):
            self.journal.append(record_of(worker, blamed, death))
            self._absorb()
        elif death.cause is Cause.NOISE:
            self.outcome.problems.append(f"a worker was ended: {death.words}")
        if task is not None:
            self._try_again(task, blamed)

    def _say_unprepared(self, problem: str) -> None:
        words = headline(problem)
        self.outcome.problems.append(f"kernels that compile alone do not compile together: {words}")

    def _say_crashes(self) -> None:
        """Of the batches that ended their worker, those in which no single case does that."""
        for cases, words in self._crashes:
            found = {each.status for name in cases for each in self.outcome.attempts(name)}
            if not found & {Status.CRASH, Status.TIMEOUT}:
                self._say_unprepared(words)

    def _is_pinned(self, worker: WorkerProcess, case: str, death: Death) -> bool:
        """Whether the death is the verdict on a case, which has none yet."""
        if self.outcome.has(case, 1):
            return False
        return self._tries.is_pinned(case, death, worker.item is not None)

    def _left(self, task: Task) -> list[str]:
        return [name for name in task.cases if not self.outcome.has(name, 1)]

    def _try_again(self, task: Task, blamed: str | None) -> None:
        """Queues what is left of a task whose worker died."""
        left = self._left(task)
        is_alone = blamed in left and self._tries.is_last(blamed)
        rest = [name for name in left if not is_alone or name != blamed]
        if rest:
            self._tasks.appendleft(Task(task.row, rest))
        if is_alone:
            self._tasks.appendleft(Task(task.row, [str(blamed)], is_alone=True))
        self._settle(task.row)


def _describe_opening(error: OpeningError) -> str:
    return f"while opening the device: {error}" if error.is_death else str(error)


def _dismiss(idle: list[WorkerProcess]) -> None:
    """Ends workers that wait, so that they hold no memory."""
    for worker in idle:
        worker.kill(Cause.DISMISSED)


def _fails(record: Record) -> bool:
    return record.status in (Status.FAIL, Status.CRASH, Status.TIMEOUT)
