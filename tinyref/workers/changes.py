"""Differences between a run and the one that it goes on with, or between two of its workers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from tinyref.errors import UserError

_NOT_THERE = "(none)"
# Of a longer value this much is shown, from a little before the first letter that differs.
_SHOWN = 100
_SHOWN_BEFORE = 30


class ChangedError(UserError):
    """The journal to resume is of another run, or of another state of the device."""


def differences(then: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return what changed, a line for each member: "flag NOOPT: 1 -> (none)"."""
    lines = []
    for name in [*then, *(name for name in now if name not in then)]:
        old, new = str(then.get(name, _NOT_THERE)), str(now.get(name, _NOT_THERE))
        if old != new:
            equal = itertools.takewhile(
                lambda pair: pair[0] == pair[1], zip(old, new, strict=False)
            )
            start = max(0, sum(1 for _ in equal) - _SHOWN_BEFORE)
            lines.append(f"{name}: {_part(old, start)} -> {_part(new, start)}")
    return lines


def _part(value: str, start: int) -> str:
    if len(value) <= _SHOWN:
        return value
    end = start + _SHOWN
    return f"{'...' if start else ''}{value[start:end]}{'...' if end < len(value) else ''}"
