"""Tasks, their results, and executors, which run them on this machine or on a cluster."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tinyref.errors import UserError
from tinyref.workers.processes import Death

# An item is tried this many times if its worker dies but may not be at fault.
MAX_TRIES = 3

_NOT_THERE = "(none)"
# Length of a displayed part of a longer value, which begins shortly before the first difference.
_DISPLAYED = 100
_DISPLAYED_BEFORE = 30

R = TypeVar("R")
# The name or the number of a case.
Item = str | int


class HarnessError(Exception):
    """The failure of a run that was requested correctly; its stored results remain."""


class DeviceGoneError(HarnessError):
    """The device no longer opens in new workers, or on the machines of a cluster."""


class ChangedError(UserError):
    """The journal to resume belongs to another run, or to another state of the device."""


@dataclass(frozen=True)
class Job:
    """The configuration of all workers of a run, and their limits."""

    module: str
    """The module that a worker runs, which calls `service.serve`."""

    configuration: Mapping[str, Any]
    """The first message to each worker."""

    seconds: float
    """Seconds that one item may take; see `WorkerProcess.silence`."""

    memory: int | None = None
    """Bytes that a worker may hold; its share of the machine if None."""

    retires: bool = False
    """Replace workers that have done many items, or hold half of their memory."""


@dataclass(frozen=True)
class Task:
    """Items that one worker does in order.

    The worker gets it as a message, `to_json`. It answers with `begin` and `end` for each item, and
    with a message that has `done` when no item is left.
    """

    items: Sequence[Item]

    request: Mapping[str, Any] = field(default_factory=dict)
    """What the worker must know in addition to the items, as JSON."""

    seconds: float | None = None
    """Seconds that one item may take, if not those of the job."""

    begin_seconds: float | None = None
    """Seconds until the first item begins; those of opening the device if None."""

    is_alone: bool = False
    """No other task runs at the same time."""

    is_last: bool = False
    """It is executed even if the time of the run is up."""

    attempt: int = 1
    """How often a part of it was sent to a worker, this time included."""

    def to_json(self) -> dict[str, Any]:
        return {**self.request, "items": list(self.items), "attempt": self.attempt}


@dataclass(frozen=True)
class ItemDeath:
    """A death that is the verdict on an item."""

    death: Death

    seconds: float
    """The limit of the item in seconds, if it took longer; else 0."""

    note: Any = None
    """The last note of the worker about the item."""

    worker: str = ""
    """The name of the worker, as it reported it when it opened."""

    is_its_own: bool = True
    """Only the item can have ended the worker; else it was tried `MAX_TRIES` times."""


@dataclass(frozen=True)
class Result:
    """The result of one item: the answer of a worker, or its death."""

    task: Task
    item: Item

    answer: Mapping[str, Any] | None
    """What the worker sent with `end`; None if it died."""

    death: ItemDeath | None = None

    seconds: float | None = None
    """Seconds since the worker ended its item before; None for its first item."""


@dataclass(frozen=True)
class Report:
    """A message of a worker about a task as a whole."""

    task: Task
    message: Mapping[str, Any]


@dataclass(frozen=True)
class WorkerDied:
    """A death that is no verdict: the rest of the task is queued again."""

    task: Task | None
    death: Death
    has_begun: bool


Event = Result | Report | WorkerDied


class Executor(ABC):
    """A way to execute tasks. Raises `HarnessError` if it can execute no more."""

    is_awaited = False
    """Others start its workers, so the clock of a run waits until they are there."""

    def __init__(self) -> None:
        self.opened: Any = None
        self.unfinished: dict[Item, float] = {}
        """The items that `wind_down` ended, with the seconds that each had taken."""

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """Return the identity of the device, which must be equal in all workers."""

    @abstractmethod
    def open(self) -> Any:
        """Open the device and return the report of a worker, which is stored as `opened`.

        Raises `OpeningError` if it does not open.
        """

    @property
    @abstractmethod
    def workers(self) -> int:
        """Return how many tasks it can execute at a time."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Return how many tasks keep it busy."""

    @property
    @abstractmethod
    def busy(self) -> int:
        """Return how many tasks it has now."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Queue a task."""

    @abstractmethod
    def events(self, seconds: float) -> list[Event]:
        """Return the events of tasks, after waiting at most `seconds` for the first."""

    @abstractmethod
    def wind_down(self) -> None:
        """Drop all tasks except the last ones, as soon as their running items have ended."""

    def end_workers(self) -> None:
        """End the workers, which must have no task; only `call` may follow."""
        self.close()

    def call(self, function: Callable[..., R], *arguments: object) -> R | None:
        """Run a function where the workers run and return its result; None if it was lost."""
        return function(*arguments)

    @abstractmethod
    def close(self) -> None:
        """Stop everything; unfinished tasks are dropped."""


def differences(then: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the changes, a line for each member: "flag NOOPT: 1 -> (none)"."""
    lines = []
    for name in [*then, *(name for name in now if name not in then)]:
        old, new = str(then.get(name, _NOT_THERE)), str(now.get(name, _NOT_THERE))
        if old != new:
            equal = itertools.takewhile(
                lambda pair: pair[0] == pair[1], zip(old, new, strict=False)
            )
            start = max(0, sum(1 for _ in equal) - _DISPLAYED_BEFORE)
            lines.append(f"{name}: {_part(old, start)} -> {_part(new, start)}")
    return lines


def _part(value: str, start: int) -> str:
    if len(value) <= _DISPLAYED:
        return value
    end = start + _DISPLAYED
    return f"{'...' if start else ''}{value[start:end]}{'...' if end < len(value) else ''}"
