"""`tinyref fuzz score`: how many planted faults the fuzzer finds, how fast, and what it says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref import reproduce
from tinyref.cli.options import MAX_JOBS, check_finite, path, until_stopped
from tinyref.errors import UserError, printable

if TYPE_CHECKING:
    from tinyref_fuzz.faults.score import FaultScore, Goal, ScoreSettings, Scoring


def score(
    only: Annotated[str, typer.Option(help="Only these: names, NAME* or kinds; commas join.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds for each fault.")] = 5,
    first: Annotated[int, typer.Option(min=0, help="The first seed; the others follow.")] = 0,
    seconds: Annotated[
        float, typer.Option(min=1, help="Give a fault up after this much processor time.")
    ] = 60.0,
    jobs: Annotated[int, typer.Option(min=1, max=MAX_JOBS, help="Processes at a time.")] = 2,
    further: Annotated[
        float, typer.Option(min=0, help="Processor seconds for more findings after the first.")
    ] = 5.0,
    examine: Annotated[
        float,
        typer.Option(min=0, help="Seconds to reduce a finding; 0: no reduction, blame, buckets."),
    ] = 10.0,
    json: Annotated[
        Path | None,
        typer.Option(parser=path, help="Write the result to this file after each run."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the score in --json.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="Only list the faults.")] = False,
) -> None:
    """Score the fuzzer by faults that are planted in the compiler.

    Each fault is planted in a process of its own, which fuzzes the device of the fault until a case
    disagrees, and then reduces, blames and buckets what it found. Seconds are those of the
    processor, without the start of the process. Exit code 0: every goal is met. 1: one is missed,
    or a run is missing.
    """
    from tinyref_fuzz.faults import faults_named

    faults = faults_named(only)
    if listing:
        for fault in faults:
            print(f"{fault.name:33} {fault.device:40} {fault.kind:45} {fault.seam.place}")
        return
    if resume and json is None:
        raise UserError("score: --resume needs the --json file to go on with")
    check_finite(seconds=seconds, further=further, examine=examine)
    from tinyref_fuzz.faults.score import ScoreSettings, Scoring

    settings = ScoreSettings(seeds, seconds, jobs, further, examine, first)
    scoring = Scoring(faults, settings, json, say)
    if resume:
        scoring.resume()
    if json is None:
        raise typer.Exit(_run_scoring(scoring))
    command = resume_command(only, settings, json)
    raise typer.Exit(until_stopped(lambda: _run_scoring(scoring), "scored", lambda: command))


def _run_scoring(scoring: Scoring) -> int:
    from tinyref_fuzz.faults.score import goals

    scoring.run()
    rows = scoring.rows()
    reached = goals(rows, scoring.settings.examine > 0)
    _show(rows, reached)
    is_complete = not any(run.problem for row in rows for run in row.runs)
    return 0 if is_complete and all(goal.is_met for goal in reached) else 1


def resume_command(only: str, settings: ScoreSettings, file: Path) -> str:
    """Return the command that goes on with an interrupted score."""
    words = ["tinyref", "fuzz", "score"]
    if only:
        words += ["--only", only]
    usual = vars(type(settings)())
    for name, value in vars(settings).items():
        if value != usual[name]:
            words += [f"--{name}", str(value)]
    return reproduce.command([*words, "--json", str(file), "--resume"], reproduce.settings())


def say(line: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(line + "\n")


def _show(rows: Sequence[FaultScore], reached: Sequence[Goal]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    table = Table(title="score of the fuzzer")
    for name in ("fault", "found", "processor s", "blamed", "nodes", "buckets"):
        table.add_column(name, justify="left" if name == "fault" else "right")
    for row in rows:
        seconds, nodes = _number(row.seconds), _number(row.nodes)
        share, blamed = f"{len(row.finds)}/{len(row.runs)}", f"{row.blamed}/{len(row.finds)}"
        table.add_row(row.fault.name, share, seconds, blamed, nodes, str(row.buckets))
    console.print(table)
    for run in (run for row in rows for run in row.runs if run.problem):
        console.print(printable(str(run)), markup=False)
    for goal in reached:
        limit = f"{'at least' if goal.is_least else 'at most'} {goal.goal:g}"
        verdict = "met" if goal.is_met else "MISSED"
        console.print(
            f"{goal.name:40} {_number(goal.value):>8}  {limit:16} {verdict}", markup=False
        )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
