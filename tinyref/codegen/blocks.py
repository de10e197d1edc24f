"""The items of a program, the loops around them, and what must precede what.

An item is a value or an effect of an indexed kernel, known by a number. An AFTER is no item. Its
condition is stored with the memory accesses, barriers and loops that use it, because only these
happen at a time. So two LOADs of one address, one of them after a barrier, are two items, but the
address is one.

A set of loops is an integer. Bit i stands for the loop whose RANGE has the i-th lowest number.
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

# These are looked up once: attributes of an enumeration are slow, and each node needs its op.
_SINK, _AFTER, _RANGE = Ops.SINK, Ops.AFTER, Ops.RANGE
_UPDATE, _INDEX, _LOAD, _STORE = Ops.UPDATE_ACC, Ops.INDEX, Ops.LOAD, Ops.STORE

# Ops that happen at a point of the program; other nodes are values that are the same everywhere.
HAPPENS = frozenset({Ops.LOAD, Ops.STORE, Ops.BARRIER, Ops.RANGE, Ops.DEFINE_ACC, Ops.UPDATE_ACC})

_SPECIAL_SOURCES = frozenset({Ops.DEFINE_ACC, Ops.UPDATE_ACC, Ops.BARRIER})


@dataclass(frozen=True, slots=True)
class Wait:
    """The condition of an AFTER or a BARRIER: `items` done, and the loops `over` at their end."""

    items: Items
    over: Items


class KernelItems:
    """The items of an indexed kernel, sources before users, in parallel lists.

    nodes: the node of each item.
    ops: the op of each item.
    sources: the items that it takes, in the order of the sources of the node in a program.
    waits: the other items that must precede it.
    loops: the RANGEs that each DEFINE_ACC names.
    updates: the UPDATE_ACC of each DEFINE_ACC.
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
        """Number the items; nodes that differ only by AFTERs are one, unless they happen."""
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
            number = len(self.nodes)
            if may_merge:
                number = known.setdefault((op, node.dtype, node.arg, items, taken), number)
            if number == len(self.nodes):
                if op in _SPECIAL_SOURCES:
                    items, taken = self._special(number, node, items, taken)
                self.nodes.append(node)
                self.sources.append(items)
                self.waits.append(taken)
            item_of[node] = number

    def _wait(self, sources: Sequence[UOp], items: Items) -> Wait:
        over = [item for source, item in zip(sources, items, strict=True) if source.op is Ops.RANGE]
        return Wait(tuple(item for item in items if item not in over), tuple(over))

    def _special(
        self, item: int, node: UOp, items: Items, waits: tuple[Wait, ...]
    ) -> tuple[Items, tuple[Wait, ...]]:
        """Return the sources and waits that `item` has in a program, if the node has others."""
        if node.op is Ops.DEFINE_ACC:
            items, self.loops[item] = items[:1], items[1:]
        elif node.op is Ops.UPDATE_ACC:
            self.updates[items[0]] = item
        elif node.op is Ops.BARRIER:
            waits = _union([waits, (self._wait([self.nodes[other] for other in items], items),)])
            items = NOTHING
        return items, waits

    def memory(self, access: int) -> int:
        """Return the item of the memory that a LOAD or STORE accesses."""
        item = self.sources[access][0]
        while self.nodes[item].op is Ops.INDEX:
            item = self.sources[item][0]
        return item


def _union(groups: Iterable[tuple[Wait, ...]]) -> tuple[Wait, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(groups)))


# The block of the items outside of all loops.
BODY = -1
# Ops that fix how loops nest: each happens once in an iteration.
_DOES = frozenset({Ops.STORE, Ops.UPDATE_ACC, Ops.BARRIER})
_COUNTED = _DOES | {Ops.RANGE}
_OPENS = frozenset({Ops.RANGE, Ops.DEFINE_ACC})


