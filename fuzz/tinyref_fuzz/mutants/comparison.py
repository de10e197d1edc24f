"""Two scores of the same mutants side by side: how much sooner one of them finds each.

A mutant under a seed is a pair. Pairs differ by orders of magnitude and many live in one score, so
that what is compared is the median of the ratios, in which a mutant that lives counts as one that
takes for ever.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref_fuzz.mutants.records import Run
from tinyref_fuzz.mutants.score import names_and_runs, read_score

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """How one quantity of the runs that find a mutant changed.

    what: the quantity. medians: of each score, infinite where most live. ratios: of each pair, the
    second score by the first one; 0 where only the second one finds the mutant, and infinite where
    only the first one does.
    """

    what: str
    medians: tuple[float, float]
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of the ratios; below 1 where the second score finds sooner."""
        return statistics.median_low(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the median of the ratios of all mutants, by the sign test."""
        return median_interval(self.ratios)

    def __str__(self) -> str:
        fewer = sum(ratio < 1 for ratio in self.ratios)
        more = sum(ratio > 1 for ratio in self.ratios)
        low, high = self.interval
        before, after = self.medians
        return (
            f"{self.what}: median {before:.3g} before, {after:.3g} after; ratio {self.ratio:.2f}, "
            f"{low:.2f} to {high:.2f}; fewer in {fewer}, the same in "
            f"{len(self.ratios) - fewer - more}, more in {more}"
        )


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Where the median lies that `values` are drawn from, whatever their distribution is.

    W. R. Thompson, On Confidence Ranges for the Median, Annals of Mathematical Statistics 7 (1936);
    of so few that no two of them enclose it, (0, infinity).
    """
    ordered, count = sorted(values), len(values)
    beyond, rank = 0.0, 0
    while rank < count:
        beyond += math.comb(count, rank) / 2**count
        if beyond > (1 - confidence) / 2:
            break
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else (0.0, math.inf)


def compare(before: Iterable[Run], after: Iterable[Run]) -> list[Comparison]:
    """Cases and processor seconds until the kill, of the mutants that either score kills.

    Raises `UserError` where there are none that both scores ran.
    """
    earlier = {(run.subject, run.seed): run for run in before if not run.problem}
    pairs = [
        (earlier[run.subject, run.seed], run)
        for run in after
        if not run.problem and (run.subject, run.seed) in earlier
    ]
    found = [(first, second) for first, second in pairs if first.killed or second.killed]
    if not found:
        raise UserError("score: nothing to compare: no mutant that one score kills is in both")
    return [
        _comparison("cases", found, lambda run: max(run.cases, 1)),
        # What is killed as it starts takes no time that could be divided by.
        _comparison("processor s", found, lambda run: max(run.seconds, 1e-3)),
    ]


def _comparison(
    what: str, pairs: Sequence[tuple[Run, Run]], count: Callable[[Run], float]
) -> Comparison:
    values = [
        tuple(count(run) if run.killed else math.inf for run in (first, second))
        for first, second in pairs
    ]
    befores, afters = zip(*values, strict=True)
    ratios = tuple(math.inf if after == math.inf else after / before for before, after in values)
    return Comparison(what, (statistics.median_low(befores), statistics.median_low(afters)), ratios)


def compare_files(before: Path, after: Path) -> list[Comparison]:
    """As `compare`, of the fuzzer's runs in two files.

    Raises `UserError` for what is no score, and where mutants could live for other times.
    """
    first, second = read_score(before), read_score(after)
    limits = [data["settings"]["seconds"] for data in (first, second)]
    if limits[0] != limits[1]:
        raise UserError(
            f"score: nothing to compare: mutants may live for {limits[0]:g} s in {before} and "
            f"for {limits[1]:g} s in {after}: accepted are scores of the same --seconds"
        )
    return compare(_fuzzer_runs(before, first), _fuzzer_runs(after, second))


def _fuzzer_runs(file: Path, data: Mapping[str, Any]) -> list[Run]:
    """Other lanes of a mutant have names with the lane in it."""
    _, runs = names_and_runs(file, data)
    return [run for run in runs if "@" not in run.subject]
