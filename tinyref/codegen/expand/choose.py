"""Which lane ranges become the lanes of vectors, and how many at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tinyref.algebra.simplify import simplify
from tinyref.codegen.expand.dependence import Dependence, divisor_of, is_index_arithmetic, stepped
from tinyref.uops import build
from tinyref.uops.build import range_number, skip_after
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import AxisKind, RangeArg

# What stands in the loop of a reduce counts as often as four things outside of it.
_IN_REDUCE = 4
_REDUCED = (AxisKind.REDUCE, AxisKind.UNROLL)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A range with its best width, and the work per element that this saves."""

    lane_range: UOp
    width: int
    saved: float


def choose_widths(
    order: Sequence[UOp], dependence: Dependence, widths: Collection[int]
) -> dict[UOp, int]:
    """The lanes of each lane range that becomes a vector; no node depends on two of them.

    Only a range with an access of unit stride does, and one for which vectors save work: an
    access of n lanes counts as 1/n, lanes that are put together one by one count twice.
    """
    weights = _weights(order)
    fixed = 0
    for node in order:
        if node.dtype.lanes > 1:
            fixed |= dependence.masks[node] | dependence.union(node.src)
    candidates = []
    for lane_range in dependence.ranges:
        if fixed & dependence.bits[lane_range]:
            continue
        legal = [width for width in widths if dependence.extents[lane_range] % width == 0]
        candidates += _best_width(lane_range, weights, dependence, legal)
    candidates.sort(key=_saves_most)
    masks = set(dependence.masks.values())
    chosen: dict[UOp, int] = {}
    taken = 0
    for candidate in candidates:
        bit = dependence.bits[candidate.lane_range]
        if not any(mask & bit and mask & taken for mask in masks):
            chosen[candidate.lane_range] = candidate.width
            taken |= bit
    return chosen


def _saves_most(each: _Candidate) -> tuple[float, bool, int]:
    return -each.saved, _is_reduced(each.lane_range), range_number(each.lane_range)


def _is_reduced(lane_range: UOp) -> bool:
    return isinstance(lane_range.arg, RangeArg) and lane_range.arg.kind in _REDUCED


def _weights(order: Sequence[UOp]) -> dict[UOp, int]:
    """How much each access and each operation on values counts."""
    in_reduce: set[UOp] = set()
    weights = {}
    for node in order:
        if _is_reduced(node) or (node.op is not Ops.REDUCE and not in_reduce.isdisjoint(node.src)):
            in_reduce.add(node)
        is_access = node.op in (Ops.LOAD, Ops.STORE)
        if is_access or (node.op in ALU and not is_index_arithmetic(node)):
            weights[node] = _IN_REDUCE if node in in_reduce else 1
    return weights


def _best_width(
    lane_range: UOp, weights: dict[UOp, int], dependence: Dependence, widths: Collection[int]
) -> list[_Candidate]:
    """The width at which what depends on the range is the least work; none if it is not less."""
    bit = dependence.bits[lane_range]
    weights = {node: weight for node, weight in weights.items() if dependence.masks[node] & bit}
    aligned = {
        node: _alignment(node, lane_range, dependence) for node in weights if node.op not in ALU
    }
    scalar_work = sum(weights.values())
    arithmetic = sum(weight for node, weight in weights.items() if node.op in ALU)
    best: list[_Candidate] = []
    for width in sorted(widths):
        work = arithmetic / width
        has_unit_stride = False
        for access, alignment in aligned.items():
            lanes = math.gcd(alignment, width)
            if lanes > 1 and not _is_uniform(_gate_of(access), lane_range, width, dependence):
                lanes = 1
            has_unit_stride |= lanes > 1
            work += weights[access] * (1 / lanes + (lanes < width))
        saved = scalar_work - work
        if has_unit_stride and saved > 0 and all(saved >= each.saved for each in best):
            best = [_Candidate(lane_range, width, saved)]
    return best


def _gate_of(access: UOp) -> UOp | None:
    return access.src[2] if len(access.src) == 3 else None


def _alignment(access: UOp, lane_range: UOp, dependence: Dependence) -> int:
    """A divisor of every position along a unit stride (0: of all); 1 for any other stride."""
    address = skip_after(access.src[0])
    if address.op is not Ops.INDEX:
        return 1
    found = stepped(address.src[1], dependence)
    if found is None or found.steps.get(lane_range) != 1:
        return 1
    others = [step for other, step in found.steps.items() if other is not lane_range]
    return math.gcd(divisor_of(found.base), found.constant, *others)


def _is_uniform(gate: UOp | None, lane_range: UOp, width: int, dependence: Dependence) -> bool:
    """Whether the gate is seen to be one for the first `width` lanes; a guess for the others."""
    if gate is None or not dependence.masks[gate] & dependence.bits[lane_range]:
        return True
    lanes = {
        simplify(substitute(gate, {lane_range: build.const(lane_range.dtype, lane)}))
        for lane in range(width)
    }
    return len(lanes) == 1
