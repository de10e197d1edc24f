"""The command `tinyref ci`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from tinyref.cli.options import path, write_output
from tinyref.errors import UserError

TABLE = Path("ci/devices.toml")


def ci(
    provider: Annotated[str, typer.Option(help="github, gitlab, or docker for a Dockerfile.")],
    device: Annotated[
        str,
        typer.Option(help="A device of your own, as `tinyref conform` takes it; no table then."),
    ] = "",
    table: Annotated[
        Path | None,
        typer.Option(
            parser=path, help=f"A device table: {TABLE} if it is there. [[device]] a row."
        ),
    ] = None,
    shards: Annotated[int, typer.Option(help="Jobs for each device, which share its cases.")] = 1,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="All of the profile that a row names for that.")
    ] = False,
    expectations: Annotated[
        Path | None,
        typer.Option(parser=path, help="Known failures of --device; rows have theirs by their id."),
    ] = None,
    install: Annotated[
        str, typer.Option(help="What pip installs in each job: your package, with tinyref.")
    ] = ".",
    python: Annotated[str, typer.Option(help="The version of Python.")] = "3.12",
    runner: Annotated[
        str, typer.Option(help="Where GitHub runs what needs no card.")
    ] = "ubuntu-latest",
    output: Annotated[
        Path | None, typer.Option(parser=path, help="The file; standard output if not given.")
    ] = None,
) -> None:
    """Write the pipeline that runs the conformance suite in CI.

    \b
    Examples:
      tinyref ci --provider github --device mine.backend:MineBackend --shards 4 \\
        --output .github/workflows/conformance.yml
      tinyref ci --provider gitlab --table ci/devices.toml --output .gitlab-ci.yml
      tinyref ci --provider docker --output Dockerfile

    Each device has a job a shard, with caches of packages and of compiled kernels, and its reports
    as artifacts; a last job merges the shards and shows the devices side by side. A row with a
    `driver` runs on a machine with its id as label: `self-hosted` of GitHub, a tag of GitLab.
    """
    from tinyref.cli.ci.pipeline import PipelineSettings, job_of_device, jobs_of_table, pipeline

    settings = PipelineSettings(shards, thorough, python, install, runner)
    if device and table:
        raise UserError("ci: --device and --table exclude each other")
    if device:
        known = "" if expectations is None else expectations.as_posix()
        jobs = [job_of_device(device, settings, known)]
    elif expectations is not None:
        raise UserError("ci: --expectations goes with --device; those of a row are named by its id")
    elif table is None and not TABLE.exists():
        raise UserError(f"ci: name your device with --device, or write a table {TABLE}")
    else:
        jobs = jobs_of_table(table or TABLE, settings)
    text = pipeline(provider, jobs, settings, _command())
    if output is None:
        print(text, end="")
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"ci: cannot make {output.parent}: {error.strerror or error}") from error
    write_output(output, text, "ci")
    print(f"{output}: {len(jobs)} devices, {shards} shards each")


def _command() -> str:
    """This command, for who reads the file."""
    return shlex.join(["tinyref", *sys.argv[1:]])
