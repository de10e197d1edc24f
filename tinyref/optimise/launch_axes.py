"""Map the axes of an output to launch indices: at most three dimensions with limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tinyref.algebra.bounds import bounds
from tinyref.algebra.linear import LinearForm, exact, to_node
from tinyref.algebra.shapes import is_one
from tinyref.algebra.simplify import simplify
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.optimise.plan import Axis, number_of
from tinyref.uops import build
from tinyref.uops.node import UOp, sint

Limit = tuple[int, int, int]
Sizes = tuple[sint, sint, sint]

ZERO = build.const(dtypes.index, 0)
TRUE = build.const(dtypes.bool, True)


@dataclass(frozen=True)
class LaunchAxes:
    """The positions on the axes, one `index` node each; `valid` is false beyond the last element.

    There the positions are the positions of the last element, so loads stay inside their buffers.
    """

    positions: tuple[UOp, ...]
    valid: UOp


def launch_axes(shape: Sequence[sint], limit: Limit, scope: str = "group") -> LaunchAxes:
    """Return the position on each axis of `shape` from the index of the group, or of the item.

    Dimension 0 runs fastest, so it has the last axes. If there are more than three axes, neighbours
    are merged. If no merging stays within `limit`, all axes become one row of elements, which is
    split into dimensions. Items are never split so, because all of them are valid. Raises
    `UserError` if nothing fits.
    """
    axes = [axis for axis, extent in enumerate(shape) if not is_one(extent)]
    positions = [ZERO] * len(shape)
    if not axes:
        return LaunchAxes(tuple(positions), TRUE)
    extents = [shape[axis] for axis in axes]
    runs = next((runs for runs in _runs(len(axes)) if _fits(extents, runs, limit)), None)
    if runs is None:
        if scope != "group":
            raise UserError(f"kernel: groups of {extents} do not fit the limit {limit}")
        flat, valid = _flat_row(_product(extents), limit)
        runs, indices = [range(len(axes))], [flat]
    else:
        valid = TRUE
        indices = [
            build.special(scope, dim, _product([extents[axis] for axis in run]))
            for dim, run in zip(range(len(runs) - 1, -1, -1), runs, strict=True)
        ]
    for run, index in zip(runs, indices, strict=True):
        for axis, position in zip(run, _split(index, [extents[a] for a in run]), strict=True):
            positions[axes[axis]] = position
    return LaunchAxes(tuple(positions), valid)


def _most(extent: sint) -> int:
    return extent if isinstance(extent, int) else bounds(extent)[1]


def _product(extents: Sequence[sint]) -> sint:
    known = math.prod(extent for extent in extents if isinstance(extent, int))
    total: sint = known
    for extent in extents:
        if isinstance(extent, UOp):
            total = extent if is_one(total) else build.mul(extent, total)
    return total


def _runs(count: int) -> Iterator[list[range]]:
    """Yield ways to cut `count` axes into up to three runs, the ones that merge least first."""
    for pieces in range(min(count, 3), 0, -1):
        # The largest cuts come first: leading axes are merged before trailing ones.
        for cuts in sorted(itertools.combinations(range(1, count), pieces - 1), reverse=True):
            edges = [0, *cuts, count]
            yield [range(a, b) for a, b in itertools.pairwise(edges)]


def _fits(extents: Sequence[sint], runs: Sequence[range], limit: Limit) -> bool:
    sizes = [math.prod(_most(extents[axis]) for axis in run) for run in runs]
    return all(size <= most for size, most in zip(reversed(sizes), limit, strict=False))


def _split(index: UOp, extents: Sequence[sint]) -> list[UOp]:
    """Return the positions on the axes that were merged into `index`."""
    positions: list[UOp] = []
    for extent in reversed(extents[1:]):
        positions.append(build.mod(index, extent))
        index = build.idiv(index, extent)
    return [index, *reversed(positions)]


def _flat_row(total: sint, limit: Limit) -> tuple[UOp, UOp]:
    """Return the number of the element in a row of `total`, and a node: true if it exists."""
    most = _most(total)
    if most > math.prod(limit):
        raise UserError(f"kernel: {most} elements are more than the device's grid limit {limit}")
    exact = _exact_factors(total, limit) if isinstance(total, int) else None
    sizes: Sizes = exact or _covering_factors(total, most, limit)
    flat, stride = ZERO, 1
    for dim, size in enumerate(sizes):
        if _most(size) > 1:
            index = build.special("group", dim, size)
            flat = index if stride == 1 else build.add(build.mul(index, stride), flat)
        stride *= _most(size)
    if stride == total:
        return flat, TRUE
    valid = build.less(flat, total)
    return build.where(valid, flat, build.add(build.operand(total, dtypes.index), -1)), valid


def _exact_factors(total: int, limit: Limit) -> Sizes | None:
    sizes = []
    for most in limit:
        size = _largest_divisor(total, most)
        sizes.append(size)
        total //= size
    return (sizes[0], sizes[1], sizes[2]) if total == 1 else None


def _largest_divisor(total: int, most: int) -> int:
    """Return the largest divisor of `total` that is at most `most`."""
    small = [number for number in range(1, math.isqrt(total) + 1) if total % number == 0]
    divisors = small + [total // number for number in small]
    return max(number for number in divisors if number <= most)


def _covering_factors(total: sint, most: int, limit: Limit) -> Sizes:
    """Return a launch of at least `total` groups; only its last dimension may be symbolic.

    It is empty if the total is 0, so there is always a last element.
    """
    known: list[int] = []
    rest = most
    for size in limit[:2]:
        if rest > size:
            known.append(size)
            rest = -(-rest // size)
    covered = math.prod(known)
    last: sint = rest
    if isinstance(total, UOp):
        last = build.idiv(build.add(total, covered - 1), covered)
    sizes: list[sint] = [*known, last, 1, 1]
    return sizes[0], sizes[1], sizes[2]


# --- counters -------------------------------------------------------------------------------------


# The counter of each axis of a plan: a launch index or a range.
Counters = dict[Axis, UOp]


def flat(axes: Iterable[Axis], counters: Counters) -> UOp:
    """Return the number of the element at `counters` in an array of axes, the last one fastest."""
    total = LinearForm({}, 0)
    for axis in axes:
        total = exact(counters[axis]).plus(total, number_of([axis.extent]))
    return simplify(to_node(dtypes.index, total))
