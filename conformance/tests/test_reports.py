"""The forms of a report: every one holds the facts, and none can be broken out of."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import string
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import browser
import pytest
from browser import Page
from reports_of import NASTY, failing, report_of

from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_conformance import report as reports
from tinyref_conformance.report import CaseResult, Report
from tinyref_conformance.reports import FORMS, write_all
from tinyref_conformance.reports.badge import badge
from tinyref_conformance.reports.github import workflow_commands, write_summary
from tinyref_conformance.reports.html import html, page_data
from tinyref_conformance.reports.junit import junit
from tinyref_conformance.reports.markdown import cell, markdown
from tinyref_conformance.reports.terminal import summary
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung
from tinyref_spec.evidence import Evidence


def mixed() -> Report:
    return report_of(
        ("isa.add.int32.0", Status.PASS),
        failing("isa.mul.float32.0"),
        ("isa.mul.float32.1", Status.CRASH),
        ("isa.sin.float32.0", Status.SUPPRESSED),
        ("isa.sin.float16.0", Status.SKIP),
        ("isa.cos.float16.0", Status.EXPECTED_FAIL),
    )


def unpacked(page: Page) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(page.scripts[0])))


def test_the_page_holds_what_devices_say_as_data_only() -> None:
    text = html(report_of(failing("isa.mul.float32.0"), problems=(NASTY,), device=NASTY))
    page = Page(text)
    assert len(page.scripts) == 2
    assert "img" not in page.tags
    assert not page.handlers
    data = unpacked(page)
    assert data["failures"][0]["message"] == NASTY
    assert data["failures"][0]["details"]["source"] == NASTY
    assert not set(page.scripts[0]) - set(f"{string.ascii_letters}{string.digits}+/=")


def test_the_page_loads_nothing_and_allows_only_its_own_script() -> None:
    text = html(mixed())
    page = Page(text)
    assert page.loads == []
    assert "url(" not in text
    assert "@import" not in text
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_the_page_says_verdict_ladder_and_statuses_without_script() -> None:
    text = html(mixed())
    assert "FAKE does not conform: first broken rung is" in text
    assert "first broken, 2 of 5" in re.sub(r"\s+", " ", text)
    for status in (Status.FAIL, Status.CRASH, Status.SKIP):
        assert f"</span> {status.value} <b>1</b>" in text


@pytest.mark.long
@pytest.mark.parametrize("rows", [50, pytest.param(1600, marks=pytest.mark.slow)])
def test_a_page_of_many_cases_is_small(rows: int) -> None:
    good = [
        CaseResult(f"isa.op{row}.int32.{i}", f"isa.op{row}.int32", Status.PASS, compared=1)
        for row in range(rows)
        for i in range(50)
    ]
    bad = [failing(f"isa.bad{row}.int32.{i}", "x" * 500) for row in range(200) for i in range(20)]
    report = report_of(*good, *bad)
    assert len(html(report)) < 3_000_000
    data = page_data(report)
    assert len(data["failures"]) == 1500 + 200 - 125
    assert sum(row["hidden"] for row in data["rows"]) == 4000 - len(data["failures"])
    assert all(row["failures"] for row in data["rows"] if row["counts"].get("Fail"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "is not JSON"),
        ("[]", "is not a report"),
        ('{"schema": "other"}', "is not a report"),
        (
            '{"schema": "tinyref.conformance.report", "version": 99}',
            "has version 99, accepted is 1",
        ),
        ('{"schema": "tinyref.conformance.report", "version": 1}', "is damaged"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(UserError, match=says):
        reports.load(path)


def test_junit_counts_and_is_xml() -> None:
    root = ElementTree.fromstring(junit(mixed()))
    suite = next(element for element in root if element.get("name") == Rung.ALU.title)
    counted = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counted == ["6", "1", "1", "3"]
    kinds = {case.get("name"): [child.tag for child in case] for case in suite}
    assert kinds["isa.add.int32.0"] == []
    assert kinds["isa.mul.float32.0"] == ["failure"]
    assert kinds["isa.mul.float32.1"] == ["error"]
    assert kinds["isa.cos.float16.0"] == ["skipped"]


def test_markdown_escapes_and_names_failures() -> None:
    text = markdown(mixed())
    assert "<script" not in text
    assert "* `isa.mul.float32.0` **Fail**" in text
    assert "c0ffee, with uncommitted changes" in text
    assert cell("a|b\n`c`<d>") == "a\\|b \\`c\\`&lt;d&gt;"


def test_the_script_of_the_first_failure_is_a_file(tmp_path: Path) -> None:
    higher, lower = failing("isa.mul.float32.0", "higher"), failing("memory.copy.int32.0", "lower")
    report = report_of(higher, lower, ("memory.copy.int32.1", Status.PASS))
    rows = {row.id: row for row in report.rows}
    rows["memory.copy.int32"].rung = Rung.MEMORY
    assert tmp_path / "reproduce.py" in write_all(report, tmp_path)
    assert (tmp_path / "reproduce.py").read_text() == "lower"
    # A later run in which nothing fails has none.
    write_all(report_of(("isa.a.0", Status.PASS)), tmp_path)
    assert not (tmp_path / "reproduce.py").exists()


def test_the_badge_tells_good_bad_and_reduced_apart() -> None:
    good = badge(report_of(("isa.a.0", Status.PASS)))
    bad = badge(report_of(("isa.a.0", Status.FAIL)))
    part = badge(report_of(("isa.a.0", Status.PASS), reductions=["only a part"]))
    for text in (good, bad, part):
        ElementTree.fromstring(text)
    assert "quick: 1 of 1" in good
    assert "✗" in bad
    assert "not a conformance run" in part
    assert len({re.findall("#[0-9a-f]{6}", text)[1] for text in (good, bad, part)}) == 3


def test_files_are_replaced_whole_and_an_unwritable_one_is_named(tmp_path: Path) -> None:
    assert {path.name for path in write_all(mixed(), tmp_path)} == {*FORMS, "reproduce.py"}
    assert {path.name for path in tmp_path.iterdir()} == {*FORMS, "reproduce.py"}
    (tmp_path / "badge.svg").unlink()
    (tmp_path / "badge.svg").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*badge\.svg"):
        write_all(mixed(), tmp_path)


needs_browser = pytest.mark.skipif(browser.CHROMIUM is None, reason=browser.WHY_NOT)


@pytest.mark.slow
@needs_browser
def test_the_page_works_in_a_browser_from_a_file(tmp_path: Path) -> None:
    write_all(mixed(), tmp_path)
    dumped = browser.dumped(tmp_path / "report.html", "#dtype=float32")
    assert "img" not in Page(dumped).tags
    # The matrix, the filter of the address, and the drill-down of the failure.
    assert 'aria-label="ADD float32: 1 Crash, 1 Fail, 1 Suppressed"' in dumped
    assert "3 of 7 rows" not in dumped
    assert "2 of 6 rows, 3 cases" in dumped
    assert "Expected and actual" in dumped
    whole = browser.dumped(tmp_path / "report.html", "")
    assert f"6 of 6 rows, {mixed().counts.total()} cases" in whole
    assert 'aria-sort="ascending"' in dumped
    assert "tinyref conform --query isa.mul.float32.0" in dumped
    assert "isa.add.int32</button>" not in dumped


@pytest.mark.slow
@needs_browser
@pytest.mark.skipif(find_spec("axe_core_python") is None, reason="axe-core-python is not installed")
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_the_page_and_it_fits_the_window(tmp_path: Path, dark: bool) -> None:
    write_all(mixed(), tmp_path)
    accessible = browser.accessibility(tmp_path / "report.html", dark)
    assert accessible["dark"] is dark
    assert accessible["violations"] == []
    assert accessible["width"] <= 1280


ATTACK = "a\x1b[2J\x9b31m\r\x00\x7f\ud800b"


def test_words_that_utf8_does_not_have_reach_every_file(
    fake: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Use a driver's version: journal, reports, comparison and summary of a job have it."""
    monkeypatch.setenv("FAKE_VERSION", "card \udc80")
    first = fake.scenario("good", "compile_error").run()
    assert fake.run(resume=True).report.verdict == first.report.verdict
    file = str(fake.folder / "report.json")
    assert run(["conform", "verify", file]) == 0
    assert reports.load(Path(file)).certificate["device_versions"] == {"fake": "card \udc80"}
    assert run(["conform", "matrix", file, file, f"--json={tmp_path / 'matrix.json'}"]) == 0
    for form in ("text", "html", "markdown"):
        output = tmp_path / form
        assert run(["conform", "matrix", file, file, "--format", form, "--out", str(output)]) == 0
    summary = tmp_path / "summary.md"
    write_summary(first.report, {"GITHUB_STEP_SUMMARY": str(summary)})
    assert "card \\udc80" in summary.read_text(encoding="utf-8")


