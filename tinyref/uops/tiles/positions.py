"""Elements of fragments as index expressions of the thread's number."""

from __future__ import annotations

from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.tiles.layout import Bit, FragmentLayout, MatrixTile, Operand


def element(tile: MatrixTile, operand: Operand, thread: UOp, register: int) -> tuple[UOp, UOp]:
    """Row and column of the element that `register` of `thread` holds, in the type of `thread`.

    thread: the place of the work-item in its group, not negative; its place in its subgroup is that
    modulo the threads of the tile.
    """
    layout = tile.layout(operand)
    row, column = operand.axes
    return coordinate(layout, row, thread, register), coordinate(layout, column, thread, register)


def coordinate(layout: FragmentLayout, axis: str, thread: UOp, register: int) -> UOp:
    """The coordinate along `axis` of the element in `register` of `thread`."""
    total = build.const(thread.dtype, layout.coordinate(axis, 0, register))
    for place, count, weight in _stretches(layout.thread_bits, axis):
        part = build.mod(build.idiv(thread, 1 << place), 1 << count)
        total = build.add(build.mul(part, weight), total)
    return total


def _stretches(bits: tuple[Bit | None, ...], axis: str) -> list[tuple[int, int, int]]:
    """(first place, count, lowest weight) of neighbouring bits that make one number on `axis`."""
    found: list[tuple[int, int, int]] = []
    for place, bit in enumerate(bits):
        if bit is None or bit.axis != axis:
            continue
        if found:
            first, count, weight = found[-1]
            if first + count == place and weight << count == bit.weight:
                found[-1] = (first, count + 1, weight)
                continue
        found.append((place, 1, bit.weight))
    return found