class Scopes:
    """The loops around every item: as few as its sources allow, so that invariants are outside.

    ranges: the items that are RANGEs, by bit.
    around: the loops around each of them.
    of: the loops around each item; a RANGE counts itself.
    home: the innermost loop around each item, or `BODY`. A RANGE does not count itself, and a
    DEFINE_ACC does not count the loops that it names.
    """

    def __init__(self, items: KernelItems) -> None:
        self.items = items
        self.ranges = [item for item, op in enumerate(items.ops) if op is _RANGE]
        self.ranges.sort(key=lambda item: range_number(items.nodes[item]))
        self.bit = {item: 1 << bit for bit, item in enumerate(self.ranges)}
        self.around = [0] * len(self.ranges)
        self.of: list[int] = []
        self._find_scopes()
        self._check_numbers()
        self.home = self._homes()

    def _find_scopes(self) -> None:
        """Compute a fixed point: the items of the inner of two nested loops are in the outer."""
        counted = [item for item, op in enumerate(self.items.ops) if op in _COUNTED]
        while True:
            self.of = self._scopes()
            for scope in {self.of[item] for item in counted}:
                outer = 0
                for bit in _bits(scope):
                    self.around[bit] |= outer
                    outer |= 1 << bit
            # Loops around a loop have lower numbers: in rising order, theirs are complete already.
            for bit in range(len(self.around)):
                self.around[bit] = self._close(self.around[bit])
            if all(self._close(scope) == scope for scope in set(self.of)):
                return

    def _check_numbers(self) -> None:
        for bit, item in enumerate(self.ranges):
            innermost = self.of[item].bit_length() - 1
            if innermost != bit:
                inner, outer = (
                    range_number(self.items.nodes[self.ranges[other]]) for other in (bit, innermost)
                )
                raise UserError(
                    f"kernel: loop {inner} is inside loop {outer}: loops must be numbered from the "
                    "outside in"
                )

    def _scopes(self) -> list[int]:
        items = self.items
        closed = {0: 0}
        scopes: list[int] = []
        # The loops that are also around every user of the item.
        inherited: list[int] = []
        for op, sources, waits in zip(items.ops, items.sources, items.waits, strict=True):
            scope = 0
            for source in sources:
                scope |= inherited[source]
            for wait in waits:
                scope |= self._around_wait(wait, inherited)
            if op in _OPENS:
                scope |= self._opened(len(scopes))
            if scope in closed:
                scope = closed[scope]
            else:
                closed[scope] = scope = self._close(scope)
            scopes.append(scope)
            if op is _UPDATE:
                scope &= ~self.mask(items.loops[sources[0]])
            inherited.append(scope)
        return scopes

    def _opened(self, item: int) -> int:
        """Return the loops that a RANGE or a DEFINE_ACC has without regard to its sources."""
        return self.bit[item] if item in self.bit else self.mask(self.items.loops[item])

    def _around_wait(self, wait: Wait, inherited: list[int]) -> int:
        scope = 0
        for item in wait.items:
            scope |= inherited[item]
        return scope & ~self.mask(wait.over)

    def mask(self, ranges: Iterable[int]) -> int:
        """Return the set of these RANGEs."""
        scope = 0
        for item in ranges:
            scope |= self.bit[item]
        return scope

    def _close(self, scope: int) -> int:
        closed = scope
        for bit in _bits(scope):
            closed |= self.around[bit]
        return closed

    def _homes(self) -> list[int]:
        own = {**self.bit, **{item: self.mask(named) for item, named in self.items.loops.items()}}
        innermost = {
            scope: self.ranges[scope.bit_length() - 1] if scope else BODY for scope in set(self.of)
        }
        homes = [innermost[scope] for scope in self.of]
        for item, named in own.items():
            scope = self.of[item] & ~named
            homes[item] = self.ranges[scope.bit_length() - 1] if scope else BODY
        return homes


def _bits(scope: int) -> Iterator[int]:
    while scope:
        lowest = scope & -scope
        yield lowest.bit_length() - 1
        scope ^= lowest


class Blocks:
    """The tree of blocks: the body of the kernel, and a block for each loop, by its RANGE.

    members: the items of each block, in order of their numbers. A loop represents its items in the
    block around it.
    depth: the number of loops around the block.
    """

    def __init__(self, scopes: Scopes) -> None:
        self.home = list(scopes.home)
        self.members: dict[int, list[int]] = {BODY: [], **{item: [] for item in scopes.ranges}}
        for item, home in enumerate(scopes.home):
            self.members[home].append(item)
        self.depth = {BODY: 0, **{item: scopes.of[item].bit_count() for item in scopes.ranges}}

    def add(self, block: int) -> int:
        """Add a member to `block` that is no item, and return it: others precede or follow it."""
        item = len(self.home)
        self.home.append(block)
        self.members[block].append(item)
        return item

    def meet(self, first: int, second: int) -> tuple[int, int]:
        """Return the members that hold two items in the innermost block around both."""
        home, depth = self.home, self.depth
        one, other = home[first], home[second]
        while one != other:
            if depth[one] >= depth[other]:
                first, one = one, home[one]
            else:
                second, other = other, home[other]
        return first, second

    def holders(self, item: int) -> Iterator[tuple[int, int]]:
        """Yield the block of `item` and every block around it, with the member that holds it."""
        while True:
            block = self.home[item]
            yield block, item
            if block == BODY:
                return
            item = block

    def idle(self, ops: Sequence[Ops]) -> set[int]:
        """Return the loops in which nothing happens; `ops` are the ops of the items."""
        busy: set[int] = set()
        for item, op in enumerate(ops):
            if op in _DOES:
                block = self.home[item]
                while block != BODY and block not in busy:
                    busy.add(block)
                    block = self.home[block]
        return self.members.keys() - busy - {BODY}


# Ops that precede everything else.
DEFINED = frozenset({Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_VAR, Ops.CONST})
# Ops without a register of their own: the result is a constant, an address that the access
# computes, or nothing.
_UNCOUNTED = DEFINED | {Ops.SPECIAL, Ops.RANGE, Ops.INDEX, Ops.STORE, Ops.UPDATE_ACC, Ops.BARRIER}


