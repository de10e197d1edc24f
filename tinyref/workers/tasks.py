"""Tasks, what comes of them, and where they are carried out: on this machine or on a cluster."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tinyref.errors import UserError
from tinyref.workers.processes import Death

# An item whose worker dies of what may be no fault of its own is tried this many times.
MAX_TRIES = 3

_NOT_THERE = "(none)"
# Of a longer value this much is shown, from a little before the first letter that differs.
_SHOWN = 100
_SHOWN_BEFORE = 30

R = TypeVar("R")
# The name or the number of a case.
Item = str | int


class HarnessError(Exception):
    """A run that cannot go on, though it was asked for rightly: what is stored stays."""


class DeviceGoneError(HarnessError):
    """The device does not open any more in new workers, or on the machines of a cluster."""


class ChangedError(UserError):
    """The journal to resume is of another run, or of another state of the device."""


@dataclass(frozen=True)
class Job:
    """All that workers of a run are started with, and their limits."""

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
    """What the worker must know besides the items, as JSON."""

    seconds: float | None = None
    """Seconds that one item may take, if not those of the job."""

    begin_seconds: float | None = None
    """Seconds until the first item begins; those of opening the device if None."""

    is_alone: bool = False
    """Nothing else runs at the same time."""

    is_last: bool = False
    """It is carried out even if the time of the run is up."""

    attempt: int = 1
    """How often a part of it was given to a worker, this time included."""

    def to_json(self) -> dict[str, Any]:
        return {**self.request, "items": list(self.items), "attempt": self.attempt}


@dataclass(frozen=True)
class ItemDeath:
    """A death that is the verdict on an item."""

    death: Death

    seconds: float
    """The seconds that the item had, if it took longer; else 0."""

    note: Any = None
    """What the worker noted last about the item."""

    worker: str = ""
    """The name of the worker, as it reported it when it opened."""

    is_its_own: bool = True
    """Nobody else can have ended the worker; else it was tried `MAX_TRIES` times."""


@dataclass(frozen=True)
class Result:
    """What one item came to: the answer of a worker, or its death."""

    task: Task
    item: Item

    answer: Mapping[str, Any] | None
    """What the worker sent with `end`; None if it died."""

    death: ItemDeath | None = None

    seconds: float | None = None
    """Seconds of the worker since the item before; None for the first item that it did."""


@dataclass(frozen=True)
class Report:
    """What a worker sent of a task as a whole."""

    task: Task
    message: Mapping[str, Any]


@dataclass(frozen=True)
class WorkerDied:
    """A death that is no verdict: the rest of the task is given out again."""

    task: Task | None
    death: Death
    has_begun: bool


Event = Result | Report | WorkerDied


class Executor(ABC):
    """Where tasks are carried out. Raises `HarnessError` if none can be any more."""

    is_awaited = False
    """Others start its workers, so that the clock of a run stands until they are there."""

    def __init__(self) -> None:
        self.opened: Any = None
        self.unfinished: dict[Item, float] = {}
        """The items that `wind_down` ended, with the seconds that each had taken."""

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """What the device is, as all workers must find it."""

    @abstractmethod
    def open(self) -> Any:
        """Open the device and return what a worker reports of it, which is kept as `opened`.

        Raises `OpeningError` if it does not open.
        """

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks it may work on at a time."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many tasks keep it busy."""

    @property
    @abstractmethod
    def busy(self) -> int:
        """How many tasks it has now."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Take a task."""

    @abstractmethod
    def events(self, seconds: float) -> list[Event]:
        """Return what came of tasks, after waiting at most `seconds` for the first event."""

    @abstractmethod
    def wind_down(self) -> None:
        """Drop all tasks but those that are last, as soon as their items under way have ended."""

    def end_workers(self) -> None:
        """End the workers, none of which has a task; only `call` may follow."""
        self.close()

    def call(self, function: Callable[..., R], *arguments: object) -> R | None:
        """Return the result of a function that runs where workers do; None if it was lost."""
        return function(*arguments)

    @abstractmethod
    def close(self) -> None:
        """Stop everything; tasks that are not done are dropped."""


def differences(then: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return what changed, a line for each member: "flag NOOPT: 1 -> (none)"."""
    lines = []
    for name in [*then, *(name for name in now if name not in then)]:
        old, new = str(then.get(name, _NOT_THERE)), str(now.get(name, _NOT_THERE))
        if old != new:
            equal = itertools.takewhile(
                lambda pair: pair[0] == pair[1], zip(old, new, strict=False)
            )
            start = max(0, sum(1 for _ in equal) - _SHOWN_BEFORE)
            lines.append(f"{name}: {_part(old, start)} -> {_part(new, start)}")
    return lines


def _part(value: str, start: int) -> str:
    if len(value) <= _SHOWN:
        return value
    end = start + _SHOWN
    return f"{'...' if start else ''}{value[start:end]}{'...' if end < len(value) else ''}"
