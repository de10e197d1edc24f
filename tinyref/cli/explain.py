"""`tinyref explain`."""

from __future__ import annotations


def explain(expression: str) -> None:
    """Explain."""
