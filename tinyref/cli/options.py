"""What several commands ask of their options."""

from __future__ import annotations

import math

from tinyref.errors import UserError

MOST_JOBS = 1024


def check_finite(**options: float | None) -> None:
    """Raises `UserError` for infinite seconds, and for NaN, which a range admits."""
    for option, value in options.items():
        if value is not None and not math.isfinite(value):
            raise UserError(f"{option}: expected a number of seconds, got {value}")
