"""The counters of a plan's axes, and the numbers that they count to together."""

from __future__ import annotations

from collections.abc import Iterable

from tinyref.algebra.simplify import simplify
from tinyref.dtype import dtypes
from tinyref.optimise.plan import Axis
from tinyref.uops import build
from tinyref.uops.node import UOp

# The counter of each axis of a plan: a launch index or a range.
Counters = dict[Axis, UOp]


def flat(axes: Iterable[Axis], counters: Counters) -> UOp:
    """The number of the element at `counters` in an array with these axes, the last one fastest."""
    total = build.const(dtypes.index, 0)
    for axis in axes:
        total = build.add(build.mul(total, axis.extent), counters[axis])
    return simplify(total)
