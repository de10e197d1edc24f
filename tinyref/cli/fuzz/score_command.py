"""`tinyref fuzz score`: the planted faults that the fuzzer finds, its time, and its diagnosis."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref import reproduce
from tinyref.cli.options import (
    duration_option,
    duration_or_zero,
    flag,
    jobs_option,
    named,
    out_option,
    query_option,
    until_stopped,
)
from tinyref.durations import duration_text
from tinyref.errors import UserError, printable

if TYPE_CHECKING:
    from tinyref_fuzz.faults.score import FaultScore, Goal, ScoreSettings, Scoring


def score(
    query: Annotated[
        str, query_option("Only these faults: names, NAME* or kinds, joined by commas.")
    ] = "",
    seeds: Annotated[int, named("--seeds", "N", "Number of seeds for each fault.", min=1)] = 5,
    first: Annotated[int, named("--first", "N", "The first seed; the others follow.", min=0)] = 0,
    budget: Annotated[
        float,
        duration_option(
            "--budget", "Give up a fault after this much processor time (default: 60s)."
        ),
    ] = 60.0,
    jobs: Annotated[int, jobs_option("Number of processes at a time (default: 2).", least=1)] = 2,
    further: Annotated[
        float,
        named(
            "--further",
            "TIME",
            "Processor time to search more findings after the first; 0s for none (default: 5s).",
            parser=duration_or_zero,
            show_default=False,
        ),
    ] = 5.0,
    examine: Annotated[
        float,
        named(
            "--examine",
            "TIME",
            "Time to reduce a finding; 0s for no reduction, blame and buckets (default: 10s).",
            parser=duration_or_zero,
            show_default=False,
        ),
    ] = 10.0,
    out: Annotated[
        Path | None, out_option("Write the result to this JSON file after each run.")
    ] = None,
    resume: Annotated[bool, flag("--resume", "Continue the score in --out.")] = False,
    listing: Annotated[bool, flag("--list", "Only list the faults.")] = False,
) -> None:
    """Score the fuzzer with faults that are planted in the compiler.

    \b
    Examples:
      tinyref fuzz score --list
      tinyref fuzz score -q remainder-floored --seeds 1
      tinyref fuzz score -j 8 -o score.json

    Each fault is planted in a process of its own. It fuzzes the device of the fault until a case
    fails, then reduces, blames and buckets the finding. Times are processor times, without the
    start of the process. Exit code 0: every goal is met. 1: a goal is missed, or a run is missing.
    """
    from tinyref_fuzz.faults import faults_named

    faults = faults_named(query)
    if listing:
        for fault in faults:
            print(f"{fault.name:33} {fault.device:40} {fault.kind:45} {fault.seam.target}")
        return
    if resume and out is None:
        raise UserError("score: --resume needs the file to continue: give --out FILE")
    from tinyref_fuzz.faults.score import ScoreSettings, Scoring

    settings = ScoreSettings(seeds, budget, jobs, further, examine, first)
    scoring = Scoring(faults, settings, out, say)
    if resume:
        scoring.resume()
    if out is None:
        raise typer.Exit(_run_scoring(scoring))
    command = resume_command(query, settings, out)
    raise typer.Exit(until_stopped(lambda: _run_scoring(scoring), "scored", lambda: command))


def _run_scoring(scoring: Scoring) -> int:
    from tinyref_fuzz.faults.score import goals

    scoring.run()
    rows = scoring.rows()
    reached = goals(rows, scoring.settings.examine > 0)
    _show(rows, reached)
    is_complete = not any(run.problem for row in rows for run in row.runs)
    return 0 if is_complete and all(goal.is_met for goal in reached) else 1


def resume_command(query: str, settings: ScoreSettings, file: Path) -> str:
    """Return the command that continues an interrupted score."""
    words = ["tinyref", "fuzz", "score"]
    if query:
        words += ["--query", query]
    usual = type(settings)()
    for option in ("seeds", "jobs", "first"):
        if getattr(settings, option) != getattr(usual, option):
            words += [f"--{option}", str(getattr(settings, option))]
    times = {"budget": "seconds", "further": "further", "examine": "examine"}
    for option, name in times.items():
        if getattr(settings, name) != getattr(usual, name):
            words += [f"--{option}", duration_text(getattr(settings, name))]
    return reproduce.command([*words, "--out", str(file), "--resume"], reproduce.settings())


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