class BlockNeeds:
    """The members that must precede each member of a block, and the values that it uses.

    before: the members of its block that come first.
    uses: those of them that are values in registers, for a loop also the values used inside. The
    last value of an accumulator counts as its DEFINE_ACC.
    registers: the number of registers to compute an item from its block; 0 for a gate.
    addresses: the items that are part of an address: they take no scarce registers.
    last_reads: the number of accumulators that an item reads for the last time in an iteration.
    It is negative for an update, because one more value lives after it.
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
        """Make the item `first` precede `second`, or the loops that hold only one of them."""
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
        """Add the needs for a source in another block, or for the last value of an accumulator."""
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
        """Make the readers of the old value of an accumulator precede its update."""
        for accumulator, update in self.items.updates.items():
            for reader in readers[accumulator]:
                self.add(reader, update)

    def _registers(self) -> list[int]:
        """Return the registers that each item takes: the numbers of Sethi and Ullman."""
        counts: list[int] = [*self.is_counted]
        for item, uses in enumerate(self.uses):
            # A loop also uses values that are computed inside, after its RANGE.
            parts = sorted([counts[use] for use in uses if use < item], reverse=True)
            if parts:
                counts[item] = max(map(operator.add, parts, itertools.count()))
        return counts


def _readers(items: KernelItems) -> dict[int, list[int]]:
    """Return the readers of each accumulator, except its update."""
    readers: dict[int, list[int]] = {accumulator: [] for accumulator in items.loops}
    for item, sources in enumerate(items.sources):
        for accumulator in readers.keys() & sources if items.ops[item] is not _UPDATE else ():
            readers[accumulator].append(item)
    return readers


def _addresses(items: KernelItems) -> set[int]:
    """Return the arithmetic of positions in memory, back to loaded values."""
    addresses: set[int] = set()
    ops = items.ops
    for item in range(len(ops) - 1, -1, -1):
        if ops[item] is _INDEX:
            addresses.update(items.sources[item][1:])
        elif item in addresses and ops[item] in ALU:
            addresses.update(items.sources[item])
    return {item for item in addresses if ops[item] in ALU}


def _last_reads(
    items: KernelItems, home: Sequence[int], readers: Mapping[int, list[int]]
) -> dict[int, int]:
    """Count the accumulators that each item alone reads, in the block of the update."""
    counts: dict[int, int] = defaultdict(int)
    for accumulator, update in items.updates.items():
        reading = readers[accumulator]
        if len(reading) == 1 and home[reading[0]] == home[update]:
            counts[reading[0]] += 1
            counts[update] -= 1
    return counts


# --- memory -----------------------------------------------------------------------------------


def _order_memory(needs: BlockNeeds) -> None:
    """Put LOADs that wait for no STORE to their memory before all its STOREs, and so on.

    In general, a LOAD that waits for n STOREs in a row precedes every STORE that waits for n or
    more. So a kernel that writes to the memory that it reads has read it.
    """
    items = needs.items
    accesses: dict[int, list[int]] = defaultdict(list)
    for item, op in enumerate(items.ops):
        if op in (_LOAD, _STORE):
            accesses[items.memory(item)].append(item)
    for group in accesses.values():
        stores = {access for access in group if items.ops[access] is Ops.STORE}
        if 0 < len(stores) < len(group):
            _order_accesses(needs, group, _stores_before(items, stores))


def _stores_before(items: KernelItems, stores: set[int]) -> list[int]:
    """Return the number of STOREs in a row that each item waits for, itself included."""
    counts: list[int] = []
    for item, (sources, waits) in enumerate(zip(items.sources, items.waits, strict=True)):
        needed = itertools.chain(sources, *(wait.items for wait in waits))
        counts.append(max([counts[other] for other in needed], default=0) + (item in stores))
    return counts


def _order_accesses(needs: BlockNeeds, accesses: list[int], counts: list[int]) -> None:
    """Put the LOADs of one memory before its STOREs, in every block that holds some of both."""
    items, blocks = needs.items, needs.blocks
    loads: dict[int, dict[int, int]] = defaultdict(dict)
    stores: dict[int, dict[int, int]] = defaultdict(dict)
    for access in accesses:
        is_load = items.nodes[access].op is Ops.LOAD
        count = counts[access]
        for block, member in blocks.holders(access):
            if is_load:
                counts_of = loads[block]
                counts_of[member] = min(counts_of.get(member, count), count)
            else:
                counts_of = stores[block]
                counts_of[member] = max(counts_of.get(member, count), count)
    for block, reading in loads.items():
        writing = stores[block]
        alone = {member: count for member, count in reading.items() if member not in writing}
        _gates(needs, block, alone, writing)
        # A loop that reads and writes precedes members that only write. Several such loops have
        # no known order.
        both = {member: count for member, count in reading.items() if member in writing}
        rest = {member: count for member, count in writing.items() if member not in reading}
        _gates(needs, block, both, rest)


def _gates(
    needs: BlockNeeds, block: int, reading: Mapping[int, int], writing: Mapping[int, int]
) -> None:
    """Put members that read after n STOREs before members that write a later STORE.

    There is one gate between them for each n, so there are no more needs than members.
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
