"""`tinyref conform`: the suite on one device, and what one does with its reports."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref.cli.options import (
    check_gives_values,
    device_name,
    path,
    say_bounded,
    until_stopped,
    write_output,
)
from tinyref.errors import UserError
from tinyref.folders import file_name

if TYPE_CHECKING:
    from tinyref_conformance.compare import Comparison
    from tinyref_conformance.conform import ConformRequest, Finished
    from tinyref_conformance.matrix import Matrix
    from tinyref_conformance.report import Report

_HELP = """Run the conformance suite on a device and write reports.

\b
Examples:
  tinyref conform --device CPU                          quick profile, reports in ./conformance-CPU
  tinyref conform --device CPU --profile full --jobs 8  every exhaustive table
  tinyref conform --device MINE --query "isa.binary.mod.*"   a part, to work on
  tinyref conform --device MINE --budget 5m             what five minutes can tell
  tinyref conform --device MINE --resume                go on after Ctrl-C or a power cut
  tinyref conform --device MINE --shard 2/4             a quarter, for four machines
  tinyref conform --device MINE --cluster tcp://HOST:8786   on the machines of a Dask cluster
  tinyref conform --device MINE --sequence A,B,C   in one worker, where C fails after A and B
  tinyref conform --device MINE --second CPU --query system   copies between these two
  tinyref conform merge A B C D                         their reports as that of one run
  tinyref conform diff before.json after.json           fixes, regressions, accuracy
  tinyref conform matrix A.json B.json                  devices side by side
  tinyref conform export CASE --for opencl              a script that needs pyopencl alone
  tinyref conform verify report.json                    that nobody edited it
  tinyref conform faulty                                prove that the suite catches broken devices
  tinyref conform compile --device CUDA --arch sm_90    compile its kernels where no GPU is
  tinyref conform --subject torch --on cpu              judge PyTorch by the tensor rows
  tinyref conform --subject array-api:cupy --on default   or a library of the array API
  tinyref conform --subject jax-jit --on cpu            or JAX, compiled

