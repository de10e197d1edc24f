from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from reports_of import NASTY, failing, report_of

from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_conformance.compare import compare
from tinyref_conformance.matrix import Matrix
from tinyref_conformance.report import CaseResult, Report
from tinyref_conformance.reports import as_json
from tinyref_conformance.statuses import Status


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("PASS", "FAIL", "regressions"),
        ("PASS", "SKIP", "regressions"),
        ("EXPECTED_FAIL", "UNEXPECTED_PASS", "regressions"),
        ("SKIP", "FLAKE", "regressions"),
        ("FAIL", "PASS", "fixes"),
        ("FAIL", "CRASH", "other"),
        ("PASS", "PASS", ""),
    ],
)
def test_each_change_of_status_has_its_place(before: str, after: str, kind: str) -> None:
    diff = compare(report_of(("isa.a.0", Status[before])), report_of(("isa.a.0", Status[after])))
    assert [name for name, changes in diff.changes.items() if changes] == ([kind] if kind else [])
    assert diff.is_worse is (kind == "regressions")


def test_a_missing_case_is_a_regression_of_a_whole_run_only() -> None:
    before = report_of(("isa.a.0", Status.PASS), ("isa.b.0", Status.PASS))
    assert compare(before, report_of(("isa.a.0", Status.PASS))).is_worse
    part = report_of(("isa.a.0", Status.PASS), reductions=["a part"])
    diff = compare(before, part)
    assert not diff.is_worse
    (change,) = diff.changes["missing"]
    assert (change.case, change.words) == ("isa.b.0", "was Pass, is not in the newer report")


def measured(ulp: float) -> CaseResult:
    return CaseResult("isa.a.0", "isa.a", Status.PASS, compared=1, max_ulp=ulp)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (0.5, 0.5, []),
        (0.5, 2.0, ["worse"]),
        (2.0, 0.5, ["better"]),
        (float("inf"), float("inf"), []),
    ],
)
def test_changes_of_accuracy(before: float, after: float, says: list[str]) -> None:
    diff = compare(report_of(measured(before)), report_of(measured(after)))
    assert [change.word for change in diff.accuracy] == says


def test_the_text_says_what_is_not_comparable() -> None:
    diff = compare(
        report_of(("isa.a.0", Status.PASS)),
        report_of(failing("isa.a.0", "no card"), device="OTHER", suite_hash="x", profile="full"),
    )
    text = diff.page().text()
    assert "different devices" in text
    assert "the tables changed" in text
    assert "different profiles" in text
    assert "\n1 regressions\ncases  where  change        cause    such as\n" in text
    assert "\n1      isa.a  Pass -> Fail  no card  isa.a.0\n" in text


# Two causes: what is said differs in more than numbers.
WRONG = [failing(f"isa.{op}.float32.0", f"expected {n}, got 7") for n, op in enumerate("abcdef")]
HUNG = [failing(f"isa.{op}.int8.0", "no such card") for op in "gh"]
BEFORE = report_of(*((case.id, Status.PASS) for case in (*WRONG, *HUNG)))
AFTER = report_of(*WRONG, *HUNG)


def test_changes_that_are_alike_are_one_group() -> None:
    wrong, hung = compare(BEFORE, AFTER).groups("regressions")
    assert [change.case for change in wrong.changes] == [case.id for case in WRONG]
    assert [change.case for change in hung.changes] == [case.id for case in HUNG]
    assert wrong.where.endswith(".*.float32")
    text = compare(BEFORE, AFTER).page().text()
    assert "\n6      isa.{a,b,c,d,…}.*.float32  Pass -> Fail  " in text
    assert text.startswith("8 regressions\n")


