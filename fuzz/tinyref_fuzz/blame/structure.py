"""Where the accesses of an indexed kernel go, what they wait for, and the loops around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyref.dtype import PtrDType
from tinyref.errors import UserError
from tinyref.formats.text import node_text
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, RangeArg

LANE_KINDS = frozenset({AxisKind.UPCAST, AxisKind.UNROLL})
MEMORIES = frozenset({Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL})


@dataclass(frozen=True)
class Place:
    """Where a LOAD or STORE goes: `waits` are the sources of the AFTERs on the way."""

    memory: UOp
    waits: tuple[UOp, ...]
    index: UOp


def place_of(access: UOp) -> Place:
    """Where a LOAD or STORE goes. Raises `UserError` for one that goes through no INDEX."""
    address = access.src[0]
    waits: list[UOp] = []
    index = None
    while address.op in (Ops.AFTER, Ops.INDEX):
        if address.op is Ops.AFTER:
            waits += address.src[1:]
        else:
            index = address
        address = address.src[0]
    if index is None or address.op not in MEMORIES:
        raise UserError(f"graph: {node_text(access)} does not go through an INDEX of a memory")
    return Place(address, tuple(waits), index)


def size_of(memory: UOp) -> int:
    """The number of elements."""
    return memory.dtype.size if isinstance(memory.dtype, PtrDType) else 0


def is_lane(counter: UOp) -> bool:
    """Whether `counter` is a RANGE of kind UPCAST or UNROLL."""
    return isinstance(counter.arg, RangeArg) and counter.arg.kind in LANE_KINDS


def stores_waited_for(
    waits: Sequence[UOp], memory: UOp
) -> tuple[tuple[UOp, ...], frozenset[UOp], frozenset[UOp]]:
    """The STOREs to `memory` behind `waits`; those with no BARRIER after; loops that are over."""
    found: dict[UOp, None] = {}
    unguarded: set[UOp] = set()
    over: set[UOp] = {each for each in waits if each.op is Ops.RANGE}
    seen: set[tuple[UOp, bool]] = set()
    stack = [(node, False) for node in waits]
    while stack:
        node, is_guarded = stack.pop()
        if (node, is_guarded) in seen:
            continue
        seen.add((node, is_guarded))
        if node.op is Ops.STORE and place_of(node).memory is memory:
            found[node] = None
            if not is_guarded:
                unguarded.add(node)
        if node.op in (Ops.BARRIER, Ops.AFTER):
            over.update(source for source in node.src[0:] if source.op is Ops.RANGE)
        is_guarded = is_guarded or node.op is Ops.BARRIER
        stack += [(source, is_guarded) for source in node.src]
    return tuple(found), frozenset(unguarded), frozenset(over)


def loops_around(root: UOp) -> set[UOp]:
    """The RANGEs in which `root` stands."""
    opened: dict[UOp, set[UOp]] = {}
    for node in root.toposort():
        around = set().union(*(opened[source] for source in node.src))
        if node.op is Ops.RANGE:
            around.add(node)
        elif node.op is Ops.REDUCE:
            around.difference_update(node.src[1:])
        elif node.op in (Ops.AFTER, Ops.BARRIER):
            around.difference_update(source for source in node.src if source.op is Ops.RANGE)
        opened[node] = around
    return opened[root]
