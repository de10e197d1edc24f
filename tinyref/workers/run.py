"""The loop of a run: give out tasks, store the results, report progress, and end in time.

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
# Progress is computed again after this many seconds: it takes as long as a short case.
SHOW_SECONDS = 0.2
# Seconds between lines of progress, so that a log stays short.
PLAIN_SECONDS = 5.0
# Seconds between checks that the journal has not been moved.
CHECK_SECONDS = 1.0


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    text: in words.
    done: the number of cases that have their result.
    fraction: the part of the run that is done; 0 if unknown.
    phase: the kind of work; a new one is displayed at once.
    """

    text: str
    done: int = 0
    fraction: float = 0.0
    phase: str = ""

    def __str__(self) -> str:
        return printable(self.text)


def clock(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any: "1:02:03"."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


class Reporter(ABC):
    """A display of progress, which is updated now and then."""

    @abstractmethod
    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        """Display progress within the block."""

    @abstractmethod
    def update(self, progress: Progress) -> None:
        """Update the display."""

    @abstractmethod
    def line(self, text: str, style: str = "") -> None:
        """Print a line that stays; `style` is its style of rich on a terminal."""


class Quiet(Reporter):
    """Displays nothing."""

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        yield

    def update(self, progress: Progress) -> None:
        return

    def line(self, text: str, style: str = "") -> None:
        return


class Lines(Reporter):
    """Prints a line now and then, for logs: for the first result and for each new phase."""

    def __init__(self, out: TextIO, seconds: float = PLAIN_SECONDS) -> None:
        self._out = out
        self._seconds = seconds
        self._last = time.monotonic()
        self._state: tuple[bool, str] = (False, "")

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        self._last = time.monotonic()
        yield

    def update(self, progress: Progress) -> None:
        now = time.monotonic()
        state = (progress.done > 0, progress.phase)
        if now - self._last < self._seconds and state == self._state:
            return
        self._last = now
        self._state = state
        self.line(progress.text)

    def line(self, text: str, style: str = "") -> None:
        self._out.write(f"{printable(text)}\n")
        self._out.flush()


class Bar(Reporter):
    """Displays a bar with text, on standard error so that output can be piped."""

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        from rich import progress
        from rich.console import Console

        columns = (
            progress.BarColumn(bar_width=10),
            progress.TextColumn("{task.description}", markup=False),
        )
        console = Console(stderr=True)
        # Redirected streams would not pass through the caller's filter of control characters.
        with progress.Progress(
            *columns,
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as bar:
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

    def line(self, text: str, style: str = "") -> None:
        self._bar.console.print(printable(text), style=style, markup=False, highlight=False)


def reporter_for(stream: TextIO) -> Reporter:
    """Return the progress display for a stream: a bar on a terminal, lines in a log."""
    return Bar() if stream.isatty() else Lines(stream)


class Plan(ABC):
    """The tasks of a run; it takes their results."""

    @abstractmethod
    def next_task(self) -> Task | None:
        """Return the next task; None if there is none, or none may begin now."""

    @abstractmethod
    def take(self, event: Event) -> None:
        """Store a result in the journal; a transaction is open."""

    @abstractmethod
    def progress(self) -> Progress:
        """Return the progress of the run."""

    def is_late(self) -> bool:
        """Return True if the time is up: only running items may end."""
        return False

    def is_stopped(self) -> bool:
        """Return True if nothing more is useful, not even running items."""
        return False


def executor_for(job: Job, jobs: int, cluster: str = "") -> Executor:
    """Return the executor of tasks: at most `jobs` processes here, or a cluster at an address."""
    if cluster:
        from tinyref.workers.cluster import ClusterExecutor

        return ClusterExecutor(job, cluster)
    return LocalExecutor(job, jobs)


def run(plan: Plan, executor: Executor, journal: Journal, reporter: Reporter) -> None:
    """Execute all tasks of a plan, or as many as there is time for.

    If anything ends the run early, all earlier results are in the journal. Raises `HarnessError`
    if the executor or the disk fails, and `RemovedError` if the journal was moved.
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
