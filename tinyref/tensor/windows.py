"""Sliding windows: convolution, pooling and their transposes."""

from __future__ import annotations

from tinyref.tensor.shaping import Shaping


class Windows(Shaping):
    """Sliding windows: convolution, pooling and their transposes."""

    __slots__ = ()
