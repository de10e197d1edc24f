"""A badge: an SVG of one line, for a README."""

from __future__ import annotations

from html import escape

from tinyref_conformance.report import Report
from tinyref_conformance.statuses import EXIT_AS_EXPECTED, Status

_LETTER_WIDTH = 6.6
_PADDING = 12


def badge(report: Report) -> str:
    """Return the badge of a run: device, passed and required cases; grey if the run was reduced."""
    counts = report.counts
    passed = counts[Status.PASS] + counts[Status.UNSUPPORTED]
    required = counts.total() - counts[Status.SKIP]
    device, profile = report.device, report.certificate["profile"]
    label = f"tinyref {device}"
    value = f"{profile}: {passed:,} of {required:,}"
    if report.exit_code == EXIT_AS_EXPECTED:
        colour = "#2f7d4f"
    else:
        colour = "#b3261e"
        value = f"✗ {value}"
    if not report.is_conformance_run:
        value, colour = f"{value}, not a conformance run", "#6b6b6b"
    return _svg(label, value, colour)


def _svg(label: str, value: str, colour: str) -> str:
    left = round(len(label) * _LETTER_WIDTH + _PADDING)
    right = round(len(value) * _LETTER_WIDTH + _PADDING)
    title = escape(f"{label}: {value}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{left}" height="20" fill="#3a3f47"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" '
        'text-anchor="middle">'
        f'<text x="{left / 2}" y="14">{escape(label)}</text>'
        f'<text x="{left + right / 2}" y="14">{escape(value)}</text></g></svg>\n'
    )
