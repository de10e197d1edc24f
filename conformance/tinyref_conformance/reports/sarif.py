"""SARIF 2.1.0 (OASIS), for code scanning in forges and editors: a result for each failure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tinyref_conformance.report import NOT_A_RUN, CaseResult, Report, RowResult
from tinyref_conformance.statuses import EXIT_AS_EXPECTED, Status

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
# The source of a fault is unknown, so results are located in the report.
LOCATED_IN = "report.json"


def is_result(case: CaseResult) -> bool:
    """Return True if a case is a result: it failed, or was expected to."""
    return case.status.is_failure or case.status is Status.EXPECTED_FAIL


def sarif(report: Report, first_line: int) -> str:
    """Return the log. Expected failures are suppressed in it, with their reason.

    first_line: the line of the first case in the JSON file, which has one case a line.
    """
    lines = {case.id: line for line, case in enumerate(report.cases, first_line)}
    failing = [case for case in report.cases if is_result(case)]
    causes = {name: group.cause for group in report.groups for name in group.cases}
    failing_rows = {case.row for case in failing}
    rows = [row for row in report.rows if row.id in failing_rows]
    numbers = {row.id: number for number, row in enumerate(rows)}
    run = {
        "tool": {"driver": _driver(report, rows)},
        "invocations": [_invocation(report)],
        "artifacts": [{"location": {"uri": LOCATED_IN}, "mimeType": "application/json"}],
        "results": [
            {
                **_result(case, numbers[case.row], causes),
                "locations": [_location(case, lines[case.id])],
            }
            for case in failing
        ],
        "properties": {
            "verdict": report.verdict,
            "conformanceRun": report.is_conformance_run,
            "device": report.device,
            "profile": report.certificate["profile"],
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _driver(report: Report, rows: list[RowResult]) -> dict[str, Any]:
    return {
        "name": "tinyref conform",
        "version": report.certificate["tinyref"],
        "rules": [_rule(row) for row in rows],
    }


def _rule(row: RowResult) -> dict[str, Any]:
    text = " ".join([row.sentence, *row.clause_sentences, row.error_rule])
    return {
        "id": row.id,
        "shortDescription": {"text": row.sentence or row.id},
        "fullDescription": {"text": text.strip() or row.id},
        "properties": {"rung": row.rung.title, "level": row.level, "dtype": row.dtype},
    }


def _invocation(report: Report) -> dict[str, Any]:
    """Return the invocation: problems of the run, and why it is reduced, are notifications."""
    notes = [("error", problem) for problem in report.problems]
    notes += [("note", f"{NOT_A_RUN}: {reason}") for reason in report.reductions]
    return {
        "executionSuccessful": not report.problems and not report.missing,
        "exitCode": report.exit_code,
        "exitCodeDescription": "as expected"
        if report.exit_code == EXIT_AS_EXPECTED
        else "failures",
        "toolExecutionNotifications": [
            {"level": level, "message": {"text": text}} for level, text in notes
        ],
    }


def _result(case: CaseResult, rule: int, causes: Mapping[str, str]) -> dict[str, Any]:
    result = {
        "ruleId": case.row,
        "ruleIndex": rule,
        "kind": "fail",
        "level": "error" if case.status.is_failure else "note",
        "message": {"text": f"{case.status.value}: {case.id}: {case.message}"},
        "partialFingerprints": {"case/v1": hashlib.sha256(case.id.encode()).hexdigest()},
        "properties": {
            "status": case.status.value,
            "phase": case.phase,
            "cause": causes.get(case.id, ""),
            "command": case.repro,
        },
    }
    if case.status is Status.EXPECTED_FAIL:
        result["suppressions"] = [{"kind": "external", "justification": case.message}]
    return result


def _location(case: CaseResult, line: int) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": LOCATED_IN, "index": 0},
            "region": {"startLine": line},
        },
        "logicalLocations": [{"fullyQualifiedName": case.id, "kind": "member"}],
    }
