"""The forms of a report: every one holds the facts, and none can be broken out of."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
import string
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import browser
import pytest
from reports_of import NASTY, failing, report_of

from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_conformance import report as reports
from tinyref_conformance.report import CaseResult, Report
from tinyref_conformance.reports import FORMS, as_json, write_all
from tinyref_conformance.reports.badge import badge
from tinyref_conformance.reports.github import write_summary
from tinyref_conformance.reports.html import html, packed, page_data
from tinyref_conformance.reports.junit import junit
from tinyref_conformance.reports.markdown import cell, markdown
from tinyref_conformance.reports.pictures import (
    clause_families,
    drawn_rows,
    time_bars,
    ulp,
    ulp_limit,
)
from tinyref_conformance.statuses import Status
from tinyref_spec.accuracy import Accuracy
from tinyref_spec.case import Rung


def mixed() -> Report:
    return report_of(
        ("isa.add.int32.0", Status.PASS),
        failing("isa.mul.float32.0"),
        ("isa.mul.float32.1", Status.CRASH),
        ("isa.sin.float32.0", Status.SUPPRESSED),
        ("isa.sin.float16.0", Status.SKIP),
        ("isa.cos.float16.0", Status.EXPECTED_FAIL),
    )


class Page(HTMLParser):
    """What a browser sees: scripts with their text, and what the page would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.loads: list[str] = []
        self.images = 0
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.scripts.append("")
            self._inside = True
        self.images += tag == "img"
        for name, value in attrs:
            if name in ("src", "href") and value and not value.startswith(("#", "data:")):
                self.loads.append(value)
            assert not name.startswith("on")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def unpacked(page: Page) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(page.scripts[0])))


def test_the_page_holds_what_devices_say_as_data_only() -> None:
    text = html(report_of(failing("isa.mul.float32.0"), problems=(NASTY,), device=NASTY))
    page = Page(text)
    assert len(page.scripts) == 2
    assert page.images == 0
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


def test_the_script_never_writes_markup() -> None:
    script = Page(html(mixed())).scripts[1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


def test_the_data_of_the_page_are_the_same_for_the_same_report() -> None:
    assert packed({"x": "\ud800"}) == packed({"x": "\ud800"})


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
    ("rule", "limit"),
    [
        ("Exact: the bits of the correctly rounded result; any NaN for a NaN.", 0.0),
        ("Within 2.5 ULP of the correctly rounded result; special cases exact.", 2.5),
        ("Within the bound derived from the parts: every part's own bound.", None),
        ("Exact: the bits of the result. Sums of floats: Within the bound of the parts.", None),
        ("Refused with one clear line.", None),
    ],
)
def test_only_a_limit_in_ulp_is_drawn_as_one(rule: str, limit: float | None) -> None:
    assert ulp_limit(rule) == limit


def test_json_reads_back_as_the_same_report() -> None:
    report = mixed()
    again = reports.from_json(json.loads(as_json(report)), "here")
    assert again.to_json() == report.to_json() | {
        "certificate": again.to_json()["certificate"] | {}
    }
    assert again.counts == report.counts
    assert again.cases[2].max_ulp == float("inf")


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


def test_a_missing_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*none\.json"):
        reports.load(tmp_path / "none.json")


def test_junit_counts_and_is_xml() -> None:
    root = ElementTree.fromstring(junit(mixed()))
    suite = next(found for found in root if found.get("name") == Rung.ALU.title)
    counted = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counted == ["6", "1", "1", "3"]
    kinds = {case.get("name"): [child.tag for child in case] for case in suite}
    assert kinds["isa.add.int32.0"] == []
    assert kinds["isa.mul.float32.0"] == ["failure"]
    assert kinds["isa.mul.float32.1"] == ["error"]
    assert kinds["isa.cos.float16.0"] == ["skipped"]


def test_junit_tells_a_problem_of_the_run() -> None:
    root = ElementTree.fromstring(junit(report_of(problems=("stale expectation",))))
    assert root.find("testsuite[@name='the run']/testcase/failure") is not None


