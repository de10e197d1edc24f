"""One self-contained HTML page: no other file, no network, works from file://."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from tinyref.dtype import dtypes
from tinyref_conformance.certificate import capabilities_of, facts_of
from tinyref_conformance.ladder import RungReport
from tinyref_conformance.not_probed import not_probed
from tinyref_conformance.records import number_to_json
from tinyref_conformance.report import CaseResult, Report, RowResult
from tinyref_conformance.reports.pictures import (
    clause_families,
    drawn_rows,
    time_bars,
    ulp_limit,
)
from tinyref_conformance.statuses import BROKEN, EXIT_AS_EXPECTED, MEASURED, Status
from tinyref_spec.case import Rung

# The failures on the page: an example of each row, more if there is room, and the details of
# the first ones. report.json has all of them.
FAILURES_A_ROW = 12
FAILURES_IN_ALL = 1500
TEXT_LENGTH = 12_000
MAX_TEXT = 1_500_000
GROUPS = 60
_LONG = ("source", "ir", "script", "tool_script", "log")

# Labels of the columns of a histogram.
DISTANCES = ("0", "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "∞")
_PACKAGE = "tinyref_conformance.reports.page"
# Worst first: the order of rows, and the order in which cells choose their symbol.
_RANKED = (
    Status.CRASH,
    Status.TIMEOUT,
    Status.FAIL,
    Status.FLAKE,
    Status.UNEXPECTED_PASS,
    Status.MISSING,
    Status.EXPECTED_FAIL,
    Status.NOT_RUN,
    Status.SUPPRESSED,
    Status.PASS,
    Status.UNSUPPORTED,
    Status.SKIP,
)
_TONES = {
    Status.PASS: "pass",
    Status.UNSUPPORTED: "pass",
    Status.EXPECTED_FAIL: "warn",
    Status.FLAKE: "warn",
    Status.UNEXPECTED_PASS: "warn",
    Status.MISSING: "warn",
    Status.SUPPRESSED: "info",
    Status.NOT_RUN: "warn",
    Status.SKIP: "none",
}
_DETAILED = BROKEN | {Status.EXPECTED_FAIL, Status.UNEXPECTED_PASS}
_GOOD = frozenset({Status.PASS, Status.UNSUPPORTED, Status.EXPECTED_FAIL, Status.SKIP})


def tone(status: Status) -> str:
    """Return the colour of a status; its symbol says the same without colour."""
    return _TONES.get(status, "fail")


def html(report: Report) -> str:
    """Return the page. Texts of devices are data, never markup."""
    script = _read("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_read("report.html.j2")).render(
        report=report,
        certificate=report.certificate,
        css=Markup(_read("report.css")),
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
        data=Markup(packed(page_data(report))),
        groups=_groups(report),
        more_groups=max(len(report.groups) - GROUPS, 0),
        drawn=drawn_rows(report),
        times=time_bars(report),
        families=clause_families(report),
        columns=DISTANCES,
        seal=_seal(report),
        chips=list(_chips(report.counts)),
        legend=[_chip(status, 0) for status in _RANKED],
        not_probed=not_probed(report),
        rungs=[_rung(rung, report.first_broken) for rung in report.own_rungs],
        facts=[*facts_of(report.certificate), *capabilities_of(report.certificate)],
    )


def _read(name: str) -> str:
    return resources.files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")


def packed(data: Any) -> str:
    """Return data as compressed JSON in base64, which cannot end a script element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A file cannot hold a lone surrogate.
    whole = text.encode("utf-8", errors="replace")
    return base64.b64encode(gzip.compress(whole, mtime=0)).decode()


def _groups(report: Report) -> list[dict[str, Any]]:
    """Return the groups of failures with an example each, which need no script to be shown."""
    by_id = {case.id: case for case in report.cases}
    return [
        {
            "cause": group.cause,
            "advice": group.advice,
            "where": group.where,
            "rung": group.rung.title,
            "rows": group.rows,
            "cases": len(group.cases),
            "chips": [_chip(status, count) for status, count in group.statuses.items()],
            "example": by_id[group.cases[0]],
            "difference": (by_id[group.cases[0]].details or {}).get("difference", ""),
        }
        for group in report.groups[:GROUPS]
    ]


