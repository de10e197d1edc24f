"""From the graph of an indexed kernel to a program: one order of its nodes, with closed blocks.

An item is in the loops that it depends on, so an item that does not change in a loop precedes it.
Loops that share an item nest by their numbers, lower ones outside. Within a block, the order keeps
few values live, without a long search.

The first order is by Sethi and Ullman, "The generation of optimal code for arithmetic expressions"
(1970). It is depth first, with the source that takes the most registers first. It is best for
trees. In a matrix product all rows meet all columns. For such shared values a list schedule is
better: the next item is always the one that adds the fewest live values. It is tried if the first
order has many live values, and used if it has fewer.
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
    """Return the nodes of the indexed kernel `root` as a program.

    Sources precede their users, an END closes every RANGE, and the order obeys every AFTER, which
    is removed. A DEFINE_ACC has only its start value as source and precedes the loops that it
    named. A loop without effects is dropped. LOADs and STOREs that differ only by what they wait
    for have memory versions. Equal graphs give equal programs. With a `seed`, the order is any
    legal one: all orders compute the same. Raises `UserError` if loops need each other's results.
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
    """Return the items that precede everything else, in order."""
    definitions = [item for item, is_defined in enumerate(needs.is_defined) if is_defined]
    definitions.sort(key=lambda item: definitions_first(items.nodes[item]))
    return dict.fromkeys(definitions)


def _nested(
    items: KernelItems, orders: dict[int, list[int]], idle: set[int]
) -> Iterable[tuple[int, bool]]:
    """Yield all items in order, also those in loops, with True at the end of a loop."""
    count = len(items.nodes)
    stack: list[tuple[int, bool]] = [(member, False) for member in reversed(orders[BODY])]
    while stack:
        item, closes = stack.pop()
        if item >= count or item in idle:
            # A gate, which only orders other members, or an idle loop.
            continue
        yield item, closes
        if not closes and item in orders:
            stack.append((item, True))
            stack += [(member, False) for member in reversed(orders[item])]


def _program(items: KernelItems, order: Iterable[tuple[int, bool]]) -> tuple[UOp, ...]:
    """Return the node of each item in a program, with its sources there."""
    # The nodes by item: sources are set before they are used.
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


# No device spills this many live values, so no other order is tried.
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
# Ops with an effect: all others serve these.
_ROOTS = frozenset({Ops.STORE, Ops.BARRIER, Ops.RANGE, Ops.UPDATE_ACC})
_LATE = frozenset({Ops.LOAD, Ops.INDEX, Ops.DEFINE_ACC})
_MOVES = frozenset({Ops.VECTORIZE, Ops.CAST, Ops.BITCAST, Ops.GEP})


