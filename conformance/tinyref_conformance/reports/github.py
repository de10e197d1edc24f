"""Annotations of GitHub Actions, and the summary of a job: what `--format github` prints."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tinyref.errors import UserError, printable_json
from tinyref_conformance.diagnosis import Group
from tinyref_conformance.report import NOT_A_RUN, CaseResult, Report
from tinyref_conformance.reports.markdown import markdown
from tinyref_conformance.reports.terminal import count_cases
from tinyref_conformance.statuses import Status

SUMMARY = "GITHUB_STEP_SUMMARY"
# GitHub shows this many errors of a step; the summary and the report have all.
MAX_ERRORS = 10


def workflow_commands(report: Report) -> str:
    """Return a workflow command for each cause of failures, the lowest rung first, and notes."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    problems = [("error", "the run", problem) for problem in report.problems]
    errors = [
        *problems,
        *(("error", _title(group), _text(report, group)) for group in report.groups),
        *(("error", Status.UNEXPECTED_PASS.value, text) for text in _stale_entries(report)),
    ]
    if report.missing:
        errors.append(("error", "the run", report.missing))
    first = errors if len(errors) <= MAX_ERRORS else errors[: MAX_ERRORS - 1]
    for kind, title, text in first:
        yield _command(kind, title, text)
    if len(first) < len(errors):
        left = f"{len(errors) - len(first):,} more causes are in the summary of the job"
        yield _command("error", "more failures", left)
    for reason in report.reductions:
        yield _command("notice", NOT_A_RUN, reason)
    yield _command("notice" if report.exit_code == 0 else "error", "verdict", report.verdict)


def _title(group: Group) -> str:
    return f"{group.rung.title}: {group.where}"


def _text(report: Report, group: Group) -> str:
    """Return the cause, what to do about it, and the command of its first case."""
    first = next(case for case in report.cases if case.id == group.cases[0])
    lines = [f"{count_cases(len(group.cases))}: {group.cause}", group.advice, first.repro]
    return "\n".join(line for line in lines if line)


def _stale_entries(report: Report) -> Iterator[str]:
    """Yield the cases of each stale entry of the expectations, what to do, and a command."""
    stale: dict[str, list[CaseResult]] = {}
    for case in report.cases:
        if case.status is Status.UNEXPECTED_PASS:
            stale.setdefault(case.message, []).append(case)
    for message, cases in stale.items():
        remedy = "remove these cases from the entry, or use --update-expectations"
        first = cases[0]
        yield f"{count_cases(len(cases))}, first {first.id}: {message}\n{remedy}\n{first.repro}"


def _command(kind: str, title: str, text: str) -> str:
    """Return a workflow command, with the escapes that GitHub specifies."""
    property_ = _data(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={property_}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def write_summary(report: Report, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Append the Markdown summary to the job's file and return its path; None without a file."""
    name = environment.get(SUMMARY)
    if not name:
        return None
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(printable_json(markdown(report)) + "\n")
    except OSError as error:
        raise UserError(f"{SUMMARY}: cannot write {name}: {error.strerror or error}") from error
    return Path(name)
