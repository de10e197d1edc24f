"""One self-contained HTML page."""

from __future__ import annotations

from tinyref_conformance.report import Report


def html(report: Report) -> str:
    """The page."""
    return report.verdict
