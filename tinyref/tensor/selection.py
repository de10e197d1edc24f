"""Choosing elements by their place or their value: gather, scatter, sort, masks, scans."""

from __future__ import annotations

from tinyref.tensor.data import Data


class Selection(Data):
    """Choosing elements by their place or their value: gather, scatter, sort, masks, scans."""

    __slots__ = ()
