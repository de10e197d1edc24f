"""Reports side by side: their ladders, the causes of failures, and the errors of rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyref.errors import UserError
from tinyref_conformance.diagnosis import common_name
from tinyref_conformance.ladder import RungReport, RungState
from tinyref_conformance.records import number_to_json
from tinyref_conformance.report import NOT_A_RUN, Report, RowResult, repro_command
from tinyref_conformance.reports.pictures import ulp
from tinyref_conformance.reports.tables import Page, Table
from tinyref_conformance.statuses import EXIT_AS_EXPECTED, Status
from tinyref_spec.case import Rung
from tinyref_spec.subjects.name import is_subject
from tinyref_spec.tensor.dense import DENSE

SCHEMA = "tinyref.conformance.matrix"
VERSION = 1
_SHORT = {RungState.BROKEN: "BROKEN", RungState.EMPTY: "."}
_WITHOUT_ANSWER = (Status.SKIP, Status.SUPPRESSED, Status.NOT_RUN)


@dataclass
class FailureCause:
    """A cause of failures, and the number of cases in each report, by the report's index."""

    rung: Rung
    cause: str
    advice: str
    rows: dict[str, None] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return common_name(list(self.rows))


class Matrix:
    """Reports side by side. Raises `UserError` if there is none."""

    def __init__(self, reports: Sequence[Report]) -> None:
        if not reports:
            raise UserError("matrix: name at least one report.json")
        self.reports = reports

    @property
    def heads(self) -> list[str]:
        """Return a name for each report."""
        return [f"{report.device}/{report.certificate['profile']}" for report in self.reports]

    @property
    def notes(self) -> list[str]:
        return [
            f"{report.device}: {NOT_A_RUN}: {'; '.join(report.reductions)}"
            for report in self.reports
            if not report.is_conformance_run
        ]

    def ladder(self) -> list[list[str]]:
        """Return a line for each rung and a cell for each report; last, if all is as expected."""
        climbed = [report.rungs for report in self.reports]
        lines = [[rung.title, *(_cell(rungs[rung]) for rungs in climbed)] for rung in Rung]
        fine = ["yes" if report.exit_code == EXIT_AS_EXPECTED else "NO" for report in self.reports]
        return [*lines, ["as expected", *fine]]

    def causes(self) -> list[FailureCause]:
        """Return the causes of failures in all reports, the lowest rung first."""
        merged: dict[tuple[Rung, str], FailureCause] = {}
        for index, report in enumerate(self.reports):
            for group in report.groups:
                key = (group.rung, group.cause)
                cause = merged.setdefault(key, FailureCause(group.rung, group.cause, group.advice))
                cause.rows |= dict.fromkeys(group.rows)
                cause.counts[index] = cause.counts.get(index, 0) + len(group.cases)
        return sorted(merged.values(), key=lambda cause: cause.rung)

    def errors(self) -> list[list[str]]:
        """Return a line for each row in which a device is inexact, or may be.

        A cell has the largest error and, in parentheses, the 99th percentile.
        """
        measured = [
            {row.id: row for row in report.rows if row.max_ulp is not None}
            for report in self.reports
        ]
        rules = {name: row.error_rule for rows in measured for name, row in rows.items()}
        lines = []
        for name, rule in rules.items():
            rows = [rows.get(name) for rows in measured]
            if name.endswith(DENSE):
                continue
            if not rule.startswith("Exact") or any(row and row.max_ulp for row in rows):
                lines.append([name, rule, *map(_error, rows)])
        return lines

    def accuracy(self) -> dict[str, dict[str, list[RowResult | None]]]:
        """Return the rows of thousands of inputs of each report, by type and by function."""
        rows_by_type: dict[str, dict[str, list[RowResult | None]]] = {}
        for number, report in enumerate(self.reports):
            for row in report.rows:
                if row.id.endswith(DENSE) and row.max_ulp is not None:
                    of_type = rows_by_type.setdefault(row.dtype, {})
                    empty: list[RowResult | None] = [None] * len(self.reports)
                    of_type.setdefault(row.op, empty)[number] = row
        return rows_by_type

    def _accuracy_tables(self) -> list[Table]:
        """Return what was measured by which command, and a table for each type."""
        rows_by_type = self.accuracy()
        if not rows_by_type:
            return []
        subjects = [_measured(report) for report in self.reports]
        names = [_subject(report) for report in self.reports]
        tables = [
            Table(
                f"How exact on {dtype}: the largest error in ULP, and its input",
                ("function", *names),
                [[function, *map(_worst, rows)] for function, rows in functions.items()],
            )
            for dtype, functions in rows_by_type.items()
        ]
        head = ("of", "versions", "processor", "command")
        return [Table("What was measured, and how", head, subjects), *tables]

    def _counts(self, cause: FailureCause) -> list[str]:
        counts = (cause.counts.get(index) for index in range(len(self.reports)))
        return ["." if count is None else f"{count:,}" for count in counts]

    def page(self) -> Page:
        """Return the matrix as tables."""
        causes = self.causes()
        failures = [
            (cause.rung.title, cause.where, cause.cause, *self._counts(cause), cause.advice or "-")
            for cause in causes
        ]
        tables = [
            Table("Ladder", ("rung", *self.heads), self.ladder()),
            Table(
                f"{len(causes):,} causes of failures",
                ("rung", "where", "cause", *self.heads, "what to do"),
                failures,
            ),
            *self._accuracy_tables(),
            Table("Largest errors in ULP", ("row", "rule", *self.heads), self.errors()),
        ]
        return Page(f"{len(self.reports)} devices side by side", self.notes, tables)

    def json(self) -> str:
        """Return the matrix as data with a version."""
        data = {
            "schema": SCHEMA,
            "version": VERSION,
            "reports": [_facts(report) for report in self.reports],
            "causes": [
                {
                    "rung": cause.rung.name,
                    "where": cause.where,
                    "cause": cause.cause,
                    "advice": cause.advice,
                    "cases": [cause.counts.get(index, 0) for index in range(len(self.reports))],
                }
                for cause in self.causes()
            ],
            "accuracy": [
                _figure(report, row)
                for functions in self.accuracy().values()
                for rows in functions.values()
                for report, row in zip(self.reports, rows, strict=True)
                if row is not None
            ],
        }
        return json.dumps(data, indent=1) + "\n"


