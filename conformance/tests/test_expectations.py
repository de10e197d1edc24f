from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reports_of import case_of

from tinyref.errors import UserError
from tinyref_conformance.compare import compare
from tinyref_conformance.expectations import (
    Expectation,
    Expectations,
    Observed,
    Phase,
    Skip,
    updated_expectations,
)
from tinyref_conformance.expectations_file import load, write, write_update
from tinyref_conformance.ladder import RungState
from tinyref_conformance.queries import matches
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Profile, Rung
from tinyref_spec.catalogue import all_rows

TODAY = datetime.date(2026, 1, 10)
GOOD = """
schema = 1
device = "FAKE"
[[expected]]
query = "isa.unary.exp2.*"
phase = "accuracy"
reason = "the table of the card has 20 bits"
link = "https://example.org/1"
expires = 2026-02-01
"""


WHY = 'reason = "known"\nlink = "https://example.org/1"\n'


def expected(query: str, phase: str = "accuracy") -> str:
    return f'[[expected]]\nquery = "{query}"\nphase = "{phase}"\n{WHY}'


def skip(query: str) -> str:
    return f'[[skip]]\nquery = "{query}"\n{WHY}'


def entry(query: str, phase: Phase = Phase.ACCURACY, expires: str = "") -> Expectation:
    date = datetime.date.fromisoformat(expires) if expires else None
    return Expectation(query, "known", "https://example.org/1", date, phase)


@pytest.mark.parametrize(
    ("query", "case_id", "gives"),
    [
        ("isa.a", "isa.ab", False),
        ("isa.a", "isa.a.special:1", True),
        ("isa.a.special:1", "isa.a.special:12", False),
        ("isa.*.int8", "isa.a.int8.special:1", True),
        ("isa.*.int8", "isa.a.int8x", False),
        ("isa.?.int8.special:1", "isa.a.int8.special:12", False),
        ("b, isa.*.int8", "isa.a.int8.special:1", True),
        ("", "isa.a", False),
        ("ISA.a", "isa.a", False),
        ("rung:allocate and copy", Rung.MEMORY.query, True),
        ("rung:allocate", Rung.MEMORY.query, False),
    ],
)
def test_queries(query: str, case_id: str, gives: bool) -> None:
    assert matches(query, case_id) is gives


