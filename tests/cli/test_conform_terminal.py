"""Test the output of `tinyref conform`, and the options that choose cases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tinyref.cli.conform import Selection
from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_conformance import queries
from tinyref_conformance.ladder import RungLines
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung

FAULTY = "tinyref_conformance.faulty:FloorDivision"


def test_a_list_of_cases_has_comments(tmp_path: Path) -> None:
    file = tmp_path / "cases.txt"
    file.write_text("a.b:1  # the first\n\n# none\n  c.d\n")
    assert Selection("*", file, False).query(tmp_path) == "a.b:1,c.d"
    assert Selection("a.*", None, False).query(tmp_path) == "a.*"
    file.write_text("# none\n")
    with pytest.raises(UserError, match=r"case-list: .*cases\.txt has no ids: accepted is an id a"):
        Selection("*", file, False).query(tmp_path)
    with pytest.raises(UserError, match=r"case-list: cannot read .*gone: No such file"):
        Selection("*", tmp_path / "gone", False).query(tmp_path)


def test_two_selections_are_refused(tmp_path: Path) -> None:
    for selection in (Selection("a", None, True), Selection("*", tmp_path, True)):
        with pytest.raises(UserError, match="exclude each other"):
            selection.query(tmp_path)
    with pytest.raises(UserError, match=r"last-failed: there is no report .*run without"):
        Selection("*", None, True).query(tmp_path)


@pytest.mark.parametrize("part", ["a", "a.b", "a.b.", "a:", "a.*", "[ab].b", "", "*", "b", "a.b:1"])
def test_a_query_of_many_parts_matches_as_its_parts_do(part: str) -> None:
    ids = ["a", "a.b", "a.b.c", "a.b:1", "a.bc", "a.b.c:1", "b", "b.b", ":a", "a..b", "a.b.:"]
    for name in ids:
        assert queries.matches(f"zzz,{part},y.*", name) == queries.matches(part, name)
    expected = [] if any(queries.matches(part, name) for name in ids) else [part]
    assert queries.unmatched_parts(f"{part},zzz", ids) == [*expected, "zzz"]


def test_a_rung_is_given_once_when_it_is_complete() -> None:
    lines = RungLines(Counter({Rung.STORE: 2, Rung.ALU: 1}))
    lines.note(Rung.ALU, Status.PASS)
    lines.note(Rung.STORE, Status.SKIP)
    assert list(lines.complete()) == []
    lines.note(Rung.STORE, Status.FAIL)
    assert list(map(str, lines.complete())) == [
        "✗ store a constant           2 cases: 1 Skip, 1 Fail",
        "✓ every operation            1 case: 1 Pass",
    ]
    assert list(lines.complete()) == []


def test_a_rung_of_skipped_cases_says_why() -> None:
    lines = RungLines(Counter({Rung.VECTOR: 3}))
    lines.note(Rung.VECTOR, Status.PASS)
    for reason in ("no vectors of 2 lanes", "no vectors of 2 lanes"):
        lines.note(Rung.VECTOR, Status.SKIP, reason)
    (line,) = map(str, lines.complete())
    assert line.endswith("3 cases: 1 Pass, 2 Skip; 2 skipped: no vectors of 2 lanes")


@pytest.mark.long
def test_the_failures_of_the_last_report_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["conform", "-d", FAULTY, "-j", "1", "--no-rerun-failures", "-o", "report"]
    query = "isa.binary.idiv.int8.special:0,isa.binary.idiv.int8.special:1"
    assert run([*words, "-q", query, "-v", "--durations"]) == 1
    streams = capsys.readouterr()
    assert "✗ every operation            2 cases: 1 Pass, 1 Fail\n" in streams.err
    assert "✗ Fail " in streams.out
    assert "slowest 3 of 3 cases:\n" in streams.out
    assert run([*words, "--last-failed"]) == 1
    assert "only the cases of --query isa.binary.idiv.int8.special:1\n" in capsys.readouterr().out


@pytest.mark.long
def test_skips_are_counted_by_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["conform", "-d", "CPU", "-j", "1", "-q", "kernel.image", "-o", str(tmp_path)])
    assert "skipped: 18 cases: the device does not declare images\n" in capsys.readouterr().out
