"""Tensors that lie on several devices."""

from __future__ import annotations

from tinyref.tensor.losses import Losses


class Sharding(Losses):
    """Tensors that lie on several devices."""

    __slots__ = ()
