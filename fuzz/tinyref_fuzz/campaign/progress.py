"""How far a campaign is: one line that is kept up to date on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from tinyref.errors import printable

PLAIN_SECONDS = 10.0


@dataclass(frozen=True)
class Progress:
    """What is reported. left: seconds, None where nobody knows; fraction: of the whole.

    noun: what the cases are, in the plural.
    """

    cases: int = 0
    rate: float = 0.0
    rules: int = 0
    known_rules: int = 0
    findings: int = 0
    buckets: int = 0
    fraction: float = 0.0
    left: float | None = None
    state: str = ""
    noun: str = "kernels"

    def __str__(self) -> str:
        parts = [
            f"{self.cases:,} {self.noun}",
            f"{self.rate:.1f}/s",
            f"{self.rules} of {self.known_rules} rules",
            f"{self.buckets} bucket{'' if self.buckets == 1 else 's'}",
        ]
        if self.state:
            parts.append(self.state)
        elif self.left is not None:
            parts.append(f"{clock(self.left)} left")
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where there are some."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


class Reporter(ABC):
    """Told now and then how far the campaign is."""

    @abstractmethod
    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        """Shows progress within the block."""

    @abstractmethod
    def update(self, progress: Progress) -> None:
        """The campaign is this far."""


class Quiet(Reporter):
    """Shows nothing."""

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        yield

    def update(self, progress: Progress) -> None:
        return


class Lines(Reporter):
    """A line now and then, for logs."""

    def __init__(self, out: TextIO, seconds: float = PLAIN_SECONDS) -> None:
        self._out = out
        self._seconds = seconds
        self._last = time.monotonic()
        self._has_begun = False

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        self._last = time.monotonic()
        yield

    def update(self, progress: Progress) -> None:
        now = time.monotonic()
        is_first = progress.cases > 0 and not self._has_begun
        if now - self._last < self._seconds and not is_first:
            return
        self._has_begun = self._has_begun or is_first
        self._last = now
        self._out.write(f"{progress}\n")
        self._out.flush()


class Bar(Reporter):
    """A bar and the line, on standard error so that output can be piped."""

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        from rich import progress
        from rich.console import Console

        columns = (
            progress.BarColumn(bar_width=10),
            progress.TextColumn("{task.description}", markup=False),
        )
        console = Console(stderr=True)
        with progress.Progress(*columns, console=console, transient=True) as shown:
            self._shown = shown
            self._task = shown.add_task("opening the device", total=None)
            yield

    def update(self, progress: Progress) -> None:
        total = 1.0 if progress.fraction > 0 else None
        self._shown.update(
            self._task,
            completed=progress.fraction,
            total=total,
            description=printable(str(progress)),
        )
