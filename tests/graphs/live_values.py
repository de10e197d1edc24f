"""How many values of a program live at once: what register allocation has to cope with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops

# What takes no register of its own.
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
    """The most values that live at one place of the program `uops`, vectors counted once.

    A value lives from its node to its last use; one from outside of a loop that is used in it
    lives until the loop ends. An accumulator lives until its last value is used, but for the time
    in which its next value stands for it. Constants, definitions, counters and the arithmetic of
    addresses are not counted.
    """
    last_use = _last_uses(uops)
    addresses = _addresses(uops)
    change = [0] * (len(uops) + 1)
    for place, node in enumerate(uops):
        if node.op in _UNCOUNTED or node in addresses:
            continue
        if last_use.get(node, place) > place:
            change[place] += 1
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
    """The place from which on each value is not needed any more."""
    ends = {node.src[0]: place for place, node in enumerate(uops) if node.op is Ops.END}
    loops_of: dict[UOp, tuple[UOp, ...]] = {}
    around: tuple[UOp, ...] = ()
    found: dict[UOp, int] = {}
    for place, node in enumerate(uops):
        if node.op is Ops.END:
            around = around[:-1]
            continue
        for source in node.src:
            value = source.src[0] if source.op is Ops.UPDATE_ACC else source
            outside = len(loops_of.get(value, ()))
            until = ends[around[outside]] if len(around) > outside else place
            found[value] = max(found.get(value, place), until)
        loops_of[node] = around
        if node.op is Ops.RANGE:
            around = (*around, node)
    return found


def _addresses(uops: Sequence[UOp]) -> set[UOp]:
    found: set[UOp] = set()
    for node in reversed(uops):
        if node.op is Ops.INDEX:
            found.add(node.src[1])
        elif node in found and node.op in ALU:
            found.update(node.src)
    return {node for node in found if node.op in ALU}


def _replaced(uops: Sequence[UOp]) -> list[tuple[int, int]]:
    """Where the old value of an accumulator is read for the last time, and where it is updated.

    For those with one reader in the block of the update.
    """
    readers: dict[UOp, list[int]] = defaultdict(list)
    block = 0
    blocks: list[int] = []
    found = []
    opened = [0]
    for place, node in enumerate(uops):
        if node.op is Ops.END:
            opened.pop()
        blocks.append(opened[-1])
        if node.op is Ops.RANGE:
            block += 1
            opened.append(block)
        for source in node.src:
            if source.op is Ops.DEFINE_ACC and node.op is not Ops.UPDATE_ACC:
                readers[source].append(place)
        if node.op is Ops.UPDATE_ACC:
            reading = readers[node.src[0]]
            if len(reading) == 1 and blocks[reading[0]] == blocks[place]:
                found.append((reading[0], place))
    return found