def test_no_form_has_control_characters(tmp_path: Path) -> None:
    report = report_of(failing("isa.mul.float32.0", ATTACK), problems=(ATTACK,), device=ATTACK)
    for path in write_all(report, tmp_path):
        text = path.read_text(encoding="utf-8")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", text), path.name
    again = reports.load(tmp_path / "report.json")
    assert again.certificate["device"] == ATTACK
    assert again.problems == [ATTACK]
    ElementTree.parse(tmp_path / "junit.xml")


def test_a_broken_run_says_rung_cause_advice_and_an_example() -> None:
    report = report_of(
        failing("isa.mul.float32.0", "element 0: expected 1, got 2"),
        failing("isa.mul.float32.1", "element 7: expected 1, got 2"),
        ("isa.sin.float32.0", Status.TIMEOUT),
        reductions=["only the cases of --query isa"],
    )
    report.rows[1].evidence.add(Evidence((2, 8), {"nan": (2, 0)}))
    assert list(summary(report)) == [
        "FAKE does not conform: first broken rung is 'every operation' (not a conformance run)",
        "not a conformance run: only the cases of --query isa",
        "3 cases in 1.5 s: 2 Fail, 1 Timeout",
        "  every operation         2 cases  "
        "all wrong values have NaN as an operand or result: isa.mul.float…",
        "  every operation          1 case  the case does not end: isa.sin.float32",
        "  what to do: look at rounding; look at comparisons (ordered or unordered), MAX, and "
        "options that",
        "    assume no NaN",
        "Fail: isa.mul.float32.0: element 0: expected 1, got 2",
        "  tinyref conform --query isa.mul.float32.0",
    ]


