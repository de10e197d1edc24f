"""Two reports against each other: what changed, by its cause."""

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
# A worse ULP below this is noise of another seed or library, not a change worth a line.
ACCURACY_STEP = 0.05
# Cases that are named of each group.
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
    """One case that changed. before, after: its statuses, empty where it is not in the report."""

    case: str
    row: str
    before: str
    after: str
    message: str
    cause: str

    @property
    def words(self) -> str:
        """What changed, without the case."""
        if not self.after:
            return f"was {self.before}, is not in the newer report"
        return f"{self.before} -> {self.after}" if self.before else f"new, {self.after}"


@dataclass(frozen=True)
class ChangeGroup:
    """Changes that are alike: the same statuses, for the same cause."""

    changes: tuple[Change, ...]

    @property
    def where(self) -> str:
        """What the ids of their rows have in common."""
        return common_name(list(dict.fromkeys(change.row for change in self.changes)))

    @property
    def examples(self) -> list[str]:
        """The first of them."""
        return [change.case for change in self.changes[:_NAMED]]

    def to_json(self) -> dict[str, Any]:
        first = self.changes[0]
        return {
            "where": self.where,
            "before": first.before,
            "after": first.after,
            "cause": first.cause,
            "cases": [{"id": each.case, "message": each.message} for each in self.changes],
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
    """What changed from one report to the next, by the kinds of `KINDS`."""

    notes: list[str] = field(default_factory=list)
    changes: dict[str, list[Change]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    accuracy: list[AccuracyChange] = field(default_factory=list)

    @property
    def is_worse(self) -> bool:
        return bool(self.changes["regressions"])

    def groups(self, kind: str) -> list[ChangeGroup]:
        """The changes of a kind that are alike together, most first."""
        found: dict[tuple[str, str], list[Change]] = {}
        for change in self.changes[kind]:
            found.setdefault((change.words, change.cause), []).append(change)
        groups = [ChangeGroup(tuple(changes)) for changes in found.values()]
        return sorted(groups, key=lambda group: -len(group.changes))

    def page(self) -> Page:
        """Return it as tables, the worst first."""
        tables = [
            Table(
                f"{len(self.changes[kind]):,} {words}",
                _HEAD,
                [_cells(group) for group in self.groups(kind)],
            )
            for kind, words in KINDS.items()
        ]
        accuracy = [
            (each.row, f"{each.before:.4g}", f"{each.after:.4g}", each.word)
            for each in self.accuracy
        ]
        head = ("row", "ULP before", "ULP after", "")
        tables.append(Table(f"{len(accuracy):,} changes of accuracy", head, accuracy))
        count = len(self.changes["regressions"])
        title = f"{count:,} regressions" if count else "No regression"
        return Page(title, self.notes, tables)

    def json(self) -> str:
        """The same as data, versioned."""
        data = {
            "schema": SCHEMA,
            "version": VERSION,
            "worse": self.is_worse,
            "notes": self.notes,
            **{kind: [group.to_json() for group in self.groups(kind)] for kind in KINDS},
            "accuracy": [
                {"row": each.row, "before": str(each.before), "after": str(each.after)}
                for each in self.accuracy
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
    """Worse than before when it was not so: also a case that can no longer be run."""
    return status.is_failure or status is Status.SUPPRESSED


def compare(before: Report, after: Report) -> Comparison:
    """What `after` changed. A missing case counts as a regression unless `after` was reduced."""
    found = Comparison(notes=_notes(before, after))
    old = {case.id: case for case in before.cases}
    new = {case.id: case for case in after.cases}
    causes = _Causes(before, after)
    for case_id, was in old.items():
        now = new.get(case_id)
        for kind in _kinds(was, now, after):
            found.changes[kind].append(causes.change(was, now))
    for case in after.cases:
        if case.id not in old:
            for kind in ("new", "regressions") if _is_bad(case.status) else ("new",):
                found.changes[kind].append(causes.change(None, case))
    found.accuracy = _accuracy(before, after)
    return found


class _Causes:
    """What failures have in common, of either report."""

    def __init__(self, before: Report, after: Report) -> None:
        self._before = {name: group.cause for group in before.groups for name in group.cases}
        self._after = {name: group.cause for group in after.groups for name in group.cases}

    def change(self, was: CaseResult | None, now: CaseResult | None) -> Change:
        """With the cause for which it fails now or, where it does not any more, failed."""
        shown = now or was
        assert shown is not None, "a case is in one of the reports"
        cause = self._after.get(shown.id) or self._before.get(shown.id)
        message = now.message if now else ""
        if cause is None:
            cause = shape_of(message) if message else ""
        before, after = ("" if case is None else case.status.value for case in (was, now))
        return Change(shown.id, shown.row, before, after, message, cause)


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
    """Of which kinds a change is; none where the status is the same."""
    if now is None:
        is_worse = after.is_conformance_run and not _is_bad(was.status)
        return ("missing", "regressions") if is_worse else ("missing",)
    if was.status is now.status:
        return ()
    excused = now.status in (Status.SKIP, Status.EXPECTED_FAIL, Status.NOT_RUN)
    if _is_bad(now.status) and not _is_bad(was.status):
        return ("regressions",)
    if excused and was.status is Status.PASS:
        # What once worked and is now excused is a step back, however well it is explained.
        return ("regressions",)
    return ("fixes",) if _is_bad(was.status) and not _is_bad(now.status) else ("other",)


def _accuracy(before: Report, after: Report) -> list[AccuracyChange]:
    old = {row.id: row.max_ulp for row in before.rows}
    found = []
    for row in after.rows:
        was, now = old.get(row.id), row.max_ulp
        if was is None or now is None or was == now or (math.isnan(was) and math.isnan(now)):
            continue
        if not abs(now - was) < ACCURACY_STEP:
            found.append(AccuracyChange(row.id, was, now))
    return found
