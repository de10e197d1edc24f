"""A naive lineariser: any graph after accumulation as a legal program, with no thought of speed.

It is right by being simple, and shares nothing with `tinyref.codegen.linearise`: where its
program computes the right value and the compiler's does not, linearising is to blame.

Every RANGE is one loop. A node stands in the loops whose counters it needs, and in those that are
around these; within a block, what comes before what is a graph, and its first legal order is taken.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.interpret import run_program
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import MemoryVersionArg, RangeArg
from tinyref.uops.program import Program
from tinyref_fuzz.blame.graph import group_of

Array = npt.NDArray[np.generic]

_TIMED = frozenset({Ops.LOAD, Ops.STORE, Ops.BARRIER, Ops.RANGE, Ops.DEFINE_ACC, Ops.UPDATE_ACC})
_MEMORY = frozenset({Ops.LOAD, Ops.STORE})
_DEFINED = frozenset({Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_VAR, Ops.CONST})


def run_graph(
    root: UOp, buffers: Mapping[int, Array], bindings: Mapping[str, int]
) -> dict[int, Array]:
    """What every buffer holds after the graph `root` ran on the interpreter, in the naive order.

    Raises what the interpreter raises, its sanitizer above all, and `UserError` for a graph that
    has no order.
    """
    program = naive_program(root)
    found = [np.array(buffers[slot]) for slot in sorted(buffers)]
    grid = group_of(root, "group", bindings)
    run_program(program, found, bindings, grid, group_of(root, "item", bindings))
    return dict(zip(sorted(buffers), found, strict=True))


def naive_program(root: UOp) -> Program:
    """The program of the graph `root`, without parameters: slots are found by the interpreter."""
    uops = tuple(_Naive(root).program())
    variables = tuple(node for node in uops if node.op is Ops.DEFINE_VAR)
    return Program("naive", uops, (), variables, (1, 1, 1), (1, 1, 1))


@dataclass(eq=False)
class _Item:
    """Something that stands in the program: a node without its AFTERs.

    sources: in the order of the program's node. after: what it waits for besides. over: loops that
    are at their end by then. inside: the loops around it. loops: those of a DEFINE_ACC.
    """

    node: UOp
    number: int
    sources: list[_Item]
    after: list[_Item] = field(default_factory=list)
    over: set[_Item] = field(default_factory=set)
    loops: list[_Item] = field(default_factory=list)
    inside: set[_Item] = field(default_factory=set)

    @property
    def op(self) -> Ops:
        return self.node.op

    @property
    def loop(self) -> int:
        """The number of a RANGE."""
        return self.node.arg.number if isinstance(self.node.arg, RangeArg) else -1


# What an AFTER asks for: items to wait for, and loops that are over.
_Wait = tuple[tuple[_Item, ...], tuple[_Item, ...]]


class _Naive:
    def __init__(self, root: UOp) -> None:
        self.items: list[_Item] = []
        self._collect(root)
        self.ranges = [item for item in self.items if item.op is Ops.RANGE]
        self.outside: dict[_Item, set[_Item]] = {each: set() for each in self.ranges}
        self._nest()

    # From nodes to items

    def _collect(self, root: UOp) -> None:
        item_of: dict[UOp, _Item] = {}
        # What the AFTERs below a node ask for, until something that happens heeds it.
        asked: dict[UOp, tuple[_Wait, ...]] = {}
        known: dict[object, _Item] = {}
        for node in root.toposort():
            if node.op is Ops.SINK:
                continue
            waits = _join_blocks(asked.get(source, ()) for source in node.src)
            sources = [item_of[source] for source in node.src]
            if node.op is Ops.AFTER:
                item_of[node] = sources[0]
                asked[node] = _join_blocks([waits, (_wait(sources[1:]),)])
                continue
            heeded: tuple[_Wait, ...] = ()
            if node.op in _TIMED:
                heeded = waits
            else:
                asked[node] = waits
            key = (node.op, node.dtype, node.arg, tuple(sources), heeded)
            if key not in known:
                known[key] = self._item(node, sources, heeded)
            item_of[node] = known[key]

    def _item(self, node: UOp, sources: list[_Item], waits: tuple[_Wait, ...]) -> _Item:
        item = _Item(node, len(self.items), sources)
        if node.op is Ops.BARRIER:
            waits = (*waits, _wait(sources))
            item.sources = []
        if node.op is Ops.DEFINE_ACC:
            item.sources, item.loops = sources[:1], sources[1:]
        for others, loops in waits:
            item.after += [*others, *loops]
            item.over |= set(loops)
        self.items.append(item)
        return item

    # Loops

    def _nest(self) -> None:
        """Finds the loops around everything: a fixed point, for a loop brings those around it."""
        while True:
            before = [set(item.inside) for item in self.items], dict_of(self.outside)
            for item in self.items:
                item.inside = self._loops_closed(self._loops_needed(item))
                for loop in item.inside:
                    self.outside[loop] |= {e for e in item.inside if e.loop < loop.loop}
            if before == ([set(item.inside) for item in self.items], dict_of(self.outside)):
                return

    def _loops_needed(self, item: _Item) -> set[_Item]:
        found: set[_Item] = set()
        for source in item.sources:
            found |= self._loops_around_use(source)
        for other in item.after:
            if other not in item.over:
                found |= self._loops_around_use(other) - item.over
        if item.op is Ops.RANGE:
            found.add(item)
        return found | set(item.loops)

    def _loops_around_use(self, item: _Item) -> set[_Item]:
        """The loops in which something must stand that uses `item`."""
        if item.op is Ops.UPDATE_ACC:
            return item.inside - set(item.sources[0].loops)
        return item.inside

    def _loops_closed(self, loops: set[_Item]) -> set[_Item]:
        found = set(loops)
        for loop in loops:
            found |= self.outside[loop]
        return found

    def _home(self, item: _Item) -> _Item | None:
        """The innermost loop that `item` stands in; a loop's own RANGE stands outside of it."""
        inside = item.inside - {item} - set(item.loops)
        return max(inside, key=lambda each: each.loop, default=None)

    # Order

    def program(self) -> list[UOp]:
        """The nodes in order, loops closed."""
        homes = {item: self._home(item) for item in self.items}
        before: dict[_Item, set[_Item]] = defaultdict(set)
        for first, second in self._pairs():
            pair = _lift_to_one_block(first, second, homes)
            if pair is not None:
                before[pair[1]].add(pair[0])
        for one, other in self._memory_pairs():
            pair = _lift_to_one_block(one, other, homes)
            if pair is not None and not self._is_both(pair, homes):
                before[pair[1]].add(pair[0])
        blocks: dict[_Item | None, list[_Item]] = defaultdict(list)
        for item in self.items:
            blocks[homes[item]].append(item)
        orders = {block: _topological_order(members, before) for block, members in blocks.items()}
        return _emit(orders)

    def _pairs(self) -> Iterable[tuple[_Item, _Item]]:
        """What must come before what, in every iteration."""
        readers: dict[_Item, list[_Item]] = defaultdict(list)
        for item in self.items:
            for source in item.sources:
                yield source, item
                if source.op is Ops.UPDATE_ACC:
                    yield source.sources[0], item
                if source.op is Ops.DEFINE_ACC and item.op is not Ops.UPDATE_ACC:
                    readers[source].append(item)
            for other in item.after:
                yield other, item
            for loop in item.loops:
                yield item, loop
        for item in self.items:
            if item.op is Ops.UPDATE_ACC:
                for reader in readers[item.sources[0]]:
                    yield reader, item

    def _memory_pairs(self) -> Iterable[tuple[_Item, _Item]]:
        """A LOAD that waits for no STORE to its memory comes before it."""
        accesses: dict[_Item, list[_Item]] = defaultdict(list)
        for item in self.items:
            if item.op in _MEMORY:
                accesses[_memory(item)].append(item)
        for found in accesses.values():
            stores = [item for item in found if item.op is Ops.STORE]
            for load in found:
                if load.op is Ops.LOAD and stores:
                    known = set(toposort([load], _needs))
                    yield from ((load, store) for store in stores if store not in known)

    def _is_both(self, pair: tuple[_Item, _Item], homes: Mapping[_Item, _Item | None]) -> bool:
        """Whether both are loops that read and write one memory: their order is not known."""
        return all(each.op is Ops.RANGE and _does_both(each, self.items) for each in pair)


