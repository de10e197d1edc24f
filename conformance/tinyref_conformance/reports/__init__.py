"""The forms of a report: JSON, JUnit, Markdown, a badge, and one self-contained HTML page."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from tinyref.errors import UserError, printable_json
from tinyref_conformance.report import Report
from tinyref_conformance.reports.badge import badge
from tinyref_conformance.reports.html import html
from tinyref_conformance.reports.junit import junit
from tinyref_conformance.reports.markdown import markdown

JSON_NAME = "report.json"
HTML_NAME = "report.html"


def as_json(report: Report) -> str:
    """The JSON file: strict JSON, one case a line so that differences read well."""
    data = report.to_json()
    cases, rows = data.pop("cases"), data.pop("rows")
    head = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1)
    return f'{head[:-2]},\n "rows": [\n{_lines(rows)}\n ],\n "cases": [\n{_lines(cases)}\n ]\n}}\n'


def _lines(items: list[object]) -> str:
    return ",\n".join(
        f"  {json.dumps(item, ensure_ascii=False, allow_nan=False)}" for item in items
    )


FORMS: dict[str, Callable[[Report], str]] = {
    JSON_NAME: as_json,
    HTML_NAME: html,
    "junit.xml": junit,
    "summary.md": markdown,
    "badge.svg": badge,
}


def write_all(report: Report, folder: Path) -> list[Path]:
    """Writes every form into `folder`, each replaced whole, never half.

    Raises `UserError` naming the file that cannot be written.
    """
    written = []
    for name, form in FORMS.items():
        path = folder / name
        temporary = folder / f".{name}.new"
        try:
            temporary.write_text(printable_json(form(report)), encoding="utf-8")
            os.replace(temporary, path)
        except OSError as error:
            raise UserError(f"report: cannot write {path}: {error.strerror or error}") from error
        written.append(path)
    return written
