"""How far a run is: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TextIO

PLAIN_SECONDS = 5.0


class Reporter(ABC):
    """Told how many cases there are and how many are decided."""

    @abstractmethod
    @contextlib.contextmanager
    def showing(self, total: int) -> Iterator[None]:
        """Shows progress within the block."""

    @abstractmethod
    def advance(self, done: int, row: str) -> None:
        """`done` cases are decided; `row` is being worked on."""


class Quiet(Reporter):
    """Shows nothing."""

    @contextlib.contextmanager
    def showing(self, total: int) -> Iterator[None]:
        yield

    def advance(self, done: int, row: str) -> None:
        return


class Lines(Reporter):
    """A line now and then, for logs."""

    def __init__(self, out: TextIO, seconds: float = PLAIN_SECONDS) -> None:
        self._out = out
        self._seconds = seconds
        self._total = 0
        self._started = self._last = time.monotonic()
        self._first_done: int | None = None

    @contextlib.contextmanager
    def showing(self, total: int) -> Iterator[None]:
        self._total = total
        self._started = self._last = time.monotonic()
        self._out.write(f"{total:,} cases\n")
        self._out.flush()
        yield

    def advance(self, done: int, row: str) -> None:
        now = time.monotonic()
        # Cases of a resumed run are decided at once: they say nothing about the speed.
        if self._first_done is None:
            self._first_done = done
        if now - self._last < self._seconds:
            return
        self._last = now
        self._out.write(f"{done:,} of {self._total:,} cases{self._left(done, now)}, at {row}\n")
        self._out.flush()

    def _left(self, done: int, now: float) -> str:
        fresh = done - (self._first_done or 0)
        if fresh <= 0:
            return ""
        seconds = (now - self._started) / fresh * (self._total - done)
        return f", about {seconds:.0f} s left"


class Bar(Reporter):
    """A progress bar with the time left, on standard error so that output can be piped."""

    @contextlib.contextmanager
    def showing(self, total: int) -> Iterator[None]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[row]}", markup=False),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            self._progress = progress
            self._task = progress.add_task("cases", total=total, row="")
            yield

    def advance(self, done: int, row: str) -> None:
        self._progress.update(self._task, completed=done, row=row[:40])
