"""`tinyref bench --table`: the works that users wait for beside torch and tinygrad, with goals."""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tinyref.cli.bench import works
from tinyref.cli.bench.speed import ON_HOST, Variant, geometric_mean, measure_named
from tinyref.cli.bench.works import TINYGRAD, Alone
from tinyref.errors import UserError

MAX_RATIO = 3.0
MAX_MEAN = 1.5
# The first calls of two versions, the least of each, in turns: what is within this is no slower.
MAX_SLOWER = 1.05
# What each work took when it was first called, by tinyref and by tinygrad 0.10.3 in the same run,
# before its kernels were made faster: a later ratio of the two may not be larger.
COLD_BEFORE = {
    "model.mlp": (463, 3598),
    "model.convnet": (1006, 5095),
    "op.matmul.512": (44, 82),
    "op.conv.3x3": (232, 192),
    "op.conv.transposed": (635, 588),
    "op.softmax": (60, 252),
    "op.layernorm": (48, 151),
    "op.attention": (97, 493),
    "op.sum.columns": (89, 164),
    "op.gelu": (31, 89),
    "op.sort": (579, 1725),
    "op.cumsum": (76, 151),
}
HEADER = (
    "work",
    "ours",
    "torch",
    "ratio",
    "tinygrad",
    "ours cold",
    "its cold",
    "before",
    "now",
    "goals",
)


