"""From a graph of an indexed kernel to a program: one order of its nodes, blocks closed.

An item belongs to the loops that it depends on, so what does not change in a loop stands before
it. Loops that meet in one item nest by their numbers, lower ones outside. Within a block, values
live as briefly as is easily found.

First the order of Sethi and Ullman, "The generation of optimal code for arithmetic expressions"
(1970): depth first, and of several sources the one first that takes the most registers. It is best
for trees. Where values are shared, as in a matrix product whose rows and columns all meet, a list
schedule does better: always that next which adds the fewest values to those that are live. It is
looked for where the first order keeps many values alive, and taken where it keeps fewer.
"""

from __future__ import annotations

import functools
import heapq
import random
from collections.abc import Callable, Iterable, Sequence

from tinyref.codegen.blocks import BODY, BlockNeeds, Blocks, KernelItems, Scopes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.build import range_number
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import LocalArg, MemoryVersionArg, SlotArg, VarArg


def linearise(root: UOp, seed: int | None = None) -> tuple[UOp, ...]:
    """The nodes of the indexed kernel `root` as a program.

    Sources come before their users, every RANGE is closed by its END, AFTER is gone and what it
    asked for holds. A DEFINE_ACC keeps its start value as its only source and stands before the
    loops that it named; a loop in which nothing is left to do is dropped. LOADs and STOREs that
    are equal but for what they come after have memory versions. Equal graphs give equal
    programs. With a `seed`, the order is any legal one: all of them compute the same. Raises
    `UserError` for loops that need each other's results.
    """
    items = KernelItems(root.toposort())
    blocks = Blocks(Scopes(items))
    needs = BlockNeeds(items, blocks)
    definitions = _definitions(items, needs)
    chance = None if seed is None else random.Random(seed)
    orders = {}
    for block, members in blocks.members.items():
        if block == BODY:
            members = [member for member in members if member not in definitions]
        order = BlockOrder(needs, members)
        orders[block] = order.best() if chance is None else order.shuffled(chance)
    orders[BODY] = [*definitions, *orders[BODY]]
    return _program(items, _nested(items, orders, blocks.idle(items.ops)))


def _definitions(items: KernelItems, needs: BlockNeeds) -> dict[int, None]:
    """What stands before everything else, in order."""
    found = [item for item, is_defined in enumerate(needs.is_defined) if is_defined]
    found.sort(key=lambda item: definitions_first(items.nodes[item]))
    return dict.fromkeys(found)


def _nested(
    items: KernelItems, orders: dict[int, list[int]], left_out: set[int]
) -> Iterable[tuple[int, bool]]:
    """All items in order, loops with what is in them; True where the loop closes."""
    count = len(items.nodes)
    stack: list[tuple[int, bool]] = [(member, False) for member in reversed(orders[BODY])]
    while stack:
        item, closes = stack.pop()
        if item >= count or item in left_out:
            # A place that only others stand before or after, or an idle loop.
            continue
        yield item, closes
        if not closes and item in orders:
            stack.append((item, True))
            stack += [(member, False) for member in reversed(orders[item])]


def _program(items: KernelItems, order: Iterable[tuple[int, bool]]) -> tuple[UOp, ...]:
    """The node of each item in a program: with the sources that it has there."""
    # By item: each is set before it is taken.
    forms = list(items.nodes)
    form_of = forms.__getitem__
    versions: dict[UOp, int] = {}
    emitted: list[UOp] = []
    for item, closes in order:
        if closes:
            emitted.append(build.close(forms[item]))
            continue
        node = items.nodes[item]
        op = node.op
        src = tuple(map(form_of, items.sources[item]))
        form = node if src == node.src else UOp(op, node.dtype, src, node.arg)
        if op in (_LOAD, _STORE):
            before = versions.get(form, 0)
            versions[form] = before + 1
            if before:
                form = form.replace(arg=MemoryVersionArg(before))
        forms[item] = form
        emitted.append(form)
    return tuple(emitted)


