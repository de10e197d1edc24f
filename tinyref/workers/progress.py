"""Progress of a run: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from tinyref.errors import printable

PLAIN_SECONDS = 5.0


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