@dataclass(frozen=True)
class WorkLine:
    """Milliseconds of one work, the least of the repeats; None where a library has none.

    before, now: first calls of an earlier version and of this one, in turns, where one was asked
    for: then they alone say whether a first call is slower. missing: why there is no time of ours.
    no_tinygrad, no_before: why the others have none.
    """

    work: str
    variant: str
    ours: float | None = None
    torch: float | None = None
    tinygrad: float | None = None
    cold: float | None = None
    tinygrad_cold: float | None = None
    before: float | None = None
    now: float | None = None
    missing: str = ""
    no_tinygrad: str = ""
    no_before: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours to torch, both of this run."""
        return self.ours / self.torch if self.ours and self.torch else None

    @property
    def broken_goals(self) -> tuple[str, ...]:
        """What is worse than it should be, in words."""
        found = []
        if self.ratio is not None and self.ratio > MAX_RATIO:
            found.append(f"above {MAX_RATIO:g}")
        ours, theirs = COLD_BEFORE[self.work]
        if self.before and self.now:
            if self.now > MAX_SLOWER * self.before:
                found.append(f"cold {self.now / self.before:.2f} of before")
        elif self.cold and self.tinygrad_cold and self.cold / self.tinygrad_cold > ours / theirs:
            found.append(f"cold above {ours / theirs:.2f} of its")
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "broken_goals": list(self.broken_goals)}

    def cells(self) -> tuple[str, ...]:
        """As `HEADER` names them."""
        if self.missing:
            return (self.work, *("-",) * (len(HEADER) - 2), self.missing)
        numbers = (
            self.ours,
            self.torch,
            self.ratio,
            self.tinygrad,
            self.cold,
            self.tinygrad_cold,
            self.before,
            self.now,
        )
        goals = ", ".join(self.broken_goals) or ("met" if self.ratio else "-")
        return (self.work, *map(_short, numbers), goals)


def table_lines(glob: str, repeats: int, before: str | None = None) -> Iterator[WorkLine]:
    """A line for each of the works that match and each variant; works one after the other.

    before: a Python that has an earlier version, whose first calls stand beside ours. Raises
    `UserError` where none matches.
    """
    names = [name for name in COLD_BEFORE if fnmatch.fnmatchcase(name, glob)]
    if not names:
        raise UserError(
            f"bench: no row of the table matches {glob!r}: accepted are globs of "
            f"{', '.join(COLD_BEFORE)}"
        )
    for work in names:
        peer = measured_alone(sys.executable, TINYGRAD, work, ON_HOST[0], repeats)
        for variant in ON_HOST:
            yield _line(work, variant, peer, before, repeats)


def measured_alone(python: str, name: str, work: str, variant: Variant, repeats: int) -> Alone:
    """Measure a work by a library in a fresh process without caches on disk.

    A failure, such as a `python` that does not run, is what is missing.
    """
    words = (name, work, str(variant.threads), str(repeats))
    flags = {"STRICT_FLOAT": variant.strict, "THREADS": variant.threads, "CACHE": 0}
    environment = {f"TINYREF_{flag}": str(value) for flag, value in flags.items()}
    environment |= {"TINYREF_DEVICE": works.DEVICE, "CACHELEVEL": "0", "CPU": "1"}
    try:
        done = subprocess.run(
            # -P: the folder of the works has modules with names of others.
            [python, "-P", works.__file__, *words],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
        )
    except OSError as error:
        return Alone(missing=f"{python} does not run: {error.strerror or error}")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        return Alone(missing=f"{name} of {python}: {' '.join(last) or 'it printed no time'}")
    measured: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return Alone(**measured)


def _line(work: str, variant: Variant, peer: Alone, before: str | None, repeats: int) -> WorkLine:
    """Measure one work; first calls of an earlier version and of this one in turns."""
    steady = measure_named(work, variant, repeats)
    if steady.missing:
        return WorkLine(work, variant.suffix, missing=steady.missing)
    calls: dict[str, list[Alone]] = {python: [] for python in (before, sys.executable) if python}
    for _ in range(repeats):
        for python, found in calls.items():
            found.append(measured_alone(python, "tinyref", work, variant, 0))
    cold, missing = first_call(calls[sys.executable])
    if missing:
        return WorkLine(work, variant.suffix, missing=missing)
    earlier, no_before = (None, "") if before is None else first_call(calls[before])
    return WorkLine(
        work,
        variant.suffix,
        ours=min(steady.values),
        torch=min(steady.peer_values, default=None),
        tinygrad=min(peer.steady, default=None),
        cold=cold,
        tinygrad_cold=peer.cold or None,
        before=earlier,
        now=None if earlier is None else cold,
        no_tinygrad=peer.missing,
        no_before=no_before,
    )


def first_call(processes: Sequence[Alone]) -> tuple[float | None, str]:
    """Return the shortest first call of some processes, or what is missing of one."""
    missing = next((each.missing for each in processes if each.missing), "")
    return (None, missing) if missing else (min(each.cold for each in processes), "")


def mean_cells(lines: Sequence[WorkLine]) -> tuple[str, ...]:
    """The row of geometric means of the ratios to torch, and whether it is what it should be."""
    ratios = [line.ratio for line in lines if line.ratio is not None]
    if not ratios:
        return ("geometric mean", *("-",) * (len(HEADER) - 2), "no peer: torch is not installed")
    mean = geometric_mean(ratios)
    goals = "met" if mean <= MAX_MEAN else f"above {MAX_MEAN:g}"
    blank = [""] * len(HEADER)
    blank[0], blank[HEADER.index("ratio")] = "geometric mean", _short(mean)
    return (*blank[:-1], f"{goals}, of {len(ratios)} rows")


def table_text(variant: Variant, lines: Sequence[WorkLine]) -> str:
    """A table of Markdown: all works in one variant, then their mean."""
    threads = "one thread" if variant.threads == 1 else "all threads"
    floats = "strict floats" if variant.strict else "contracted floats"
    clock = "processor time" if variant.threads == 1 else "time"
    rows = [HEADER, *(line.cells() for line in lines), mean_cells(lines)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADER))]
    texts = [_row_text(row, widths) for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    title = f"{threads}, {floats}, milliseconds of {clock}:"
    absent = sorted({line.no_tinygrad for line in lines if line.no_tinygrad})
    notes = [f"\ntinygrad has no times: {reason}" for reason in absent]
    unknown = sorted({line.no_before for line in lines if line.no_before})
    notes += [f"\nthe earlier version has no times: {reason}" for reason in unknown]
    return "\n".join((title, "", texts[0], rule, *texts[1:], *notes))


def _row_text(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (f" {cell:{width}} " for cell, width in zip(row, widths, strict=True))
    return f"|{'|'.join(cells)}|"


def _short(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"
