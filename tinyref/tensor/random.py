"""Random numbers from Threefry counters: the same on every device."""

from __future__ import annotations

from tinyref.tensor.losses import Losses


class Random(Losses):
    """Random numbers from Threefry counters: the same on every device."""

    __slots__ = ()
