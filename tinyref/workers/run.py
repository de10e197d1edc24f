"""The loop of a run: gives out tasks, stores what comes back, shows progress, and ends in time.

Progress is a bar with the time left on a terminal, and plain lines elsewhere.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from tinyref.errors import printable
from tinyref.workers.journal import Journal
from tinyref.workers.local import LocalExecutor
from tinyref.workers.tasks import Event, Executor, Job, Task

TICK_SECONDS = 0.1
# The progress is worked out again after this many seconds: that takes as long as a short case.
SHOW_SECONDS = 0.2
# Lines that show it come this seldom, so that a log stays short.
PLAIN_SECONDS = 5.0
# Whether the journal is still where it was is looked at this often.
CHECK_SECONDS = 1.0


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    text: in words. done: the number of cases that have their result. fraction: the part of the
    whole that is done; 0 if nobody knows. phase: the kind of work; a new one is shown at once.
    """

    text: str
    done: int = 0
    fraction: float = 0.0
    phase: str = ""

    def __str__(self) -> str:
        return printable(self.text)


def clock(seconds: float) -> str:
    """Return minutes and seconds, and hours if there are some: "1:02:03"."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


class Reporter(ABC):
    """Told now and then how far the run is."""

    @abstractmethod
    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        """Show progress within the block."""

    @abstractmethod
    def update(self, progress: Progress) -> None:
        """Take how far the run is."""


class Quiet(Reporter):
    """Shows nothing."""

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        yield

    def update(self, progress: Progress) -> None:
        return


class Lines(Reporter):
    """Prints a line now and then, for logs: with the first result, and with each new phase."""

    def __init__(self, out: TextIO, seconds: float = PLAIN_SECONDS) -> None:
        self._out = out
        self._seconds = seconds
        self._last = time.monotonic()
        self._shown: tuple[bool, str] = (False, "")

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        self._last = time.monotonic()
        yield

    def update(self, progress: Progress) -> None:
        now = time.monotonic()
        state = (progress.done > 0, progress.phase)
        if now - self._last < self._seconds and state == self._shown:
            return
        self._last = now
        self._shown = state
        self._out.write(f"{progress}\n")
        self._out.flush()


class Bar(Reporter):
    """Shows a bar and the words, on standard error so that output can be piped."""

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        from rich import progress
        from rich.console import Console

        columns = (
            progress.BarColumn(bar_width=10),
            progress.TextColumn("{task.description}", markup=False),
        )
        console = Console(stderr=True)
        with progress.Progress(*columns, console=console, transient=True) as bar:
            self._bar = bar
            self._task = bar.add_task("opening the device", total=None)
            yield

    def update(self, progress: Progress) -> None:
        self._bar.update(
            self._task,
            completed=progress.fraction,
            total=1.0 if progress.fraction > 0 else None,
            description=str(progress),
        )


def reporter_for(stream: TextIO) -> Reporter:
    """Return what shows progress there: a bar on a terminal, lines in a log."""
    return Bar() if stream.isatty() else Lines(stream)


class Plan(ABC):
    """The tasks of a run, and what becomes of their results."""

    @abstractmethod
    def next_task(self) -> Task | None:
        """Return the next task; None if there is none, or none may begin now."""

    @abstractmethod
    def take(self, event: Event) -> None:
        """Store what came of a task in the journal; a transaction is open."""

    @abstractmethod
    def progress(self) -> Progress:
        """Return how far the run is."""

    def is_late(self) -> bool:
        """Return True if the time is up: the items under way are the last."""
        return False

    def is_stopped(self) -> bool:
        """Return True if nothing more is of use, not even what is under way."""
        return False


def executor_for(job: Job, jobs: int, cluster: str = "") -> Executor:
    """Return where tasks are done: at most `jobs` processes here, or the cluster at an address."""
    if cluster:
        from tinyref.workers.cluster import ClusterExecutor

        return ClusterExecutor(job, cluster)
    return LocalExecutor(job, jobs)


def run(plan: Plan, executor: Executor, journal: Journal, reporter: Reporter) -> None:
    """Carry out all tasks of a plan, or those that there is time for.

    Whatever ends it early, all that came back before is in the journal. Raises `HarnessError` if
    the executor or the disk cannot go on, and `RemovedError` if the journal was taken away.
    """
    is_ending = False
    next_show = 0.0
    next_check = time.monotonic() + CHECK_SECONDS
    while not plan.is_stopped():
        if not is_ending and plan.is_late():
            is_ending = True
            executor.wind_down()
        while executor.busy < executor.capacity and (task := plan.next_task()) is not None:
            executor.submit(task)
        if not executor.busy:
            break
        if events := executor.events(TICK_SECONDS):
            with journal.writing():
                for event in events:
                    plan.take(event)
        if time.monotonic() >= next_check:
            next_check = time.monotonic() + CHECK_SECONDS
            journal.check()
        if time.monotonic() >= next_show:
            next_show = time.monotonic() + SHOW_SECONDS
            reporter.update(plan.progress())
    reporter.update(plan.progress())
