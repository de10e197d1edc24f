"""What a program must compute, in which loops, and what must stand before what.

An item is a value or an effect of an indexed kernel, known by a number. An AFTER is no item: what
it asks for is kept with the accesses to memory, barriers and loops that use it, for these alone
can tell when they happen. So two LOADs of one address, one of them after a barrier, are two items,
but the address is one.

A set of loops is an integer with a bit for each: bit i is the loop whose RANGE has the i-th number.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinyref.errors import UserError
from tinyref.uops.build import range_number
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops

Items = tuple[int, ...]
NOTHING: Items = ()

# Looked up once: attributes of an enumeration are slow, and each node is asked for its op.
_SINK, _AFTER, _RANGE = Ops.SINK, Ops.AFTER, Ops.RANGE
_UPDATE, _INDEX, _LOAD, _STORE = Ops.UPDATE_ACC, Ops.INDEX, Ops.LOAD, Ops.STORE

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


# The block of what stands in no loop.
BODY = -1
# What fixes how loops nest: where these happen, they do once an iteration.
_DOES = frozenset({Ops.STORE, Ops.UPDATE_ACC, Ops.BARRIER})
_COUNTED = _DOES | {Ops.RANGE}
_OPENS = frozenset({Ops.RANGE, Ops.DEFINE_ACC})


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


# What stands before everything else.
DEFINED = frozenset({Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_VAR, Ops.CONST})
# What takes no register of its own: it is a constant, an address that the access computes, or
# nothing at all.
_UNCOUNTED = DEFINED | {Ops.SPECIAL, Ops.RANGE, Ops.INDEX, Ops.STORE, Ops.UPDATE_ACC, Ops.BARRIER}


class BlockNeeds:
    """For each member of a block what must stand before it, and which values it uses up.

    before: the members of its block that come first. uses: those of them that are values in
    registers, each of which it (or something in it, for a loop) takes; the last value of an
    accumulator counts as its DEFINE_ACC. Of items: registers, how many it takes to compute one
    from what stands in its block, none for a gate; addresses, those that are part of one, which
    take no registers of the kind that is scarce; last_reads, how many accumulators one reads for
    the last time in an iteration, negative for an update, after which there is one more.
    """

    def __init__(self, items: KernelItems, blocks: Blocks) -> None:
        self.items = items
        self.blocks = blocks
        self.before: list[list[int]] = [[] for _ in items.nodes]
        self.uses: list[list[int]] = [[] for _ in items.nodes]
        self.addresses = _addresses(items)
        self.is_defined = [op in DEFINED for op in items.ops]
        self.is_counted = [op not in _UNCOUNTED for op in items.ops]
        for item in self.addresses:
            self.is_counted[item] = False
        self._of_items()
        readers = _readers(items)
        self._reads_before_updates(readers)
        self.last_reads = _last_reads(items, blocks.home, readers)
        self.registers = self._registers()
        _order_memory(self)

    def add(self, first: int, second: int) -> None:
        """The item `first` comes before `second`, so the loops that hold one alone do."""
        home = self.blocks.home
        if home[first] != home[second]:
            first, second = self.blocks.meet(first, second)
        if first != second:
            self.before[second].append(first)

    def _of_items(self) -> None:
        items, home = self.items, self.blocks.home
        is_defined, is_counted = self.is_defined, self.is_counted
        parallel = zip(items.sources, self.before, self.uses, items.waits, strict=True)
        for item, (sources, before, uses, waits) in enumerate(parallel):
            here = home[item]
            for source in sources:
                if is_defined[source]:
                    continue
                if home[source] != here or items.ops[source] is _UPDATE:
                    self._of_source(item, source)
                    continue
                before.append(source)
                if is_counted[source]:
                    uses.append(source)
            for wait in waits:
                for other in (*wait.items, *wait.over):
                    if not is_defined[other]:
                        self.add(other, item)

    def _of_source(self, item: int, source: int) -> None:
        """The needs for a source of another block, or for the last value of an accumulator."""
        items = self.items
        value, user = self.blocks.meet(source, item)
        if value != user:
            self.before[user].append(value)
        if items.ops[source] is _UPDATE:
            source = items.sources[source][0]
            value, user = self.blocks.meet(source, item)
        if value == source and self.is_counted[source]:
            self.uses[user].append(source)

    def _reads_before_updates(self, readers: Mapping[int, list[int]]) -> None:
        """What takes the old value of an accumulator stands before its update."""
        for accumulator, update in self.items.updates.items():
            for reader in readers[accumulator]:
                self.add(reader, update)

    def _registers(self) -> list[int]:
        """The number of Sethi and Ullman: of sources that take as many, one waits for the other."""
        found: list[int] = [*self.is_counted]
        for item, uses in enumerate(self.uses):
            # A loop takes values that are found after its RANGE.
            parts = sorted([found[use] for use in uses if use < item], reverse=True)
            if parts:
                found[item] = max(map(operator.add, parts, itertools.count()))
        return found


def _readers(items: KernelItems) -> dict[int, list[int]]:
    """What takes each accumulator, but for its update."""
    found: dict[int, list[int]] = {accumulator: [] for accumulator in items.loops}
    for item, sources in enumerate(items.sources):
        for accumulator in found.keys() & sources if items.ops[item] is not _UPDATE else ():
            found[accumulator].append(item)
    return found


def _addresses(items: KernelItems) -> set[int]:
    """The arithmetic behind positions in memory, back to what is loaded."""
    found: set[int] = set()
    ops = items.ops
    for item in range(len(ops) - 1, -1, -1):
        if ops[item] is _INDEX:
            found.update(items.sources[item][1:])
        elif item in found and ops[item] in ALU:
            found.update(items.sources[item])
    return {item for item in found if ops[item] in ALU}


def _last_reads(
    items: KernelItems, home: Sequence[int], readers: Mapping[int, list[int]]
) -> dict[int, int]:
    """For what alone reads old values of accumulators, in the block of the updates: how many."""
    found: dict[int, int] = defaultdict(int)
    for accumulator, update in items.updates.items():
        reading = readers[accumulator]
        if len(reading) == 1 and home[reading[0]] == home[update]:
            found[reading[0]] += 1
            found[update] -= 1
    return found


# --- memory -----------------------------------------------------------------------------------


def _order_memory(needs: BlockNeeds) -> None:
    """A LOAD that waits for no STORE to its memory stands before all of them, and so on.

    In general: after the same number of STOREs, counted along what it waits for, at least as many
    as there are before the STORE. So a kernel that writes to what it reads has read it.
    """
    items = needs.items
    accesses: dict[int, list[int]] = defaultdict(list)
    for item, op in enumerate(items.ops):
        if op in (_LOAD, _STORE):
            accesses[items.memory(item)].append(item)
    for found in accesses.values():
        stores = {access for access in found if items.ops[access] is Ops.STORE}
        if 0 < len(stores) < len(found):
            _order_accesses(needs, found, _stores_before(items, stores))


def _stores_before(items: KernelItems, stores: set[int]) -> list[int]:
    """How many of the STOREs `stores` each item waits for, one for the other, itself included."""
    counts: list[int] = []
    for item, (sources, waits) in enumerate(zip(items.sources, items.waits, strict=True)):
        needed = itertools.chain(sources, *(wait.items for wait in waits))
        counts.append(max([counts[each] for each in needed], default=0) + (item in stores))
    return counts


def _order_accesses(needs: BlockNeeds, accesses: list[int], counts: list[int]) -> None:
    """Puts the LOADs of one memory before its STOREs, in every block that holds some of both."""
    items, blocks = needs.items, needs.blocks
    loads: dict[int, dict[int, int]] = defaultdict(dict)
    stores: dict[int, dict[int, int]] = defaultdict(dict)
    for access in accesses:
        is_load = items.nodes[access].op is Ops.LOAD
        count = counts[access]
        for block, member in blocks.holders(access):
            if is_load:
                found = loads[block]
                found[member] = min(found.get(member, count), count)
            else:
                found = stores[block]
                found[member] = max(found.get(member, count), count)
    for block, reading in loads.items():
        writing = stores[block]
        alone = {member: count for member, count in reading.items() if member not in writing}
        _gates(needs, block, alone, writing)
        # A loop that reads and writes stands before what only writes; among several such loops
        # nothing is known.
        both = {member: count for member, count in reading.items() if member in writing}
        rest = {member: count for member, count in writing.items() if member not in reading}
        _gates(needs, block, both, rest)


def _gates(
    needs: BlockNeeds, block: int, reading: Mapping[int, int], writing: Mapping[int, int]
) -> None:
    """Members that read after n STOREs stand before those that write as a later one.

    A gate for each n stands between them: so there are no more needs than members.
    """
    if not writing:
        return
    gates: dict[int, int] = {}
    for count in sorted(set(reading.values())):
        gate = needs.blocks.add(block)
        needs.before.append(list(gates.values())[-1:])
        needs.uses.append([])
        needs.registers.append(0)
        gates[count] = gate
    for member, count in reading.items():
        needs.before[gates[count]].append(member)
    for member, count in writing.items():
        last = max((passed for passed in gates if passed < count), default=None)
        if last is not None:
            needs.before[member].append(gates[last])
