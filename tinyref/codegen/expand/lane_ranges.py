"""The lane ranges that nodes depend on, the numbers of copies, and the ranges that become vectors.

A lane range is a RANGE of kind UPCAST or UNROLL. A set of them is a bit mask. The copies of a node
are numbered from 0, and the last range of its mask counts fastest. A range that becomes the lanes
of vectors counts blocks of lanes. Positions and gates are index arithmetic, in which values replace
lane ranges.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tinyref.algebra.linear import LinearForm, constant_of, exact, to_node
from tinyref.algebra.simplify import simplify
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.formats.text import node_text
from tinyref.optimise.plan import LANE_KINDS
from tinyref.uops import build
from tinyref.uops.build import range_number, skip_after
from tinyref.uops.node import UOp, node_fact, substitute
from tinyref.uops.ops import ALU, WORK_OF_OP, Ops
from tinyref.uops.payload import AxisKind, ConstArg, RangeArg

_LEAVES = frozenset({Ops.CONST, Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL})
# Ops that must be one node in the whole kernel, so they cannot be copied.
_UNIQUE = frozenset({Ops.RANGE, Ops.SPECIAL, Ops.DEFINE_ACC, Ops.UPDATE_ACC})
# These wait for all copies of their sources, and are one node themselves.
_WAITING = frozenset({Ops.BARRIER, Ops.SINK})


def is_lane_range(node: UOp) -> bool:
    """Return True for a RANGE of kind UPCAST or UNROLL."""
    return isinstance(node.arg, RangeArg) and node.arg.kind in LANE_KINDS


def extent_of(lane_range: UOp) -> int:
    """Return the number of values of a lane range. Raises `UserError` if it is symbolic."""
    extent = lane_range.src[0].arg
    if isinstance(extent, ConstArg):
        return int(extent.value)
    raise UserError(f"{node_text(lane_range)}: only an axis of constant size can be upcast")


@node_fact
def is_index_arithmetic(node: UOp) -> bool:
    """Return True for a position or a gate made only of counters and sizes."""
    if node.op in _LEAVES:
        return True
    if node.op not in ALU or not (node.dtype is dtypes.index or node.dtype is dtypes.bool):
        return False
    return all(map(is_index_arithmetic, node.src))


class Dependence:
    """The lane ranges of a kernel, and for every node the mask of the ranges that it depends on.

    `order` is the kernel, sources first. Raises `UserError` if a counter or an accumulator depends
    on a lane range.
    """

    def __init__(self, order: Sequence[UOp]) -> None:
        self.ranges = sorted((node for node in order if is_lane_range(node)), key=range_number)
        self.bits = {lane_range: 1 << bit for bit, lane_range in enumerate(self.ranges)}
        self.extents = {lane_range: extent_of(lane_range) for lane_range in self.ranges}
        self.masks: dict[UOp, int] = {}
        for node in order:
            self.masks[node] = self._mask(node)

    def _mask(self, node: UOp) -> int:
        if node in self.bits:
            return self.bits[node]
        if node.op in _WAITING or not node.src:
            return 0
        mask = self.masks[node.src[0]]
        if node.op is Ops.AFTER:
            return mask
        if node.op is Ops.REDUCE:
            return mask & ~self.union(node.src[1:])
        mask = self.union(node.src)
        if mask and node.op in _UNIQUE:
            raise UserError(
                f"{node_text(node)}: depends on an upcast or unrolled axis: accepted are "
                "counters that do not, and accumulators made after the expansion"
            )
        return mask

    def union(self, nodes: Sequence[UOp]) -> int:
        """Return the union of the masks of `nodes`."""
        mask = 0
        for node in nodes:
            mask |= self.masks[node]
        return mask

    def lanes_of(self, node: UOp) -> int:
        """Return the number of values of a node: one for each position of its lane ranges."""
        bits = self.bits.items()
        return math.prod(self.extents[term] for term, bit in bits if self.masks[node] & bit)


class Numbering:
    """The numbers of copies. `widths` has the lanes of the ranges that become vectors."""

    def __init__(self, dependence: Dependence, widths: Mapping[UOp, int]) -> None:
        self.ranges = dependence.ranges
        self.blocks = [
            dependence.extents[lane_range] // widths.get(lane_range, 1)
            for lane_range in self.ranges
        ]
        self.widths = [widths.get(lane_range, 1) for lane_range in self.ranges]
        self.width_of = dict(zip(self.ranges, self.widths, strict=True))
        # Tables of numbers, filled on request.
        self.assignments = functools.cache(self._assignments)
        self.projection = functools.cache(self._projection)
        self.lanes = functools.cache(self._lanes)
        self.counters = functools.cache(self._counters)

    def _bits(self, mask: int) -> list[int]:
        return [bit for bit in range(len(self.ranges)) if mask >> bit & 1]

    def count(self, mask: int) -> int:
        """Return the number of copies of a node that depends on `mask`."""
        return len(self.assignments(mask))

    def _lanes(self, mask: int) -> int:
        """Return the lanes of the values of such a node: no mask has two vector ranges."""
        return math.prod(self.widths[bit] for bit in self._bits(mask))

    def _assignments(self, mask: int) -> list[tuple[int, ...]]:
        """Return the block of each range of `mask`, for each copy."""
        return list(itertools.product(*(range(self.blocks[i]) for i in self._bits(mask))))

    def _projection(self, mask: int, part: int) -> list[int]:
        """Return, for each copy on `mask`, the copy that it takes of a source on `part`."""
        shared = [i for i, bit in enumerate(self._bits(mask)) if part >> bit & 1]
        number = {chosen: i for i, chosen in enumerate(self.assignments(part))}
        return [number[tuple(blocks[i] for i in shared)] for blocks in self.assignments(mask)]

    def width(self, lane_range: UOp) -> int:
        """Return the number of lanes that `lane_range` becomes; 1 if it is copied."""
        return self.width_of[lane_range]

    def _counters(self, mask: int, copy: int, lane: int) -> dict[UOp, int]:
        """Return the value of every range of `mask` in a lane of a copy."""
        counters = {}
        for bit, block in zip(self._bits(mask), self.assignments(mask)[copy], strict=True):
            width = self.widths[bit]
            counters[self.ranges[bit]] = block * width + (lane if width > 1 else 0)
        return counters


@dataclass(frozen=True, slots=True)
class Stepped:
    """A position as base + sum of steps[range] * range + constant; the base has no lane range."""

    base: UOp
    steps: dict[UOp, int]
    constant: int

    def distance(self, counters: Mapping[UOp, int]) -> int:
        """Return the distance from the base if the lane ranges are at `counters`."""
        return self.constant + sum(k * counters[term] for term, k in self.steps.items())


def stepped(position: UOp, dependence: Dependence) -> Stepped | None:
    """Return `position` by its lane ranges; None if one of them is in a quotient or similar.

    The other parts may be any values that do not depend on a lane range, such as a loaded index.
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
    return Stepped(to_node(dtypes.index, LinearForm(rest, 0)), steps, linear.constant)


