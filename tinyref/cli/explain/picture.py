"""Graphs as pictures: SVG for a page, in the page's own colours.

Nodes lie in layers, below all that they need, in an order that keeps lines short.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from markupsafe import Markup, escape

from tinyref.formats.text import node_text
from tinyref.lazy.shape import name_of
from tinyref.uops.node import UOp

# Nobody reads a picture of more nodes.
MAX_NODES = 150
_LINE_HEIGHT, _LETTER, _PADDING = 15, 6.6, 8
_GAP_X, _GAP_Y, _MARGIN = 18, 34, 6
_MAX_LETTERS = 34
_SWEEPS = 8

Places = Mapping[int, tuple[float, float]]


@dataclass(frozen=True)
class Box:
    """A drawn node: its lines of text, the numbers of the boxes that it needs, and its link."""

    lines: tuple[str, ...]
    sources: tuple[int, ...]
    title: str
    link: str = ""

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * _LETTER + 2 * _PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE_HEIGHT + _PADDING


def picture(root: UOp) -> Markup:
    """Return the graph below `root` as an SVG element; empty for more than `MAX_NODES` nodes."""
    nodes = list(root.toposort())
    if len(nodes) > MAX_NODES:
        return Markup("")
    number = {node: index for index, node in enumerate(nodes)}
    boxes = [_box(node, [number[source] for source in node.src]) for node in nodes]
    return _drawn(boxes, places_of(boxes))


def schedule_picture(boxes: Sequence[Box]) -> Markup:
    """Return the steps of a schedule as an SVG element with links; empty for one or too many."""
    if not 2 <= len(boxes) <= MAX_NODES:
        return Markup("")
    return _drawn(boxes, places_of(boxes), "steps")


def _box(node: UOp, sources: Sequence[int]) -> Box:
    text = node_text(node)
    payload = text.partition(")")[2].strip()
    lines = [f"{node.op.name} {node.dtype.name}", payload, name_of(node)]
    return Box(tuple(cut(line) for line in lines if line), tuple(sources), text)


def cut(line: str) -> str:
    """Return as much of a line as fits into a box."""
    return line if len(line) <= _MAX_LETTERS else f"{line[: _MAX_LETTERS - 1]}…"


def places_of(boxes: Sequence[Box]) -> Places:
    """Return the middle of each box, from the upper left: below all that it needs, near those."""
    layer: dict[int, int] = {}
    for n in TopologicalSorter({n: box.sources for n, box in enumerate(boxes)}).static_order():
        layer[n] = 1 + max((layer[source] for source in boxes[n].sources), default=-1)
    rows: list[list[int]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for n, number in layer.items():
        rows[number].append(n)
    users: dict[int, list[int]] = {n: [] for n in layer}
    for n, box in enumerate(boxes):
        for source in box.sources:
            users[source].append(n)
    across = _spread(rows, boxes)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            near = {n: boxes[n].sources if downwards else users[n] for n in row}
            row.sort(key=lambda n: _middle([across[other] for other in near[n]], across[n]))
        across = _spread(rows, boxes)
    return {
        n: (across[n], y) for row, y in zip(rows, _heights(rows, boxes), strict=True) for n in row
    }


def _middle(of: Sequence[float], otherwise: float) -> float:
    return statistics.fmean(of) if of else otherwise


def _spread(rows: Sequence[Sequence[int]], boxes: Sequence[Box]) -> dict[int, float]:
    """Return the middle of each box: boxes of a row side by side, rows centred."""
    widths = [sum(boxes[n].width for n in row) + _GAP_X * (len(row) - 1) for row in rows]
    across: dict[int, float] = {}
    for row, width in zip(rows, widths, strict=True):
        left = (max(widths) - width) / 2
        for n in row:
            across[n] = left + boxes[n].width / 2
            left += boxes[n].width + _GAP_X
    return across


def _heights(rows: Sequence[Sequence[int]], boxes: Sequence[Box]) -> list[float]:
    """Return the middle of each row, from above."""
    middles, top = [], 0.0
    for row in rows:
        height = max(boxes[n].height for n in row)
        middles.append(top + height / 2)
        top += height + _GAP_Y
    return middles


def _drawn(boxes: Sequence[Box], places: Places, noun: str = "nodes") -> Markup:
    right = max(places[n][0] + box.width / 2 for n, box in enumerate(boxes)) + _MARGIN
    below = max(places[n][1] + box.height / 2 for n, box in enumerate(boxes)) + _MARGIN
    parts = [
        Markup(
            '<svg class="graph" role="img" aria-label="{} {}" viewBox="{} {} {:.0f} {:.0f}"'
        ).format(len(boxes), noun, -_MARGIN, -_MARGIN, right + _MARGIN, below + _MARGIN)
        + Markup(' width="{:.0f}" height="{:.0f}">').format(right + _MARGIN, below + _MARGIN)
    ]
    for n, box in enumerate(boxes):
        parts += [_edge(boxes, places, source, n) for source in dict.fromkeys(box.sources)]
    parts += [_shape(box, places[n]) for n, box in enumerate(boxes)]
    return Markup("").join([*parts, Markup("</svg>")])


def _edge(boxes: Sequence[Box], places: Places, source: int, target: int) -> Markup:
    """Return a line from the lower side of a box to the upper side of the one that needs it."""
    (x0, y0), (x1, y1) = places[source], places[target]
    y0, y1 = y0 + boxes[source].height / 2, y1 - boxes[target].height / 2
    half = (y0 + y1) / 2
    return Markup('<path d="M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}"/>').format(
        x0, y0, x0, half, x1, half, x1, y1
    )


def _shape(box: Box, middle: tuple[float, float]) -> Markup:
    x, y = middle
    left, top = x - box.width / 2, y - box.height / 2
    lines = Markup("").join(
        Markup('<text x="{:.1f}" y="{:.1f}"{}>{}</text>').format(
            x,
            top + _PADDING / 2 + (n + 0.75) * _LINE_HEIGHT,
            Markup("") if n else Markup(' class="op"'),
            escape(line),
        )
        for n, line in enumerate(box.lines)
    )
    rectangle = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="4"/>')
    shape = rectangle.format(left, top, box.width, box.height)
    drawn = Markup("<g><title>{}</title>{}{}</g>").format(box.title, shape, lines)
    return Markup('<a href="{}">{}</a>').format(box.link, drawn) if box.link else drawn
