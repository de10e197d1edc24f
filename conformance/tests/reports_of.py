"""Reports made by hand, for tests of their forms and comparisons."""

from __future__ import annotations

from typing import Any

from tinyref_conformance.conform import Finished
from tinyref_conformance.report import OPEN_CASE, CaseResult, Report, RowResult
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\x00 & \"'"


def certificate(**changes: Any) -> dict[str, Any]:
    return {
        "device": "FAKE",
        "profile": "quick",
        "suite": "fake",
        "suite_hash": "ab" * 32,
        "seed": 0,
        "query": "*",
        "shard": None,
        "cases_asked": 3,
        "cases_planned": 3,
        "cases_in_profile": 3,
        "reductions": [],
        "expected_failures": 0,
        "device_versions": {"driver": "1.0"},
        "capabilities": {"dtypes": ["int32"], "images": False},
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.5,
        "resumed_cases": 0,
        "tinyref": "0.1.0",
        "python": "3.11",
        "platform": "test",
        "machine": "test",
        "libraries": {"numpy": "2"},
        "git": {"commit": "c0ffee", "dirty": True},
        **changes,
    }


def report_of(
    *cases: tuple[str, Status] | CaseResult,
    rung: Rung = Rung.ALU,
    problems: tuple[str, ...] = (),
    **changes: Any,
) -> Report:
    """Return a report; the ids of its rows are the ids of cases up to the last dot."""
    rows = {OPEN_CASE: RowResult(OPEN_CASE, "It opens.", (), (), Rung.OPEN, "device", "", "", "")}
    results = [CaseResult(OPEN_CASE, OPEN_CASE, Status.PASS, compared=1)]
    for case in cases:
        if isinstance(case, tuple):
            case = CaseResult(case[0], case[0].rpartition(".")[0], case[1], compared=1)
        row = RowResult(
            case.row,
            f"The row {case.row}.",
            ("a.b",),
            ("The clause.",),
            rung,
            "isa",
            "ADD",
            case.row.rpartition(".")[2],
            "Within 2 ULP of the right value.",
            advice={"": "look at rounding"},
        )
        rows.setdefault(case.row, row)
        results.append(case)
    for result in results:
        rows[result.row].add(result)
    return Report(certificate(**changes), list(rows.values()), results, list(problems))


def failing(case_id: str, text: str = NASTY) -> CaseResult:
    value = {"name": text, "dtype": "float32", "shape": [1], "values": [text], "bits": ["0x1"]}
    details = {
        "inputs": [value],
        "expected": [text],
        "expected_bits": ["0x0"],
        "actual": ["1.0"],
        "actual_bits": ["0x1"],
        "index": 0,
        "source": text,
        "ir": text,
        "script": text,
    }
    return CaseResult(
        case_id,
        case_id.rpartition(".")[0],
        Status.FAIL,
        message=text,
        phase="accuracy",
        max_ulp=float("inf"),
        p99_ulp=3.0,
        worst_input=text,
        details=details,
        repro=f"tinyref conform --query {case_id}",
    )


def case_of(finished: Finished, case_id: str) -> CaseResult:
    return next(case for case in finished.report.cases if case.id == case_id)