def divisor_of(position: UOp) -> int:
    """Return the largest known divisor of every value of `position`; 0 for the constant 0."""
    linear = exact(position)
    return math.gcd(linear.constant, *linear.terms.values())


class Positions:
    """The index arithmetic of a kernel, copy by copy; results are cached."""

    def __init__(self, dependence: Dependence, numbering: Numbering) -> None:
        self.dependence = dependence
        self.numbering = numbering
        self.stepped = functools.cache(functools.partial(stepped, dependence=dependence))
        self._changed_at = functools.cache(self._put_in)
        # Nodes cache their results, so these stay alive while others share parts of them.
        self._written_out: list[UOp] = []

    def split_lanes(self, position: UOp, copy: int, lanes: int) -> list[tuple[UOp, int]]:
        """Return (base, distance) for all lanes of a copy; neighbours have the same base."""
        by_steps = self.stepped(position)
        if by_steps is None:
            return [self._split(self.at(position, copy, lane)) for lane in range(lanes)]
        first = by_steps.distance(self.numbering.counters(self.dependence.masks[position], copy, 0))
        between = sum(k for term, k in by_steps.steps.items() if self.numbering.width(term) > 1)
        return [(by_steps.base, first + lane * between) for lane in range(lanes)]

    def _split(self, position: UOp) -> tuple[UOp, int]:
        linear = exact(position)
        return to_node(position.dtype, LinearForm(linear.terms, 0)), linear.constant

    def at(self, node: UOp, copy: int, lane: int) -> UOp:
        """Return the index arithmetic `node` in a lane of a copy, simplified."""
        return self._changed_at(node, copy, lane) if self.dependence.masks[node] else node

    def _put_in(self, node: UOp, copy: int, lane: int) -> UOp:
        """Return the same for a node that depends on lane ranges: values replace them."""
        counters = self.numbering.counters(self.dependence.masks[node], copy, lane)
        by_steps = self.stepped(node)
        if by_steps is not None:
            return shift(by_steps.base, by_steps.distance(counters))
        values = {
            lane_range: build.const(lane_range.dtype, value)
            for lane_range, value in counters.items()
        }
        self._written_out.append(substitute(node, values))
        return simplify(self._written_out[-1])


def shift(base: UOp, distance: int) -> UOp:
    """Return the position `distance` beyond `base`, in normal form."""
    if distance == 0:
        return base
    constant = constant_of(base)
    if constant is not None:
        return build.const(base.dtype, constant + distance)
    return build.add(base, distance)


