"""`tinyref fuzz`: a campaign on one device. Commands on its cases: `case_files.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref import reproduce
from tinyref.cli.fuzz.case_files import corpus_app, export, harvest, keep, reduce, replay, show
from tinyref.cli.fuzz.score_command import score
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
    path,
    report_fewer_workers,
    until_stopped,
)
from tinyref.errors import UserError
from tinyref.folders import file_name

if TYPE_CHECKING:
    from tinyref_fuzz.campaign.campaign import CampaignRequest

# Written here so that the help imports nothing.
_POLICIES = "all, small, integers, floats, reduces, matmul, views, models"

_HELP = """Fuzz a device: run random kernels and compare every value with the reference.

\b
Examples:
  tinyref fuzz -d CPU                                  a minute, on all cores
  tinyref fuzz -d CPU --budget 8h                      a night
  tinyref fuzz -d MINE --kernels 5000 --seed 7         always the same 5000 kernels
  tinyref fuzz -d MINE --policy matmul                 kernels of one kind
  tinyref fuzz -d MINE --programs 2000                 tensor programs: schedule, views, replay
  tinyref fuzz --subject torch-compile --budget 30m    a library: its compiler and its ops
  tinyref fuzz --subject jax-jit --programs 500
  tinyref fuzz -d MINE --resume                        continue after Ctrl-C or a crash
  tinyref fuzz -d MINE --cluster tcp://10.0.0.7:8786
  tinyref fuzz replay fuzz-MINE/cases/case-1f0c.json   run one case again

A device is a name of `tinyref devices`, or package.module:ClassName before it is installed. A
failing case is reduced, blamed on a stage and put in a bucket with the cases of the same cause. The
smallest case of each bucket is kept as a file. A device that crashes or hangs costs one case.

