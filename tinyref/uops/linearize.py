"""From a graph of an indexed kernel to a program: one order of its nodes, blocks closed.

A node belongs to the ranges that it depends on, so what does not change in a loop stands before
it. Ranges that meet in one node nest by their numbers, lower ones outside.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import LocalArg, RangeArg, SlotArg, VarArg

Ranges = frozenset[UOp]
NONE: Ranges = frozenset()

# Definitions come first, then what is computed; stores as late as possible, so that a kernel that
# writes to what it reads has read it.
_FIRST = {
    Ops.DEFINE_GLOBAL: 0,
    Ops.DEFINE_LOCAL: 1,
    Ops.DEFINE_VAR: 2,
    Ops.CONST: 3,
    Ops.SPECIAL: 4,
}
_COMPUTED = 5
_STORED = 6


def linearize(root: UOp) -> tuple[UOp, ...]:
    """The nodes of the indexed kernel `root` as a program.

    Sources come before their users, every RANGE is closed by its END, AFTER is gone and what it
    asked for holds. A DEFINE_ACC keeps its start value as its only source and stands before the
    loops that it named. Equal graphs give equal programs. Raises `UserError` for loops that need
    each other's results.
    """
    order = [node for node in root.toposort() if node.op is not Ops.SINK]
    blocks = _Blocks(order, _scopes(order))
    program_form = _program_forms(order)
    emitted: list[UOp] = []
    # A barrier has no sources in a program, so several of them are one node: no deduplication.
    for item in blocks.ordered():
        if item.op is Ops.END:
            emitted.append(item.replace(src=(program_form[item.src[0]],)))
        elif item.op is not Ops.AFTER:
            emitted.append(program_form[item])
    return tuple(emitted)


def _program_forms(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """What each node is in a program: without AFTER, start values alone for accumulators."""
    forms: dict[UOp, UOp] = {}
    for node in order:
        if node.op is Ops.AFTER:
            forms[node] = forms[node.src[0]]
            continue
        kept = node.src
        if node.op is Ops.DEFINE_ACC:
            kept = node.src[:1]
        elif node.op is Ops.BARRIER:
            kept = ()
        src = tuple(forms[source] for source in kept)
        forms[node] = node if src == node.src else node.replace(src=src)
    return forms


# --- scopes: the ranges that a node stands in ----------------------------------------------------


def _scopes(order: Sequence[UOp]) -> dict[UOp, Ranges]:
    """The ranges around each node, for a range itself included.

    Found by a fixed point: two ranges that meet in one node nest, and then whatever stands in the
    inner one stands in the outer one too.
    """
    around: dict[UOp, Ranges] = {}
    while True:
        scopes = _scopes_given(order, around)
        grown = _nesting(order, scopes)
        if grown == around:
            return scopes
        around = grown


def _final_after(node: UOp) -> Ranges:
    """The ranges after which the value of `node` is final, for an accumulator."""
    return frozenset(_accumulator(node).src[1:]) if node.op is Ops.UPDATE_ACC else NONE


def _accumulator(update: UOp) -> UOp:
    node = update.src[0]
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node


def _scopes_given(order: Sequence[UOp], around: Mapping[UOp, Ranges]) -> dict[UOp, Ranges]:
    scopes: dict[UOp, Ranges] = {}
    for node in order:
        scope = _union(scopes[source] - _final_after(source) for source in node.src)
        if node.op is Ops.RANGE:
            scope |= {node}
        elif node.op in (Ops.AFTER, Ops.BARRIER):
            # A range among the sources of these is one that is over by then.
            scope -= frozenset(source for source in node.src if source.op is Ops.RANGE)
        scopes[node] = _union([scope, *(around.get(r, NONE) for r in scope)])
    return scopes


def _union(sets: Iterable[Ranges]) -> Ranges:
    return NONE.union(*sets)


def _number(node: UOp) -> int:
    return node.arg.number if isinstance(node.arg, RangeArg) else -1


def _nesting(order: Sequence[UOp], scopes: Mapping[UOp, Ranges]) -> dict[UOp, Ranges]:
    """The ranges around each range."""
    around: dict[UOp, Ranges] = {node: NONE for node in order if node.op is Ops.RANGE}
    for node in order:
        if node.op in (Ops.STORE, Ops.UPDATE_ACC, Ops.RANGE):
            nest = sorted(scopes[node], key=_number)
            for depth, inner in enumerate(nest):
                around[inner] |= frozenset(nest[:depth])
    return around


# --- blocks: the body of the kernel and of each range ---------------------------------------------


class _Blocks:
    """The tree of blocks, each with its nodes and the loops that stand in it.

    A block is named by the RANGE that opens it; None is the kernel's body.
    """

    def __init__(self, order: Sequence[UOp], scopes: Mapping[UOp, Ranges]) -> None:
        self.scopes = scopes
        self.place = {node: number for number, node in enumerate(order)}
        self.home: dict[UOp, UOp | None] = {}
        self.members: dict[UOp | None, list[UOp]] = {None: []}
        for node in order:
            home = self._home(node)
            self.home[node] = home
            self.members.setdefault(home, []).append(node)
        self.holds_store = self._with_stores(order)

    def _home(self, node: UOp) -> UOp | None:
        """The block in which `node` stands: its innermost range (a RANGE stands in its parent)."""
        if node.op is Ops.DEFINE_ACC:
            around = self.scopes[node] - frozenset(node.src[1:])
        else:
            around = self.scopes[node] - {node}
        return max(around, key=_number, default=None)

    def _with_stores(self, order: Sequence[UOp]) -> set[UOp]:
        found: set[UOp] = set()
        for node in order:
            if node.op is Ops.STORE:
                found |= self.scopes[node]
        return found

    def _in_block(self, node: UOp, block: UOp | None) -> UOp | None:
        """The member of `block` that is `node`, or the loop that holds it; None if outside."""
        while True:
            home = self.home[node]
            if home is block:
                return node
            if home is None:
                return None
            node = home

    def ordered(self) -> list[UOp]:
        """All nodes, with an END(range) node where a loop closes."""
        result: list[UOp] = []
        stack: list[UOp | list[UOp]] = [self._order_of(None)[::-1]]
        while stack:
            rest = stack[-1]
            if isinstance(rest, UOp):
                result.append(UOp(Ops.END, dtypes.void, (rest,)))
                stack.pop()
            elif not rest:
                stack.pop()
            else:
                node = rest.pop()
                result.append(node)
                if node.op is Ops.RANGE:
                    stack.append(node)
                    stack.append(self._order_of(node)[::-1])
        return result

    def _order_of(self, block: UOp | None) -> list[UOp]:
        """The members of one block, a loop standing for all in it, after what they need."""
        members = self.members.get(block, [])
        waits: dict[UOp, set[UOp]] = {member: set() for member in members}
        for member in members:
            for inside in self._contents(member):
                for source in inside.src:
                    if inside.op is Ops.DEFINE_ACC and source.op is Ops.RANGE:
                        # It names the loops that it stands before.
                        continue
                    needed = self._in_block(source, block)
                    if needed is not None and needed is not member:
                        waits[member].add(needed)
        return self._sorted(waits)

    def _contents(self, member: UOp) -> Iterable[UOp]:
        """`member`, and for a loop everything in it."""
        stack = [member]
        while stack:
            node = stack.pop()
            yield node
            if node.op is Ops.RANGE:
                stack.extend(self.members.get(node, []))

    def _rank(self, node: UOp) -> tuple[int, tuple[int, str], int]:
        rank = _FIRST.get(node.op, _COMPUTED)
        if node.op is Ops.STORE or node in self.holds_store:
            rank = _STORED
        return rank, _name(node), self.place[node]

    def _sorted(self, waits: dict[UOp, set[UOp]]) -> list[UOp]:
        users: dict[UOp, list[UOp]] = {node: [] for node in waits}
        for node, needed in waits.items():
            for source in needed:
                users[source].append(node)
        left = {node: len(needed) for node, needed in waits.items()}
        ready = [(self._rank(node), node) for node, count in left.items() if count == 0]
        heapq.heapify(ready)
        result = []
        while ready:
            _, node = heapq.heappop(ready)
            result.append(node)
            for user in users[node]:
                left[user] -= 1
                if left[user] == 0:
                    heapq.heappush(ready, (self._rank(user), user))
        if len(result) != len(waits):
            stuck = [node for node, count in left.items() if count]
            loops = sorted(_number(node) for node in stuck if node.op is Ops.RANGE)
            raise UserError(f"kernel: the loops {loops} need each other's results")
        return result


def _name(node: UOp) -> tuple[int, str]:
    """The order of definitions among themselves: slots by number, the others by name."""
    if isinstance(node.arg, SlotArg):
        return node.arg.slot, ""
    if isinstance(node.arg, VarArg):
        return 0, node.arg.name
    if isinstance(node.arg, LocalArg) and node.op is Ops.DEFINE_LOCAL:
        return 0, node.arg.name
    return 0, ""
