from __future__ import annotations

import io

from tinyref_conformance.progress import Bar, Lines, Quiet


def test_plain_lines_tell_counts_and_time_left() -> None:
    out = io.StringIO()
    lines = Lines(out, seconds=0.0)
    with lines.showing(100):
        lines.advance(40, "isa.a")
        lines.advance(60, "isa.b")
    text = out.getvalue().splitlines()
    assert text[0] == "100 cases"
    # The 40 cases came at once, from a resumed run: no speed is known yet.
    assert text[1] == "40 of 100 cases, at isa.a"
    assert text[2].startswith("60 of 100 cases, about 0 s left")


def test_plain_lines_are_rare() -> None:
    out = io.StringIO()
    lines = Lines(out)
    with lines.showing(100):
        for done in range(100):
            lines.advance(done, "isa.a")
    assert out.getvalue() == "100 cases\n"


def test_the_bar_and_the_quiet_one_take_the_same_calls() -> None:
    for reporter in (Bar(), Quiet()):
        with reporter.showing(10):
            reporter.advance(5, "isa.[red]not markup[/red]")