# With so few live values no device spills, and no other order is looked for.
FEW = 12

# Definitions come first, by slot and by name.
_FIRST = {
    Ops.DEFINE_GLOBAL: 0,
    Ops.DEFINE_LOCAL: 1,
    Ops.DEFINE_VAR: 2,
    Ops.CONST: 3,
}
_LAUNCH, _LOAD, _STORE = Ops.SPECIAL, Ops.LOAD, Ops.STORE
_AT_ONCE = -(1 << 30)
_AT_FIRST = 1 << 30
# What happens in its place: everything else is there for the sake of these.
_ROOTS = frozenset({Ops.STORE, Ops.BARRIER, Ops.RANGE, Ops.UPDATE_ACC})
_LATE = frozenset({Ops.LOAD, Ops.INDEX, Ops.DEFINE_ACC})
_MOVES = frozenset({Ops.VECTORIZE, Ops.CAST, Ops.BITCAST, Ops.GEP})


class BlockOrder:
    """The members of a block, known by their places in `members`, and how to order them.

    before: what comes before each. uses: the values among these. Definitions are not among the
    members: they stand before all blocks.
    """

    def __init__(self, needs: BlockNeeds, members: Sequence[int]) -> None:
        ops = needs.items.ops
        self.needs = needs
        self.members = members
        # A gate is no item and has no operation.
        self.ops: list[Ops | None] = [
            ops[member] if member < len(ops) else None for member in members
        ]
        self.before: list[list[int]] = []
        self.uses: list[list[int]] = []
        self._find_places()

    def _find_places(self) -> None:
        place = {member: number for number, member in enumerate(self.members)}
        for member in self.members:
            before, uses = self.needs.before[member], self.needs.uses[member]
            places = [place[other] for other in dict.fromkeys(before)]
            self.before.append(places)
            if uses != before:
                # Also what is a value and not waited for by itself, such as an accumulator.
                places = [place[other] for other in dict.fromkeys(uses)]
            self.uses.append(places)

    @functools.cached_property
    def users(self) -> list[list[int]]:
        """What comes after each member."""
        return _reversed(self.before)

    @functools.cached_property
    def takers(self) -> list[list[int]]:
        """What takes the value of each member."""
        return _reversed(self.uses)

    @functools.cached_property
    def last_reads(self) -> list[int]:
        """How many accumulators each member reads for the last time."""
        return [self.needs.last_reads.get(member, 0) for member in self.members]

    def best(self) -> list[int]:
        """The members in an order of few live values."""
        order = self._depth_first()
        if sum(map(len, self.uses)) > FEW:
            pressure = self._pressure(order)
            if pressure > FEW:
                order = _listed(self, pressure) or order
        return [self.members[place] for place in order]

    def shuffled(self, chance: random.Random) -> list[int]:
        """The members in any legal order."""
        ranks = [chance.random() for _ in self.members]
        return [self.members[place] for place in self.sorted(ranks.__getitem__)]

    def sorted(self, rank: Callable[[int], float]) -> list[int]:
        """The legal order that takes the lowest rank of what may come next.

        Raises `UserError` where members wait for each other.
        """
        left = [len(needed) for needed in self.before]
        ready = [(rank(place), place) for place, count in enumerate(left) if count == 0]
        heapq.heapify(ready)
        users = self.users
        order: list[int] = []
        while ready:
            place = heapq.heappop(ready)[1]
            order.append(place)
            for user in users[place]:
                left[user] -= 1
                if not left[user]:
                    heapq.heappush(ready, (rank(user), user))
        waiting = {place for place, count in enumerate(left) if count}
        if waiting:
            raise self._stuck(waiting)
        return order

    def _stuck(self, places: set[int]) -> UserError:
        nodes = self.needs.items.nodes
        loops = [self.members[place] for place in places if self.ops[place] is Ops.RANGE]
        numbers = sorted(range_number(nodes[loop]) for loop in loops)
        return UserError(f"kernel: the loops {numbers} need each other's results")

    def rank(self, place: int) -> int:
        """The order in which the graph was found, launch indices first."""
        return place - len(self.members) if self.ops[place] is _LAUNCH else place

    @functools.cached_property
    def live_at_first(self) -> int:
        """The accumulators that are updated here, whose old values are live."""
        return sum([count for count in self.last_reads if count > 0])

    def _pressure(self, order: Sequence[int]) -> int:
        """The most values that are live at once in this order."""
        uses, last_reads = self.uses, self.last_reads
        left = [len(takers) for takers in self.takers]
        live = most = self.live_at_first
        for place in order:
            live += (left[place] > 0) - last_reads[place]
            most = max(most, live)
            for value in uses[place]:
                left[value] -= 1
                live -= not left[value]
        return most

    # Depth first

    def _depth_first(self) -> list[int]:
        """Sources right before their user, the one that takes the most registers first."""
        before = self.before
        is_done = [False] * len(before)
        on_way: set[int] = set()
        order: list[int] = []
        stack = self._roots()
        stack.reverse()
        while stack:
            place = stack.pop()
            if place < 0:
                # The complement of a place stands for it, after all that it waits for.
                is_done[~place] = True
                order.append(~place)
                continue
            if is_done[place]:
                continue
            missing = before[place]
            if missing:
                missing = [other for other in missing if not is_done[other]]
            if not missing:
                is_done[place] = True
                order.append(place)
                continue
            if place in on_way:
                # They wait for each other: this says who does.
                return self.sorted(self.rank)
            on_way.add(place)
            stack.append(~place)
            if len(missing) > 1:
                self._by_registers(place, missing)
            stack += missing
        return order

    def _roots(self) -> list[int]:
        """Launch indices, then what happens in its place, then what is left."""
        launch, roots, others = [], [], []
        for place, op in enumerate(self.ops):
            if op is _LAUNCH:
                launch.append(place)
            elif op in _ROOTS:
                roots.append(place)
            else:
                others.append(place)
        return launch + roots + others

    def _by_registers(self, place: int, missing: list[int]) -> None:
        """Sorts what `place` waits for, the last to come first: it comes last.

        What it only waits for comes first, of its sources the one that takes more registers.
        """
        op = self.ops[place]
        if op is None or op is Ops.RANGE:
            missing.reverse()
            return
        uses, registers, members = self.uses[place], self.needs.registers, self.members
        missing.sort(reverse=True)
        ranks = {
            other: registers[members[other]] if other in uses else _AT_FIRST for other in missing
        }
        missing.sort(key=ranks.__getitem__)