def test_the_data_of_a_comparison_have_every_change() -> None:
    data = json.loads(compare(BEFORE, AFTER).json())
    assert (data["schema"], data["version"]) == ("tinyref.conformance.diff", 1)
    assert (data["worse"], data["fixes"], data["missing"]) == (True, [], [])
    first = data["regressions"][0]
    assert (first["before"], first["after"]) == ("Pass", "Fail")
    assert [case["id"] for case in first["cases"]] == [case.id for case in WRONG]
    assert first["cases"][1]["message"] == "expected 1, got 7"


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_a_comparison_shows_text_as_text(form: str) -> None:
    after = report_of(failing("isa.a.float32.0", NASTY))
    page = compare(report_of(("isa.a.float32.0", Status.PASS)), after).page()
    text = getattr(page, form)()
    assert "1 regressions" in text
    assert "isa.a.float32" in text
    assert "<script>" not in text
    assert "<img" not in text


ONE = report_of(*WRONG, ("isa.z.int32.0", Status.PASS), device="ONE")
TWO = report_of(WRONG[0], *HUNG, device="TWO")
PART = report_of(("isa.a.float32.0", Status.PASS), device="PART", reductions=["a part"])


def test_the_ladders_of_devices_side_by_side() -> None:
    text = Matrix([ONE, TWO, PART]).page().text()
    lines = {line[:20].strip(): line[20:].split() for line in text.splitlines()}
    assert lines["every operation"] == ["BROKEN", "1/7", "BROKEN", "0/3", "holds", "1/1"]
    assert lines["as expected"] == ["NO", "NO", "yes"]
    assert "PART: not a conformance run: a part" in text
    with pytest.raises(UserError, match="at least one"):
        Matrix([])


def test_a_cause_that_devices_share_is_one_line() -> None:
    wrong, hung = Matrix([ONE, TWO, PART]).causes()
    assert (wrong.counts, hung.counts) == ({0: 6, 1: 1}, {1: 2})
    assert wrong.where.endswith(".*.float32")
    data = json.loads(Matrix([ONE, TWO, PART]).json())
    assert (data["schema"], data["version"]) == ("tinyref.conformance.matrix", 1)
    assert [cause["cases"] for cause in data["causes"]] == [[6, 1, 0], [0, 2, 0]]
    assert [report["as_expected"] for report in data["reports"]] == [False, False, True]
    assert data["reports"][0]["rungs"]["ALU"] == {"state": "broken", "fine": 1, "required": 7}
    table = Matrix([ONE, TWO, PART]).page().markdown()
    assert "| every operation | BROKEN 1/7 | BROKEN 0/3 | holds 1/1 |" in table
    assert "| 6 | 1 | . |" in table


def test_the_errors_of_rows_have_a_column_for_each_device() -> None:
    rough = CaseResult("isa.a.0", "isa.a", Status.PASS, compared=1, max_ulp=2.5, p99_ulp=1.0)
    reports = [report_of(rough), report_of(("isa.b.0", Status.PASS), device="TWO")]
    (line,) = Matrix(reports).errors()
    assert line == ["isa.a", "Within 2 ULP of the right value.", "2.5 (1)", "-"]
    exact = report_of(measured(0.0))
    exact.rows[1].error_rule = "Exact: the bits."
    assert Matrix([exact]).errors() == []


EXP = "tensor.exp.float32.dense"


def dense(device: str, *figures: tuple[str, Status, float | None, str], **facts: Any) -> Report:
    """Return a report with a row of thousands of inputs for each figure: id, status, ULP, input."""
    cases = [
        CaseResult(f"{row}:0", row, status, compared=1, max_ulp=ulp, worst_input=worst)
        for row, status, ulp, worst in figures
    ]
    report = report_of(*cases, device=device, profile="full", **facts)
    for row in report.rows[1:]:
        _, row.op, row.dtype, _ = row.id.split(".")
    return report


