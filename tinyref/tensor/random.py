"""Random numbers from Threefry counters: the same on every device."""

from __future__ import annotations

from tinyref.tensor.windows import Windows


class Random(Windows):
    """Random numbers from Threefry counters: the same on every device."""

    __slots__ = ()
