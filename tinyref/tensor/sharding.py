"""Tensors that lie on several devices."""

from __future__ import annotations

from tinyref.tensor.random import Random


class Sharding(Random):
    """Tensors that lie on several devices."""

    __slots__ = ()
