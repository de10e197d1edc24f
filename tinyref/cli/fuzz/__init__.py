"""`tinyref fuzz`: a campaign on one device, and what one does with the cases that it keeps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref import reproduce
from tinyref.cli.fuzz.case_files import corpus_app, export, harvest, keep, reduce, replay, show
from tinyref.cli.fuzz.score_command import score
from tinyref.cli.options import (
    MAX_JOBS,
    check_finite,
    check_gives_values,
    device_name,
    path,
    say_bounded,
    until_stopped,
)
from tinyref.errors import UserError
from tinyref.folders import file_name

if TYPE_CHECKING:
    from tinyref_fuzz.campaign.campaign import CampaignRequest

# Told in the help without importing them.
_POLICIES = "all, small, integers, floats, reduces, matmul, views, models"

_HELP = """Fuzz a device: random kernels, whose every value must agree with the reference.

\b
Examples:
  tinyref fuzz --device CPU                       a minute, on all cores
  tinyref fuzz --device CPU --seconds 28800       a night
  tinyref fuzz --device MINE --kernels 5000 --seed 7   always the same 5000
  tinyref fuzz --device MINE --policy matmul      kernels of one kind
  tinyref fuzz --device MINE --programs 2000      tensor programs: schedule, views, replay
  tinyref fuzz --subject torch-compile --seconds 1800   a library: its compiler and its ops
  tinyref fuzz --subject jax-jit --programs 500
  tinyref fuzz --device MINE --resume             go on after Ctrl-C, a crash
  tinyref fuzz --device MINE --cluster tcp://10.0.0.7:8786
  tinyref fuzz replay fuzz-MINE/cases/case-1f0c.json   judge one case again

A device is a name of `tinyref devices`, or package.module:ClassName before it is installed. What
does not agree is reduced, blamed on a stage and put in a bucket with all of the same cause; the
smallest case of each bucket is kept as a file. A device that crashes or hangs costs one case.

\b
The folder, ./fuzz-DEVICE unless --folder is given:
  campaign.sqlite   all that was done and found; survives kill -9
  cases/*.json      one reduced case for each bucket

Exit code 0: all agree. 1: something was found. 2: wrong usage, or the device does not work here.
3: nothing was, but the campaign is incomplete. 130: interrupted; 129, 143: by a signal.
"""

fuzz_app = typer.Typer(rich_markup_mode=None, invoke_without_command=True, help=_HELP)


@fuzz_app.callback(help=_HELP)
def fuzz(
    context: typer.Context,
    device: Annotated[
        str | None, typer.Option(help="The device; the default device if not given.")
    ] = None,
    subject: Annotated[
        str,
        typer.Option(
            help="Fuzz a library by tensor programs instead of a device: torch, torch-compile, "
            "jax-jit, tinygrad, numpy, array-api:MODULE."
        ),
    ] = "",
    on: Annotated[
        str,
        typer.Option(
            help="With --subject: the library's device by its own name. If not given: cpu, and "
            "for array-api:MODULE the one that the library takes by itself."
        ),
    ] = "",
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", help="With --subject: a package that registers the device."),
    ] = None,
    expectations: Annotated[
        Path | None,
        typer.Option(
            parser=path, help="With --subject: a TOML file of known faults, which are left out."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="End after so long: 60 if --kernels is not given either."),
    ] = None,
    kernels: Annotated[int | None, typer.Option(min=1, help="Judge so many kernels.")] = None,
    programs: Annotated[
        int | None,
        typer.Option(min=1, help="Judge so many tensor programs instead: schedule, views, replay."),
    ] = None,
    compiled_every: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Of programs compile one in so many, evaluate the kernels of others: 4 on PYTHON, "
            "1 elsewhere if not given.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="The same seed gives the same kernels; drawn and printed if not given."
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_JOBS, help="Worker processes; 0 is one a core.", show_default=False
        ),
    ] = 0,
    cluster: Annotated[
        str, typer.Option(help="The address of a Dask scheduler; needs the extra `cluster`.")
    ] = "",
    policy: Annotated[
        str | None, typer.Option(help=f"What the kernels are like: {_POLICIES}; all if not given.")
    ] = None,
    harvested: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="FILE",
            help="Draw kernels of this file of `fuzz harvest`; the policy is models if not given.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the campaign in the folder.")
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="With --resume: begin anew where device or flags changed."),
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(parser=path, help="Where all is kept: ./fuzz-DEVICE.")
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            parser=path, help="Where reproducers go, shared by campaigns perhaps: FOLDER/cases."
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds that one case may take: 30 if not given."),
    ] = None,
    memory_limit: Annotated[
        int | None,
        typer.Option(
            min=64, help="MiB that a worker may hold; its share of the machine if not given."
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
        raise UserError("restart: goes with --resume; without it a campaign begins anew anyway")
    if programs is not None and (kernels, policy, harvested) != (None, None, None):
        raise UserError("programs: does not go with --kernels, --policy or --harvested")
    if compiled_every is not None and programs is None and not resume:
        raise UserError("compiled-every: goes with --programs")
    check_finite(seconds=seconds, timeout=timeout)
    limits = CaseLimits(timeout)
    if subject:
        if (device, kernels, policy, harvested, compiled_every) != (None,) * 5:
            raise UserError(
                "subject: a library is fuzzed by programs: leave out --device, --kernels, "
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
        folder=folder
        or Path(f"fuzz-{'programs-' if programs and not subject else ''}{file_name(name)}"),
        seed=seed,
        policy=policy,
        kernels=programs or kernels,
        seconds=seconds,
        jobs=jobs,
        cluster=cluster,
        corpus=corpus,
        resume=resume,
        restart=restart,
        timeout=limits.timeout,
        examine_seconds=limits.examine_seconds,
        memory=memory_limit << 20 if memory_limit is not None else None,
        harvested=collection_text(harvested) if harvested is not None else None,
        subject=PROGRAMS if is_programs else KERNELS,
        compiled_every=compiled_every,
        known=known_faults(expectations, name) if expectations is not None else None,
        began=context.obj,
    )
    say_bounded(jobs, request.workers)
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
    """Before the first case, so that a campaign that is killed can be repeated too."""
    policy = f", policy {request.policy}" if request.subject == "kernels" else ", tensor programs"
    print(
        f"fuzzing {request.device} with seed {request.seed}{policy}, in {request.folder}",
        file=sys.stderr,
        flush=True,
    )


def resume_command(request: CampaignRequest) -> str:
    """The command that goes on with an interrupted campaign; its database knows the rest."""
    words = ["tinyref", "fuzz", *_naming_options(request.device), "--folder", str(request.folder)]
    if request.cluster:
        words += ["--cluster", request.cluster]
    if request.jobs:
        words += ["--jobs", str(request.jobs)]
    return reproduce.command([*words, "--resume"], reproduce.settings())


def _naming_options(name: str) -> list[str]:
    """The options that name what is fuzzed: a device or a library."""
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
