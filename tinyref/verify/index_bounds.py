"""Bounds check: each access of an indexed kernel must be inside its buffer where its gate is true.

An access is proved by value ranges, then by ranges under its gate. The last proof tries all values
of its counters and variables. If there are too many values, the check tries the ends of
their ranges and random values between: this finds errors but proves nothing. So each error can
occur in a launch, and each access that is not proved is counted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.linear import constant_of
from tinyref.algebra.simplify import simplify_with
from tinyref.arrays import Array, np, npt
from tinyref.dtype import ImageDType, PtrDType, numpy_dtype
from tinyref.errors import VerifyError
from tinyref.formats.text import node_text
from tinyref.uops import build
from tinyref.uops.build import skip_after
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import RangeArg, SpecialArg, VarArg

LABEL = "indexed.bounds.1"
# The check tries all values up to MAX_VALUES combinations; beyond, it draws SAMPLES of them.
MAX_VALUES = 1 << 20
SAMPLES = 1 << 12
_ENDS = 3

# The counters, launch indices and variables of an access: they have a value without a load.
_LEAVES = frozenset({Ops.RANGE, Ops.SPECIAL, Ops.DEFINE_VAR})


class BoundsOutcome(Enum):
    """Results of the check: the proof that an access is in its buffer, or why there is none."""

    __hash__ = object.__hash__

    RANGES = "proved by value ranges"
    GATE = "proved by value ranges under its gate"
    VALUES = "proved by trying all values"
    SAMPLED = "not proved: too many values, a sample of them was tried"
    DATA = "not proved: the position is read from memory"

    @property
    def is_proved(self) -> bool:
        return self in (BoundsOutcome.RANGES, BoundsOutcome.GATE, BoundsOutcome.VALUES)


@dataclass(frozen=True)
class Access:
    """A LOAD or STORE of `lanes` elements from `position` on, in a buffer of `size` elements."""

    node: UOp
    position: UOp
    size: int
    lanes: int
    gates: tuple[UOp, ...]


def check_index_bounds(root: UOp) -> dict[BoundsOutcome, int]:
    """Check all accesses of the indexed kernel `root`; return how many had each outcome.

    The index arithmetic may have the type index or a fixed width. Raises `VerifyError`
    indexed.bounds.1 for an access outside its buffer, with values that lead to it.
    """
    counts = dict.fromkeys(BoundsOutcome, 0)
    for access in accesses(root):
        counts[_decide(access)] += 1
    return counts


def accesses(root: UOp) -> Iterator[Access]:
    """Yield every LOAD and STORE of the indexed kernel; for an image its row and its column."""
    for node in root.toposort():
        if node.op not in (Ops.LOAD, Ops.STORE):
            continue
        address = skip_after(node.src[0])
        buffer = skip_after(address.src[0]) if address.src else address
        gates = tuple(source for source in node.src[2:] if source.dtype.is_bool)
        if isinstance(buffer.dtype, ImageDType) and len(address.src) == 3:
            for position, size in zip(address.src[1:], buffer.dtype.shape, strict=True):
                yield Access(node, position, size, 1, gates)
        elif isinstance(buffer.dtype, PtrDType) and len(address.src) == 2:
            lanes = (node if node.op is Ops.LOAD else node.src[1]).dtype.lanes
            yield Access(node, address.src[1], buffer.dtype.size, lanes, gates)


def _decide(access: Access) -> BoundsOutcome:
    if _lies_within(access, access.position):
        return BoundsOutcome.RANGES
    if access.gates and _lies_within(access, simplify_with(access.position, access.gates)):
        return BoundsOutcome.GATE
    position = access.position
    last = access.size - access.lanes
    inside = build.both(build.at_least(position, 0), build.less(position, last + 1))
    if access.gates and constant_of(simplify_with(inside, access.gates)) == 1:
        return BoundsOutcome.GATE
    leaves = _leaves((position, *access.gates))
    if leaves is None:
        return BoundsOutcome.DATA
    return _try(access, leaves)


def _lies_within(access: Access, position: UOp) -> bool:
    low, high = bounds(position)
    return low >= 0 and high <= access.size - access.lanes


def _leaves(roots: Sequence[UOp]) -> list[UOp] | None:
    """Return the nodes that determine the values, extents before counters; None for a load."""
    leaves = []
    for node in toposort(roots):
        if node.op in _LEAVES:
            leaves.append(node)
        elif node.op not in ALU and node.op is not Ops.CONST:
            return None
    return leaves


def _try(access: Access, leaves: Sequence[UOp]) -> BoundsOutcome:
    spans = [bounds(leaf) for leaf in leaves]
    is_complete = math.prod(high - low + 1 for low, high in spans) <= MAX_VALUES
    values = _all_values(leaves) if is_complete else _some_values(leaves)
    count = next(iter(values.values())).shape if values else (1,)
    holds: npt.NDArray[np.bool_] = np.ones(count, np.bool_)
    for leaf in leaves:
        if leaf.op is not Ops.DEFINE_VAR:
            # A counter stays below its extent, which may be a variable.
            holds = holds & (values[leaf] < evaluate_expression(leaf.src[0], values))
    for gate in access.gates:
        holds = holds & evaluate_expression(gate, values)
    positions = np.broadcast_to(evaluate_expression(access.position, values), count)
    outside = holds & ((positions < 0) | (positions > access.size - access.lanes))
    if np.any(outside):
        raise _error(access, values, positions, outside)
    return BoundsOutcome.VALUES if is_complete else BoundsOutcome.SAMPLED


def _all_values(leaves: Sequence[UOp]) -> dict[UOp, Array]:
    every = [np.arange(low, high + 1) for low, high in map(bounds, leaves)]
    grids = [grid.ravel() for grid in np.meshgrid(*every, indexing="ij")]
    return {
        leaf: grid.astype(numpy_dtype(leaf.dtype)) for leaf, grid in zip(leaves, grids, strict=True)
    }


def _some_values(leaves: Sequence[UOp]) -> dict[UOp, Array]:
    """Draw values for each leaf, half of them from its ends; the same values at every call."""
    draw = random.Random(1)
    samples = {}
    for leaf in leaves:
        low, high = bounds(leaf)
        ends = [*range(low, min(low + _ENDS, high + 1)), *range(max(high - _ENDS, low), high + 1)]
        values = [
            draw.choice(ends) if draw.random() < 0.5 else draw.randint(low, high)
            for _ in range(SAMPLES)
        ]
        samples[leaf] = np.array(values).astype(numpy_dtype(leaf.dtype))
    return samples


def _error(
    access: Access, values: dict[UOp, Array], positions: Array, outside: Array
) -> VerifyError:
    first = int(np.argmax(outside))
    chosen = ", ".join(f"{_name(leaf)} = {array[first]}" for leaf, array in values.items())
    last = f" to {positions[first] + access.lanes - 1}" if access.lanes > 1 else ""
    return VerifyError(
        LABEL,
        node_text(access.node),
        f"positions from 0 to {access.size - 1}",
        f"position {positions[first]}{last}" + (f" for {chosen}" if chosen else ""),
    )


def _name(leaf: UOp) -> str:
    if isinstance(leaf.arg, RangeArg):
        return f"RANGE {leaf.arg.number}"
    if isinstance(leaf.arg, SpecialArg):
        return f"{leaf.arg.scope} {leaf.arg.dim}"
    return leaf.arg.name if isinstance(leaf.arg, VarArg) else leaf.op.name
