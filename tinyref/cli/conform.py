"""`tinyref conform`: run the suite on one device. Commands on its reports: `report_commands.py`."""

from __future__ import annotations

import heapq
import math
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref.cli.options import (
    check_gives_values,
    device_name,
    device_option,
    duration_option,
    file_option,
    flag,
    jobs_option,
    memory_size,
    named,
    out_option,
    query_option,
    report_fewer_workers,
    until_stopped,
)
from tinyref.cli.report_commands import (
    check_format,
    compile_kernels,
    diff,
    export,
    faulty,
    matrix,
    merge,
    report_folder,
    verify,
)
from tinyref.cli.terminal import print_styled
from tinyref.errors import UserError

if TYPE_CHECKING:
    from tinyref_conformance.conform import ConformRequest, Finished
    from tinyref_conformance.report import Report
    from tinyref_conformance.statuses import Status

_HELP = """Run the conformance suite on a device and write reports.

\b
Examples:
  tinyref conform -d CPU                             the quick profile; reports in ./conformance-CPU
  tinyref conform -d CPU --profile full -j 8         every exhaustive table
  tinyref conform -d MINE -q "isa.binary.mod.*"      some cases, to work on
  tinyref conform -d MINE -q rung:gates              the cases of a rung
  tinyref conform -d MINE --last-failed              the cases that failed the last time
  tinyref conform -d MINE --budget 5m                the most telling cases of five minutes
  tinyref conform -d MINE --resume                   continue after Ctrl-C or a power cut
  tinyref conform -d MINE --shard 2/4                a quarter, for four machines
  tinyref conform -d MINE --cluster tcp://HOST:8786  on the machines of a Dask cluster
  tinyref conform -d MINE --sequence A,B,C           in one worker: C fails after A and B
  tinyref conform -d MINE --second CPU -q system     copies between these two devices
  tinyref conform --subject torch --on cpu           test PyTorch with the tensor rows
  tinyref conform --subject array-api:cupy --on default
  tinyref conform diff before.json after.json        compare two reports

A device is a name of `tinyref devices`, or package.module:ClassName before it is installed.
The reports: report.html (open it in any browser, no server needed), report.json, junit.xml,
report.sarif, summary.md, badge.svg. Exit code 0: all as expected. 1: failures. 2: wrong usage.
"""

FORMATS = ("text", "github")
SKIP_REASONS = 6
# Bytes of --case-list: the ids of all cases have fewer.
LONGEST_LIST = 1 << 24
# Seconds to run failures again, by the value of --rerun-failures.
RERUN_SECONDS = {None: 60.0, True: math.inf, False: 0.0}

conform_app = typer.Typer(rich_markup_mode=None, invoke_without_command=True, help=_HELP)