def test_each_cause_is_an_error_with_the_command_that_shows_it() -> None:
    report = report_of(
        failing("isa.mul.int32.0", "50%: one,\ntwo"),
        failing("isa.mul.int32.1", "50%: one,\ntwo"),
        problems=("the disk was full",),
        reductions=["only shard 1/2"],
    )
    lines = workflow_commands(report).splitlines()
    assert lines[0] == "::error title=the run::the disk was full"
    assert lines[1].startswith("::error title=every operation%3A isa.mul.int32::2 cases: ")
    assert lines[1].endswith("%0Atinyref conform --query isa.mul.int32.0")
    assert "%25" in lines[1]
    assert lines[2] == "::notice title=not a conformance run::only shard 1/2"
    assert lines[3].startswith("::error title=verdict::FAKE does not conform")
    assert len(lines) == 4


def test_a_stale_expectation_is_an_error_that_names_its_cases() -> None:
    stale = [
        CaseResult(name, "isa.add", Status.UNEXPECTED_PASS, message="the entry for 'isa' is stale")
        for name in ("isa.add:0", "isa.add:1")
    ]
    stale[0].repro = "tinyref conform --query isa.add:0"
    assert workflow_commands(report_of(*stale)).splitlines()[0] == (
        "::error title=UnexpectedPass::2 cases, first isa.add:0: the entry for 'isa' is stale%0A"
        "remove these cases from the entry, or use --update-expectations%0A"
        "tinyref conform --query isa.add:0"
    )


def test_the_summary_is_appended_where_the_job_says(tmp_path: Path) -> None:
    report = report_of(("isa.add.int32.0", Status.PASS))
    file = tmp_path / "summary"
    file.write_text("before\n")
    assert write_summary(report, {"GITHUB_STEP_SUMMARY": str(file)}) == file
    assert file.read_text().startswith("before\n# FAKE conforms to the quick profile\n")
    assert write_summary(report, {}) is None
    with pytest.raises(UserError, match="GITHUB_STEP_SUMMARY: cannot write"):
        write_summary(report, {"GITHUB_STEP_SUMMARY": str(tmp_path)})


@pytest.mark.long
def test_the_command_prints_annotations_instead_of_the_ladder(
    capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinyref.cli.entry import run

    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    words = ["conform", "--device", "PYTHON", "--query", "memory.copy", "--jobs", "1"]
    assert run([*words, "--out", str(tmp_path / "r"), "--format", "github"]) == 0
    printed = capsys.readouterr().out
    assert "::notice title=not a conformance run::only the cases of --query memory.copy" in printed
    assert "allocate and copy" not in printed
    assert "# PYTHON" in (tmp_path / "summary").read_text()
    assert run([*words, "--format", "gitlab"]) == 2
    assert "format: got 'gitlab', accepted are text, github" in capsys.readouterr().err
