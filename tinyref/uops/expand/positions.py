"""Positions and gates of the copies of a node: index arithmetic with the lane ranges put in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.expand.dependence import Dependence, Numbering
from tinyref.uops.linear import Linear, exact, to_node
from tinyref.uops.node import UOp, substitute
from tinyref.uops.simplify import simplify


@dataclass(frozen=True, slots=True)
class Stepped:
    """A position as base + sum of steps[range] * range + constant; the base has no lane range."""

    base: UOp
    steps: dict[UOp, int]
    constant: int


def stepped(position: UOp, dependence: Dependence) -> Stepped | None:
    """`position` by its lane ranges; None where one of them stands in a quotient or the like."""
    linear = exact(position) if position.dtype is dtypes.index else None
    if linear is None:
        return None
    steps = {term: k for term, k in linear.terms.items() if term in dependence.bits}
    rest = {term: k for term, k in linear.terms.items() if term not in steps}
    if any(dependence.masks[term] for term in rest):
        return None
    return Stepped(to_node(dtypes.index, Linear(rest, 0)), steps, linear.constant)


def divisor_of(position: UOp) -> int:
    """The largest number known to divide every value of `position`; 0 for the constant 0."""
    linear = exact(position)
    if linear is None or position in linear.terms:
        return 1
    return math.gcd(linear.constant, *linear.terms.values())


class Positions:
    """The index arithmetic of a kernel, copy by copy; what was asked for once is kept."""

    def __init__(self, dependence: Dependence, numbering: Numbering) -> None:
        self.dependence = dependence
        self.numbering = numbering
        self._stepped: dict[UOp, Stepped | None] = {}
        self._found: dict[tuple[UOp, int, int], UOp] = {}

    def stepped(self, position: UOp) -> Stepped | None:
        """See `stepped`."""
        if position not in self._stepped:
            self._stepped[position] = stepped(position, self.dependence)
        return self._stepped[position]

    def split(self, position: UOp, copy: int, lane: int) -> tuple[UOp, int]:
        """One lane of one copy as a base, equal for neighbours, and a constant."""
        found = self.stepped(position)
        if found is not None:
            mask = self.dependence.masks[position]
            counters = self.numbering.counters(mask, copy, lane)
            steps = sum(step * counters[lane_range] for lane_range, step in found.steps.items())
            return found.base, found.constant + steps
        at = self.at(position, copy, lane)
        linear = exact(at) if at.dtype is dtypes.index else None
        if linear is None or at in linear.terms:
            return at, 0
        return to_node(dtypes.index, Linear(linear.terms, 0)), linear.constant

    def at(self, node: UOp, copy: int, lane: int) -> UOp:
        """The index arithmetic `node` in one lane of one of its copies, simplified."""
        mask = self.dependence.masks[node]
        if mask == 0:
            return node
        key = (node, copy, lane if self.numbering.lanes(mask) > 1 else 0)
        found = self._found.get(key)
        if found is None:
            if self.stepped(node) is not None:
                found = moved(*self.split(node, copy, lane))
            else:
                counters = self.numbering.counters(mask, copy, lane)
                values = {
                    lane_range: build.const(lane_range.dtype, value)
                    for lane_range, value in counters.items()
                }
                found = simplify(substitute(node, values))
            self._found[key] = found
        return found


def moved(base: UOp, constant: int) -> UOp:
    """The position `constant` beyond `base`."""
    if constant == 0:
        return base
    return simplify(build.add(base, constant))