class BlockOrder:
    """The members of a block, known by their positions in `members`, and how to order them.

    before: the members that come before each one.
    uses: the members among these whose values each one uses.
    Definitions are not members: they precede all blocks.
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
        self._find_needs()

    def _find_needs(self) -> None:
        position_of = {member: position for position, member in enumerate(self.members)}
        for member in self.members:
            before, uses = self.needs.before[member], self.needs.uses[member]
            positions = [position_of[other] for other in dict.fromkeys(before)]
            self.before.append(positions)
            if uses != before:
                # Some values, such as accumulators, are used without being waited for.
                positions = [position_of[other] for other in dict.fromkeys(uses)]
            self.uses.append(positions)

    @functools.cached_property
    def users(self) -> list[list[int]]:
        """Return the members that wait for each member."""
        return _reversed(self.before)

    @functools.cached_property
    def takers(self) -> list[list[int]]:
        """Return the members that use the value of each member."""
        return _reversed(self.uses)

    @functools.cached_property
    def last_reads(self) -> list[int]:
        """Return the number of accumulators that each member reads for the last time."""
        return [self.needs.last_reads.get(member, 0) for member in self.members]

    def best(self) -> list[int]:
        """Return the members in an order with few live values."""
        order = self._depth_first()
        if sum(map(len, self.uses)) > FEW:
            pressure = self._pressure(order)
            if pressure > FEW:
                order = _listed(self, pressure) or order
        return [self.members[position] for position in order]

    def shuffled(self, chance: random.Random) -> list[int]:
        """Return the members in a random legal order."""
        ranks = [chance.random() for _ in self.members]
        return [self.members[position] for position in self.sorted(ranks.__getitem__)]

    def sorted(self, rank: Callable[[int], float]) -> list[int]:
        """Return the legal order that always takes the member of lowest rank.

        Raises `UserError` if members wait for each other.
        """
        left = [len(needed) for needed in self.before]
        ready = [(rank(position), position) for position, count in enumerate(left) if count == 0]
        heapq.heapify(ready)
        users = self.users
        order: list[int] = []
        while ready:
            position = heapq.heappop(ready)[1]
            order.append(position)
            for user in users[position]:
                left[user] -= 1
                if not left[user]:
                    heapq.heappush(ready, (rank(user), user))
        waiting = {position for position, count in enumerate(left) if count}
        if waiting:
            raise self._stuck(waiting)
        return order

    def _stuck(self, positions: set[int]) -> UserError:
        nodes = self.needs.items.nodes
        loops = [self.members[i] for i in positions if self.ops[i] is Ops.RANGE]
        numbers = sorted(range_number(nodes[loop]) for loop in loops)
        return UserError(f"kernel: the loops {numbers} need each other's results")

    def rank(self, position: int) -> int:
        """Return the position of a member, with launch indices first."""
        return position - len(self.members) if self.ops[position] is _LAUNCH else position

    @functools.cached_property
    def live_at_first(self) -> int:
        """Return the number of accumulators that are updated here: their old values are live."""
        return sum([count for count in self.last_reads if count > 0])

    def _pressure(self, order: Sequence[int]) -> int:
        """Return the highest number of values that are live at once in this order."""
        uses, last_reads = self.uses, self.last_reads
        left = [len(takers) for takers in self.takers]
        live = most = self.live_at_first
        for position in order:
            live += (left[position] > 0) - last_reads[position]
            most = max(most, live)
            for value in uses[position]:
                left[value] -= 1
                live -= not left[value]
        return most

    # Depth first

    def _depth_first(self) -> list[int]:
        """Return an order with sources right before their user, the most registers first."""
        before = self.before
        is_done = [False] * len(before)
        on_way: set[int] = set()
        order: list[int] = []
        stack = self._roots()
        stack.reverse()
        while stack:
            position = stack.pop()
            if position < 0:
                # The complement stands for a member after all that it waits for.
                is_done[~position] = True
                order.append(~position)
                continue
            if is_done[position]:
                continue
            missing = before[position]
            if missing:
                missing = [other for other in missing if not is_done[other]]
            if not missing:
                is_done[position] = True
                order.append(position)
                continue
            if position in on_way:
                # Members wait for each other: this raises the error.
                return self.sorted(self.rank)
            on_way.add(position)
            stack.append(~position)
            if len(missing) > 1:
                self._by_registers(position, missing)
            stack += missing
        return order

    def _roots(self) -> list[int]:
        """Return launch indices, then members with effects, then the rest."""
        launch, roots, others = [], [], []
        for position, op in enumerate(self.ops):
            if op is _LAUNCH:
                launch.append(position)
            elif op in _ROOTS:
                roots.append(position)
            else:
                others.append(position)
        return launch + roots + others

    def _by_registers(self, position: int, missing: list[int]) -> None:
        """Sort the members that `position` waits for in reverse, because the last one comes first.

        Members without a value that it uses come first, then those that take more registers.
        """
        op = self.ops[position]
        if op is None or op is Ops.RANGE:
            missing.reverse()
            return
        uses, registers, members = self.uses[position], self.needs.registers, self.members
        missing.sort(reverse=True)
        ranks = {
            other: registers[members[other]] if other in uses else _AT_FIRST for other in missing
        }
        missing.sort(key=ranks.__getitem__)


# --- list schedule ----------------------------------------------------------------------------


def _listed(block: BlockOrder, below: int) -> list[int] | None:
    """Return the order that always takes the member that adds the fewest live values.

    Return None if `below` values are live at some point.
    """
    schedule = _ListSchedule(block, below)
    return schedule.order if schedule.most < below else None


class _ListSchedule:
    """A list schedule of one block.

    Members that can come at any time, such as LOADs, are late: they come right before the first
    member that uses them.

    cost: the number of live values that a member adds together with its late sources; it only
    falls.
    most: the highest number of live values. The schedule ends if it reaches `below`.
    """

    def __init__(self, block: BlockOrder, below: int) -> None:
        self.block = block
        count = len(block.members)
        self.late = _late(block)
        self.done = [False] * count
        # The number of remaining uses of each value, and of members that each member waits for.
        self.remaining = list(map(len, block.takers))
        self.waits = list(map(len, block.before))
        # The costs of ready members.
        self.cost = [0] * count
        self.is_ready = [False] * count
        self.heap: list[tuple[int, int, int]] = []
        self.order: list[int] = []
        self.live = self.most = block.live_at_first
        for position in range(count):
            if not self.waits[position] and not self.is_ready[position]:
                self._make_ready(position)
        while self.heap and self.most < below:
            cost, _, position = heapq.heappop(self.heap)
            if not self.done[position] and cost == self.cost[position]:
                self._take(position)
        if len(self.order) < count and self.most < below:
            self._take_rest()

    def _first_cost(self, position: int) -> int:
        """Return the cost of a member that just became ready."""
        block = self.block
        op = block.ops[position]
        late, done, remaining = self.late, self.done, self.remaining
        if op is None:
            return sum([late[other] and not done[other] for other in block.before[position]])
        if op is _LAUNCH:
            return _AT_ONCE
        cost = 1 if block.takers[position] else 0
        for value in block.uses[position]:
            cost += (late[value] and not done[value]) - (remaining[value] == 1)
        return cost - block.last_reads[position]

    def _make_ready(self, first: int) -> None:
        """Mark `first` as ready: it waits only for late members, which are ready too."""
        stack = [first]
        while stack:
            position = stack.pop()
            self.is_ready[position] = True
            if self.late[position]:
                stack += self._release(position)
            else:
                self.cost[position] = self._first_cost(position)
                self._push(position)

    def _release(self, position: int) -> list[int]:
        """Return the users of `position` that wait for nothing else."""
        released = []
        for user in self.block.users[position]:
            self.waits[user] -= 1
            if not self.waits[user]:
                released.append(user)
        return released

    def _push(self, position: int) -> None:
        heapq.heappush(self.heap, (self.cost[position], self.block.rank(position), position))

    def _take(self, goal: int) -> None:
        """Emit `goal` after the late members that it waits for."""
        done, before = self.done, self.block.before
        stack = [goal]
        while stack:
            position = stack[-1]
            if done[position]:
                stack.pop()
                continue
            missing = [other for other in before[position] if not done[other]]
            if missing:
                missing.reverse()
                stack += missing
            else:
                stack.pop()
                self._emit(position)

    def _emit(self, position: int) -> None:
        self.done[position] = True
        self.order.append(position)
        self._count(position)
        if not self.late[position]:
            for user in self._release(position):
                self._make_ready(user)

    def _count(self, position: int) -> None:
        """Update the number of live values after `position`, and the costs of other members."""
        block, remaining = self.block, self.remaining
        self.live += (remaining[position] > 0) - block.last_reads[position]
        self.most = max(self.most, self.live)
        if self.late[position]:
            for user in block.takers[position]:
                self._cheaper(user)
            for user in block.users[position]:
                if block.ops[user] is None:
                    self._cheaper(user)
        for value in block.uses[position]:
            left = remaining[value] = remaining[value] - 1
            if left == 1:
                self._cheaper(next(user for user in block.takers[value] if not self.done[user]))
            elif not left:
                self.live -= 1

    def _cheaper(self, position: int) -> None:
        if self.is_ready[position] and not self.late[position] and not self.done[position]:
            self.cost[position] -= 1
            self._push(position)

    def _take_rest(self) -> None:
        """Emit the late members that nothing in the block uses."""
        for position in range(len(self.done)):
            self._take(position)


def _late(block: BlockOrder) -> list[bool]:
    """Return True for members that can wait for a user: LOADs, start values, addresses, moves."""
    late = [False] * len(block.members)
    addresses = block.needs.addresses
    for position, (op, member) in enumerate(zip(block.ops, block.members, strict=True)):
        if op in _LATE or member in addresses:
            late[position] = True
        elif op in _MOVES:
            late[position] = len(block.uses[position]) == 1 and late[block.uses[position][0]]
    return late


def _reversed(lists: Sequence[Sequence[int]]) -> list[list[int]]:
    users: list[list[int]] = [[] for _ in lists]
    for user, others in enumerate(lists):
        for other in others:
            users[other].append(user)
    return users


def definitions_first(node: UOp) -> tuple[int, int, str]:
    """Return the sort key of a definition: slots by number, the others by name."""
    rank = _FIRST[node.op]
    if isinstance(node.arg, SlotArg):
        return rank, node.arg.slot, ""
    return rank, 0, node.arg.name if isinstance(node.arg, VarArg | LocalArg) else ""