\b
The folder, ./fuzz-DEVICE or --out:
  campaign.sqlite   everything that was done and found; survives kill -9
  cases/*.json      one reduced case for each bucket

Exit code 0: all agree. 1: something was found. 2: wrong usage, or the device does not work here.
3: nothing was found, but the campaign is incomplete. 130, 129, 143: stopped by a signal.
"""

fuzz_app = typer.Typer(rich_markup_mode=None, invoke_without_command=True, help=_HELP)


@fuzz_app.callback(help=_HELP)
def fuzz(
    context: typer.Context,
    device: Annotated[str | None, device_option()] = None,
    subject: Annotated[
        str,
        named(
            "--subject",
            "LIBRARY",
            "Fuzz a library with tensor programs instead of a device: torch, torch-compile, "
            "jax-jit, mlx, mlx-compile, onnxruntime, tinygrad, numpy, array-api:MODULE.",
        ),
    ] = "",
    on: Annotated[
        str,
        named(
            "--on",
            "NAME",
            "With --subject: the device, by the library's name for it (default: cpu, and the "
            "library's own default for array-api:MODULE).",
        ),
    ] = "",
    imports: Annotated[
        list[str] | None,
        named("--import", "PACKAGE", "With --subject: a package that registers the device."),
    ] = None,
    expectations: Annotated[
        Path | None,
        file_option(
            "--expectations", "With --subject: a TOML file with known faults to leave out."
        ),
    ] = None,
    budget: Annotated[
        float | None,
        duration_option(
            "--budget",
            "Stop after this time, such as 90s, 5m, 1h (default: 60s, without a limit of cases).",
        ),
    ] = None,
    kernels: Annotated[
        int | None, named("--kernels", "N", "Number of kernels to test.", min=1)
    ] = None,
    programs: Annotated[
        int | None,
        named("--programs", "N", "Number of tensor programs to test instead of kernels.", min=1),
    ] = None,
    compiled_every: Annotated[
        int | None,
        named(
            "--compiled-every",
            "N",
            "Compile every n-th program, and evaluate the kernels of the others (default: 4 on "
            "PYTHON, 1 elsewhere).",
            min=1,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        named(
            "--seed",
            "N",
            "The same seed gives the same kernels (default: a random seed, which is printed).",
            min=0,
        ),
    ] = None,
    jobs: Annotated[int, jobs_option()] = 0,
    cluster: Annotated[
        str,
        named("--cluster", "ADDRESS", "Run on a Dask scheduler; needs the extra `cluster`."),
    ] = "",
    policy: Annotated[
        str | None,
        named("--policy", "NAME", f"The kind of the kernels: {_POLICIES} (default: all)."),
    ] = None,
    harvested: Annotated[
        Path | None,
        file_option(
            "--harvested",
            "Draw kernels from this file of `fuzz harvest`; the default policy is models then.",
        ),
    ] = None,
    resume: Annotated[bool, flag("--resume", "Continue the campaign in the folder.")] = False,
    restart: Annotated[
        bool, flag("--restart", "With --resume: start over if device or flags changed.")
    ] = False,
    out: Annotated[
        Path | None, out_option("The folder of the campaign (default: ./fuzz-DEVICE).")
    ] = None,
    corpus: Annotated[
        Path | None,
        named(
            "--corpus",
            "PATH",
            "Write reproducers to this folder, which may be shared (default: cases in --out).",
            parser=path,
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        duration_option("--timeout", "Stop a case after this time (default: 30s)."),
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
) -> None:
    """Fuzz a device."""
    if context.invoked_subcommand is not None:
        return
    from tinyref.cli.fuzz.subject import CaseLimits, known_faults, limits_of, subject_name
    from tinyref_fuzz.campaign.campaign import CampaignRequest
    from tinyref_fuzz.campaign.task import KERNELS, PROGRAMS
    from tinyref_fuzz.generate.corpus.collection import collection_text

    if cluster and jobs:
        raise UserError("jobs: a cluster has its own workers: give --jobs or --cluster, not both")
    if restart and not resume:
        raise UserError("restart: goes with --resume; without it a campaign starts over anyway")
    if programs is not None and (kernels, policy, harvested) != (None, None, None):
        raise UserError("programs: does not go with --kernels, --policy or --harvested")
    if compiled_every is not None and programs is None and not resume:
        raise UserError("compiled-every: goes with --programs")
    limits = CaseLimits(timeout)
    if subject:
        if (device, kernels, policy, harvested, compiled_every) != (None,) * 5:
            raise UserError(
                "subject: a library is fuzzed with programs: leave out --device, --kernels, "
                "--policy, --harvested and --compiled-every"
            )
        name = subject_name(subject, on, imports or [])
        limits = limits_of(name, timeout, resume)
    else:
        if on or imports or expectations is not None:
            raise UserError("on, import, expectations: they go with --subject")
        name = device_name(device)
        if not cluster:
            check_gives_values(name)
    is_programs = bool(subject) or programs is not None
    request = CampaignRequest(
        device=name,
        folder=out
        or Path(f"fuzz-{'programs-' if programs and not subject else ''}{file_name(name)}"),
        seed=seed,
        policy=policy,
        kernels=programs or kernels,
        seconds=budget,
        jobs=jobs,
        cluster=cluster,
        corpus=corpus,
        resume=resume,
        restart=restart,
        timeout=limits.timeout,
        examine_seconds=limits.examine_seconds,
        memory=memory_limit,
        harvested=collection_text(harvested) if harvested is not None else None,
        subject=PROGRAMS if is_programs else KERNELS,
        compiled_every=compiled_every,
        known=known_faults(expectations, name) if expectations is not None else None,
        began=context.obj,
    )
    report_fewer_workers(jobs, request.workers)
    raise typer.Exit(_fuzz(request))


def _fuzz(request: CampaignRequest) -> int:
    return until_stopped(
        lambda: _campaign(request), "judged and found", lambda: resume_command(request)
    )


def _campaign(request: CampaignRequest) -> int:
    from tinyref.workers.run import reporter_for
    from tinyref_fuzz.campaign import report
    from tinyref_fuzz.campaign.campaign import run

    summary = run(request, reporter_for(sys.stderr), started=_say_seed)
    print(report.text(summary), end="")
    if summary.incomplete:
        print(f"go on with: {resume_command(request)}")
    return report.exit_code(summary)


def _say_seed(request: CampaignRequest) -> None:
    """Print the seed before the first case, so that a killed campaign can be repeated too."""
    policy = f", policy {request.policy}" if request.subject == "kernels" else ", tensor programs"
    print(
        f"fuzzing {request.device} with seed {request.seed}{policy}, in {request.folder}",
        file=sys.stderr,
        flush=True,
    )


def resume_command(request: CampaignRequest) -> str:
    """Return the command that continues a campaign; its database has the other options."""
    words = ["tinyref", "fuzz", *_naming_options(request.device), "--out", str(request.folder)]
    if request.cluster:
        words += ["--cluster", request.cluster]
    if request.jobs:
        words += ["--jobs", str(request.jobs)]
    return reproduce.command([*words, "--resume"], reproduce.settings())


def _naming_options(name: str) -> list[str]:
    """Return the options that name the device or the library."""
    from tinyref_spec.subjects.name import is_subject, parse_subject

    return parse_subject(name).options if is_subject(name) else ["--device", name]


fuzz_app.command("replay")(replay)
fuzz_app.command("show")(show)
fuzz_app.command("export")(export)
fuzz_app.command("reduce")(reduce)
fuzz_app.command("keep")(keep)
fuzz_app.add_typer(corpus_app, name="corpus")
fuzz_app.command("harvest")(harvest)
fuzz_app.command("score")(score)