def test_how_exact_functions_are_with_input_and_command() -> None:
    torch = dense("torch on cpu", (EXP, Status.PASS, 2.0, "0x1.8p+3"), processor="P 1")
    wrong = (EXP, Status.EXPECTED_FAIL, 427.0, "-0x1p-3")
    skipped = ("tensor.erf.float32.dense", Status.SKIP, None, "")
    exact = ("tensor.sqrt.float32.dense", Status.PASS, 0.0, "")
    matrix = Matrix([torch, dense("CPU", wrong, skipped, exact)])
    text = matrix.page().markdown()
    assert (
        """\
## What was measured, and how

| of | versions | processor | command |
| --- | --- | --- | --- |
| torch on cpu | driver 1.0 | P 1 | tinyref conform --subject torch --on cpu --profile full \
--query 'tensor.\\*.dense' |
| tinyref on CPU | driver 1.0 |  | tinyref conform --device CPU --profile full \
--query 'tensor.\\*.dense' |

## How exact on float32: the largest error in ULP, and its input

| function | torch on cpu | tinyref on CPU |
| --- | --- | --- |
| exp | 2 at 0x1.8p+3 | ✗ 427 at -0x1p-3 |
| sqrt | - | 0 |
"""
        in text
    )
    assert matrix.errors() == []
    figures = json.loads(matrix.json())["accuracy"]
    assert [figure["max_ulp"] for figure in figures] == [2.0, 427.0, 0.0]
    assert figures[0] == {
        "device": "torch on cpu",
        "function": "exp",
        "dtype": "float32",
        "max_ulp": 2.0,
        "p99_ulp": None,
        "input": "0x1.8p+3",
        "values": 1,
        "command": "tinyref conform --subject torch --on cpu --profile full "
        "--query tensor.exp.float32.dense",
    }


def test_the_page_of_accuracy_is_what_the_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text("utf-8")
    parts = re.findall(r"^## (How exact on|What was measured)(.*?)\n\n(.*?)\n\n", page, re.M | re.S)
    tables = {heading: [_cells(line) for line in text.splitlines()] for _, heading, text in parts}
    measured = tables.pop(", and how")[2:]
    reports = []
    for column, (name, versions, processor, _) in enumerate(measured, 1):
        figures = [
            _figure(cells[0], heading.split()[0].rstrip(":"), cells[column])
            for heading, lines in tables.items()
            for cells in lines[2:]
        ]
        device = name.removeprefix("tinyref on ")
        pairs = dict(text.split(" ", 1) for text in versions.split(", "))
        facts = {"processor": processor, "device_versions": pairs}
        reports.append(dense(device, *figures, **facts))
    assert len(reports) == 7
    printed = Matrix(reports).page().markdown()
    for first, heading, text in parts:
        assert f"## {first}{heading}\n\n{text}\n" in printed


def _cells(line: str) -> list[str]:
    return [text.strip() for text in line.replace("\\", "").strip("|").split(" | ")]


def _figure(function: str, dtype: str, text: str) -> tuple[str, Status, float | None, str]:
    """Return a row that prints as a cell of the page."""
    row = f"tensor.{function}.{dtype}.dense"
    if text == "-":
        return row, Status.SKIP, None, ""
    status = Status.FAIL if text.startswith("✗") else Status.PASS
    ulp, _, worst = text.removeprefix("✗ ").partition(" at ")
    return row, status, float(ulp.replace("∞", "inf")), worst


def test_the_commands_write_each_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, report in (("before", BEFORE), ("after", AFTER)):
        (tmp_path / f"{name}.json").write_text(as_json(report), encoding="utf-8")
    files = [str(tmp_path / "before.json"), str(tmp_path / "after.json")]
    assert run(["conform", "diff", *files, "--format", "markdown"]) == 1
    assert capsys.readouterr().out.startswith("# 8 regressions\n")
    page = tmp_path / "diff.html"
    assert run(["conform", "diff", *files, "--format", "html", "--out", str(page)]) == 1
    assert page.read_text().startswith("<!doctype html>")
    assert run(["conform", "matrix", *files, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["reports"]) == 2
    assert run(["conform", "matrix", *files, "--format", "pdf"]) == 2
    assert "format: got 'pdf', accepted are text, markdown, html" in capsys.readouterr().err
    assert run(["conform", "matrix", *files, "--out", str(tmp_path)]) == 2
    assert "out: cannot write" in capsys.readouterr().err
