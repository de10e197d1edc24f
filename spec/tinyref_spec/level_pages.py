"""The rows of a level as Markdown: one page for each family, a section for each subject.

Text that all rows of a section share, such as their error rule, stands once above its table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tinyref_spec.case import Profile, Row
from tinyref_spec.tensor.rows import FAMILIES

NOTE = "<!-- Made by `python -m tinyref_spec.pages docs/spec`; edit the tables, not this page. -->"
LEVELS = {
    "memory": "Memory: open, allocate, copy, views, gates, red zones",
    "kernel": "Kernels: views, reduces, matrix products, programs written by hand",
    "isa": "Primitive operations on every dtype",
    "tensor": "Tensor functions, forward and backward",
    "system": "Replay, symbolic sizes, many kernels, memory, transfers, many devices",
    "model": "Small networks that train",
}
# Levels with so few rows that one page holds them all.
_WHOLE = ("memory", "system", "model")


def cell(text: str) -> str:
    """Return the text as it may stand in a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    titles = list(head)
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"


def _needs(row: Row) -> str:
    """Return what a device must have for the row, in words."""
    parts = sorted(dtype.name for dtype in row.needs.dtypes)
    parts += sorted(feature for feature in row.needs.features if feature != "kernels")
    return ", ".join(parts) or "nothing"


def _counts(row: Row) -> str:
    """Return the number of cases of the row in the quick and the full profile."""
    return f"{len(row.cases(Profile.QUICK))} / {len(row.cases(Profile.FULL))}"


def _specials(row: Row) -> str:
    if row.op in ("CAST", "BITCAST"):
        return ""
    return "; ".join(f"{operands} -> {result}" for operands, result in row.specials)


def _clauses(row: Row) -> str:
    return ", ".join(f"`{label}`" for label in row.clauses)


def _sentence(row: Row) -> str:
    """Return the sentence of the row, without the op and the dtype that are in its id."""
    said = row.sentence.removeprefix(f"{row.op} on {row.dtype}: ")
    return said.removesuffix(f" In {row.dtype}.").replace(f" on {row.dtype}.", ".")


# The columns of a page after the id of a row, in order.
COLUMNS: dict[str, Callable[[Row], str]] = {
    "what": _sentence,
    "clauses": _clauses,
    "rung": lambda row: row.rung.title,
    "error rule": lambda row: row.error_rule,
    "needs": _needs,
    "cases quick / full": _counts,
    "special cases: operands -> result": _specials,
}


_TENSOR_FAMILIES = {
    function.name: listed.name for listed in FAMILIES for function in listed.functions
}


def family(row: Row) -> str:
    """Return the family of a row: its level, or a part of it, as `isa.binary`, `tensor.sorting`."""
    if row.level in _WHOLE:
        return row.level
    if row.level == "tensor":
        return f"tensor.{_TENSOR_FAMILIES.get(row.op, 'literals')}"
    return _beginning(row, 2)


def families(level: str, rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each page of a level; a family of one row is on the level's own page."""
    listed = [row for row in rows if row.level == level]
    sizes = Counter(family(row) for row in listed)
    pages: dict[str, list[Row]] = {}
    for row in listed:
        name = family(row)
        pages.setdefault(name if sizes[name] > 1 else level, []).append(row)
    return dict(sorted(pages.items()))


def page(name: str, rows: list[Row]) -> str:
    """Return the page of one family: a section for each subject."""
    lines = [f"# {LEVELS.get(name, f'`{name}`')}", NOTE, ""]
    for subject, group in _subjects(rows).items():
        lines += [f"## `{subject}`", "", *_section(group)]
    return "\n".join(lines)


def _beginning(row: Row, parts: int) -> str:
    return ".".join(row.id.split(".")[:parts])


def _subjects(rows: list[Row]) -> dict[str, list[Row]]:
    """Return the rows by the beginning of their ids that names their subject.

    It has three parts if several rows share these, as `isa.binary.add`, else two. The third part of
    Tensor functions is a dtype.
    """
    shared = Counter(_beginning(row, 3) for row in rows if row.level != "tensor")
    subjects: dict[str, list[Row]] = {}
    for row in rows:
        three = _beginning(row, 3)
        subject = three if shared[three] > 1 else _beginning(row, 2)
        subjects.setdefault(subject, []).append(row)
    return dict(sorted(subjects.items()))


def _section(rows: list[Row]) -> Iterator[str]:
    """Yield a table for each group of rows with the same clauses, rung and error rule."""
    demands: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        demands.setdefault((_clauses(row), row.rung.title, row.error_rule), []).append(row)
    for group in demands.values():
        yield from _table_of(group)
        yield ""


def _table_of(rows: list[Row]) -> Iterator[str]:
    """Yield what the rows share as a list, and the rest as a table."""
    cells = {title: [text(row) for row in rows] for title, text in COLUMNS.items()}
    varying = {title: texts for title, texts in cells.items() if len(set(texts)) > 1}
    for title, texts in cells.items():
        if title not in varying and texts[0]:
            yield f"* {title}: {texts[0]}"
    yield ""
    ids = [f"`{row.id}`" for row in rows]
    yield from table(("row", *varying), zip(ids, *varying.values(), strict=True))
