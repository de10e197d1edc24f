"""Movement by name or by rule: rearrange, interpolate, and the like."""

from __future__ import annotations

from tinyref.tensor.selection import Selection


class Shaping(Selection):
    """Movement by name or by rule: rearrange, interpolate, and the like."""

    __slots__ = ()
