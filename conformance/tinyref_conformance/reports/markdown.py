"""A Markdown summary, for a pull request or a job page."""

from __future__ import annotations

from tinyref_conformance.certificate import facts_of
from tinyref_conformance.not_probed import not_probed
from tinyref_conformance.records import headline
from tinyref_conformance.report import CaseResult, Report
from tinyref_conformance.statuses import Status

MAX_FAILURES = 25


def markdown(report: Report) -> str:
    """Return the verdict, causes of failures, ladder, first failures and certificate."""
    parts = [f"# {cell(report.verdict)}", "", _counts_line(report), ""]
    if report.scope is not None and report.scope.sentence:
        parts += [f"{cell(report.scope.sentence.capitalize())}.", ""]
    for reason in report.reductions:
        parts += [f"**Not a conformance run**: {cell(reason)}.", ""]
    for problem in report.problems:
        parts += [f"**Problem**: {cell(problem)}", ""]
    parts += (
        _groups(report)
        + _ladder(report)
        + _not_probed(report)
        + _failures(report)
        + _certificate(report)
    )
    return "\n".join(parts) + "\n"


def _counts_line(report: Report) -> str:
    counts = report.counts
    return ", ".join(
        f"{counts[status]:,} {status.symbol} {status.value}" for status in Status if counts[status]
    )


def _groups(report: Report) -> list[str]:
    """Return the causes of failures, the lowest rung first."""
    if not report.groups:
        return []
    lines = [
        "## What is wrong",
        "",
        "| rung | cases | cause | where | advice |",
        "|---|---|---|---|---|",
    ]
    for group in report.groups[:MAX_FAILURES]:
        texts = (group.rung.title, str(len(group.cases)), group.cause, group.where, group.advice)
        lines.append(f"| {' | '.join(cell(text) for text in texts)} |")
    if len(report.groups) > MAX_FAILURES:
        lines.append(f"| | | {len(report.groups) - MAX_FAILURES:,} more in report.html | | |")
    return [*lines, ""]


def _ladder(report: Report) -> list[str]:
    lines = ["| | rung | state | cases |", "|---|---|---|---|"]
    for rung in report.own_rungs:
        counts = ", ".join(
            f"{rung.counts[status]:,} {status.value}" for status in Status if rung.counts[status]
        )
        lines.append(f"| {rung.state.symbol} | {rung.rung.title} | {rung.state.value} | {counts} |")
    return [*lines, ""]


def _not_probed(report: Report) -> list[str]:
    lines = [
        f"| {line.what} | {cell(line.tried)} | {cell(line.declared)} |"
        for line in not_probed(report)
    ]
    if not lines:
        return []
    head = ["## Not probed in this run", "", "| | tried at most | declared |", "|---|---|---|"]
    return [*head, *lines, ""]


def _failures(report: Report) -> list[str]:
    failing = report.failures
    if not failing and not report.missing:
        return []
    lines = ["## Failures", ""]
    for case in failing[:MAX_FAILURES]:
        lines += _failure(case)
    if len(failing) > MAX_FAILURES:
        lines += [f"... and {len(failing) - MAX_FAILURES:,} more in report.html", ""]
    if report.missing:
        lines += [f"{report.missing}.", ""]
    return lines


def _failure(case: CaseResult) -> list[str]:
    lines = [f"* `{case.id}` **{case.status.value}**: {cell(headline(case.message))}"]
    if case.repro:
        lines.append(f"  `{case.repro}`")
    return lines


def _certificate(report: Report) -> list[str]:
    facts = facts_of(report.certificate)
    lines = ["## Certificate", "", "| | |", "|---|---|"]
    return lines + [f"| {name} | {cell(value)} |" for name, value in facts]


def cell(text: str) -> str:
    """Return `text` on one line, with the markup of Markdown and HTML escaped."""
    flat = " ".join(text.split())
    for letter in "\\`*_[]|":
        flat = flat.replace(letter, f"\\{letter}")
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
