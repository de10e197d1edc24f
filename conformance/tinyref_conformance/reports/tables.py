"""A page of notes and tables: for a terminal, as Markdown, and as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources

import jinja2
from markupsafe import Markup

from tinyref_conformance.reports.markdown import cell

# Number of lines that a terminal shows of each table.
MAX_LINES = 40
PAGE = "tinyref_conformance.reports.page"


@dataclass(frozen=True)
class Table:
    """Lines of cells under column heads; `title` says how many there are."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """A comparison: its verdict as title, notes, and tables, the worst first."""

    title: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = field(default_factory=tuple)

    def text(self) -> str:
        """Return tables in columns, the first lines of each."""
        parts = [self.title, *self.notes]
        for table in self.tables:
            parts += ["", table.title]
            if table.lines:
                parts += _aligned([table.head, *table.lines[:MAX_LINES]])
            if len(table.lines) > MAX_LINES:
                parts.append(f"... and {len(table.lines) - MAX_LINES:,} more")
        return "".join(f"{line}\n" for line in parts)

    def markdown(self) -> str:
        """Return tables in the Markdown of GitHub and GitLab."""
        parts = [f"# {cell(self.title)}", "", *(f"* {cell(note)}" for note in self.notes), ""]
        for table in self.tables:
            parts += [f"## {cell(table.title)}", ""]
            if table.lines:
                parts += [_line(table.head), _line(["---"] * len(table.head))]
                parts += [_line([cell(text) for text in line]) for line in table.lines]
                parts.append("")
        return "\n".join(parts)

    def html(self) -> str:
        """Return a page without scripts or other files. All text is escaped."""
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
        files = resources.files(PAGE)
        template = environment.from_string((files / "tables.html.j2").read_text("utf-8"))
        css = Markup((files / "report.css").read_text("utf-8"))
        return template.render(page=self, css=css) + "\n"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
