"""`tinyref fuzz score`: how many injected faults the fuzzer finds, how fast, and what it says."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref import reproduce
from tinyref.cli.options import MAX_JOBS, check_finite, path
from tinyref.cli.signals import until_stopped
from tinyref.errors import UserError, printable

if TYPE_CHECKING:
    from rich.table import Table

    from tinyref_fuzz.mutants.records import Row, Score
    from tinyref_fuzz.mutants.score import Scoring, Settings


def score(
    only: Annotated[str, typer.Option(help="Only these: names, NAME* or kinds; commas join.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds each mutant gets.")] = 5,
    first: Annotated[int, typer.Option(min=0, help="The first seed; the others follow.")] = 0,
    seconds: Annotated[
        float, typer.Option(min=1, help="Processor seconds that a mutant may live.")
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
        typer.Option(parser=path, help="Where to write all that was found, after each run."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the score in --json; all that it has stays."),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="With --resume: begin anew where sources or flags changed."),
    ] = False,
    mechanical: Annotated[
        bool,
        typer.Option("--mechanical", help="A sample of mutants made by machine, in every lane."),
    ] = False,
    sample: Annotated[
        int, typer.Option(min=1, help="With --mechanical: how many mutants are drawn.")
    ] = 600,
    draw: Annotated[
        int, typer.Option(min=0, help="With --mechanical: the seed of the sample.")
    ] = 18,
    lanes: Annotated[
        str,
        typer.Option(help="With --mechanical: conformance, fuzz, tests, room-tests; commas join."),
    ] = "conformance,fuzz,tests",
    traced: Annotated[
        int, typer.Option(min=1, help="Kernels whose programs are compared where a mutant lives.")
    ] = 60,
    minutes: Annotated[
        float, typer.Option(min=0, help="Begin nothing after so many minutes; 0 is no limit.")
    ] = 0.0,
    page: Annotated[
        Path | None,
        typer.Option(parser=path, help="With --mechanical: the page, with its .json beside it."),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(parser=path, help="Only compare the score in --json with an earlier one."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only list what there is.")] = False,
) -> None:
    """Score the fuzzer by compilers and devices that are broken on purpose.

    Each mutant is a small wrong edit of the compiler, made in a process of its own: it is fuzzed
    on its device until it shows, and what is found is reduced, blamed and sorted into buckets.
    Times until a kill are seconds of the processor, of the process and its children and without
    its start, so that other work on the machine makes no difference; what hangs is ended by the
    clock on the wall. Exit code 0: every target is met. 1: one is not, or a run is missing.

    With --mechanical the mutants are edits that operators make in every function of the compiler,
    of which a sample takes each lane: the quick suite of conformance, the fuzzer, the quick tests.
    """
    if compare is not None:
        _compare(compare, json)
        return
    if mechanical:
        from tinyref.cli.fuzz.score_mechanical import Asked, score_mechanically

        check_finite(seconds=seconds, minutes=minutes)
        asked = Asked(
            *(sample, draw, lanes, only, first, seconds, jobs, traced, minutes, json, page),
            *(resume, restart, listing),
        )
        raise typer.Exit(score_mechanically(asked))
    from tinyref_fuzz.mutants.subjects import subjects

    chosen = subjects(only)
    if listing:
        for subject in chosen:
            print(f"{subject.name:40} {subject.device:30} {subject.kind}")
        return
    if resume and json is None:
        raise UserError("score: --resume needs the --json file to go on with")
    if restart and not resume:
        raise UserError("score: --restart goes with --resume; without it a score begins anew")
    check_finite(seconds=seconds, further=further, examine=examine)
    from tinyref_fuzz.mutants.score import Scoring, Settings

    settings = Settings(
        *(seeds, seconds, jobs, further, examine, first, traced, minutes or math.inf)
    )
    scoring = Scoring(chosen, settings, json, say)
    if resume:
        scoring.resume(restart)
    if json is None:
        raise typer.Exit(_run_scoring(scoring))
    command = resume_command(only, settings, json)
    raise typer.Exit(until_stopped(lambda: _run_scoring(scoring), "scored", lambda: command))


def _compare(before: Path, after: Path | None) -> None:
    """Prints how much sooner the second score finds what either finds."""
    from tinyref_fuzz.mutants.comparison import compare_files

    if after is None:
        raise UserError("score: --compare needs the --json file of the later score")
    found = compare_files(before, after)
    print(f"{len(found[0].ratios)} mutants under their seeds, found by one score or both")
    for each in found:
        print(each)


def _run_scoring(scoring: Scoring) -> int:
    found = scoring.run()
    _show(found)
    return 0 if found.is_good else 1


def resume_command(only: str, settings: Settings, file: Path) -> str:
    """The command that goes on with an interrupted score."""
    words = ["tinyref", "fuzz", "score"]
    if only:
        words += ["--only", only]
    usual = vars(type(settings)())
    for name, value in vars(settings).items():
        if value != usual[name]:
            words += [f"--{name}", str(value)]
    return reproduce.command([*words, "--json", str(file), "--resume"], reproduce.settings())


def say(line: str) -> None:
    """A line of progress."""
    sys.stderr.write(line + "\n")


def _show(found: Score) -> None:
    from rich.console import Console

    from tinyref.runtimes.identity import settings_of

    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    console.print(_table(found))
    if under := reproduce.assignments(settings_of(found.surroundings)):
        console.print(f"under {under}", markup=False)
    for row in found.rows:
        for run in row.runs:
            if run.problem:
                said = printable(f"{run.subject} under seed {run.seed}: {run.problem}")
                console.print(said, markup=False)
    for total in found.totals:
        shown = "unknown" if total.value is None else f"{total.value:.3g}"
        limit = f"{'at least' if total.is_at_least else 'at most'} {total.target:g}"
        verdict = "met" if total.is_met else "MISSED"
        console.print(f"{total.what:45} {shown:>8}  {limit:16} {verdict}", markup=False)
    if found.missing:
        console.print(
            f"{found.missing} runs are missing: --resume without --only goes on with them"
        )


def _table(found: Score) -> Table:
    from rich.table import Table

    table = Table(
        title=f"score of the fuzzer, {found.settings['seeds']} seeds, sources {found.code}"
    )
    names = ("mutant", "reached", "triggered", "killed", "processor s", "stage", "cause")
    for name in (*names, "nodes", "opts", "reduced in", "buckets"):
        table.add_column(name, justify="left" if name == "mutant" else "right")
    for row in found.rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    examined = len(row.found)
    cause = "-" if row.causes_right is None else f"{row.causes_right}/{examined}"
    return [
        row.subject.name,
        _word(row.is_reached),
        _word(row.is_triggered),
        f"{row.kills}/{len(row.runs)}",
        _number(row.seconds),
        f"{row.stages_right}/{examined}",
        cause,
        _number(row.nodes),
        _number(row.opts),
        _number(row.examination),
        str(row.buckets),
    ]


def _word(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "NO"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