A device is a name of `tinyref devices`, or package.module:ClassName before it is installed.
The reports: report.html (open it in any browser, no server needed), report.json, junit.xml,
report.sarif, summary.md, badge.svg. Exit code 0: all as expected. 1: failures. 2: wrong usage.
"""

FORMATS = ("text", "github")
# What `diff` and `matrix` print.
COMPARISONS = ("text", "markdown", "html", "json")
ComparisonForm = Annotated[str, typer.Option("--format", help="text, markdown, html or json.")]
ComparisonOutput = Annotated[
    Path | None, typer.Option(parser=path, help="A file for it; standard output if not given.")
]
# How long failures are run again, by what was asked for.
RERUN_SECONDS = {None: 60.0, True: math.inf, False: 0.0}

conform_app = typer.Typer(rich_markup_mode=None, invoke_without_command=True, help=_HELP)


@conform_app.callback(help=_HELP)
def conform(
    context: typer.Context,
    device: Annotated[
        str | None, typer.Option(help="The device; the default device if not given.")
    ] = None,
    second: Annotated[
        str,
        typer.Option(
            help="The other device of rows that take two; the next of its kind if not given."
        ),
    ] = "",
    subject: Annotated[
        str,
        typer.Option(
            help="Judge a library by the tensor rows instead of a device: torch, torch-compile, "
            "numpy, jax, jax-jit, mlx, mlx-compile, tinygrad, onnxruntime, array-api:MODULE, or "
            "PACKAGE:CLASS of your own."
        ),
    ] = "",
    on: Annotated[
        str,
        typer.Option(
            help="With --subject: the library's device by its own name. If not given: cpu, and "
            "for array-api:MODULE and PACKAGE:CLASS the one that the library takes by itself."
        ),
    ] = "",
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", help="With --subject: a package that registers the device."),
    ] = None,
    profile: Annotated[str, typer.Option(help="How much: quick or full.")] = "quick",
    query: Annotated[
        str, typer.Option(help="Only these cases: ids, prefixes or globs of them; commas join.")
    ] = "*",
    report: Annotated[
        Path | None,
        typer.Option(parser=path, help="The folder for the reports: ./conformance-DEVICE."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="Worker processes; 0 is one a core.", show_default=False)
    ] = 0,
    cluster: Annotated[
        str,
        typer.Option(help="A Dask scheduler such as tcp://10.0.0.7:8786, instead of this machine."),
    ] = "",
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Seconds of the processor that one case may take, or of the clock if it sleeps.",
        ),
    ] = 30.0,
    budget: Annotated[
        str,
        typer.Option(
            help="Time for the whole run, such as 90s, 5m, 1h: the most telling cases come first."
        ),
    ] = "",
    memory_limit: Annotated[
        str, typer.Option(help="What a worker may hold: MiB, or 512M, 4G; a fair share if empty.")
    ] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the interrupted run there.")
    ] = False,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="With --resume: begin anew where device, flags or suite changed."
        ),
    ] = False,
    shard: Annotated[str, typer.Option(help="Only part i of n, such as 2/4.")] = "",
    timings: Annotated[
        Path | None,
        typer.Option(parser=path, help="An earlier report.json, to make shards equally long."),
    ] = None,
    rerun_failures: Annotated[
        bool | None,
        typer.Option(
            "--rerun-failures/--no-rerun-failures",
            help="Run each failure again alone, however long that takes, or none; a minute of "
            "them if not given. One that passes then depends on what ran before: the shortest "
            "sequence of cases that shows it is looked for.",
            show_default=False,
        ),
    ] = None,
    sequence: Annotated[
        str,
        typer.Option(
            help="These cases in this order, in one worker: ids; or the report.json that has a "
            "sequence for the case of --query."
        ),
    ] = "",
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first failure.")
    ] = False,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="Run also what rests on something that is broken."),
    ] = False,
    expectations: Annotated[
        Path | None,
        typer.Option(parser=path, help="A TOML file: failures that are known, cases not to run."),
    ] = None,
    update_expectations: Annotated[
        bool,
        typer.Option(
            "--update-expectations", help="Write --expectations so that this run is as expected."
        ),
    ] = False,
    reason: Annotated[str, typer.Option(help="The reason of new expectations.")] = "",
    link: Annotated[str, typer.Option(help="The issue of new expectations.")] = "",
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="What to print: text, or github: annotations, and the summary of the job.",
        ),
    ] = "text",
) -> None:
    """Run the conformance suite on a device and write reports."""
    if context.invoked_subcommand is not None:
        return
    from tinyref_conformance.budget import parse_budget
    from tinyref_conformance.conform import ConformRequest, parse_memory
    from tinyref_conformance.plan import Shard, parse_profile
    from tinyref_conformance.settings import RunSettings
    from tinyref_conformance.suite import DEFAULT_CATALOGUE, SUBJECTS

    _check_format(form, FORMATS)
    if cluster and (jobs or sequence):
        raise UserError(
            "cluster: it has its own workers, and several of them: leave out --jobs and --sequence"
        )
    if restart and not resume:
        raise UserError("restart: goes with --resume; without it a run begins anew anyway")
    if subject:
        if device or second:
            raise UserError("subject: a library is judged instead of a device: leave out --device")
        name, other = _subject_name(subject, on, imports or []), ""
        query = _sampled(subject, query)
    else:
        if on or imports:
            raise UserError("on, import: they go with --subject, which names the library")
        name = device_name(device)
        other = device_name(second) if second else ""
        if not cluster:
            for each in filter(None, (name, other)):
                check_gives_values(each)
    settings = RunSettings(
        device=name,
        catalogue=SUBJECTS if subject else DEFAULT_CATALOGUE,
        second=other,
        folder=report or _folder(_name_of(name, other), sequence or query, shard),
        jobs=jobs,
        cluster=cluster,
        timeout=timeout,
        memory_limit=parse_memory(memory_limit) if memory_limit else None,
        budget=parse_budget(budget) if budget else None,
        resume=resume,
        restart=restart,
        rerun_seconds=RERUN_SECONDS[rerun_failures],
        fail_fast=fail_fast,
        keep_going=keep_going,
    )
    say_bounded(jobs, settings.workers)
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
    raise typer.Exit(_conform(request, form))


def _name_of(device: str, second: str) -> str:
    return f"{device}-with-{second}" if second else device


def _subject_name(library: str, place: str, packages: list[str]) -> str:
    """The name of the library, its device and the packages that it needs."""
    from tinyref_spec.subjects.name import SubjectName, default_place

    return str(SubjectName(library, place or default_place(library), tuple(packages)))


def _sampled(library: str, query: str) -> str:
    """What a library is asked that takes seconds for a case, unless the query says it."""
    from tinyref_spec.subjects.name import SAMPLES

    return SAMPLES.get(library, query) if query == "*" else query


def _folder(device: str, query: str, shard: str = "") -> Path:
    """Where reports go by default; a reduced run does not overwrite the whole one's report."""
    folder = Path(f"conformance-{file_name(device)}")
    if shard:
        folder = folder / f"shard-{file_name(shard)}"
    return folder if query == "*" else folder / "query"


