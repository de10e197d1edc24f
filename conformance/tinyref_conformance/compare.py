"""Two reports against each other, and many side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyref.errors import UserError
from tinyref_conformance.ladder import RungState
from tinyref_conformance.report import NOT_A_RUN, CaseResult, Report
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung

_LISTED = 40
# A worse ULP below this is noise of another seed or library, not a change worth a line.
ACCURACY_STEP = 0.05


@dataclass
class Comparison:
    """What changed from one report to the next; each list is of lines ready to print."""

    header: list[str] = field(default_factory=list)
    regressions: list[str] = field(default_factory=list)
    fixes: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    accuracy: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def is_worse(self) -> bool:
        return bool(self.regressions)

    def text(self) -> str:
        """All of it, the worst first."""
        lines = list(self.header)
        for title, found in (
            ("regressions", self.regressions),
            ("fixes", self.fixes),
            ("other changes of status", self.other),
            ("changes of accuracy", self.accuracy),
            ("new cases", self.new),
            ("missing cases", self.missing),
        ):
            lines.append(f"{len(found):,} {title}")
            lines += [f"  {line}" for line in found[:_LISTED]]
            if len(found) > _LISTED:
                lines.append(f"  ... and {len(found) - _LISTED:,} more")
        return "\n".join(lines) + "\n"


def _is_bad(status: Status) -> bool:
    """Worse than before when it was not so: also a case that can no longer be run."""
    return status.is_failure or status is Status.SUPPRESSED


def compare(before: Report, after: Report) -> Comparison:
    """What `after` changed. A missing case counts as a regression unless `after` was reduced."""
    found = Comparison(header=_header(before, after))
    old = {case.id: case for case in before.cases}
    new = {case.id: case for case in after.cases}
    for case_id, was in old.items():
        now = new.get(case_id)
        if now is None:
            _note_missing(found, was, after)
        else:
            _note_change(found, was, now)
    found.new = [f"{case.id}: {case.status.value}" for case in after.cases if case.id not in old]
    found.regressions += [
        f"{case.id}: new, {case.status.value}: {_first_line(case.message)}"
        for case in after.cases
        if case.id not in old and _is_bad(case.status)
    ]
    found.accuracy = _accuracy(before, after)
    return found


def _header(before: Report, after: Report) -> list[str]:
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


def _note_missing(found: Comparison, was: CaseResult, after: Report) -> None:
    line = f"{was.id}: was {was.status.value}, is not in the newer report"
    found.missing.append(line)
    if after.is_conformance_run and not _is_bad(was.status):
        found.regressions.append(line)


def _note_change(found: Comparison, was: CaseResult, now: CaseResult) -> None:
    if was.status is now.status:
        return
    line = f"{now.id}: {was.status.value} -> {now.status.value}"
    if now.message:
        line += f": {_first_line(now.message)}"
    if _is_bad(now.status) and not _is_bad(was.status):
        found.regressions.append(line)
    elif (
        now.status in (Status.SKIP, Status.EXPECTED_FAIL, Status.NOT_RUN)
        and was.status is Status.PASS
    ):
        # What once worked and is now excused is a step back, however well it is explained.
        found.regressions.append(line)
    elif _is_bad(was.status) and not _is_bad(now.status):
        found.fixes.append(line)
    else:
        found.other.append(line)


def _first_line(message: str) -> str:
    return message.partition("\n")[0]


def _accuracy(before: Report, after: Report) -> list[str]:
    old = {row.id: row.max_ulp for row in before.rows}
    lines = []
    for row in after.rows:
        was, now = old.get(row.id), row.max_ulp
        if was is None or now is None or was == now or (math.isnan(was) and math.isnan(now)):
            continue
        if not abs(now - was) < ACCURACY_STEP:
            word = "better" if now < was else "worse"
            lines.append(f"{row.id}: {was:.4g} -> {now:.4g} ULP ({word})")
    return lines


_SHORT = {
    RungState.HOLDS: "holds",
    RungState.BROKEN: "BROKEN",
    RungState.SUPPRESSED: "suppressed",
    RungState.SKIPPED: "not owed",
    RungState.INCOMPLETE: "incomplete",
    RungState.EMPTY: ".",
}


def side_by_side(reports: Sequence[Report]) -> str:
    """A table: a line a rung, a column a report. Raises `UserError` for no report at all."""
    if not reports:
        raise UserError("matrix: name at least one report.json")
    heads = [
        f"{report.certificate['device']}/{report.certificate['profile']}" for report in reports
    ]
    climbed = [report.rungs for report in reports]
    lines = [["", *heads]]
    for rung in Rung:
        lines.append(
            [rung.title, *(_cell(rungs[rung].state, rungs[rung].counts) for rungs in climbed)]
        )
    lines.append(["as expected", *("yes" if report.exit_code == 0 else "NO" for report in reports)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    table = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    notes = "".join(
        f"{report.certificate['device']}: {NOT_A_RUN}: {'; '.join(report.reductions)}\n"
        for report in reports
        if not report.is_conformance_run
    )
    return f"{table}\n{notes}"


def _cell(state: RungState, counts: dict[Status, int]) -> str:
    owed = sum(count for status, count in counts.items() if status is not Status.SKIP)
    if not owed:
        return _SHORT[state]
    fine = sum(
        count
        for status, count in counts.items()
        if not status.is_failure and status not in (Status.SKIP, Status.SUPPRESSED, Status.NOT_RUN)
    )
    return f"{_SHORT[state]} {fine:,}/{owed:,}"
