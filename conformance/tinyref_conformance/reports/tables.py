"""A page of notes and tables, as Markdown and as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources

import jinja2
from markupsafe import Markup

from tinyref_conformance.reports.markdown import cell

PAGE = "tinyref_conformance.reports.page"


@dataclass(frozen=True)
class Table:
    """Lines of cells under their heads; `title` says how much there is."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """What a comparison shows: a verdict as title, notes, and tables, the worst first."""

    title: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = field(default_factory=tuple)

    def markdown(self) -> str:
        """Tables as GitHub and GitLab show them."""
        parts = [f"# {cell(self.title)}", "", *(f"* {cell(note)}" for note in self.notes), ""]
        for table in self.tables:
            parts += [f"## {cell(table.title)}", ""]
            if table.lines:
                parts += [_line(table.head), _line(["---"] * len(table.head))]
                parts += [_line([cell(text) for text in line]) for line in table.lines]
                parts.append("")
        return "\n".join(parts)

    def html(self) -> str:
        """The page: no script, no other file. All text is shown as text, never as markup."""
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
        files = resources.files(PAGE)
        template = environment.from_string((files / "tables.html.j2").read_text("utf-8"))
        css = Markup((files / "report.css").read_text("utf-8"))
        return template.render(page=self, css=css) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