@conform_app.callback(help=_HELP)
def conform(
    context: typer.Context,
    device: Annotated[str | None, device_option()] = None,
    second: Annotated[
        str,
        named(
            "--second",
            "NAME",
            "The other device of rows that take two (default: the next of the same kind).",
        ),
    ] = "",
    subject: Annotated[
        str,
        named(
            "--subject",
            "LIBRARY",
            "Test a library with the tensor rows instead of a device: torch, torch-compile, numpy, "
            "jax, jax-jit, mlx, mlx-compile, tinygrad, onnxruntime, array-api:MODULE, or "
            "PACKAGE:CLASS of your own.",
        ),
    ] = "",
    on: Annotated[
        str,
        named(
            "--on",
            "NAME",
            "With --subject: the device, by the library's name for it (default: cpu, and the "
            "library's own default for array-api:MODULE and PACKAGE:CLASS).",
        ),
    ] = "",
    imports: Annotated[
        list[str] | None,
        named("--import", "PACKAGE", "With --subject: a package that registers the device."),
    ] = None,
    profile: Annotated[str, named("--profile", "NAME", "The set of cases: quick or full.")] = (
        "quick"
    ),
    query: Annotated[
        str, query_option("Run only these cases: ids, prefixes or globs, joined by commas.")
    ] = "*",
    case_list: Annotated[
        Path | None,
        file_option("--case-list", "Run only the cases of this file: an id a line, # comments."),
    ] = None,
    last_failed: Annotated[
        bool, flag("--last-failed", "Run only the cases that failed in the last report.")
    ] = False,
    out: Annotated[
        Path | None,
        out_option("Write the reports to this folder (default: ./conformance-DEVICE)."),
    ] = None,
    jobs: Annotated[int, jobs_option()] = 0,
    cluster: Annotated[
        str,
        named("--cluster", "ADDRESS", "Run on a Dask scheduler, such as tcp://10.0.0.7:8786."),
    ] = "",
    timeout: Annotated[
        float,
        duration_option(
            "--timeout",
            "Stop a case after this much processor time, or as much wall time if it sleeps "
            "(default: 30s).",
        ),
    ] = 30.0,
    budget: Annotated[
        float | None,
        duration_option(
            "--budget",
            "Stop the run after this time, such as 90s, 5m, 1h; the most telling cases come first.",
        ),
    ] = None,
    memory_limit: Annotated[
        int | None,
        named(
            "--memory-limit",
            "SIZE",
            "Memory of a worker, such as 512M, 4G (default: its share of the machine).",
            parser=memory_size,
        ),
    ] = None,
    resume: Annotated[bool, flag("--resume", "Continue the interrupted run in the folder.")] = (
        False
    ),
    restart: Annotated[
        bool,
        flag("--restart", "With --resume: start over if device, flags or suite changed."),
    ] = False,
    shard: Annotated[str, named("--shard", "I/N", "Run only part i of n, such as 2/4.")] = "",
    timings: Annotated[
        Path | None,
        file_option("--timings", "An earlier report.json, to make shards equally long."),
    ] = None,
    rerun_failures: Annotated[
        bool | None,
        typer.Option(
            "--rerun-failures/--no-rerun-failures",
            help="Run every failure again alone, or none (default: for up to a minute). For a case "
            "that passes then, search the shortest sequence of cases after which it fails.",
            show_default=False,
        ),
    ] = None,
    sequence: Annotated[
        str,
        named(
            "--sequence",
            "IDS|FILE",
            "Run these cases in this order in one worker: ids, joined by commas; or a report.json "
            "that has a sequence for the case of --query.",
        ),
    ] = "",
    fail_fast: Annotated[bool, flag("--fail-fast", "Stop at the first failure.")] = False,
    keep_going: Annotated[
        bool, flag("--keep-going", "Also run cases that depend on a broken case.")
    ] = False,
    expectations: Annotated[
        Path | None,
        file_option("--expectations", "A TOML file with known failures and cases to skip."),
    ] = None,
    update_expectations: Annotated[
        bool,
        flag("--update-expectations", "Write the failures of this run to --expectations."),
    ] = False,
    reason: Annotated[str, named("--reason", "TEXT", "The reason for new expectations.")] = "",
    link: Annotated[str, named("--link", "ADDRESS", "The issue of new expectations.")] = "",
    durations: Annotated[
        int,
        named("--durations", "[N]", "Print the slowest cases, or n of them (default: 10).", min=0),
    ] = 0,
    verbose: Annotated[bool, flag("--verbose", "Print a line for each case at the end.")] = False,
    form: Annotated[
        str,
        named(
            "--format",
            "NAME",
            "Print text, or github: annotations and the summary of the job.",
        ),
    ] = "text",
) -> None:
    """Run the conformance suite on a device and write reports."""
    if context.invoked_subcommand is not None:
        return
    from tinyref_conformance.conform import ConformRequest
    from tinyref_conformance.plan import Shard, parse_profile
    from tinyref_conformance.settings import RunSettings
    from tinyref_conformance.suite import DEFAULT_CATALOGUE, SUBJECTS

    check_format(form, FORMATS)
    if cluster and (jobs or sequence):
        raise UserError(
            "cluster: it has several workers of its own: leave out --jobs and --sequence"
        )
    if restart and not resume:
        raise UserError("restart: goes with --resume; without it a run starts over anyway")
    if subject:
        if device or second:
            raise UserError("subject: a library is tested instead of a device: leave out --device")
        name, other = subject_name(subject, on, imports or []), ""
        query = _sampled(subject, query)
    else:
        if on or imports:
            raise UserError("on, import: they go with --subject, which names the library")
        name = device_name(device)
        other = device_name(second) if second else ""
        if not cluster:
            for tested in filter(None, (name, other)):
                check_gives_values(tested)
    selection = Selection(query, case_list, last_failed)
    query = selection.query(out or report_folder(name, other, "*", shard))
    settings = RunSettings(
        device=name,
        catalogue=SUBJECTS if subject else DEFAULT_CATALOGUE,
        second=other,
        folder=out or report_folder(name, other, sequence or query, shard),
        jobs=jobs,
        cluster=cluster,
        timeout=timeout,
        memory_limit=memory_limit,
        budget=budget,
        resume=resume,
        restart=restart,
        rerun_seconds=RERUN_SECONDS[rerun_failures],
        fail_fast=fail_fast,
        keep_going=keep_going,
    )
    report_fewer_workers(jobs, settings.workers)
    request = ConformRequest(
        settings,
        profile=parse_profile(profile),
        query=query,
        shard=Shard.parse(shard) if shard else None,
        timings=timings,
        expectations=expectations,
        update=update_expectations,
        reason=reason,
        link=link,
    )
    if sequence:
        from tinyref_conformance.conform import as_sequence

        request = as_sequence(request, sequence)
    raise typer.Exit(_conform(request, OutputOptions(form, durations, verbose)))