def test_markdown_escapes_and_names_failures() -> None:
    text = markdown(mixed())
    assert "<script" not in text
    assert "* `isa.mul.float32.0` **Fail**" in text
    assert "c0ffee with changes" in text
    assert cell("a|b\n`c`<d>") == "a\\|b \\`c\\`&lt;d&gt;"


def test_a_card_of_the_ladder_says_how_many_cases_are_skipped() -> None:
    cases = [(f"isa.a.float32.{number}", Status.SKIP) for number in range(3)]
    text = html(report_of(*cases, ("isa.a.float32.9", Status.PASS)))
    assert "holds, 1 of 1, 3 of 4 skipped" in text


def test_the_page_shows_the_first_node_that_differs() -> None:
    case = failing("isa.mul.float32.0", "element 0: expected 1, got 2")
    case.details = {"difference": "the first node that differs is MUL float32"}
    report = report_of(case)
    assert "The first node that differs is MUL float32." in html(report)
    assert page_data(report)["failures"][0]["details"] == case.details


def test_markdown_names_causes_before_the_ladder() -> None:
    text = markdown(report_of(failing("isa.cast.float32.0", "the copy | has 3 bytes")))
    line = "| every operation | 1 | the copy \\| has # bytes | isa.cast.float32 | look at rounding"
    assert text.index("## What is wrong") < text.index(line) < text.index("| ✓ | open |")
    assert "What is wrong" not in markdown(report_of(("isa.a.0", Status.PASS)))


def test_failures_come_before_a_count_of_what_was_not_run() -> None:
    never = [(f"isa.add.int32.{number}", Status.MISSING) for number in range(1000)]
    report = report_of(*never, failing("isa.mul.float32.0", "wrong"))
    assert [case.id for case in report.failures] == ["isa.mul.float32.0"]
    text = markdown(report)
    assert "isa.add.int32" not in text
    failure, count = text.index("isa.mul.float32.0"), text.index("1,000 cases were planned and not")
    assert failure < count
    assert "planned and not run" not in markdown(mixed())
    assert report.exit_code == 1


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
    found = Page(dumped)
    assert found.images == 0
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
    write_all(joined(mixed(), accurate()), tmp_path)
    found = browser.accessibility(tmp_path / "report.html", dark)
    assert found["dark"] is dark
    assert found["violations"] == []
    assert found["width"] <= 1280


@pytest.mark.slow
@needs_browser
@pytest.mark.skipif(find_spec("axe_core_python") is None, reason="axe-core-python is not installed")
def test_axe_finds_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    style = "<style>body { color: #999; background: #fff }</style>"
    page.write_text(f"<!doctype html><html><head>{style}</head><body><p>Grey.</p></body></html>")
    found = {each["id"] for each in browser.accessibility(page, dark=False)["violations"]}
    assert {"color-contrast", "html-has-lang"} <= found


def joined(first: Report, second: Report) -> Report:
    return Report(first.certificate, [*first.rows, *second.rows[1:]], [*first.cases, *second.cases])


ATTACK = "a\x1b[2J\x9b31m\r\x00\x7f\ud800b"


