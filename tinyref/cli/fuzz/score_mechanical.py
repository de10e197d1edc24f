"""`tinyref fuzz score --mechanical`: which mutants made by machine each lane finds."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tinyref import reproduce
from tinyref.cli.signals import until_stopped
from tinyref.errors import UserError, printable

if TYPE_CHECKING:
    from tinyref_fuzz.mutants.mechanical_score import MechanicalScoring
    from tinyref_fuzz.mutants.mechanical_summary import Rate


@dataclass(frozen=True)
class Asked:
    """What the command line says, as of `tinyref fuzz score`."""

    sample: int
    draw: int
    lanes: str
    only: str
    first: int
    seconds: float
    jobs: int
    traced: int
    minutes: float
    json: Path | None
    page: Path | None
    resume: bool
    restart: bool
    listing: bool


def score_mechanically(asked: Asked) -> int:
    """Runs the sample, prints its rates and what lives, writes the page; returns the exit code."""
    from tinyref_fuzz.mutants.mechanical_score import MechanicalScoring, Sample, parse_lanes
    from tinyref_fuzz.mutants.score import Settings

    chosen = Sample(asked.sample, asked.draw, parse_lanes(asked.lanes), asked.only)
    if asked.listing:
        for mutant in chosen.mutants():
            edit = printable(f"{mutant.at.old} -> {mutant.at.new}")
            print(f"{mutant.name:80} {edit}")
        return 0
    if asked.resume and asked.json is None:
        raise UserError("score: --resume needs the --json file to go on with")
    settings = Settings(
        *(1, asked.seconds, asked.jobs, 0.0, 0.0, asked.first, asked.traced),
        asked.minutes or math.inf,
    )
    from tinyref.cli.fuzz.score import say

    scoring = MechanicalScoring(chosen, settings, asked.json, say)
    if asked.resume:
        scoring.resume(asked.restart)
    command = _resume_command(asked)
    return until_stopped(lambda: _run(scoring, asked.page), "scored", lambda: command)


def _run(scoring: MechanicalScoring, page_path: Path | None) -> int:
    from tinyref_fuzz.mutants.mechanical_summary import describe_aside, page, read_survivors
    from tinyref_spec.kernel_case.files import write_text

    scoring.run()
    summary, survivors = scoring.summary(), read_survivors()
    rates = summary.rates(survivors)
    _show(rates)
    print(describe_aside(summary, survivors))
    for problem in scoring.problems():
        print(printable(f"left out: {problem}"))
    for each in summary.outcomes:
        if not each.is_killed:
            print(f"lives in {each.lane}: {each.mutant}")
    if to_go := len(scoring.to_go()):
        print(f"{to_go} runs are missing: --resume goes on with them")
    if page_path is not None:
        write_text(page_path.with_suffix(".json"), json.dumps(summary.to_json(), indent=0) + "\n")
        write_text(page_path, page(summary, survivors))
    return 0 if summary.is_good(survivors) and not to_go else 1


def _show(rates: Sequence[Rate]) -> None:
    for rate in rates:
        low, high = (f"{100 * share:.1f}" for share in rate.interval)
        share = f"{100 * (rate.value or 0):.1f} %"
        verdict = "met" if (rate.value or 0) >= rate.goal else "MISSED"
        print(
            f"{rate.what:26} {rate.killed:4} of {rate.count:4} {share:>8}, {low} to {high} %, "
            f"at least {100 * rate.goal:.0f} % {verdict}"
        )


def _resume_command(asked: Asked) -> str:
    words = ["tinyref", "fuzz", "score", "--mechanical", "--lanes", asked.lanes]
    words += [*("--sample", str(asked.sample)), *("--draw", str(asked.draw))]
    words += [*("--seconds", str(asked.seconds)), *("--first", str(asked.first))]
    for name, value in (("--only", asked.only), ("--json", asked.json), ("--page", asked.page)):
        words += [name, str(value)] if value else []
    resumed = ["--resume"] if asked.json else []
    return reproduce.command([*words, *resumed], reproduce.settings())
