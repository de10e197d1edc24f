"""Worker processes as the runner sees them: the device that each opened, and its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinyref import processes

__all__ = ["Pool", "Task", "WorkerProcess"]


@dataclass
class Task:
    """Cases of one row that go to one worker; they share what is compiled for the row.

    is_alone: nothing else is to run meanwhile.
    """

    row: str
    cases: list[str]
    attempt: int = 1
    is_alone: bool = False


@dataclass
class WorkerProcess(processes.WorkerProcess):
    """One worker: its process, what it works on, and since when.

    held: the bytes that it held when it was looked at last. case: the case that it has begun and
    not ended, launch: how many launches of it. Its silence counts from the start of that case, or
    of the process before it has opened the device.
    """

    opened: Mapping[str, Any] | None = None
    task: Task | None = None
    case: str | None = None
    launch: int = 0
    held: int = 0

    @property
    def is_idle(self) -> bool:
        return self.opened is not None and self.task is None and not self.killed_for

    def begin(self, task: Task) -> None:
        """Gives the worker a task."""
        self.task = task
        self.note_message()
        self.send({"row": task.row, "cases": task.cases, "attempt": task.attempt})


class Pool(processes.Pool[WorkerProcess]):
    """The workers of a run."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__("tinyref_conformance.worker", config, WorkerProcess)