def test_words_that_utf8_does_not_have_reach_every_file(
    fake: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A driver's version, in the journal, the reports, a comparison and the summary of a job."""
    monkeypatch.setenv("FAKE_VERSION", "card \udc80")
    first = fake.scenario("good", "compile_error").run()
    assert fake.run(resume=True).report.verdict == first.report.verdict
    file = str(fake.folder / "report.json")
    assert run(["conform", "verify", file]) == 0
    assert reports.load(Path(file)).certificate["device_versions"] == {"fake": "card \udc80"}
    for form in ("text", "json", "html", "markdown"):
        output = tmp_path / form
        assert (
            run(["conform", "matrix", file, file, "--format", form, "--output", str(output)]) == 0
        )
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


def test_examples_for_which_there_is_no_room_have_a_few_values_and_no_source() -> None:
    long = {"values": ["1"] * 16, "bits": ["0x1"] * 16}
    bad = []
    for number in range(200):
        case = failing(f"isa.bad{number}.int32.0", "x" * 12_000)
        inputs = [{**(case.details or {})["inputs"][0], **long}]
        case.details = {**(case.details or {}), "inputs": inputs, "actual": ["1"] * 16}
        bad.append(case)
    shown = [failure["details"] for failure in page_data(report_of(*bad))["failures"]]
    assert len(shown) == 200
    assert len(shown[0]["actual"]) == len(shown[0]["inputs"][0]["bits"]) == 16
    assert "source" in shown[0]
    assert len(shown[-1]["actual"]) == len(shown[-1]["inputs"][0]["bits"]) == 4
    assert not {"source", "ir", "script"} & set(shown[-1])


def test_crashes_and_timeouts_have_an_example_however_much_fails() -> None:
    bad = [failing(f"isa.bad{row}.int32.{i}") for row in range(150) for i in range(12)]
    report = report_of(*bad, ("isa.dies.int32.0", Status.CRASH), ("isa.x.int32.0", Status.TIMEOUT))
    data = page_data(report)
    shown = {data["failures"][place]["status"] for row in data["rows"] for place in row["failures"]}
    assert shown == {"Fail", "Crash", "Timeout"}


def accurate() -> Report:
    """Three rows that are not exact, one that is: of float32, against a limit of 2 ULP."""
    names = ("near", "over", "far", "exact")
    report = report_of(*((f"isa.{name}.float32.0", Status.PASS) for name in names))
    given = (
        Accuracy({0: 90, 1: 9, 2: 1}, {30: 1.0, 31: 2.0}, "float32", 1.0),
        Accuracy({0: 50, 66: 50}, {24: math.inf}, "float32", math.inf),
        Accuracy({0: 99, 1: 1}, {}, "", 0.25),
        Accuracy({0: 100}, share=0.0),
    )
    for row, accuracy in zip(report.rows[1:], given, strict=True):
        row.accuracy = accuracy
    report.rows[1].max_ulp, report.rows[1].p99_ulp = 2.0, 1.0
    return report


def test_rows_are_drawn_from_the_nearest_to_its_limit() -> None:
    shown, more, exact = drawn_rows(accurate())
    assert [row.id.split(".")[1] for row in shown] == ["over", "near", "far"]
    assert (more, exact) == (0, 1)
    over, near, far = shown
    assert (over.is_over, over.used, over.median) == (True, "over", "0")
    numbers = (near.median, near.p99, near.worst, near.limit, near.used, near.width)
    assert numbers == ("0", "1", "2", "2", "100%", 100)
    assert far.used == "25%"
    # A column each for 0, 1 and 2 ULP, by the logarithm of their counts; the largest is highest.
    assert near.histogram == "M0 40v-40h5v40zM6 40v-20h5v20zM12 40v-6h5v6z"
    assert near.over_range == "M90 40v-25h2v25zM93 40v-40h2v40z"
    assert near.operand == "worst from 7e-24 to 3e-20, float32"


def test_distances_times_and_clauses_in_few_words() -> None:
    assert [ulp(value) for value in (None, 0.0, 1.25, 99999.0, 2e5, math.inf)] == [
        *("", "0", "1.25", "1e+05", "2e+05", "∞"),
    ]
    report = mixed()
    rungs, operations = time_bars(report)
    assert [bar.name for bar in rungs] == ["open", "every operation"]
    assert {bar.words for bar in operations} == {"0.00 s"}
    (family,) = clause_families(report)
    assert (family.name, family.total, family.broken) == ("a", 1, 1)
    assert family.not_held == [("a.b", "broken", "The clause.")]


def test_the_page_opens_on_the_first_group_of_the_lowest_rung() -> None:
    higher, lower = failing("isa.mul.float32.0", "higher"), failing("memory.copy.int32.0", "lower")
    report = report_of(higher, lower)
    {row.id: row for row in report.rows}["memory.copy.int32"].rung = Rung.MEMORY
    text = html(report)
    assert text.count('<details class="card group" open>') == 1
    first = text.partition('<details class="card group" open>')[2].partition("</details>")[0]
    assert "memory.copy.int32.0" in first
    assert "isa.mul" not in first
    assert text.index("What is wrong") < text.index("The ladder")
    assert "What is wrong" not in html(report_of(("isa.a.0", Status.PASS)))
