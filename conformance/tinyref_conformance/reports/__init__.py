"""The forms of a report: JSON, JUnit, SARIF, Markdown, a badge, one self-contained HTML page."""

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
from tinyref_conformance.reports.sarif import is_result, sarif

JSON_NAME = "report.json"
HTML_NAME = "report.html"
# The script of the first failure, if there is one. A script that needs no tinyref has this name,
# and the other one is `REPLAY_NAME`. A C program has the name `C_NAME`.
SCRIPT_NAME = "reproduce.py"
REPLAY_NAME = "replay.py"
C_NAME = "reproduce.c"


def as_json(report: Report) -> str:
    """Return the JSON file: strict JSON, one case a line, so that a diff is readable."""
    data = report.to_json()
    cases, rows = data.pop("cases"), data.pop("rows")
    head = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1)
    return f'{head[:-2]},\n "rows": [\n{_lines(rows)}\n ],\n "cases": [\n{_lines(cases)}\n ]\n}}\n'


def _lines(items: list[object]) -> str:
    return ",\n".join(
        f"  {json.dumps(item, ensure_ascii=False, allow_nan=False)}" for item in items
    )


def as_sarif(report: Report) -> str:
    """Return the SARIF log; each result points to its line of the JSON file."""
    if not any(map(is_result, report.cases)):
        return sarif(report, 1)
    head, _, _ = as_json(report).partition('\n "cases": [\n')
    return sarif(report, head.count("\n") + 3)


FORMS: dict[str, Callable[[Report], str]] = {
    JSON_NAME: as_json,
    HTML_NAME: html,
    "junit.xml": junit,
    "report.sarif": as_sarif,
    "summary.md": markdown,
    "badge.svg": badge,
}
NAMES = (*FORMS, SCRIPT_NAME, REPLAY_NAME, C_NAME)


def write_all(report: Report, folder: Path) -> list[Path]:
    """Write every form into `folder`, and the first failure's script; each file is whole.

    Raises `UserError` naming the file that cannot be written.
    """
    texts = {name: printable_json(form(report)) for name, form in FORMS.items()}
    texts |= {name: printable_json(text) for name, text in _scripts(report).items() if text}
    for name in NAMES:
        path = folder / name
        try:
            _replace(path, texts.get(name))
        except OSError as error:
            raise UserError(f"report: cannot write {path}: {error.strerror or error}") from error
    return [folder / name for name in texts]


def _scripts(report: Report) -> dict[str, str]:
    script, tool_script = report.first_scripts
    if tool_script.startswith("/*"):
        return {SCRIPT_NAME: script, C_NAME: tool_script}
    if tool_script:
        return {SCRIPT_NAME: tool_script, REPLAY_NAME: script}
    return {SCRIPT_NAME: script}


def _replace(path: Path, text: str | None) -> None:
    """Replace the text of the file; delete the file if there is no text."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
