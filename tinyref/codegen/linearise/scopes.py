"""Where the items of a kernel stand: the loops around each, and the tree of blocks.

A set of loops is an integer with a bit for each: bit i is the loop whose RANGE has the i-th number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tinyref.codegen.linearise.graph import KernelItems, Wait
from tinyref.errors import UserError
from tinyref.uops.build import range_number
from tinyref.uops.ops import Ops

# The block of what stands in no loop.
BODY = -1
# What fixes how loops nest: where these happen, they do once an iteration.
_DOES = frozenset({Ops.STORE, Ops.UPDATE_ACC, Ops.BARRIER})
_COUNTED = _DOES | {Ops.RANGE}
_OPENS = frozenset({Ops.RANGE, Ops.DEFINE_ACC})
_RANGE, _UPDATE = Ops.RANGE, Ops.UPDATE_ACC


class Scopes:
    """The loops around every item: as few as its sources allow, so that invariants stand outside.

    ranges: the items that are RANGEs, by bit. around: the loops around each of them. of: the loops
    around each item, for a RANGE itself included. home: the innermost of them without itself, or
    `BODY`; for a DEFINE_ACC the one in which the loops stand that it names.
    """

    def __init__(self, items: KernelItems) -> None:
        self.items = items
        self.ranges = [item for item, op in enumerate(items.ops) if op is _RANGE]
        self.ranges.sort(key=lambda item: range_number(items.nodes[item]))
        self.bit = {item: 1 << place for place, item in enumerate(self.ranges)}
        self.around = [0] * len(self.ranges)
        self.of: list[int] = []
        self._find()
        self._check_numbers()
        self.home = self._homes()

    def _find(self) -> None:
        """A fixed point: what stands in the inner of two nested loops stands in the outer too."""
        counted = [item for item, op in enumerate(self.items.ops) if op in _COUNTED]
        while True:
            self.of = self._given_around()
            for scope in {self.of[item] for item in counted}:
                outer = 0
                for place in _places(scope):
                    self.around[place] |= outer
                    outer |= 1 << place
            # Loops around a loop are lower, so in rising order theirs are complete already.
            for place in range(len(self.around)):
                self.around[place] = self._close(self.around[place])
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
        closed = {0: 0}
        scopes: list[int] = []
        # What remains around a user of the item.
        shown: list[int] = []
        for op, sources, waits in zip(items.ops, items.sources, items.waits, strict=True):
            scope = 0
            for source in sources:
                scope |= shown[source]
            for wait in waits:
                scope |= self._around_wait(wait, shown)
            if op in _OPENS:
                scope |= self._opened(len(scopes))
            if scope in closed:
                scope = closed[scope]
            else:
                closed[scope] = scope = self._close(scope)
            scopes.append(scope)
            if op is _UPDATE:
                scope &= ~self.mask(items.loops[sources[0]])
            shown.append(scope)
        return scopes

    def _opened(self, item: int) -> int:
        """The loops that a RANGE or a DEFINE_ACC is in whatever its sources are."""
        return self.bit[item] if item in self.bit else self.mask(self.items.loops[item])

    def _around_wait(self, wait: Wait, shown: list[int]) -> int:
        scope = 0
        for item in wait.items:
            scope |= shown[item]
        return scope & ~self.mask(wait.over)

    def mask(self, ranges: Iterable[int]) -> int:
        """The set of these RANGEs."""
        found = 0
        for item in ranges:
            found |= self.bit[item]
        return found

    def _close(self, scope: int) -> int:
        found = scope
        for place in _places(scope):
            found |= self.around[place]
        return found

    def _homes(self) -> list[int]:
        own = {**self.bit, **{item: self.mask(named) for item, named in self.items.loops.items()}}
        innermost = {
            scope: self.ranges[scope.bit_length() - 1] if scope else BODY for scope in set(self.of)
        }
        found = [innermost[scope] for scope in self.of]
        for item, named in own.items():
            scope = self.of[item] & ~named
            found[item] = self.ranges[scope.bit_length() - 1] if scope else BODY
        return found


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
        self.home = list(scopes.home)
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

    def idle(self, ops: Sequence[Ops]) -> set[int]:
        """The loops in which nothing happens, of items with these `ops`."""
        busy: set[int] = set()
        for item, op in enumerate(ops):
            if op in _DOES:
                block = self.home[item]
                while block != BODY and block not in busy:
                    busy.add(block)
                    block = self.home[block]
        return self.members.keys() - busy - {BODY}
