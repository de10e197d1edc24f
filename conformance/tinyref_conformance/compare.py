"""Two reports compared: what changed, by its cause."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyref_conformance.diagnosis import common_name, shape_of
from tinyref_conformance.records import headline
from tinyref_conformance.report import CaseResult, Report
from tinyref_conformance.reports.tables import Page, Table
from tinyref_conformance.statuses import Status

SCHEMA = "tinyref.conformance.diff"
VERSION = 1
# A smaller increase in ULP is noise of another seed or library.
ACCURACY_STEP = 0.05
# Number of cases that a group names.
_NAMED = 3
# The kinds of changes, the worst first, in words.
KINDS = {
    "regressions": "regressions",
    "fixes": "fixes",
    "other": "other changes of status",
    "new": "new cases",
    "missing": "missing cases",
}
_HEAD = ("cases", "where", "change", "cause", "such as")


@dataclass(frozen=True)
class Change:
    """A case that changed. before, after: its statuses, empty if it is not in the report."""

    case: str
    row: str
    before: str
    after: str
    message: str
    cause: str

    @property
    def words(self) -> str:
        """Return the change without the case."""
        if not self.after:
            return f"was {self.before}, is not in the newer report"
        return f"{self.before} -> {self.after}" if self.before else f"new, {self.after}"


@dataclass(frozen=True)
class ChangeGroup:
    """Changes with the same statuses and the same cause."""

    changes: tuple[Change, ...]

    @property
    def where(self) -> str:
        """Return what the ids of their rows have in common."""
        return common_name(list(dict.fromkeys(change.row for change in self.changes)))

    @property
    def examples(self) -> list[str]:
        """Return the first changed cases."""
        return [change.case for change in self.changes[:_NAMED]]

    def to_json(self) -> dict[str, Any]:
        first = self.changes[0]
        return {
            "where": self.where,
            "before": first.before,
            "after": first.after,
            "cause": first.cause,
            "cases": [{"id": change.case, "message": change.message} for change in self.changes],
        }


@dataclass(frozen=True)
class AccuracyChange:
    """The largest error of a row, before and after, in ULP."""

    row: str
    before: float
    after: float

    @property
    def word(self) -> str:
        return "better" if self.after < self.before else "worse"


@dataclass
class Comparison:
    """The changes from one report to the next, by the kinds of `KINDS`."""

    notes: list[str] = field(default_factory=list)
    changes: dict[str, list[Change]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    accuracy: list[AccuracyChange] = field(default_factory=list)

    @property
    def is_worse(self) -> bool:
        return bool(self.changes["regressions"])

    def groups(self, kind: str) -> list[ChangeGroup]:
        """Return the groups of a kind, the largest first."""
        by_cause: dict[tuple[str, str], list[Change]] = {}
        for change in self.changes[kind]:
            by_cause.setdefault((change.words, change.cause), []).append(change)
        groups = [ChangeGroup(tuple(changes)) for changes in by_cause.values()]
        return sorted(groups, key=lambda group: -len(group.changes))

    def page(self) -> Page:
        """Return the comparison as tables, the worst first."""
        tables = [
            Table(
                f"{len(self.changes[kind]):,} {words}",
                _HEAD,
                [_cells(group) for group in self.groups(kind)],
            )
            for kind, words in KINDS.items()
        ]
        accuracy = [
            (row.row, f"{row.before:.4g}", f"{row.after:.4g}", row.word) for row in self.accuracy
        ]
        head = ("row", "ULP before", "ULP after", "")
        tables.append(Table(f"{len(accuracy):,} changes of accuracy", head, accuracy))
        count = len(self.changes["regressions"])
        title = f"{count:,} regressions" if count else "No regression"
        return Page(title, self.notes, tables)

    def json(self) -> str:
        """Return the comparison as data with a version."""
        data = {
            "schema": SCHEMA,
            "version": VERSION,
            "worse": self.is_worse,
            "notes": self.notes,
            **{kind: [group.to_json() for group in self.groups(kind)] for kind in KINDS},
            "accuracy": [
                {"row": row.row, "before": str(row.before), "after": str(row.after)}
                for row in self.accuracy
            ],
        }
        return json.dumps(data, indent=1) + "\n"


def _cells(group: ChangeGroup) -> Sequence[str]:
    first = group.changes[0]
    named = ", ".join(group.examples)
    count = len(group.changes)
    cause = headline(first.message) if count == 1 else first.cause
    return (f"{count:,}", group.where, first.words, cause or "-", named)


def _is_bad(status: Status) -> bool:
    """Return True for a failure, or a case that can no longer be run."""
    return status.is_failure or status is Status.SUPPRESSED


def compare(before: Report, after: Report) -> Comparison:
    """Return what changed. A missing case is a regression unless `after` was reduced."""
    comparison = Comparison(notes=_notes(before, after))
    old = {case.id: case for case in before.cases}
    new = {case.id: case for case in after.cases}
    causes = _Causes(before, after)
    for case_id, was in old.items():
        now = new.get(case_id)
        for kind in _kinds(was, now, after):
            comparison.changes[kind].append(causes.change(was, now))
    for case in after.cases:
        if case.id not in old:
            for kind in ("new", "regressions") if _is_bad(case.status) else ("new",):
                comparison.changes[kind].append(causes.change(None, case))
    comparison.accuracy = _accuracy(before, after)
    return comparison


class _Causes:
    """The causes of failures in both reports."""

    def __init__(self, before: Report, after: Report) -> None:
        self._before = {name: group.cause for group in before.groups for name in group.cases}
        self._after = {name: group.cause for group in after.groups for name in group.cases}

    def change(self, was: CaseResult | None, now: CaseResult | None) -> Change:
        """Return the change with the cause of its failure or, if it is fixed, the former one."""
        result = now or was
        assert result is not None, "a case is in one of the reports"
        cause = self._after.get(result.id) or self._before.get(result.id)
        message = now.message if now else ""
        if cause is None:
            cause = shape_of(message) if message else ""
        before, after = ("" if case is None else case.status.value for case in (was, now))
        return Change(result.id, result.row, before, after, message, cause)


def _notes(before: Report, after: Report) -> list[str]:
    lines = []
    for name, report in (("before", before), ("after", after)):
        facts = report.certificate
        lines.append(f"{name}: {report.verdict} ({facts['started']}, tinyref {facts['tinyref']})")
    if before.certificate["device"] != after.certificate["device"]:
        lines.append("note: the two reports are of different devices")
    if before.certificate["suite_hash"] != after.certificate["suite_hash"]:
        lines.append("note: the tables changed between the two")
    for key, words in (("compiler", "compiler"), ("backend_sources", "sources of the backend")):
        was, now = before.certificate.get(key), after.certificate.get(key)
        if was and now and was != now:
            lines.append(f"note: other {words}: {was} -> {now}")
    if before.settings != after.settings:
        lines.append(f"note: other flags: {_flags(before)} -> {_flags(after)}")
    if before.certificate["profile"] != after.certificate["profile"]:
        lines.append("note: the two reports are of different profiles")
    return lines


def _flags(report: Report) -> str:
    return " ".join(f"{name}={value}" for name, value in report.settings.items()) or "(none)"


def _kinds(was: CaseResult, now: CaseResult | None, after: Report) -> tuple[str, ...]:
    """Return the kinds of a change; none if the status is the same."""
    if now is None:
        is_worse = after.is_conformance_run and not _is_bad(was.status)
        return ("missing", "regressions") if is_worse else ("missing",)
    if was.status is now.status:
        return ()
    excused = now.status in (Status.SKIP, Status.EXPECTED_FAIL, Status.NOT_RUN)
    if _is_bad(now.status) and not _is_bad(was.status):
        return ("regressions",)
    if excused and was.status is Status.PASS:
        # A case that passed and is now excused is a step back, even with a good reason.
        return ("regressions",)
    return ("fixes",) if _is_bad(was.status) and not _is_bad(now.status) else ("other",)


def _accuracy(before: Report, after: Report) -> list[AccuracyChange]:
    old = {row.id: row.max_ulp for row in before.rows}
    changes = []
    for row in after.rows:
        was, now = old.get(row.id), row.max_ulp
        if was is None or now is None or was == now or (math.isnan(was) and math.isnan(now)):
            continue
        if not abs(now - was) < ACCURACY_STEP:
            changes.append(AccuracyChange(row.id, was, now))
    return changes
