"""A run on a terminal: few lines of at most 100 columns, the causes of failures first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from tinyref_conformance.diagnosis import Group
from tinyref_conformance.records import headline
from tinyref_conformance.report import OPEN_CASE, CaseResult, Report
from tinyref_conformance.statuses import Status

COLUMNS = 100
# Columns of a line that the cause of a group has, after the rung and the number of cases.
TITLE = COLUMNS - 36
GROUPS = 12


def summary(report: Report) -> Iterator[str]:
    """Yield the verdict, total and time, a line for each group of failures, and an example."""
    yield report.verdict
    for reason in report.reductions:
        yield f"not a conformance run: {reason}"
    counts = ", ".join(
        f"{report.counts[status]:,} {status.value}" for status in Status if report.counts[status]
    )
    yield f"{count_cases(report.counts.total())} in {report.certificate['seconds']:.1f} s: {counts}"
    if report.scope is not None and report.scope.sentence:
        yield from textwrap.wrap(report.scope.sentence, COLUMNS, subsequent_indent="  ")
    groups = report.groups[:GROUPS]
    for group, name in zip(groups, distinct(map(title, groups)), strict=True):
        # The case that the device opens is not counted.
        count = "" if group.cases == [OPEN_CASE] else count_cases(len(group.cases))
        yield clip(f"  {group.rung.title:20} {count:>10}  {name}")
    if len(report.groups) > GROUPS:
        yield f"  and {len(report.groups) - GROUPS:,} more groups in the report"
    yield from _advice(report)
    yield from _example(report)


def distinct(titles: Iterable[str]) -> Iterator[str]:
    """Yield titles; of those that would look alike when cut, the middle is left out."""
    whole = list(titles)
    for text in whole:
        alike = {other for other in whole if other[:TITLE] == text[:TITLE]}
        start = _common_length(min(alike), max(alike)) if len(alike) > 1 else 0
        left = f"{text[: TITLE // 3]} … {text[text.rfind(' ', 0, start) + 1 :]}"
        yield left if start > TITLE else text


def title(group: Group) -> str:
    """Return the cause of failures, and what their rows have in common."""
    return f"{group.cause}: {group.where}"


def clip(line: str, columns: int = COLUMNS) -> str:
    """Return the line, cut if it is too long."""
    return line if len(line) <= columns else f"{line[: columns - 1]}…"


def count_cases(count: int) -> str:
    """Return "1 case" or "2 cases"."""
    return f"{count:,} case" if count == 1 else f"{count:,} cases"


def _advice(report: Report) -> Iterator[str]:
    if report.groups and report.groups[0].advice:
        yield from textwrap.wrap(
            f"what to do: {report.groups[0].advice}",
            COLUMNS,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )


def _example(report: Report) -> Iterator[str]:
    """Yield a case of the first group, or else the first failure, with its command."""
    by_id = {case.id: case for case in report.cases}
    chosen: list[CaseResult] = [by_id[group.cases[0]] for group in report.groups[:1]]
    for case in [*chosen, *report.failures][:1]:
        yield f"{case.status.value}: {case.id}: {headline(case.message)}"
        if difference := (case.details or {}).get("difference", ""):
            yield f"  {difference}"
        if case.repro:
            yield f"  {case.repro}"


def _common_length(first: str, last: str) -> int:
    """Return the number of characters with which two texts begin alike."""
    pairs = zip(first, last, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), len(first))