@dataclass(frozen=True)
class OutputOptions:
    """The options of what a run prints.

    form: one of `FORMATS`.
    durations: the number of slow cases.
    verbose: a line for each case.
    """

    form: str
    durations: int
    verbose: bool


@dataclass(frozen=True)
class Selection:
    """The options that choose cases."""

    part: str
    case_list: Path | None
    last_failed: bool

    def query(self, folder: Path) -> str:
        """Return the cases as a query; `folder` has the last report. Raises `UserError`."""
        chosen = [self.part != "*", self.case_list is not None, self.last_failed]
        if sum(chosen) > 1:
            raise UserError("query: --query, --case-list and --last-failed exclude each other")
        if self.case_list is not None:
            return ",".join(_listed(self.case_list))
        return ",".join(_failed(folder)) if self.last_failed else self.part


def _listed(file: Path) -> list[str]:
    """Return the ids of a file, an id a line; the rest of a line after # is a comment."""
    from tinyref.foreign import text_of_file

    try:
        lines = text_of_file(file, LONGEST_LIST).splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"case-list: cannot read {file}: {reason}") from error
    ids = [name for line in lines if (name := line.partition("#")[0].strip())]
    if not ids:
        raise UserError(f"case-list: {file} has no ids: accepted is an id a line, # comments")
    return ids


def _failed(folder: Path) -> list[str]:
    """Return the cases that failed in the last report of a folder. Raises `UserError`."""
    from tinyref_conformance import report as reports
    from tinyref_conformance.reports import JSON_NAME

    file = folder / JSON_NAME
    if not file.exists():
        raise UserError(f"last-failed: there is no report {file}: run without --last-failed first")
    failures = [case.id for case in reports.load(file).failures if case.id != reports.OPEN_CASE]
    if not failures:
        raise UserError(f"last-failed: no case failed in {file}: leave out --last-failed")
    return failures


def subject_name(library: str, place_name: str, packages: list[str]) -> str:
    """Return the name of a library with its device and the packages that it needs."""
    from tinyref_spec.subjects.name import SubjectName, default_device

    return str(SubjectName(library, place_name or default_device(library), tuple(packages)))


def _sampled(library: str, query: str) -> str:
    """Return a sample as the query of a library that takes seconds a case, if there is no query."""
    from tinyref_spec.subjects.name import SAMPLES

    return SAMPLES.get(library, query) if query == "*" else query


def _conform(request: ConformRequest, output: OutputOptions) -> int:
    from tinyref_conformance.conform import resume_command

    return until_stopped(
        lambda: _measure(request, output), "measured", lambda: resume_command(request)
    )


def _measure(request: ConformRequest, output: OutputOptions) -> int:
    from tinyref.workers.run import reporter_for
    from tinyref_conformance.conform import conform as run_suite

    finished = run_suite(request, reporter_for(sys.stderr))
    if output.form == "github":
        _print_for_github(finished.report)
    else:
        if output.verbose:
            _print_cases(finished.report)
        _print_durations(finished.report, output.durations)
        _print_summary(finished, request)
    return finished.report.exit_code


