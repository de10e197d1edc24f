"""`tinyref bench`."""

from __future__ import annotations


def bench() -> None:
    """Measure tinyref itself."""