def _facts(report: Report) -> dict[str, Any]:
    return {
        "device": report.device,
        "profile": report.certificate["profile"],
        "verdict": report.verdict,
        "as_expected": report.exit_code == EXIT_AS_EXPECTED,
        "conformance_run": report.is_conformance_run,
        "reductions": report.reductions,
        "rungs": {
            rung.rung.name: {
                "state": rung.state.value,
                "fine": _fine(rung),
                "required": _required(rung),
            }
            for rung in report.rungs
        },
    }


def _measured(report: Report) -> list[str]:
    """Return the cells about a report: its device, versions, processor and command."""
    facts = report.certificate
    versions = ", ".join(f"{name} {text}" for name, text in facts["device_versions"].items())
    settings = (facts["profile"], f"tensor.*{DENSE}", report.settings, facts.get("second", ""))
    command = repro_command(report.device, *settings)
    return [_subject(report), versions, facts.get("processor", ""), command]


def _subject(report: Report) -> str:
    return report.device if is_subject(report.device) else f"tinyref on {report.device}"


def _worst(row: RowResult | None) -> str:
    """Return the largest error and its input; a cross if the error is beyond its bound."""
    if row is None:
        return "-"
    is_beyond = any(status.is_broken or status is Status.EXPECTED_FAIL for status in row.counts)
    where = f" at {row.worst_input}" if row.worst_input else ""
    return f"{Status.FAIL.symbol + ' ' if is_beyond else ''}{ulp(row.max_ulp)}{where}"


def _figure(report: Report, row: RowResult) -> dict[str, Any]:
    """Return one figure of the tables, with the command that measures it."""
    facts = report.certificate
    second = facts.get("second", "")
    return {
        "device": report.device,
        "function": row.op,
        "dtype": row.dtype,
        "max_ulp": number_to_json(row.max_ulp),
        "p99_ulp": number_to_json(row.p99_ulp),
        "input": row.worst_input,
        "values": row.compared,
        "command": repro_command(report.device, facts["profile"], row.id, report.settings, second),
    }


def _error(row: RowResult | None) -> str:
    return "-" if row is None else f"{row.max_ulp:.3g} ({row.p99_ulp or 0:.3g})"


def _required(rung: RungReport) -> int:
    return sum(count for status, count in rung.counts.items() if status is not Status.SKIP)


def _fine(rung: RungReport) -> int:
    return sum(
        count
        for status, count in rung.counts.items()
        if not status.is_failure and status not in _WITHOUT_ANSWER
    )


def _cell(rung: RungReport) -> str:
    short = _SHORT.get(rung.state, rung.state.value)
    return f"{short} {_fine(rung):,}/{_required(rung):,}" if _required(rung) else short