def _print_for_github(report: Report) -> None:
    from tinyref_conformance.reports.github import workflow_commands, write_summary

    print(workflow_commands(report), end="")
    write_summary(report)


def _style(status: Status) -> str:
    from tinyref_conformance.statuses import Status

    if status.is_failure:
        return "bold red"
    return "green" if status is Status.PASS else "dim"


def _print_cases(report: Report) -> None:
    for case in report.cases:
        text = f"{case.status.symbol} {case.status.value:14} {case.seconds:8.3f} s  {case.id}"
        print_styled(text, _style(case.status))


def _print_durations(report: Report, count: int) -> None:
    """Print the cases that took longest."""
    if not count:
        return
    slowest = heapq.nlargest(count, report.cases, key=lambda case: case.seconds)
    print(f"slowest {len(slowest)} of {len(report.cases):,} cases:")
    for case in slowest:
        print(f"  {case.seconds:8.3f} s  {case.id}")


def _print_skips(report: Report) -> None:
    """Print the reasons why cases were skipped, with the number of cases."""
    from tinyref_conformance.records import headline
    from tinyref_conformance.reports.terminal import count_cases
    from tinyref_conformance.statuses import Status

    reasons = Counter(headline(case.message) for case in report.cases if case.status is Status.SKIP)
    for reason, count in reasons.most_common(SKIP_REASONS):
        print(f"skipped: {count_cases(count)}: {reason}")
    others = reasons.most_common()[SKIP_REASONS:]
    if others:
        count = sum(count for _, count in others)
        print(f"skipped: {count_cases(count)} for other reasons ({len(others)}): see the report")


def _print_summary(finished: Finished, request: ConformRequest) -> None:
    from tinyref_conformance.report import OPEN_CASE
    from tinyref_conformance.reports.terminal import summary

    report = finished.report
    verdict, *lines = summary(report)
    print_styled(verdict, "bold red" if report.exit_code else "bold green")
    for line in lines:
        print(line)
    _print_skips(report)
    failures = [case for case in report.failures if case.id != OPEN_CASE]
    again = sum(case.status.is_broken and case.attempts == 1 for case in failures)
    if again and request.settings.rerun_seconds and not request.settings.fail_fast:
        print(f"failures not run again alone: {again:,}; --rerun-failures takes all the time")
    if report.missing:
        print(report.missing)
    _print_suppressed(finished, request)
    _print_rest(finished, request)
    for problem in report.problems:
        print(f"problem: {problem}")
    print(f"report: {finished.files[1]}")
    if finished.reproducer is not None:
        print(f"reproducer of the first failure: {finished.reproducer}")


def _print_rest(finished: Finished, request: ConformRequest) -> None:
    """Print how to continue a run that had too little time."""
    from tinyref_conformance.conform import resume_command
    from tinyref_conformance.statuses import Status

    if request.settings.budget and finished.report.counts[Status.NOT_RUN]:
        print(f"go on with the cases that had no turn:\n  {resume_command(request)}")


def _print_suppressed(finished: Finished, request: ConformRequest) -> None:
    """Print what was not run, the cause, and how to run it nevertheless."""
    from tinyref_conformance.conform import resume_command
    from tinyref_conformance.report import NOT_OPEN

    causes = finished.report.suppressors
    if set(causes) == {NOT_OPEN}:
        print(f"not run: {causes[NOT_OPEN]:,} cases, because {NOT_OPEN}")
        return
    for root, count in causes.most_common(5):
        print(f"not run: {count:,} cases that rest on {root}")
    if len(causes) > 5:
        print(f"not run: {sum(causes.values()):,} cases in all, because of {len(causes)} others")
    if causes:
        print("repair those first, or run the others all the same:")
        print(f"  {resume_command(request)} --keep-going")


conform_app.command("diff")(diff)
conform_app.command("export")(export)
conform_app.command("merge")(merge)
conform_app.command("verify")(verify)
conform_app.command("matrix")(matrix)
conform_app.command("faulty")(faulty)
conform_app.command("compile")(compile_kernels)
