"""Losses, normalisation and attention: what models are trained with."""

from __future__ import annotations

from tinyref.tensor.windows import Windows


class Losses(Windows):
    """Losses, normalisation and attention: what models are trained with."""

    __slots__ = ()
