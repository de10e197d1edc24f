"""Test progress on a terminal and in logs."""

from __future__ import annotations

import io
import sys

import pytest

from tinyref.cli.terminal import PlainStream
from tinyref.workers.run import Bar, Lines, Progress, Quiet, clock


def lines_of(seconds: float, *steps: Progress) -> list[str]:
    out = io.StringIO()
    lines = Lines(out, seconds)
    with lines.showing():
        for progress in steps:
            lines.update(progress)
    return out.getvalue().splitlines()


def test_plain_lines_come_now_and_then() -> None:
    steps = [Progress(f"{done} cases", done) for done in range(4)]
    assert lines_of(0.0, *steps) == ["0 cases", "1 cases", "2 cases", "3 cases"]
    # With the first result there is something to see.
    assert lines_of(1000.0, *steps) == ["1 cases"]


def test_a_new_phase_is_shown_at_once() -> None:
    steps = [
        Progress("failures run again: 0 of 2", 1, phase="again"),
        Progress("failures run again: 1 of 2", 1, phase="again"),
        Progress("sequences: 0 of 1", 1, phase="sequences"),
    ]
    assert lines_of(1000.0, *steps) == ["failures run again: 0 of 2", "sequences: 0 of 1"]


def test_what_a_vendor_says_does_not_reach_the_terminal_raw() -> None:
    assert lines_of(0.0, Progress("at \x1b[2J")) == ["at \\x1b[2J"]


def test_the_bar_and_the_quiet_one_take_the_same_calls() -> None:
    for reporter in (Bar(), Quiet()):
        with reporter.showing():
            reporter.update(Progress("5 cases, at isa.[red]not markup[/red]", 5, 0.5))
            reporter.update(Progress("again", 5, phase="again"))
            reporter.line("a rung", "green")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (59.6, "1:00"), (3600.0, "1:00:00"), (-1.0, "0:00")]
)
def test_a_clock_has_hours_where_there_are_some(seconds: float, text: str) -> None:
    assert clock(seconds) == text


class Terminal(io.StringIO):
    """A text that says it is a terminal.

    The other end of a real one (pty.openpty) gets its text late, in pieces.
    """

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_of_ours_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", PlainStream(terminal))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    bar = Bar()
    with bar.showing():
        bar.update(Progress("half", 1, 0.5))
        bar.line("done\x1b]0;title\x07", "green")
    output = terminal.getvalue()
    assert "\x1b[32mdone\\x1b]0;title\\x07" in output
    assert "\\x1b[2K" not in output