def dict_of(outside: Mapping[_Item, set[_Item]]) -> dict[_Item, frozenset[_Item]]:
    """A copy that later changes do not reach."""
    return {item: frozenset(loops) for item, loops in outside.items()}


def _join_blocks(groups: Iterable[tuple[_Wait, ...]]) -> tuple[_Wait, ...]:
    return tuple(dict.fromkeys(wait for group in groups for wait in group))


def _wait(sources: Iterable[_Item]) -> _Wait:
    found = list(sources)
    return (
        tuple(item for item in found if item.op is not Ops.RANGE),
        tuple(item for item in found if item.op is Ops.RANGE),
    )


def _memory(access: _Item) -> _Item:
    item = access.sources[0]
    while item.op is Ops.INDEX:
        item = item.sources[0]
    return item


def _needs(item: _Item) -> list[_Item]:
    return [*item.sources, *item.after]


def _does_both(loop: _Item, items: Iterable[_Item]) -> bool:
    inside = [item for item in items if loop in item.inside and item.op in _MEMORY]
    read = {_memory(item) for item in inside if item.op is Ops.LOAD}
    return any(item.op is Ops.STORE and _memory(item) in read for item in inside)


def _chain(item: _Item, homes: Mapping[_Item, _Item | None]) -> list[_Item]:
    """`item`, the loop that it stands in, the one around that, and so on."""
    found = [item]
    home = homes[item]
    while home is not None:
        found.append(home)
        home = homes[home]
    return found


