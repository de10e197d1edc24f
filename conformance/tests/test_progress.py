from __future__ import annotations

import io

from tinyref_conformance.progress import Bar, Lines, Quiet


def test_plain_lines_tell_counts_and_time_left() -> None:
    out = io.StringIO()
    lines = Lines(out, seconds=0.0)
    with lines.showing(100):
        lines.advance(40, "isa.a")
        lines.advance(60, "isa.b", 12.3)
        lines.advance(70, "isa.c", 700.0)
    assert out.getvalue().splitlines() == [
        "100 cases",
        "40 of 100 cases, at isa.a",
        "60 of 100 cases, about 12 s left, at isa.b",
        "70 of 100 cases, about 12 min left, at isa.c",
    ]


def test_plain_lines_are_rare() -> None:
    out = io.StringIO()
    lines = Lines(out)
    with lines.showing(100):
        for done in range(100):
            lines.advance(done, "isa.a")
    assert out.getvalue() == "100 cases\n"


def test_failures_that_run_again_are_counted_and_can_be_left_out() -> None:
    out = io.StringIO()
    lines = Lines(out)
    with lines.showing(10):
        for done in range(3):
            lines.again("failures run again", done, 3)
        lines.again("failures that pass alone", 0, 2)
    assert out.getvalue().splitlines() == [
        "10 cases",
        "failures run again: 0 of 3 (--no-rerun-failures leaves this out)",
        "failures that pass alone: 0 of 2 (--no-rerun-failures leaves this out)",
    ]


def test_the_bar_and_the_quiet_one_take_the_same_calls() -> None:
    for reporter in (Bar(), Quiet()):
        with reporter.showing(10):
            reporter.advance(5, "isa.[red]not markup[/red]", 7.0)
            reporter.again("failures run again", 0, 3)
