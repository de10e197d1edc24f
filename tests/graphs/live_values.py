"""The number of values that live at once in a program: the load of register allocation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops

# Nodes that take no register of their own.
_UNCOUNTED = frozenset(
    {
        Ops.DEFINE_GLOBAL,
        Ops.DEFINE_LOCAL,
        Ops.DEFINE_VAR,
        Ops.CONST,
        Ops.SPECIAL,
        Ops.INDEX,
        Ops.RANGE,
        Ops.STORE,
        Ops.UPDATE_ACC,
        Ops.BARRIER,
        Ops.END,
    }
)


def live_values(uops: Sequence[UOp]) -> int:
    """Return the largest number of values that live at one position of `uops`.

    A vector counts once. A value lives from its node to its last use. A value from outside a loop
    that is used inside lives until the loop ends. An accumulator lives until its last use, except
    between its last read and its update. Constants, definitions, counters and address arithmetic do
    not count.
    """
    last_use = _last_uses(uops)
    addresses = _addresses(uops)
    change = [0] * (len(uops) + 1)
    for position, node in enumerate(uops):
        if node.op in _UNCOUNTED or node in addresses:
            continue
        if last_use.get(node, position) > position:
            change[position] += 1
            change[last_use[node]] -= 1
    for read, updated in _replaced(uops):
        change[read] -= 1
        change[updated] += 1
    live = most = 0
    for difference in change:
        live += difference
        most = max(most, live)
    return most


def _last_uses(uops: Sequence[UOp]) -> dict[UOp, int]:
    """Map each value to the position after which it is no longer needed."""
    ends = {node.src[0]: position for position, node in enumerate(uops) if node.op is Ops.END}
    loops_of: dict[UOp, tuple[UOp, ...]] = {}
    around: tuple[UOp, ...] = ()
    last: dict[UOp, int] = {}
    for position, node in enumerate(uops):
        if node.op is Ops.END:
            around = around[:-1]
            continue
        for source in node.src:
            value = source.src[0] if source.op is Ops.UPDATE_ACC else source
            outside = len(loops_of.get(value, ()))
            until = ends[around[outside]] if len(around) > outside else position
            last[value] = max(last.get(value, position), until)
        loops_of[node] = around
        if node.op is Ops.RANGE:
            around = (*around, node)
    return last


def _addresses(uops: Sequence[UOp]) -> set[UOp]:
    addresses: set[UOp] = set()
    for node in reversed(uops):
        if node.op is Ops.INDEX:
            addresses.add(node.src[1])
        elif node in addresses and node.op in ALU:
            addresses.update(node.src)
    return {node for node in addresses if node.op in ALU}


def _replaced(uops: Sequence[UOp]) -> list[tuple[int, int]]:
    """Return the positions of the last read and of the update of accumulators.

    Only accumulators with one reader in the block of the update count.
    """
    readers: dict[UOp, list[int]] = defaultdict(list)
    block = 0
    blocks: list[int] = []
    pairs = []
    opened = [0]
    for position, node in enumerate(uops):
        if node.op is Ops.END:
            opened.pop()
        blocks.append(opened[-1])
        if node.op is Ops.RANGE:
            block += 1
            opened.append(block)
        for source in node.src:
            if source.op is Ops.DEFINE_ACC and node.op is not Ops.UPDATE_ACC:
                readers[source].append(position)
        if node.op is Ops.UPDATE_ACC:
            reading = readers[node.src[0]]
            if len(reading) == 1 and blocks[reading[0]] == blocks[position]:
                pairs.append((reading[0], position))
    return pairs
