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
# The least width of each column: a row is printed before the next one is known.
WIDTHS = (19, 6, 6, 6, 4)


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


def head_text(variant: Variant) -> str:
    """Return the title of a table of Markdown, and its first two rows."""
    threads = "one thread" if variant.threads == 1 else "all threads"
    floats = "strict floats" if variant.strict else "contracted floats"
    clock = "processor time" if variant.threads == 1 else "time"
    rule = "|" + "|".join("-" * (width + 2) for width in WIDTHS) + "|"
    title = f"{threads}, {floats}, milliseconds of {clock}:"
    return "\n".join((title, "", _row_text(HEADER), rule))


def row_text(variant: Variant, line: Measured) -> str:
    """Return the row of a work or network."""
    return _row_text(_cells(line, variant))


def end_text(variant: Variant, lines: Sequence[Measured]) -> str:
    """Return the row with the geometric mean of the ratios."""
    del variant
    return _row_text(_mean_cells(lines))


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


def _row_text(row: Sequence[str]) -> str:
    cells = (f" {cell:{width}} " for cell, width in zip(row, WIDTHS, strict=True))
    return f"|{'|'.join(cells)}|"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"