def test_a_file_reads_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "fake.toml"
    odd = Expectation("a", 'says "no"\\ \n\t\x7f\u2028\U0001f600', "http://x/", None, Phase.RUN)
    skips = (Skip("c", "hangs", "http://x/", datetime.date(2031, 1, 2)), Skip("d", "x", "http://y"))
    expectations = Expectations("FAKE", (entry("b", expires="2030-01-31"), odd), skips)
    write(expectations, path)
    assert load(path, "FAKE") == expectations


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("schema = 1", "schema = 2", "schema is 2"),
        ("schema = 1", "schema = 1\nmore = 2", "unknown key 'more'"),
        ('device = "FAKE"', 'device = "OTHER"', "is for device 'OTHER'"),
        ('reason = "the table of the card has 20 bits"', "", "reason is missing"),
        ("https://example.org/1", "see chat", "use an https:// address"),
        ('"accuracy"', '"luck"', "use compile, run, accuracy"),
        ("2026-02-01", '"soon"', "use a date"),
        ("[[expected]]", "[[skip]]", "entry 1 of \\[\\[skip\\]\\]: unknown key 'phase'"),
        ("schema = 1", "schema = ", "not TOML"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "fake.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UserError, match=says):
        load(path, "FAKE")


@pytest.mark.parametrize(
    ("status", "phase", "expected", "gives"),
    [
        (Status.FAIL, "accuracy", entry("isa.a"), Status.EXPECTED_FAIL),
        (Status.CRASH, "run", entry("isa.a", Phase.RUN), Status.EXPECTED_FAIL),
        (Status.FAIL, "compile", entry("isa.a"), Status.FAIL),
        (Status.FAIL, "accuracy", entry("isa.a", expires="2026-01-10"), Status.FAIL),
        (Status.FAIL, "accuracy", entry("isa.a", expires="2026-01-11"), Status.EXPECTED_FAIL),
        (Status.PASS, "", entry("isa.a"), Status.UNEXPECTED_PASS),
        (Status.PASS, "", entry("isa.a", expires="2026-01-10"), Status.PASS),
        (Status.SKIP, "", entry("isa.a"), Status.SKIP),
    ],
)
def test_expectations_are_strict_both_ways(
    status: Status, phase: str, expected: Expectation, gives: Status
) -> None:
    final, _ = Expectations("FAKE", (expected,)).final("isa.a.special:0", status, phase, TODAY)
    assert final is gives


def seen(case_id: str, status: Status, phase: str = "") -> Observed:
    return Observed(case_id, case_id.rpartition(".")[0], status, phase)


def test_an_update_adds_narrows_keeps_and_drops() -> None:
    old = Expectations(
        "FAKE", (entry("still"), entry("half"), entry("fixed"), entry("elsewhere"), entry("above"))
    )
    observed = [
        seen("still.x:0", Status.FAIL, "accuracy"),
        seen("half.x:0", Status.FAIL, "accuracy"),
        seen("half.x:1", Status.PASS),
        seen("fixed.x:0", Status.PASS),
        seen("above.x:0", Status.SUPPRESSED),
        seen("new.x:0", Status.FAIL, "accuracy"),
        seen("new.x:1", Status.PASS),
        seen("whole.x:0", Status.CRASH, "run"),
        seen("whole.x:1", Status.TIMEOUT, "run"),
    ]
    updated = updated_expectations(
        old, observed, "a new reason", "https://example.org/2"
    ).expectations
    assert [(item.query, item.phase.value, item.reason) for item in updated.entries] == [
        ("still", "accuracy", "known"),
        ("elsewhere", "accuracy", "known"),
        ("above", "accuracy", "known"),
        ("half.x:0", "accuracy", "known"),
        ("new.x:0", "accuracy", "a new reason"),
        ("whole", "run", "a new reason"),
    ]
    for case in observed:
        final, _ = updated.final(case.case_id, case.status, case.phase, TODAY)
        assert not final.is_failure


COMMENTED = "\n".join(
    [
        '# The card of the second lab.\nschema = 1\ndevice = "FAKE"   # as the lab calls it\n',
        "# Hangs since the driver of May.\n" + skip("isa.hangs"),
        "# still broken\n" + expected("still").replace('"still"', '"still"   # all of it'),
        "# was fixed by the vendor\n" + expected("fixed"),
        "# half of it\n" + expected("half"),
        "# the end\n",
    ]
)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_comments_survive_an_update(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "fake.toml"
    path.write_bytes(COMMENTED.replace("\n", ending).encode())
    observed = [
        seen("still.x:0", Status.FAIL, "accuracy"),
        seen("fixed.x:0", Status.PASS),
        seen("half.x:0", Status.FAIL, "accuracy"),
        seen("half.x:1", Status.PASS),
        seen("half.x:2", Status.FAIL, "accuracy"),
        seen("isa.hangs.x:0", Status.NOT_RUN),
        seen("new.x:0", Status.CRASH, "run"),
    ]
    old = load(path, "FAKE")
    update = updated_expectations(old, observed, "new", "https://example.org/2")
    write_update(update, path)
    assert load(path, "FAKE") == update.expectations
    head, _, tail = COMMENTED.partition("# was fixed")
    expected = head + tail[tail.index("# the end") :]
    for words in (
        'query = "half.x:0"\nphase = "accuracy"\nreason = "known"\nlink = "https://example.org/1"',
        'query = "half.x:2"\nphase = "accuracy"\nreason = "known"\nlink = "https://example.org/1"',
        'query = "new"\nphase = "run"\nreason = "new"\nlink = "https://example.org/2"',
    ):
        expected += f"\n[[expected]]\n{words}\n"
    assert path.read_bytes().decode() == expected.replace("\n", ending)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    [
        'expected = [{query = "a", phase = "run", reason = "x", link = "http://x"}]\n',
        '[[expected]]\nquery = "a"\nphase = "run"\nreason = """\n[[expected]]\n"""\n'
        'link = "http://x"\n',
        '[["expected"]]\nquery = """a"""\nphase = "run"\nreason = "x"\nlink = "http://x"\n',
    ],
)
def test_a_file_that_cannot_be_updated_in_place_is_kept_beside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fake.toml"
    whole = f'schema = 1\ndevice = "FAKE"\n{text}# the end\n'
    path.write_text(whole)
    observed = [seen("a.x:0", Status.CRASH, "run"), seen("a.x:1", Status.PASS)]
    update = updated_expectations(load(path, "FAKE"), observed, "new", "https://example.org/2")
    write_update(update, path)
    assert load(path, "FAKE") == update.expectations
    assert (tmp_path / "fake.previous.toml").read_text() == whole


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def file(*tables: str) -> Path:
        path = tmp_path / "fake.toml"
        path.write_text("\n".join(['schema = 1\ndevice = "FAKE"\n', *tables]))
        return path

    return file


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (expected("isa.fials.int32"), "isa.fials.int32"),
        (expected("isa.*.int32, isa.gone"), "isa.gone"),
        (skip("isa.hangs"), "isa.hangs"),
    ],
)
def test_a_query_that_names_no_case_is_an_error(
    fake: Any, file: Callable[..., Path], table: str, part: str
) -> None:
    with pytest.raises(UserError, match=f"no case of the suite matches '{part}'"):
        fake.scenario("good", "fails").run(expectations=file(table))
    assert fake.ran() == []


