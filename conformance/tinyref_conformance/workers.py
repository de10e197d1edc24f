"""Worker processes as the runner sees them: what they work on, and what their deaths say of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyref.workers import supervisor
from tinyref.workers.processes import Cause, Death, Limits
from tinyref.workers.supervisor import MAX_TRIES
from tinyref_conformance.expectations import Phase
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status


@dataclass
class Task:
    """Cases of one row that go to one worker; they share what is compiled for the row.

    is_alone: nothing else is to run meanwhile. is_prepared: its kernels were compiled together with
    those of other tasks, or are not to be.
    """

    row: str
    cases: list[str]
    is_alone: bool = False
    is_prepared: bool = False


@dataclass
class WorkerProcess(supervisor.WorkerProcess[Task]):
    """One worker; its item is a case, of which it has begun so many launches.

    name: as it calls itself in its records. batch: the cases whose kernels it compiles together;
    none once that is done. reserved: tasks that come next, whose kernels it has compiled.
    """

    name: str = ""
    launch: int = 0
    batch: list[str] = field(default_factory=list)
    reserved: deque[Task] = field(default_factory=deque)
    _busy_since: float | None = None

    def begin(
        self, task: Task, limits: Limits, batch: Sequence[tuple[str, Sequence[str]]] = ()
    ) -> None:
        """Gives the worker a task, and rows with their cases whose kernels it compiles before."""
        self.task = task
        if self._busy_since is not None:
            self._busy_since = time.monotonic()
        self.batch = [name for _, cases in batch for name in cases]
        self.limit(limits)
        message = {"row": task.row, "cases": task.cases}
        self.send({**message, "batch": batch} if batch else message)

    def seconds_since_last(self) -> float | None:
        """What the case took that has ended, with what was done for it; None of the first one.

        With that a worker loads the suite and the device starts.
        """
        since, self._busy_since = self._busy_since, time.monotonic()
        return None if since is None else self._busy_since - since


def record_of(worker: WorkerProcess, case: str, death: Death) -> Record:
    """The verdict on a case that a death is pinned to."""
    assert worker.task is not None, "only a worker with a task is blamed on a case"
    message = death.words
    if death.cause is Cause.MEMORY:
        message = f"out of memory: {message}"
    if worker.item is None or death.cause is Cause.OTHERS:
        message += f"; it was tried {MAX_TRIES} times, at last alone"
    is_timeout = death.cause is Cause.TIMEOUT
    return Record(
        case=case,
        status=Status.TIMEOUT if is_timeout else Status.CRASH,
        phase=Phase.RUN.value,
        message=message,
        seconds=worker.limits.seconds if is_timeout else 0.0,
        details=_details(worker, death.log),
        worker=worker.name,
    )


def _details(worker: WorkerProcess, log: str) -> dict[str, Any] | None:
    """What the worker had printed, and the launch that it had begun."""
    details: dict[str, Any] = {"log": log} if log else {}
    if worker.launch:
        details["launch"] = worker.launch
    return details or None
