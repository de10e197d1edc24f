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
    def advance(self, done: int, row: str, left: float | None = None) -> None:
        """`done` cases are decided; `row` is being worked on, and so many seconds are left."""

    @abstractmethod
    def again(self, what: str, done: int, total: int) -> None:
        """All cases are decided; of the `total` failures that this is about, `done` are done.

        what: the work, in words. It is first called with `done` 0.
        """


class Quiet(Reporter):
    """Shows nothing."""

    @contextlib.contextmanager
    def showing(self, total: int) -> Iterator[None]:
        yield

    def advance(self, done: int, row: str, left: float | None = None) -> None:
        return

    def again(self, what: str, done: int, total: int) -> None:
        return


class Lines(Reporter):
    """A line now and then, for logs."""

    def __init__(self, out: TextIO, seconds: float = PLAIN_SECONDS) -> None:
        self._out = out
        self._seconds = seconds
        self._total = 0
        self._last = time.monotonic()

    @contextlib.contextmanager
    def showing(self, total: int) -> Iterator[None]:
        self._total = total
        self._last = time.monotonic()
        self._out.write(f"{total:,} cases\n")
        self._out.flush()
        yield

    def advance(self, done: int, row: str, left: float | None = None) -> None:
        now = time.monotonic()
        if now - self._last < self._seconds:
            return
        self._last = now
        self._out.write(f"{done:,} of {self._total:,} cases{_left_text(left)}, at {row}\n")
        self._out.flush()

    def again(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done and now - self._last < self._seconds:
            return
        self._last = now
        how = "" if done else " (--no-rerun-failures leaves this out)"
        self._out.write(f"{what}: {done:,} of {total:,}{how}\n")
        self._out.flush()


def _left_text(left: float | None) -> str:
    """The time left as one says it, without a false precision."""
    if left is None:
        return ""
    return f", about {left:.0f} s left" if left < 100 else f", about {left / 60:.0f} min left"


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
        )

        columns = (
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[row]}{task.fields[left]}", markup=False),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            self._progress = progress
            self._task = progress.add_task("cases", total=total, row="", left="")
            yield

    def advance(self, done: int, row: str, left: float | None = None) -> None:
        self._progress.update(self._task, completed=done, row=row[:40], left=_left_text(left))

    def again(self, what: str, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total, row=what, left="")