@pytest.mark.long
def test_an_expectation_on_a_set(fake: Any, file: Callable[..., Path]) -> None:
    """Expect all its failures, and report only its passing cases as stale."""
    done = fake.scenario("fails", "flaky", "good").run(expectations=file(expected("isa.f*.int32")))
    statuses = {case.id: case.status for case in done.report.cases}
    assert statuses["isa.fails.int32.special:1"] is Status.EXPECTED_FAIL
    assert statuses["isa.flaky.int32.special:1"] is Status.EXPECTED_FAIL
    stale = {name for name, status in statuses.items() if status is Status.UNEXPECTED_PASS}
    assert stale == {f"isa.{row}.int32.special:{i}" for row in ("fails", "flaky") for i in (0, 2)}
    said = case_of(done, "isa.fails.int32.special:0").message
    assert said == "the entry for 'isa.f*.int32' is stale here: known (https://example.org/1)"
    assert done.report.problems == []


@pytest.mark.long
def test_what_is_on_the_list_of_skips_is_not_run(fake: Any, file: Callable[..., Path]) -> None:
    before = fake.scenario("hangs", "good").run(query="isa.hangs.int32.special:0,isa.add").report
    path = file(skip("isa.h*.int32.special:1"))
    done = fake.run(expectations=path)
    report = done.report
    assert "isa.hangs.int32.special:1" not in fake.ran()
    hanging = case_of(done, "isa.hangs.int32.special:1")
    assert hanging.status is Status.NOT_RUN
    assert hanging.message == "on the skip list: known (https://example.org/1)"
    assert report.counts[Status.PASS] == 9
    # Nothing failed, and yet it shows no conformance.
    assert report.exit_code == 0
    assert not report.is_conformance_run
    assert report.reductions == ["not run because of the skip list: 1 of the cases"]
    assert "conforms" not in report.verdict
    assert report.rungs[Rung.ALU].state is RungState.INCOMPLETE
    assert compare(before, report).changes["regressions"] == []
    for name, words in (
        ("report.html", "not run because of the skip list: 1 of the cases"),
        ("summary.md", "not run because of the skip list: 1 of the cases"),
        ("junit.xml", "NotRun: on the skip list"),
        ("badge.svg", "not a conformance run"),
    ):
        assert words in (fake.folder / name).read_text()
    data = json.loads((fake.folder / "report.json").read_text())
    assert data["conformance_run"] is False


@pytest.mark.long
def test_an_update_makes_a_known_failure_expected(fake: Any, file: Callable[..., Path]) -> None:
    path = file("# ours", skip("isa.hangs.int32.special:1"), expected("isa.gone"))
    new = {"update": True, "reason": "new", "link": "https://example.org/2"}
    fake.scenario("fails", "above", "hangs").run(expectations=path, **new)
    text = path.read_text()
    assert "# ours" in text
    assert "isa.gone" not in text
    report = fake.run(expectations=path).report
    assert report.exit_code == 0
    # A known failure suppresses nothing.
    assert (report.counts[Status.EXPECTED_FAIL], report.counts[Status.SUPPRESSED]) == (1, 0)


@pytest.mark.long
def test_the_file_of_the_documentation_is_one(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    expectations = load(path, "MINE")
    assert [entry.phase for entry in expectations.entries] == [Phase.ACCURACY]
    assert (
        expectations.unmatched(case.id for row in all_rows() for case in row.cases(Profile.FULL))
        == []
    )
