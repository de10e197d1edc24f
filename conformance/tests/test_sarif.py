"""SARIF against its published schema, and what of a report is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reports_of import NASTY, failing, report_of

from tinyref_conformance.report import CaseResult, Report
from tinyref_conformance.reports import as_sarif, write_all
from tinyref_conformance.statuses import Status

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads(
    (Path(__file__).parents[2] / "tests" / "schemas" / "sarif-2.1.0-rtm.5.json").read_text()
)
EXPECTED = CaseResult(
    "isa.sub.int32.0", "isa.sub.int32", Status.EXPECTED_FAIL, message="expected: known (x.org)"
)
MIXED = report_of(
    ("isa.add.int32.0", Status.PASS),
    ("isa.add.int32.1", Status.CRASH),
    failing("isa.mul.float32.0", f"wrong {NASTY}"),
    failing("isa.mul.float32.1", "wrong"),
    EXPECTED,
    ("isa.neg.int32.0", Status.UNEXPECTED_PASS),
    reductions=["only shard 1/2"],
    problems=("the disk was full",),
)


def log_of(report: Report) -> Any:
    sarif = json.loads(as_sarif(report))
    validator = jsonschema.Draft4Validator(SCHEMA)
    assert [error.message for error in validator.iter_errors(sarif)] == []
    return sarif["runs"][0]


def test_each_failing_case_is_a_result_of_the_rule_of_its_row() -> None:
    run = log_of(MIXED)
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["isa.add.int32", "isa.mul.float32", "isa.sub.int32", "isa.neg.int32"]
    results = {
        result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]: result
        for result in run["results"]
    }
    assert list(results) == [
        "isa.add.int32.1",
        "isa.mul.float32.0",
        "isa.mul.float32.1",
        "isa.sub.int32.0",
        "isa.neg.int32.0",
    ]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in results.values())
    assert results["isa.add.int32.1"]["level"] == "error"
    assert results["isa.mul.float32.1"]["properties"]["command"].startswith("tinyref conform")
    prints = {result["partialFingerprints"]["case/v1"] for result in results.values()}
    assert len(prints) == len(results)


def test_what_is_expected_to_fail_is_suppressed_with_its_reason() -> None:
    results = log_of(MIXED)["results"]
    (suppressed,) = (result for result in results if "suppressions" in result)
    assert suppressed["ruleId"] == "isa.sub.int32"
    assert suppressed["level"] == "note"
    assert suppressed["suppressions"] == [
        {"kind": "external", "justification": "expected: known (x.org)"}
    ]


def test_what_is_wrong_with_the_run_is_said() -> None:
    run = log_of(MIXED)
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 1)
    notes = [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    assert notes == ["the disk was full", "not a conformance run: only shard 1/2"]
    good = log_of(report_of(("isa.add.int32.0", Status.PASS)))
    assert (good["results"], good["invocations"][0]["executionSuccessful"]) == ([], True)


def test_results_are_located_at_their_line_of_the_report(tmp_path: Path) -> None:
    write_all(MIXED, tmp_path)
    lines = (tmp_path / "report.json").read_text().split("\n")
    for result in json.loads((tmp_path / "report.sarif").read_text())["runs"][0]["results"]:
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "report.json"
        line = lines[location["physicalLocation"]["region"]["startLine"] - 1]
        name = location["logicalLocations"][0]["fullyQualifiedName"]
        assert json.loads(line.strip().rstrip(","))["id"] == name