def page_data(report: Report) -> dict[str, Any]:
    """Return what the page's script needs: every row, an example of each that fails, then more."""
    failures: list[dict[str, Any]] = []
    left = MAX_TEXT
    by_row: dict[str, list[CaseResult]] = {}
    reasons: dict[str, str] = {}
    for case in report.cases:
        if case.status in _DETAILED:
            by_row.setdefault(case.row, []).append(case)
        elif case.status not in _GOOD or case.status is Status.SKIP:
            reasons.setdefault(case.row, f"{case.status.value}: {case.message}")
    rows = []
    clauses: dict[str, str] = {}
    for number, row in enumerate(report.rows):
        clauses.update(zip(row.clauses, row.clause_sentences, strict=True))
        failing = by_row.get(row.id, [])
        room = max(min(FAILURES_A_ROW, FAILURES_IN_ALL - len(failures)), 1)
        chosen = failing[:room]
        indices = range(len(failures), len(failures) + len(chosen))
        for case in chosen:
            failures.append(_failure(case, is_whole=left > 0))
            left -= sum(len(failures[-1]["details"].get(name, "")) for name in _LONG)
        entry = _row(row, number, list(indices), len(failing) - len(chosen))
        rows.append({**entry, "why": reasons.get(row.id, "")})
    return {
        "statuses": [
            {
                "name": status.value,
                "symbol": status.symbol,
                "tone": tone(status),
                "good": status in _GOOD,
            }
            for status in _RANKED
        ],
        "rungs": [rung.title for rung in Rung],
        "dtypes": [dtype.name for dtype in dtypes.all],
        "clauses": clauses,
        "rows": rows,
        "failures": failures,
    }


def _row(row: RowResult, number: int, failures: list[int], hidden: int) -> dict[str, Any]:
    return {
        "id": row.id,
        "number": number,
        "sentence": row.sentence,
        "clauses": list(row.clauses),
        "rung": int(row.rung),
        "level": row.level,
        "op": row.op,
        "dtype": row.dtype,
        "rule": row.error_rule,
        "limit": ulp_limit(row.error_rule),
        "counts": {status.value: row.counts[status] for status in _RANKED if row.counts[status]},
        "compared": row.compared,
        "seconds": round(row.seconds, 6),
        "max": number_to_json(row.max_ulp),
        "p99": number_to_json(row.p99_ulp),
        "input": row.worst_input,
        "observed": row.observed,
        "failures": failures,
        "hidden": hidden,
    }


def _failure(case: CaseResult, is_whole: bool) -> dict[str, Any]:
    known = (case.details or {}) if is_whole else {}
    details = {key: _clip_value(value) for key, value in known.items()}
    return {
        "id": case.id,
        "status": case.status.value,
        "message": _clip_value(case.message),
        "phase": case.phase,
        "attempts": case.attempts,
        "max": number_to_json(case.max_ulp),
        "input": case.worst_input,
        "repro": case.repro,
        "details": details,
    }


def _clip_value(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_LENGTH:
        return f"{value[:TEXT_LENGTH]}\n... the rest is in report.json"
    return value


def _seal(report: Report) -> dict[str, str]:
    if report.exit_code != EXIT_AS_EXPECTED:
        return {"tone": "fail", "symbol": "✗"}
    if not report.is_conformance_run:
        return {"tone": "warn", "symbol": "~"}
    return {"tone": "pass", "symbol": "✓"}


def _chips(counts: Counter[Status]) -> Iterator[dict[str, Any]]:
    for status in _RANKED:
        if counts[status]:
            yield _chip(status, counts[status])


def _chip(status: Status, count: int) -> dict[str, Any]:
    return {
        "status": status.value,
        "symbol": status.symbol,
        "sentence": status.sentence,
        "tone": tone(status),
        "count": count,
    }


def _rung(report: RungReport, first_broken: Rung | None) -> dict[str, Any]:
    asked = {status: n for status, n in report.counts.items() if status is not Status.SKIP}
    return {
        "number": int(report.rung),
        "title": report.rung.title,
        "sentence": report.rung.sentence,
        "state": report.state.value,
        "tone": report.state.tone,
        "symbol": report.state.symbol,
        "total": sum(asked.values()),
        "skipped": report.counts[Status.SKIP],
        "all": sum(report.counts.values()),
        "good": sum(n for status, n in asked.items() if status in _GOOD and status in MEASURED),
        "is_first_broken": report.rung is first_broken,
    }