def _lift_to_one_block(
    first: _Item, second: _Item, homes: Mapping[_Item, _Item | None]
) -> tuple[_Item, _Item] | None:
    """The members of one block in which the two stand; None where that is the same member."""
    holders = {homes[item]: item for item in _chain(first, homes)}
    for item in _chain(second, homes):
        if homes[item] in holders:
            found = holders[homes[item]]
            return None if found is item else (found, item)
    raise UserError("order: two nodes without a block around both")


def _topological_order(members: list[_Item], before: Mapping[_Item, set[_Item]]) -> list[_Item]:
    """The first order in which everything stands after what comes before it."""
    own = set(members)
    waiting = {item: len(before.get(item, set()) & own) for item in members}
    users: dict[_Item, list[_Item]] = defaultdict(list)
    for item in members:
        for other in before.get(item, ()):
            users[other].append(item)
    ready = [(_rank(item), item.number) for item in members if not waiting[item]]
    heapq.heapify(ready)
    by_number = {item.number: item for item in members}
    found = []
    while ready:
        item = by_number[heapq.heappop(ready)[1]]
        found.append(item)
        for user in users[item]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (_rank(user), user.number))
    if len(found) < len(members):
        raise UserError("order: nodes of a block that need each other")
    return found


def _rank(item: _Item) -> int:
    return 0 if item.op in _DEFINED else 1


def _emit(orders: Mapping[_Item | None, list[_Item]]) -> list[UOp]:
    forms: dict[_Item, UOp] = {}
    versions: dict[UOp, int] = defaultdict(int)
    found: list[UOp] = []
    stack = [(item, False) for item in reversed(orders.get(None, []))]
    while stack:
        item, closes = stack.pop()
        if closes:
            found.append(UOp(Ops.END, dtypes.void, (forms[item],)))
            continue
        src = tuple(forms[source] for source in item.sources)
        form = UOp(item.op, item.node.dtype, src, item.node.arg)
        if item.op in _MEMORY:
            versions[form] += 1
            if versions[form] > 1:
                form = form.replace(arg=MemoryVersionArg(versions[form] - 1))
        forms[item] = form
        found.append(form)
        if item.op is Ops.RANGE:
            stack.append((item, True))
            stack += [(member, False) for member in reversed(orders.get(item, []))]
    return found
