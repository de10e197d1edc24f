"""Where the items of a kernel stand: the loops around each, and the tree of blocks.

A set of loops is an integer with a bit for each: bit i is the loop whose RANGE has the i-th number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tinyref.errors import UserError
from tinyref.uops.linearize_graph import KernelItems, Mark
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import RangeArg

# The block of what stands in no loop.
BODY = -1
# What fixes how loops nest: where these happen, they do once a turn.
_COUNTED = frozenset({Ops.STORE, Ops.UPDATE_ACC, Ops.RANGE, Ops.BARRIER})


def range_number(node: UOp) -> int:
    """The number of a RANGE; -1 for other nodes."""
    return node.arg.number if isinstance(node.arg, RangeArg) else -1


class Scopes:
    """The loops around every item: as few as its sources allow, so that invariants stand outside.

    ranges: the items that are RANGEs, by bit. around: the loops around each of them. of: the loops
    around each item, for a RANGE itself included. home: the innermost of them without itself, or
    `BODY`; for a DEFINE_ACC the one in which the loops stand that it names.
    """

    def __init__(self, items: KernelItems) -> None:
        self.items = items
        self.ranges = [item for item, node in enumerate(items.nodes) if node.op is Ops.RANGE]
        self.ranges.sort(key=lambda item: range_number(items.nodes[item]))
        self.bit = {item: 1 << place for place, item in enumerate(self.ranges)}
        self.around = [0] * len(self.ranges)
        self._closed: dict[int, int] = {}
        self.of: list[int] = []
        self._find()
        self._check_numbers()
        self.home = [self._home(item) for item in range(len(items.nodes))]

    def _find(self) -> None:
        """A fixed point: what stands in the inner of two nested loops stands in the outer too."""
        while True:
            self._closed = {}
            self.of = self._given_around()
            for scope in {
                self.of[item] for item, node in enumerate(self.items.nodes) if node.op in _COUNTED
            }:
                outer = 0
                for place in _places(scope):
                    self.around[place] |= outer
                    outer |= 1 << place
            if all(self._close(scope) == scope for scope in set(self.of)):
                return

    def _check_numbers(self) -> None:
        for place, item in enumerate(self.ranges):
            innermost = self.of[item].bit_length() - 1
            if innermost != place:
                inner, outer = (
                    range_number(self.items.nodes[self.ranges[each]]) for each in (place, innermost)
                )
                raise UserError(
                    f"kernel: loop {inner} stands in loop {outer}: loops are numbered from the "
                    "outside in"
                )

    def _given_around(self) -> list[int]:
        items = self.items
        scopes: list[int] = []
        # What remains around a user of the item.
        shown: list[int] = []
        closed = self._closed
        for item, node in enumerate(items.nodes):
            scope = 0
            for source in items.sources[item]:
                scope |= shown[source]
            for mark in items.marks[item]:
                scope |= self._around_mark(mark, shown)
            final = 0
            if node.op is Ops.RANGE:
                scope |= self.bit[item]
            elif node.op is Ops.DEFINE_ACC:
                scope |= self.mask(items.loops[item])
            elif node.op is Ops.UPDATE_ACC:
                final = self.mask(items.loops[items.sources[item][0]])
            if scope:
                found = closed.get(scope)
                if found is None:
                    found = closed[scope] = self._close(scope)
                scope = found
            scopes.append(scope)
            shown.append(scope & ~final)
        return scopes

    def _around_mark(self, mark: Mark, shown: list[int]) -> int:
        scope = 0
        for item in mark.items:
            scope |= shown[item]
        return scope & ~self.mask(mark.over)

    def mask(self, ranges: Iterable[int]) -> int:
        """The set of these RANGEs."""
        return sum(self.bit[item] for item in set(ranges))

    def _close(self, scope: int) -> int:
        found = scope
        for place in _places(scope):
            found |= self.around[place]
        return found

    def _home(self, item: int) -> int:
        scope = self.of[item]
        if not scope:
            return BODY
        own = self.bit.get(item, 0) or self.mask(self.items.loops[item])
        innermost = (scope & ~own).bit_length() - 1
        return self.ranges[innermost] if innermost >= 0 else BODY


def _places(scope: int) -> Iterator[int]:
    while scope:
        lowest = scope & -scope
        yield lowest.bit_length() - 1
        scope ^= lowest


class Blocks:
    """The tree of blocks: the kernel's body, and that of every loop, by the item of its RANGE.

    members: the items of each block, in the order in which they were found; a loop stands in the
    block around it for all that is in it. depth: how many loops are around the block.
    """

    def __init__(self, scopes: Scopes) -> None:
        self.home = scopes.home
        self.members: dict[int, list[int]] = {BODY: [], **{item: [] for item in scopes.ranges}}
        for item, home in enumerate(scopes.home):
            self.members[home].append(item)
        self.depth = {BODY: 0, **{item: scopes.of[item].bit_count() for item in scopes.ranges}}

    def add(self, block: int) -> int:
        """A new member of `block` that is no item: a place that others stand before or after."""
        item = len(self.home)
        self.home.append(block)
        self.members[block].append(item)
        return item

    def meet(self, first: int, second: int) -> tuple[int, int]:
        """The members, of the innermost block that holds both, in which the two items are."""
        home, depth = self.home, self.depth
        one, other = home[first], home[second]
        while one != other:
            if depth[one] >= depth[other]:
                first, one = one, home[one]
            else:
                second, other = other, home[other]
        return first, second

    def holders(self, item: int) -> Iterator[tuple[int, int]]:
        """The block of `item` and every one around it, with the member that holds it there."""
        while True:
            block = self.home[item]
            yield block, item
            if block == BODY:
                return
            item = block

    def idle(self, nodes: Sequence[UOp]) -> set[int]:
        """The loops in which nothing happens, of items that are `nodes`."""
        busy: set[int] = set()
        for item, node in enumerate(nodes):
            if node.op in (Ops.STORE, Ops.BARRIER, Ops.UPDATE_ACC):
                busy.update(block for block, _ in self.holders(item))
        return self.members.keys() - busy - {BODY}