def _conform(request: ConformRequest, form: str) -> int:
    from tinyref_conformance.conform import resume_command

    return until_stopped(
        lambda: _measure(request, form), "measured", lambda: resume_command(request)
    )


def _measure(request: ConformRequest, form: str) -> int:
    from tinyref.workers.run import reporter_for
    from tinyref_conformance.conform import conform as run_suite

    finished = run_suite(request, reporter_for(sys.stderr))
    if form == "github":
        _print_for_github(finished.report)
    else:
        _print_summary(finished, request)
    return finished.report.exit_code


def _print_for_github(report: Report) -> None:
    from tinyref_conformance.reports.github import workflow_commands, write_summary

    print(workflow_commands(report), end="")
    write_summary(report)


def _print_summary(finished: Finished, request: ConformRequest) -> None:
    from tinyref_conformance.report import OPEN_CASE
    from tinyref_conformance.reports.terminal import summary

    report = finished.report
    for line in summary(report):
        print(line)
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
    """How to go on with a run that had too little time."""
    from tinyref_conformance.conform import resume_command
    from tinyref_conformance.statuses import Status

    if request.settings.budget and finished.report.counts[Status.NOT_RUN]:
        print(f"go on with the cases that had no turn:\n  {resume_command(request)}")


def _print_suppressed(finished: Finished, request: ConformRequest) -> None:
    """What was not run, because of what, and how to run it all the same."""
    from tinyref_conformance.conform import resume_command
    from tinyref_conformance.report import NOT_OPEN

    found = finished.report.suppressors
    if set(found) == {NOT_OPEN}:
        print(f"not run: {found[NOT_OPEN]:,} cases, because {NOT_OPEN}")
        return
    for root, count in found.most_common(5):
        print(f"not run: {count:,} cases that rest on {root}")
    if len(found) > 5:
        print(f"not run: {sum(found.values()):,} cases in all, because of {len(found)} others")
    if found:
        print("repair those first, or run the others all the same:")
        print(f"  {resume_command(request)} --keep-going")


@conform_app.command("diff")
def diff(
    before: Annotated[Path, typer.Argument(parser=path, help="The report.json to compare with.")],
    after: Annotated[Path, typer.Argument(parser=path, help="The newer report.json.")],
    form: ComparisonForm = "text",
    output: ComparisonOutput = None,
) -> None:
    """Compare two reports: fixes, regressions, accuracy, new and missing cases.

    Exit code 1 when a case that was as expected no longer is.
    """
    from tinyref_conformance import report as reports
    from tinyref_conformance.compare import compare

    _check_format(form, COMPARISONS)
    found = compare(reports.load(before), reports.load(after))
    _show_comparison(found, form, output)
    raise typer.Exit(1 if found.is_worse else 0)


@conform_app.command("export")
def export(
    case: Annotated[str, typer.Argument(metavar="CASE", help="The id of a case.")],
    name: Annotated[
        str,
        typer.Option(
            "--for",
            help="torch, numpy, array-api:MODULE, opencl, cuda, ptx, hip, metal, wgsl, llvm, c; "
            "the language of the device if empty.",
        ),
    ] = "",
    device: Annotated[str, typer.Option(help="The device; the default one if empty.")] = "",
    on: Annotated[str, typer.Option(help="With a library: its device by its own name.")] = "",
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", help="With a library: a package that registers the device."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(parser=path, help="A file; standard output if not given.")
    ] = None,
) -> None:
    """Print the script of a case for the maintainers of a library or compiler, without tinyref.

    It has the inputs, the text of the kernel or the call, and the expected values. Exit code of
    the script: 1 while the tool is wrong, 0 when it is right, 2 where it cannot run.
    """
    from tinyref_spec.tool_scripts.export import export_case

    text = export_case(case, name, device_name(device or None), on, imports or ())
    if out is None:
        print(text, end="")
    else:
        write_output(out, text, "out")


