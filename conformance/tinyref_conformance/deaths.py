"""What the death of a worker says: of the case that it ran, of its memory, or of nothing at all."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tinyref.machine import memory_kills
from tinyref_conformance.expectations import Phase
from tinyref_conformance.pool import Task, WorkerProcess
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status

TIMEOUT = "timeout"
MEMORY = "memory"
# A case whose worker dies of what may be no fault of its own is tried so often, at last alone.
TRIES = 3
# Deaths of workers between two cases of a row, after which the next case is tried by itself.
DEATHS_BETWEEN_CASES = 3


@dataclass(frozen=True)
class Limits:
    """What a worker may take: seconds for a case, and bytes."""

    seconds: float
    memory: int


class Deaths:
    """Judges deaths of workers, and remembers the cases that were tried before."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._tries: Counter[tuple[str, int]] = Counter()
        self._between: Counter[str] = Counter()
        self._memory_kills = memory_kills()

    def blamed(self, worker: WorkerProcess, task: Task, left: list[str]) -> str | None:
        """The case at which the worker died, of those that are left; None where none is known."""
        if worker.case is not None:
            return worker.case if worker.case in left else None
        self._between[task.row] += 1
        if not left or (not task.is_alone and self._between[task.row] < DEATHS_BETWEEN_CASES):
            return None
        return left[0]

    def record(self, worker: WorkerProcess, case: str, code: int, tail: str) -> Record | None:
        """The verdict on a case; None where it is to be tried again."""
        assert worker.task is not None, "only a worker with a task is blamed on a case"
        attempt = worker.task.attempt
        self._tries[case, attempt] += 1
        is_ours = bool(worker.killed_for)
        is_pinned = worker.case is not None and (is_ours or code != -signal.SIGKILL)
        ending = self._ending(worker, code)
        if not is_pinned and self._tries[case, attempt] < TRIES:
            return None
        if not is_pinned:
            ending += f"; it was tried {TRIES} times, at last alone"
        is_timeout = worker.killed_for == TIMEOUT
        return Record(
            case=case,
            status=Status.TIMEOUT if is_timeout else Status.CRASH,
            attempt=attempt,
            phase=Phase.RUN.value,
            message=ending,
            seconds=self.limits.seconds if is_timeout else 0.0,
            details=_details(worker, tail),
        )

    def is_alone_next(self, case: str, attempt: int) -> bool:
        """Whether the next try of a case is to be without any other worker."""
        return self._tries[case, attempt] == TRIES - 1

    def _ending(self, worker: WorkerProcess, code: int) -> str:
        if worker.killed_for == TIMEOUT:
            return f"no end within {self.limits.seconds:g} s"
        if worker.killed_for == MEMORY:
            return f"out of memory: the worker held over {self.limits.memory >> 20} MiB"
        words = worker.ending(code)
        kills, self._memory_kills = self._memory_kills, memory_kills()
        if code == -signal.SIGKILL and self._memory_kills > kills:
            return f"out of memory: {words} by the system, as it held {worker.held >> 20} MiB"
        return words


def _details(worker: WorkerProcess, tail: str) -> dict[str, Any] | None:
    """What the worker had said, and the launch that it had begun."""
    found: dict[str, Any] = {"log": tail} if tail else {}
    if worker.launch:
        found["launch"] = worker.launch
    return found or None
