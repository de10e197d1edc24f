"""Positions and gates of the copies of a node: index arithmetic with the lane ranges put in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tinyref.algebra.linear import Linear, constant_of, exact, to_node
from tinyref.algebra.simplify import simplify
from tinyref.codegen.expand.dependence import Dependence, Numbering
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute


@dataclass(frozen=True, slots=True)
class Stepped:
    """A position as base + sum of steps[range] * range + constant; the base has no lane range."""

    base: UOp
    steps: dict[UOp, int]
    constant: int

    def distance(self, counters: Mapping[UOp, int]) -> int:
        """How far from the base the position is where the lane ranges are at `counters`."""
        return self.constant + sum(k * counters[term] for term, k in self.steps.items())


def stepped(position: UOp, dependence: Dependence) -> Stepped | None:
    """`position` by its lane ranges; None where one of them stands in a quotient or the like.

    What it has besides them may be any values that do not depend on one, such as a loaded index.
    """
    if position.dtype is not dtypes.index:
        return None
    linear = exact(position)
    steps: dict[UOp, int] = {}
    rest: dict[UOp, int] = {}
    for term, factor in linear.terms.items():
        if term in dependence.bits:
            steps[term] = factor
        elif dependence.masks.get(term, -1):
            return None
        else:
            rest[term] = factor
    return Stepped(to_node(dtypes.index, Linear(rest, 0)), steps, linear.constant)


def divisor_of(position: UOp) -> int:
    """The largest number known to divide every value of `position`; 0 for the constant 0."""
    linear = exact(position)
    return math.gcd(linear.constant, *linear.terms.values())


class Positions:
    """The index arithmetic of a kernel, copy by copy; what was asked for once is kept."""

    def __init__(self, dependence: Dependence, numbering: Numbering) -> None:
        self.dependence = dependence
        self.numbering = numbering
        self._stepped: dict[UOp, Stepped | None] = {}
        self._found: dict[tuple[UOp, int, int], UOp] = {}
        # What is simplified, held while others share parts of it: nodes keep what they become.
        self._written_out: list[UOp] = []

    def stepped(self, position: UOp) -> Stepped | None:
        """See `stepped`."""
        if position not in self._stepped:
            self._stepped[position] = stepped(position, self.dependence)
        return self._stepped[position]

    def split_lanes(self, position: UOp, copy: int, lanes: int) -> list[tuple[UOp, int]]:
        """All lanes of one copy: each a base, equal for neighbours, and a distance from it."""
        found = self.stepped(position)
        if found is None:
            return [self._split(self.at(position, copy, lane)) for lane in range(lanes)]
        first = found.distance(self.numbering.counters(self.dependence.masks[position], copy, 0))
        between = sum(k for term, k in found.steps.items() if self.numbering.width(term) > 1)
        return [(found.base, first + lane * between) for lane in range(lanes)]

    def _split(self, position: UOp) -> tuple[UOp, int]:
        linear = exact(position)
        return to_node(position.dtype, Linear(linear.terms, 0)), linear.constant

    def at(self, node: UOp, copy: int, lane: int) -> UOp:
        """The index arithmetic `node` in one lane of one of its copies, simplified."""
        mask = self.dependence.masks[node]
        if mask == 0:
            return node
        key = node, copy, lane
        found = self._found.get(key)
        if found is None:
            counters = self.numbering.counters(mask, copy, lane)
            by_steps = self.stepped(node)
            if by_steps is not None:
                found = shift(by_steps.base, by_steps.distance(counters))
            else:
                values = {
                    lane_range: build.const(lane_range.dtype, value)
                    for lane_range, value in counters.items()
                }
                self._written_out.append(substitute(node, values))
                found = simplify(self._written_out[-1])
            self._found[key] = found
        return found


def shift(base: UOp, distance: int) -> UOp:
    """The position `distance` beyond `base`, in normal form."""
    if distance == 0:
        return base
    constant = constant_of(base)
    if constant is not None:
        return build.const(base.dtype, constant + distance)
    return build.add(base, distance)
