"""What must stand before what: within each block, member by member."""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence

from tinyref.codegen.linearise.graph import KernelItems
from tinyref.codegen.linearise.scopes import Blocks
from tinyref.uops.ops import ALU, Ops

# What stands before everything else.
DEFINED = frozenset({Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_VAR, Ops.CONST})
# What takes no register of its own: it is a constant, an address that the access computes, or
# nothing at all.
_UNCOUNTED = DEFINED | {Ops.SPECIAL, Ops.RANGE, Ops.INDEX, Ops.STORE, Ops.UPDATE_ACC, Ops.BARRIER}


_UPDATE, _INDEX = Ops.UPDATE_ACC, Ops.INDEX
_ACCESSES = frozenset({Ops.LOAD, Ops.STORE})


class Needs:
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


def _order_memory(needs: Needs) -> None:
    """A LOAD that waits for no STORE to its memory stands before all of them, and so on.

    In general: after the same number of STOREs, counted along what it waits for, at least as many
    as there are before the STORE. So a kernel that writes to what it reads has read it.
    """
    items = needs.items
    accesses: dict[int, list[int]] = defaultdict(list)
    for item, op in enumerate(items.ops):
        if op in _ACCESSES:
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


def _order_accesses(needs: Needs, accesses: list[int], counts: list[int]) -> None:
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
    needs: Needs, block: int, reading: Mapping[int, int], writing: Mapping[int, int]
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
