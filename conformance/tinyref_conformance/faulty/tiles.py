"""Devices whose matrix tiles are wired wrongly."""

from __future__ import annotations

from tinyref.interpret import Hooks
from tinyref.uops.tiles import MatrixTile
from tinyref_conformance.faulty.broken import Array, BrokenBackend


def swap_two_lanes(tile: MatrixTile, result: Array) -> Array:
    """Threads 2 and 3 of each subgroup get each other's elements; [subgroup, thread, register]."""
    order = list(range(tile.threads))
    if tile.threads > 3:
        order[2], order[3] = order[3], order[2]
    return result[:, order]


class SwappedTileLane(BrokenBackend):
    """Gives one lane of a matrix tile the result of its neighbour, and the neighbour its own."""

    hooks = Hooks(tile=swap_two_lanes)
