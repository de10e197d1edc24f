"""What a program must compute and in which order at least: the indexed kernel without its AFTERs.

Every value and every effect of the kernel is an item, known by a number. An AFTER is no item: what
it asks for is kept with the accesses to memory, barriers and loops that use it, for these alone
can tell when they happen. So two LOADs of one address, one of them after a barrier, are two items,
but the address is one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

Items = tuple[int, ...]
NOTHING: Items = ()

_SINK, _AFTER = Ops.SINK, Ops.AFTER

# What happens at a place of the program; anything else is a value that is the same everywhere.
HAPPENS = frozenset({Ops.LOAD, Ops.STORE, Ops.BARRIER, Ops.RANGE, Ops.DEFINE_ACC, Ops.UPDATE_ACC})

_SPECIAL_SOURCES = frozenset({Ops.DEFINE_ACC, Ops.UPDATE_ACC, Ops.BARRIER})


@dataclass(frozen=True, slots=True)
class Wait:
    """What an AFTER or a BARRIER waits for: `items`, and the loops `over`, by their RANGEs."""

    items: Items
    over: Items


class KernelItems:
    """The items of an indexed kernel, sources before users, in parallel lists.

    nodes: what the item is. ops: their operations. sources: the items that it takes, in the order
    of the node's sources in a program. waits: what it must come after besides. loops: the RANGEs
    that each DEFINE_ACC names. updates: the UPDATE_ACC of each DEFINE_ACC.
    """

    def __init__(self, order: Sequence[UOp]) -> None:
        self.nodes: list[UOp] = []
        self.sources: list[Items] = []
        self.waits: list[tuple[Wait, ...]] = []
        self.loops: dict[int, Items] = {}
        self.updates: dict[int, int] = {}
        self._collect(order)
        self.ops: list[Ops] = [node.op for node in self.nodes]

    def _collect(self, order: Sequence[UOp]) -> None:
        """Nodes that differ by AFTERs alone are one item, unless they happen at different times."""
        item_of: dict[UOp, int] = {}
        carried: dict[UOp, tuple[Wait, ...]] = {}
        known: dict[object, int] = {}
        may_merge = any(node.op is _AFTER for node in order)
        for node in order:
            op = node.op
            if op is _SINK:
                continue
            waited = [carried[source] for source in node.src if source in carried]
            waits = _union(waited) if waited else ()
            items = tuple([item_of[source] for source in node.src])
            if op is _AFTER:
                item_of[node] = items[0]
                carried[node] = _union([waits, (self._wait(node.src[1:], items[1:]),)])
                continue
            taken: tuple[Wait, ...] = ()
            if op in HAPPENS:
                taken = waits
            elif waits:
                carried[node] = waits
            found = len(self.nodes)
            if may_merge:
                found = known.setdefault((op, node.dtype, node.arg, items, taken), found)
            if found == len(self.nodes):
                if op in _SPECIAL_SOURCES:
                    items, taken = self._special(found, node, items, taken)
                self.nodes.append(node)
                self.sources.append(items)
                self.waits.append(taken)
            item_of[node] = found

    def _wait(self, sources: Sequence[UOp], items: Items) -> Wait:
        over = [item for source, item in zip(sources, items, strict=True) if source.op is Ops.RANGE]
        return Wait(tuple(item for item in items if item not in over), tuple(over))

    def _special(
        self, item: int, node: UOp, items: Items, waits: tuple[Wait, ...]
    ) -> tuple[Items, tuple[Wait, ...]]:
        """What `item` takes and waits for in a program, where these are not what it names."""
        if node.op is Ops.DEFINE_ACC:
            items, self.loops[item] = items[:1], items[1:]
        elif node.op is Ops.UPDATE_ACC:
            self.updates[items[0]] = item
        elif node.op is Ops.BARRIER:
            waits = _union([waits, (self._wait([self.nodes[other] for other in items], items),)])
            items = NOTHING
        return items, waits

    def memory(self, access: int) -> int:
        """The item of the memory that a LOAD or STORE goes to."""
        item = self.sources[access][0]
        while self.nodes[item].op is Ops.INDEX:
            item = self.sources[item][0]
        return item


def _union(groups: Iterable[tuple[Wait, ...]]) -> tuple[Wait, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(groups)))
