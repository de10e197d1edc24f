"""`tinyref bench --table`: works and networks in variants of the processor, compared with torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence

from tinyref.cli.bench import BenchRow, Measured
from tinyref.cli.bench.libraries import network_rows
from tinyref.cli.bench.networks import NETWORKS
from tinyref.cli.bench.speed import ON_HOST, Variant, geometric_mean, speed_rows
from tinyref.errors import UserError

TABLE_WORKS = (
    "model.mlp",
    "model.convnet",
    "op.matmul.512",
    "op.conv.3x3",
    "op.conv.transposed",
    "op.softmax",
    "op.layernorm",
    "op.attention",
    "op.sum.columns",
    "op.gelu",
    "op.sort",
    "op.cumsum",
)
HEADER = ("work", "ours", "torch", "ratio", "note")


def table_rows(glob: str) -> Iterator[tuple[Variant, list[BenchRow]]]:
    """Yield the rows of the works and networks that match, for each variant of the processor.

    Networks take minutes, and are measured on one thread. Raise `UserError` if nothing matches.
    """
    known = [*TABLE_WORKS, *(network.name for network in NETWORKS)]
    names = [name for name in known if fnmatch.fnmatchcase(name, glob)]
    if not names:
        raise UserError(
            f"bench: no row of the table matches {glob!r}: accepted are globs of {', '.join(known)}"
        )
    on_one_thread = [variant for variant in ON_HOST if variant.threads == 1]
    rows = {row.name: row for row in (*speed_rows("CPU"), *network_rows(on_one_thread))}
    for variant in ON_HOST:
        suffixed = (name + variant.suffix for name in names)
        yield variant, [rows[name] for name in suffixed if name in rows]


def table_text(variant: Variant, lines: Sequence[Measured]) -> str:
    """Return a table of Markdown: all works in one variant, then the mean of their ratios."""
    threads = "one thread" if variant.threads == 1 else "all threads"
    floats = "strict floats" if variant.strict else "contracted floats"
    clock = "processor time" if variant.threads == 1 else "time"
    rows = [HEADER, *(_cells(line, variant) for line in lines), _mean_cells(lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = [_row_text(row, widths) for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    title = f"{threads}, {floats}, milliseconds of {clock}:"
    return "\n".join((title, "", texts[0], rule, *texts[1:]))


def _cells(line: Measured, variant: Variant) -> tuple[str, ...]:
    """Return the text of each column of `HEADER`."""
    name = line.name.removesuffix(variant.suffix)
    if line.missing:
        return (name, "-", "-", "-", line.missing)
    if not line.peer_name:
        return (name, _short(line.median), "-", "-", line.note)
    return (name, _short(line.median), _short(line.peer_median), _short(line.ratio), line.note)


def _mean_cells(lines: Sequence[Measured]) -> tuple[str, ...]:
    ratios = [line.ratio for line in lines if line.peer_name]
    if not ratios:
        return ("geometric mean", "-", "-", "-", "")
    return ("geometric mean", "", "", _short(geometric_mean(ratios)), f"{len(ratios)} rows")


def _row_text(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (f" {cell:{width}} " for cell, width in zip(row, widths, strict=True))
    return f"|{'|'.join(cells)}|"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"
