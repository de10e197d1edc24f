"""Losses, normalisation and attention: what models are trained with."""

from __future__ import annotations

from tinyref.tensor.random import Random


class Losses(Random):
    """Losses, normalisation and attention: what models are trained with."""

    __slots__ = ()
