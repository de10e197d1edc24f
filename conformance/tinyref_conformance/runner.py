"""The rules of a conformance run: which rows come next, and what results mean for others."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tinyref.durations import duration_text
from tinyref.errors import UserError
from tinyref.workers import run as harness
from tinyref.workers.processes import Cause, Limits
from tinyref.workers.run import Progress, Reporter
from tinyref.workers.service import OpeningError
from tinyref.workers.tasks import (
    MAX_TRIES,
    DeviceGoneError,
    Event,
    HarnessError,
    Report,
    Result,
    Task,
)
from tinyref_conformance import history
from tinyref_conformance.batches import Batches
from tinyref_conformance.budget import telling_order
from tinyref_conformance.certificate import capabilities_from_json
from tinyref_conformance.describe import describe_deaths
from tinyref_conformance.expectations import Phase
from tinyref_conformance.journal import CaseJournal
from tinyref_conformance.ladder import RungLines, Suppression
from tinyref_conformance.plan import Plan, PlannedRow
from tinyref_conformance.records import Outcome, Record, headline
from tinyref_conformance.settings import RunSettings, executor_of, worker_configuration
from tinyref_conformance.statuses import Status
from tinyref_conformance.time_left import COSTS, SlowStart, TimeLeft, left_text
from tinyref_spec.case import Case
from tinyref_spec.ladder import TOGETHER
from tinyref_spec.subjects.name import is_subject

ALONE = "failures, each run again alone"
SEQUENCES = "failures that pass alone: finding what they depend on"
# A limit in processor seconds allows this many times as much elapsed time.
IDLE_SHARE = 6.0
# Rows share a task up to this cost, in the unit of `COSTS`.
TASK_COST = 30.0

IsExpected = Callable[[Record], bool]
Skipped = Callable[[str], str | None]
# The styles of rich for the tones of `RungState`.
STYLES = {"pass": "green", "fail": "bold red", "warn": "yellow", "info": "blue", "none": "dim"}


@dataclass(frozen=True)
class RowPart:
    """Cases of one row for one worker, which share what is compiled for the row."""

    row: str
    cases: list[str]


class Runner(harness.Plan):
    """Carries out one plan on one device.

    is_expected: returns True if an expectation covers a failure, so that it suppresses nothing.
    skipped: returns the reason why a case is not run, None if it is run.
    """

    def __init__(
        self,
        plan: Plan,
        settings: RunSettings,
        journal: CaseJournal,
        reporter: Reporter,
        is_expected: IsExpected = lambda record: False,
        skipped: Skipped = lambda case_id: None,
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.journal = journal
        self.reporter = reporter
        self.is_expected = is_expected
        self.skipped = skipped
        self.outcome = Outcome()
        self._rows = {planned.id: planned for planned in plan.rows}
        self._cases = {case.id: case for planned in plan.rows for case in planned.cases}
        self._below = {planned.id: self._cases_below(planned) for planned in plan.rows}
        # The cases that others depend on, and that are neither run nor decided.
        self._unsettled: set[str] = set().union(*self._below.values()) & self._cases.keys()
        self._suppression = Suppression()
        self._rungs = RungLines(Counter(self._rows[case.row].rung for case in self._cases.values()))
        self._parts: deque[RowPart] = deque()
        self._batches = Batches()
        # The cases of batches that ended their worker, and how it ended.
        self._crashes: list[tuple[tuple[str, ...], str]] = []
        self._start = SlowStart()
        self._is_stopped = False
        self._row = ""
        self._executor = executor_of(settings, plan)
        self._jobs = settings.workers

    def run(self) -> Outcome:
        """Return the outcome. Raises `KeyboardInterrupt` with all results in the journal."""
        started = time.monotonic()
        self._deadline = started + (self.settings.budget or math.inf)
        for record in self.journal.records():
            self.outcome.add(record)
        self.outcome.resumed = sum(map(len, self.outcome.records.values()))
        try:
            if self._open():
                self._work()
                self._look_again()
                self._say_crashes()
        except HarnessError as error:
            self.journal.check()
            words = f"run: {error}; what was measured is in {self.journal.path}"
            raise UserError(words) from error
        finally:
            self._executor.close()
            self._note_budget()
            self.outcome.seconds = time.monotonic() - started
        return self.outcome

    def _open(self) -> bool:
        """Open the device and bind the run to it; return False if it does not open."""
        try:
            opened = self._executor.open()
        except OpeningError as error:
            # Names of libraries are in no list, so the report says that one does not open.
            if error.is_misnamed and not is_subject(self.settings.device):
                raise UserError(str(error)) from error
            self.outcome.open_failure = error.description
            return False
        self.journal.bind_device(self._executor.identity)
        self.outcome.opened = opened
        self._capabilities = capabilities_from_json(opened["capabilities"])
        if self.settings.second:
            # A second device exists, even if it is of another kind.
            self._capabilities = replace(self._capabilities, is_single=False)
        self._batches.fixed_rows = int(opened.get("batch_rows", 0))
        self._batches.offered = bool(opened.get("compiles_many")) and not self.settings.sequence
        self._jobs = self._executor.workers
        self._count_cases()
        return True

    def _work(self) -> None:
        for attempts in list(self.outcome.records.values()):
            for record in attempts:
                self._judge(record)
        self._parts.extend(self._all_parts())
        try:
            harness.run(self, self._executor, self.journal, self.reporter)
        except DeviceGoneError as error:
            self.journal.check()
            self._give_up(str(error))
        if self._parts and not self._is_stopped and not self.is_late():
            rows = ", ".join(part.row for part in list(self._parts)[:3])
            raise UserError(f"suite: rows depend on each other in a circle: {rows}")

    def _all_parts(self) -> Iterable[RowPart]:
        if self.settings.sequence:
            return [RowPart(self._cases[name].row, [name]) for name in self.settings.sequence]
        if self.settings.budget:
            return [RowPart(row, cases) for row, cases in telling_order(self.plan.rows)]
        return [RowPart(row.id, [case.id for case in row.cases]) for row in self.plan.rows]

    # Ends

    def is_stopped(self) -> bool:
        return self._is_stopped

    def is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _stop(self, problem: str) -> None:
        self._is_stopped = True
        self.outcome.problems.append(problem)

    def _give_up(self, problem: str) -> None:
        """End the run; every other case gets the reason."""
        self._stop(problem)
        reason = headline(problem)
        for case_id in self._cases:
            if not self.outcome.has(case_id, 1):
                self.outcome.derived.setdefault(case_id, (Status.SUPPRESSED, reason))

    def _note_end(self, record: Record) -> None:
        """Give up on a library whose first cases all exceed the time limit, without a verdict."""
        if not is_subject(self.settings.device) or not self._start.is_too_slow(record):
            return
        self._stop(self._start.words(self.settings.timeout))
        self.outcome.cut_short = self.outcome.problems[-1]
        open_cases = [name for name in self._cases if not self.outcome.has(name, 1)]
        for name in (*self._start.cases, *open_cases):
            decided = self.outcome.derived.setdefault(name, (Status.NOT_RUN, "too slow here"))
            self.outcome.late += decided[0] is Status.NOT_RUN

    def _note_budget(self) -> None:
        """Record how far a run of limited time came; cases that did not run get the reason."""
        if not self.settings.budget or self.outcome.opened is None:
            return
        budget = duration_text(self.settings.budget)
        late = f"not run: the time budget of {budget} was over before its turn"
        for case in self._cases.values():
            if not self.outcome.has(case.id, 1) and case.id not in self.outcome.derived:
                decided = self._decide(case)
                self.outcome.derived[case.id] = decided or (Status.NOT_RUN, late)
                self.outcome.late += decided is None
        if self.outcome.late and not self.outcome.cut_short:
            run = f"{len(self._cases) - self.outcome.late:,} of {len(self._cases):,} cases"
            self.outcome.cut_short = f"a time budget of {budget}: {run}"

    # What comes next

    def next_task(self) -> Task | None:
        """Return the task of the first row whose cases depend only on decided ones."""
        while not self._is_stopped and not self.is_late():
            part = self._take_ready()
            if part is None:
                return None
            part = self._prune(part)
            if part.cases:
                self._row = part.row
                return self._task_of(part)
        return None

    def _take_ready(self) -> RowPart | None:
        for part in self._parts:
            if self.settings.sequence or self._is_ready(part):
                self._parts.remove(part)
                return part
        return None

    def _task_of(self, part: RowPart) -> Task:
        """Return the task of a part and of others: a batch, or short parts that share messages."""
        rows = self._batches.rows if self._may_compile_together() else 0
        parts, cost = [part], self._cost(part)
        # Near the end no worker should get all remaining rows.
        most = min(rows or math.inf, 1 + len(self._parts) // self._jobs)
        while len(parts) < most and (rows or cost < TASK_COST):
            other = self._take_ready()
            if other is None:
                break
            if (pruned := self._prune(other)).cases:
                parts.append(pruned)
                cost += self._cost(pruned)
        cases = tuple(name for part in parts for name in part.cases)
        request: dict[str, Any] = {"rows": [part.row for part in parts]}
        if not rows:
            return Task(cases, request)
        request["compiles_together"] = True
        return Task(cases, request, begin_seconds=self.settings.timeout)

    def _cost(self, part: RowPart) -> float:
        return COSTS[self._rows[part.row].rung] * len(part.cases)

    def _may_compile_together(self) -> bool:
        """Return True if the cases about batches passed, or are not asked."""
        cases = self._rows[TOGETHER].cases if TOGETHER in self._rows else ()
        attempts = [self.outcome.attempts(case.id) for case in cases]
        decided = all(
            records or case.id in self.outcome.derived
            for case, records in zip(cases, attempts, strict=True)
        )
        return decided and not any(r.status.is_broken for records in attempts for r in records)

    def _is_ready(self, part: RowPart) -> bool:
        return self._below[part.row].isdisjoint(self._unsettled)

    def _cases_below(self, planned: PlannedRow) -> set[str]:
        """Return the cases that those of a row depend on, by name or by the name of their row."""
        names = {name for case in planned.cases for name in case.depends_on}
        return {
            case
            for name in names
            for case in (
                [other.id for other in self._rows[name].cases] if name in self._rows else [name]
            )
        }

    def _prune(self, part: RowPart) -> RowPart:
        """Return the part without the cases that are decided without running."""
        left = []
        for case_id in part.cases:
            decided = self._decide(self._cases[case_id])
            if decided is None and not self.outcome.has(case_id, 1):
                left.append(case_id)
                continue
            self._unsettled.discard(case_id)
            if decided is None:
                continue
            self.outcome.derived[case_id] = decided
            self._note_status(part.row, *decided)
            if decided[0] is Status.SUPPRESSED:
                self._time_left.drop(self._rows[part.row].rung)
                self._suppression.note_suppressed(case_id, part.row, decided[1])
        return RowPart(part.row, left)

    def _decide(self, case: Case) -> tuple[Status, str] | None:
        unmet = case.needs.unmet(self._capabilities)
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

    # What comes back

    def take(self, event: Event) -> None:
        """Store a result and judge it; record how a batch went."""
        # Workers continue until told to stop: later results do not belong in the report.
        if self._is_stopped and self.settings.fail_fast:
            return
        if isinstance(event, Result):
            self._take_result(event)
        elif isinstance(event, Report):
            self._batches.on_prepared(event.message)
            if event.message["problem"]:
                self._say_unprepared(event.message["problem"])
        elif event.task is not None and not event.has_begun and _is_batch(event.task):
            self._batches.on_death()
            if event.death.cause is Cause.EXIT:
                self._crashes.append((tuple(map(str, event.task.items)), event.death.words))
        elif event.death.cause is Cause.NOISE:
            self.outcome.problems.append(f"a worker was ended: {event.death.words}")

    def _take_result(self, result: Result) -> None:
        record = record_of(result)
        if not self.outcome.add(record):
            return
        self.journal.add(record)
        self._unsettled.discard(record.case)
        self._judge(record)
        self._note_end(record)
        rung = self._rows[self._cases[record.case].row].rung
        self._time_left.drop(rung)
        if result.seconds is not None:
            self._time_left.note(rung, result.seconds)

    def _note_status(self, row: str, status: Status, reason: str = "") -> None:
        """Count a case, and print a line for each rung that is complete now."""
        self._rungs.note(self._rows[row].rung, status, reason)
        for rung in self._rungs.complete():
            self.reporter.line(str(rung), STYLES[rung.state.tone])

    def _judge(self, record: Record) -> None:
        case = self._cases.get(record.case)
        if record.attempt > 1 or case is None:
            return
        is_expected = record.status.is_broken and self.is_expected(record)
        status = Status.EXPECTED_FAIL if is_expected else record.status
        self._note_status(case.row, status, headline(record.message))
        if is_expected or not record.status.is_broken:
            return
        self._suppression.note(case.id, case.row)
        if self.settings.fail_fast and not self._is_stopped:
            self._stop(
                f"stopped at the first failure, {record.case}, because of --fail-fast: it was not "
                "run again alone, and may depend on what ran before"
            )

    def _say_unprepared(self, problem: str) -> None:
        words = headline(problem)
        self.outcome.problems.append(f"kernels that compile alone do not compile together: {words}")

    def _say_crashes(self) -> None:
        """Report the batches that ended their worker although none of their cases does."""
        for cases, words in self._crashes:
            statuses = {r.status for name in cases for r in self.outcome.attempts(name)}
            if not statuses & {Status.CRASH, Status.TIMEOUT}:
                self._say_unprepared(words)

    # Progress

    def _count_cases(self) -> None:
        """Count the cases to run, which are known when the device is open."""
        todo = Counter(
            self._rows[case.row].rung
            for case in self._cases.values()
            if not self.outcome.has(case.id, 1) and self._decide(case) is None
        )
        self._time_left = TimeLeft(todo, self._jobs)

    def progress(self) -> Progress:
        done = len(self.outcome.records) + len(self.outcome.derived)
        left = self._time_left.seconds()
        if left is not None:
            left = min(left, max(self._deadline - time.monotonic(), 0.0))
        text = f"{done:,} of {len(self._cases):,} cases{left_text(left)}, at {self._row}"
        return Progress(text, done, done / max(len(self._cases), 1))

    # What failed, again

    def _look_again(self) -> None:
        """Run failures again, each alone, and describe the launches that workers died of."""
        config = worker_configuration(self.settings, self.plan)
        self._rerun_failures(config)
        if not self.settings.cluster:
            describe_deaths(self.outcome, self._cases, config, self.settings.timeout)

    def _rerun_failures(self, config: dict[str, str]) -> None:
        """Run failures again, each alone, and find what those depend on that then pass."""
        seconds = self.settings.rerun_seconds
        failing = self._failures_to_rerun()
        if self._is_stopped or not seconds or not failing:
            return
        self._executor.end_workers()
        limits = Limits(self.settings.timeout, self.settings.memory_bytes)
        end = min(time.monotonic() + IDLE_SHARE * seconds, self._deadline)
        # Sequences get the other half of the time.
        trials = history.Trials(self._executor, config, self._cases, limits, seconds / 2, end)
        passing = []
        self._show_again(ALONE, 0, len(failing))
        for number, record in enumerate(trials.alone(failing, self._jobs), start=1):
            self._show_again(ALONE, number, len(failing))
            if record.status.is_broken:
                self._keep_again(record)
            else:
                passing.append(record)
        trials.seconds = seconds
        for number, record in enumerate(passing):
            self._show_again(SEQUENCES, number, len(passing))
            before = history.cases_before(self.outcome, self.outcome.attempts(record.case)[0])
            self._keep_again(history.explain(trials, before, record))

    def _keep_again(self, record: Record) -> None:
        self.outcome.add(record)
        self.journal.add(record)

    def _show_again(self, what: str, done: int, total: int) -> None:
        how = "" if done else " (--no-rerun-failures leaves this out)"
        text = f"{what}: {done:,} of {total:,}{how}"
        self.reporter.update(Progress(text, 1, done / total, phase=what))

    def _failures_to_rerun(self) -> list[str]:
        """Return unexpected failures that were not run again: the first of each row, then more."""
        return history.in_order_of_rows(
            case
            for case in self._cases.values()
            for record in self.outcome.attempts(case.id)[:1]
            if record.status.is_broken
            and not self.is_expected(record)
            and not self.outcome.has(case.id, 2)
            and case.id not in self.outcome.derived
        )


def record_of(result: Result) -> Record:
    """Return the record of a case that ended, or that its worker died of."""
    if result.death is None:
        return Record.from_json(result.answer)
    last = result.death
    death = last.death
    message = death.words
    if death.cause is Cause.MEMORY:
        message = f"out of memory: {message}"
    if not last.is_its_own:
        message += f"; it was tried {MAX_TRIES} times, at last alone"
    details: dict[str, Any] = {"log": death.log} if death.log else {}
    if last.note:
        details["launch"] = last.note
    return Record(
        case=str(result.item),
        status=Status.TIMEOUT if death.cause is Cause.TIMEOUT else Status.CRASH,
        phase=Phase.RUN.value,
        message=message,
        seconds=last.seconds,
        details=details or None,
        worker=last.worker,
    )


def _is_batch(task: Task) -> bool:
    return bool(task.request.get("compiles_together")) and task.attempt == 1
