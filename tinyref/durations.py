"""Times as users write and read them: 90s, 5m, 1.5h."""

from __future__ import annotations

import re

from tinyref.errors import UserError

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh])", re.ASCII)
# Shorter limits end a process before it starts.
SHORTEST = 0.1


def parse_duration(text: str, shortest: float = SHORTEST) -> float:
    """Return the seconds of "90s", "5m" or "1.5h". Raises `UserError` for less than `shortest`."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else -1.0
    if seconds < shortest:
        least = f", at least {duration_text(shortest)}" if shortest else ""
        raise UserError(f"got {text!r}, accepted are 90s, 5m, 1.5h{least}")
    return seconds


def duration_text(seconds: float) -> str:
    """Return seconds as `parse_duration` accepts them: "90s", "5m", "1h"."""
    for unit in ("h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.15g}{unit}"
    return f"{seconds:.15g}s"