# A guess at the iterations of a loop of symbolic extent.
_USUAL_ITERATIONS = 4
_REDUCED = (AxisKind.REDUCE, AxisKind.UNROLL)
# From this work for each access, vectors pay without neighbours in memory.
_MUCH_WORK = 32


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A range with its best width, and the work per element that this saves."""

    lane_range: UOp
    width: int
    saved: float


def choose_widths(
    order: Sequence[UOp],
    dependence: Dependence,
    widths: Collection[int],
    joins_neighbours: bool = False,
) -> dict[UOp, int]:
    """Return the lanes of each lane range that becomes a vector; no node depends on two of them.

    Such a range has an access of unit stride, or much work, and vectors save work. An access of n
    lanes counts as 1/n; lanes that are joined one by one count twice.

    joins_neighbours: whether the compiler of the device makes one access of neighbours that are
    accessed one by one, as those of processors do.
    """
    weights = _weights(order, dependence)
    fixed = 0
    for node in order:
        if node.dtype.lanes > 1:
            fixed |= dependence.masks[node] | dependence.union(node.src)
    candidates = []
    for lane_range in dependence.ranges:
        if fixed & dependence.bits[lane_range]:
            continue
        legal = [width for width in widths if dependence.extents[lane_range] % width == 0]
        candidates += _best_width(lane_range, weights, dependence, legal, joins_neighbours)
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


def _saves_most(candidate: _Candidate) -> tuple[float, bool, int]:
    return -candidate.saved, _is_reduced(candidate.lane_range), range_number(candidate.lane_range)


def _is_reduced(lane_range: UOp) -> bool:
    return isinstance(lane_range.arg, RangeArg) and lane_range.arg.kind in _REDUCED


def _weights(order: Sequence[UOp], dependence: Dependence) -> dict[UOp, int]:
    """Return how often each access and each operation on values happens, in the loops it needs."""
    loops_of: dict[UOp, frozenset[UOp]] = {}
    weights = {}
    for node in order:
        loops: frozenset[UOp] = frozenset().union(*(loops_of[source] for source in node.src))
        if node.op is Ops.REDUCE:
            loops = loops.difference(node.src)
        elif node.op is Ops.RANGE and not is_lane_range(node):
            loops = frozenset((node,))
        loops_of[node] = loops
        is_access = node.op in (Ops.LOAD, Ops.STORE)
        if is_access or (node.op in ALU and not is_index_arithmetic(node)):
            weights[node] = dependence.lanes_of(node) * math.prod(map(_iterations, loops))
    return weights


def _iterations(loop: UOp) -> int:
    """Return the number of iterations of a loop, or a guess if it is symbolic."""
    return constant_of(loop.src[0]) or _USUAL_ITERATIONS


def _best_width(
    lane_range: UOp,
    weights: dict[UOp, int],
    dependence: Dependence,
    widths: Collection[int],
    joins_neighbours: bool,
) -> list[_Candidate]:
    """Return the width with the least work for nodes on the range; none if nothing is saved."""
    bit = dependence.bits[lane_range]
    weights = {node: weight for node, weight in weights.items() if dependence.masks[node] & bit}
    aligned = {
        node: _alignment(node, lane_range, dependence) for node in weights if node.op not in ALU
    }
    scalar_work = sum(weights.values())
    arithmetic = sum(weight for node, weight in weights.items() if node.op in ALU)
    computing = sum(WORK_OF_OP.get(node.op, 1) for node in weights if node.op in ALU)
    best: list[_Candidate] = []
    for width in sorted(widths):
        work = arithmetic / width
        may_pay = computing >= _MUCH_WORK * len(aligned)
        for access, alignment in aligned.items():
            lanes = _joined_lanes(alignment, width, joins_neighbours)
            if lanes > 1 and not _is_uniform(access, lane_range, width, dependence):
                lanes = 1
            may_pay |= lanes > 1
            work += weights[access] * (1 / lanes + (lanes < width))
        saved = scalar_work - work
        if may_pay and saved > 0 and all(saved >= other.saved for other in best):
            best = [_Candidate(lane_range, width, saved)]
    return best


def _joined_lanes(alignment: int | None, width: int, joins_neighbours: bool) -> int:
    """Return the lanes that one access of the device has."""
    if alignment is None:
        return 1
    return width if joins_neighbours else math.gcd(alignment, width)


def _alignment(access: UOp, lane_range: UOp, dependence: Dependence) -> int | None:
    """Return a divisor of every position along a unit stride (0: of all); None if it is another."""
    address = skip_after(access.src[0])
    if address.op is not Ops.INDEX:
        return None
    by_steps = stepped(address.src[1], dependence)
    if by_steps is None or by_steps.steps.get(lane_range) != 1:
        return None
    others = [step for other, step in by_steps.steps.items() if other is not lane_range]
    return math.gcd(divisor_of(by_steps.base), by_steps.constant, *others)


def _is_uniform(access: UOp, lane_range: UOp, width: int, dependence: Dependence) -> bool:
    """Return True if the first `width` lanes have one gate; for the others, this is a guess."""
    if len(access.src) < 3 or not dependence.masks[access.src[2]] & dependence.bits[lane_range]:
        return True
    gate = access.src[2]

    def gate_of(lane: int) -> UOp:
        return simplify(substitute(gate, {lane_range: build.const(lane_range.dtype, lane)}))

    # Most gates that differ do so at once.
    first = gate_of(0)
    return all(gate_of(lane) is first for lane in range(1, width))