# --- list schedule ----------------------------------------------------------------------------


def _listed(block: BlockOrder, below: int) -> list[int] | None:
    """Next is always what adds the fewest values to those that are live.

    None if it comes to `below` of them.
    """
    schedule = _ListSchedule(block, below)
    return schedule.order if schedule.most < below else None


class _ListSchedule:
    """A list schedule of one block.

    What can be had at any time, such as a LOAD, is late: it comes right before the first member
    that takes it. `cost` is by how many the live values grow with a member and what is late of
    its sources; it only ever falls. `most` is how many values live at once; the schedule ends
    where these are not `below` a number.
    """

    def __init__(self, block: BlockOrder, below: int) -> None:
        self.block = block
        count = len(block.members)
        self.late = _late(block)
        self.done = [False] * count
        # How many uses of each value remain, and for how many others each member waits.
        self.remaining = list(map(len, block.takers))
        self.waits = list(map(len, block.before))
        # Of what is ready.
        self.cost = [0] * count
        self.is_ready = [False] * count
        self.heap: list[tuple[int, int, int]] = []
        self.order: list[int] = []
        self.live = self.most = block.live_at_first
        for place in range(count):
            if not self.waits[place] and not self.is_ready[place]:
                self._make_ready(place)
        while self.heap and self.most < below:
            cost, _, place = heapq.heappop(self.heap)
            if not self.done[place] and cost == self.cost[place]:
                self._take(place)
        if len(self.order) < count and self.most < below:
            self._take_rest()

    def _first_cost(self, place: int) -> int:
        """The cost of what just became ready."""
        block = self.block
        op = block.ops[place]
        late, done, remaining = self.late, self.done, self.remaining
        if op is None:
            return sum([late[other] and not done[other] for other in block.before[place]])
        if op is _LAUNCH:
            return _AT_ONCE
        cost = 1 if block.takers[place] else 0
        for value in block.uses[place]:
            cost += (late[value] and not done[value]) - (remaining[value] == 1)
        return cost - block.last_reads[place]

    def _make_ready(self, first: int) -> None:
        """Nothing that `first` waits for is missing, but for what is late and ready itself."""
        stack = [first]
        while stack:
            place = stack.pop()
            self.is_ready[place] = True
            if self.late[place]:
                stack += self._release(place)
            else:
                self.cost[place] = self._first_cost(place)
                self._push(place)

    def _release(self, place: int) -> list[int]:
        """The users of `place` that wait for nothing more."""
        found = []
        for user in self.block.users[place]:
            self.waits[user] -= 1
            if not self.waits[user]:
                found.append(user)
        return found

    def _push(self, place: int) -> None:
        heapq.heappush(self.heap, (self.cost[place], self.block.rank(place), place))

    def _take(self, goal: int) -> None:
        """Emits `goal` after what is late of all that it waits for."""
        done, before = self.done, self.block.before
        stack = [goal]
        while stack:
            place = stack[-1]
            if done[place]:
                stack.pop()
                continue
            missing = [other for other in before[place] if not done[other]]
            if missing:
                missing.reverse()
                stack += missing
            else:
                stack.pop()
                self._emit(place)

    def _emit(self, place: int) -> None:
        self.done[place] = True
        self.order.append(place)
        self._count(place)
        if not self.late[place]:
            for user in self._release(place):
                self._make_ready(user)

    def _count(self, place: int) -> None:
        """The live values after `place`, and what others cost since."""
        block, remaining = self.block, self.remaining
        self.live += (remaining[place] > 0) - block.last_reads[place]
        self.most = max(self.most, self.live)
        if self.late[place]:
            for user in block.takers[place]:
                self._cheaper(user)
            for user in block.users[place]:
                if block.ops[user] is None:
                    self._cheaper(user)
        for value in block.uses[place]:
            left = remaining[value] = remaining[value] - 1
            if left == 1:
                self._cheaper(next(user for user in block.takers[value] if not self.done[user]))
            elif not left:
                self.live -= 1

    def _cheaper(self, place: int) -> None:
        if self.is_ready[place] and not self.late[place] and not self.done[place]:
            self.cost[place] -= 1
            self._push(place)

    def _take_rest(self) -> None:
        """What is late and that nothing in the block takes."""
        for place in range(len(self.done)):
            self._take(place)


def _late(block: BlockOrder) -> list[bool]:
    """What can wait for its first user: LOADs, start values, addresses, broadcasts, casts."""
    late = [False] * len(block.members)
    addresses = block.needs.addresses
    for place, (op, member) in enumerate(zip(block.ops, block.members, strict=True)):
        if op in _LATE or member in addresses:
            late[place] = True
        elif op in _MOVES:
            late[place] = len(block.uses[place]) == 1 and late[block.uses[place][0]]
    return late


def _reversed(lists: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in lists]
    for user, others in enumerate(lists):
        for other in others:
            found[other].append(user)
    return found


def definitions_first(node: UOp) -> tuple[int, int, str]:
    """Where among the definitions a node stands: slots by number, the others by name."""
    rank = _FIRST[node.op]
    if isinstance(node.arg, SlotArg):
        return rank, node.arg.slot, ""
    return rank, 0, node.arg.name if isinstance(node.arg, VarArg | LocalArg) else ""
