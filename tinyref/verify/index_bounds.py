"""Whether every access of an indexed kernel lies in its buffer, wherever its gate holds.

An access is proved from value ranges, then from ranges under its gate, then by trying all values
of the counters and variables that it depends on. Where there are too many of them, their ends and
random ones between are tried: that finds errors, and proves nothing. So every error is one that a
launch can meet, and every access that is not proved is counted.
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
# All values are tried up to that many combinations; of more, that many are drawn.
MAX_VALUES = 1 << 20
SAMPLES = 1 << 12
_ENDS = 3

# The counters, launch indices and variables of an access: what takes a value without a load.
_LEAVES = frozenset({Ops.RANGE, Ops.SPECIAL, Ops.DEFINE_VAR})


class Found(Enum):
    """How an access was shown to lie in its buffer, or why it was not."""

    __hash__ = object.__hash__

    RANGES = "proved by value ranges"
    GATE = "proved by value ranges under its gate"
    VALUES = "proved by trying all values"
    SAMPLED = "not proved: too many values, of which many were tried"
    DATA = "not proved: the position is read from memory"

    @property
    def is_proved(self) -> bool:
        return self in (Found.RANGES, Found.GATE, Found.VALUES)


@dataclass(frozen=True)
class Access:
    """A LOAD or STORE: `lanes` elements from `position` on, of a buffer of `size`, behind gates."""

    node: UOp
    position: UOp
    size: int
    lanes: int
    gates: tuple[UOp, ...]


def check_index_bounds(root: UOp) -> dict[Found, int]:
    """How many accesses of the indexed kernel `root` were proved in which way, or not.

    The index arithmetic may be of the type index or of fixed width. Raises `VerifyError`
    indexed.bounds.1 for an access outside of its buffer, with values for which it is.
    """
    counts = dict.fromkeys(Found, 0)
    for access in accesses(root):
        counts[_decide(access)] += 1
    return counts


def accesses(root: UOp) -> Iterator[Access]:
    """Every LOAD and STORE of the indexed kernel; one of an image by its row and by its column."""
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


def _decide(access: Access) -> Found:
    if _lies_within(access, access.position):
        return Found.RANGES
    if access.gates and _lies_within(access, simplify_with(access.position, access.gates)):
        return Found.GATE
    position = access.position
    last = access.size - access.lanes
    inside = build.both(build.at_least(position, 0), build.less(position, last + 1))
    if access.gates and constant_of(simplify_with(inside, access.gates)) == 1:
        return Found.GATE
    leaves = _leaves((position, *access.gates))
    if leaves is None:
        return Found.DATA
    return _try(access, leaves)


def _lies_within(access: Access, position: UOp) -> bool:
    low, high = bounds(position)
    return low >= 0 and high <= access.size - access.lanes


def _leaves(roots: Sequence[UOp]) -> list[UOp] | None:
    """What the values depend on, extents before their counters; None if memory is among it."""
    found = []
    for node in toposort(roots):
        if node.op in _LEAVES:
            found.append(node)
        elif node.op not in ALU and node.op is not Ops.CONST:
            return None
    return found


def _try(access: Access, leaves: Sequence[UOp]) -> Found:
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
    return Found.VALUES if is_complete else Found.SAMPLED


def _all_values(leaves: Sequence[UOp]) -> dict[UOp, Array]:
    every = [np.arange(low, high + 1) for low, high in map(bounds, leaves)]
    grids = [grid.ravel() for grid in np.meshgrid(*every, indexing="ij")]
    return {
        leaf: grid.astype(numpy_dtype(leaf.dtype)) for leaf, grid in zip(leaves, grids, strict=True)
    }


def _some_values(leaves: Sequence[UOp]) -> dict[UOp, Array]:
    """Draws for each leaf, half of them from its ends; the same at every call."""
    draw = random.Random(1)
    found = {}
    for leaf in leaves:
        low, high = bounds(leaf)
        ends = [*range(low, min(low + _ENDS, high + 1)), *range(max(high - _ENDS, low), high + 1)]
        values = [
            draw.choice(ends) if draw.random() < 0.5 else draw.randint(low, high)
            for _ in range(SAMPLES)
        ]
        found[leaf] = np.array(values).astype(numpy_dtype(leaf.dtype))
    return found


def _error(
    access: Access, values: dict[UOp, Array], positions: Array, outside: Array
) -> VerifyError:
    place = int(np.argmax(outside))
    chosen = ", ".join(f"{_name(leaf)} = {array[place]}" for leaf, array in values.items())
    last = f" to {positions[place] + access.lanes - 1}" if access.lanes > 1 else ""
    return VerifyError(
        LABEL,
        node_text(access.node),
        f"positions from 0 to {access.size - 1}",
        f"position {positions[place]}{last}" + (f" for {chosen}" if chosen else ""),
    )


def _name(leaf: UOp) -> str:
    if isinstance(leaf.arg, RangeArg):
        return f"RANGE {leaf.arg.number}"
    if isinstance(leaf.arg, SpecialArg):
        return f"{leaf.arg.scope} {leaf.arg.dim}"
    return leaf.arg.name if isinstance(leaf.arg, VarArg) else leaf.op.name