@conform_app.command("merge")
def merge(
    files: Annotated[
        list[Path], typer.Argument(parser=path, help="The report.json, or its folder, of each.")
    ],
    report: Annotated[
        Path | None,
        typer.Option(parser=path, help="The folder for the reports: ./conformance-DEVICE."),
    ] = None,
) -> None:
    """Join the reports of all shards of a run: of one build, device, compiler and flags.

    What is of another run, edited, missing or there twice is refused. Exit code: that of the run.
    """
    from tinyref_conformance import merge as merging
    from tinyref_conformance.reports import HTML_NAME
    from tinyref_conformance.reports.terminal import summary

    found = merging.merge(merging.load_shards(files))
    facts = found.certificate
    folder = report or _folder(_name_of(facts["device"], facts.get("second", "")), facts["query"])
    merging.write(found, folder)
    for line in summary(found):
        print(line)
    for problem in found.problems:
        print(f"problem: {problem}")
    print(f"report: {folder / HTML_NAME}")
    raise typer.Exit(found.exit_code)


@conform_app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(parser=path, help="The report.json.")],
) -> None:
    """Look whether a report is as tinyref wrote it: its hash is computed again.

    Exit code 1 when it was edited. A hash is no signature: it shows what changed by mistake or on
    the way, not who wrote the file.
    """
    from tinyref_conformance import report as reports

    try:
        found = reports.load_unedited(file)
    except reports.EditedError as error:
        print(error)
        raise typer.Exit(1) from None
    print(f"{file} is as it was written: {found.certificate[reports.HASH]}")
    print(found.verdict)


@conform_app.command("matrix")
def matrix(
    files: Annotated[
        list[Path], typer.Argument(parser=path, help="The report.json of each device.")
    ],
    form: ComparisonForm = "text",
    output: ComparisonOutput = None,
) -> None:
    """Show the ladders of several devices side by side."""
    from tinyref_conformance import report as reports
    from tinyref_conformance.matrix import Matrix

    _check_format(form, COMPARISONS)
    _show_comparison(Matrix([reports.load(path) for path in files]), form, output)


def _check_format(form: str, accepted: Sequence[str]) -> None:
    if form not in accepted:
        raise UserError(f"format: got {form!r}, accepted are {', '.join(accepted)}")


def _show_comparison(found: Comparison | Matrix, form: str, output: Path | None) -> None:
    """Prints it in that form, or writes it to a file."""
    page = found.page()
    texts = {
        "text": page.text,
        "markdown": page.markdown,
        "html": page.html,
        "json": found.json,
    }
    text = texts[form]()
    if output is None:
        print(text, end="")
        return
    write_output(output, text, "output")


@conform_app.command("zoo", hidden=True, help="The former name of `faulty`.")
@conform_app.command("faulty")
def faulty(
    report: Annotated[
        Path | None, typer.Option(parser=path, help="Keep each device's reports under this folder.")
    ] = None,
    only: Annotated[str, typer.Option(help="One faulty device, by its class name.")] = "",
) -> None:
    """Run the suite on deliberately broken devices: it must catch each, on the right rung.

    Each device runs a subset of the quick profile in which its fault can show, and so does the
    healthy device that it is made from, which must pass. Exit code 1 when one escapes.
    """
    from tinyref_conformance.faulty.score import score

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    results = score(report, only, say=say)
    print(results.text(), end="")
    raise typer.Exit(0 if results.is_perfect else 1)


@conform_app.command("compile")
def compile_kernels(
    device: Annotated[str, typer.Option(help="The backend; its device need not be there.")],
    arch: Annotated[str, typer.Option(help="The architecture, such as sm_90.")],
    query: Annotated[str, typer.Option(help="Only the kernels of these cases.")] = "*",
    sample: Annotated[
        int, typer.Option(min=0, help="So many kernels, of the most telling cases first; 0 is all.")
    ] = 0,
    report: Annotated[
        Path | None,
        typer.Option(parser=path, help="A folder for the texts of kernels that do not compile."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many compile at a time.")] = 2,
) -> None:
    """Compile the kernels of the quick suite for an architecture, without such a device.

    They are those that cases ask for before they read a value, made for what the architecture has.
    Exit code 1 when one does not compile. What they compute is not looked at.
    """
    from tinyref.device import Device
    from tinyref_conformance.compile_check import compile_suite

    target = Device.backend_class(device_name(device)).compile_target(arch)
    found = compile_suite(target, query, sample, jobs)
    print(found.text(), end="")
    if report is not None:
        found.write(report)
    raise typer.Exit(1 if found.refused else 0)
