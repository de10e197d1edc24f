"""Branches around nodes of a program that only the last operand of a select needs.

A select takes one of two values that are both computed. If one is costly and nothing else needs it,
a host may branch around it: `with_branches` returns these nodes. Only the last operand may be
skipped, so decompositions put the case that few arguments need there.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops

# With fewer nodes than these, the branch costs more than it saves.
LEAST_NODES = 24

# Nodes between which a program is one straight line.
_BOUNDARIES = frozenset({Ops.RANGE, Ops.END, Ops.IF, Ops.ENDIF, Ops.BARRIER})
_PURE = frozenset({*ALU, Ops.VECTORIZE, Ops.GEP})
# Nodes whose value depends on where it is read.
_VARIABLES = frozenset({Ops.DEFINE_ACC, Ops.UPDATE_ACC})


@dataclass(frozen=True)
class Branch:
    """Selects of one condition, and the nodes that only their last operands need, in order."""

    selects: tuple[UOp, ...]
    nodes: tuple[UOp, ...]

    @property
    def condition(self) -> UOp:
        return self.selects[0].src[0]


def with_branches(nodes: Sequence[UOp]) -> list[UOp | Branch]:
    """Return the nodes in a legal order, with branches for selects that rarely use costly values.

    A branch replaces its selects and the nodes that only they need.
    """
    users = _users_of(nodes)
    line: list[UOp] = []
    result: list[UOp | Branch] = []
    for node in nodes:
        if node.op in _BOUNDARIES:
            result += [*_branches_of_line(line, users), node]
            line = []
        else:
            line.append(node)
    return result + _branches_of_line(line, users)


def _users_of(nodes: Sequence[UOp]) -> dict[UOp, list[UOp]]:
    users: dict[UOp, list[UOp]] = {}
    for node in nodes:
        for source in node.src:
            users.setdefault(source, []).append(node)
    return users


def _branches_of_line(line: list[UOp], users: dict[UOp, list[UOp]]) -> list[UOp | Branch]:
    """Return branches and other nodes for nodes without a loop or a branch between them."""
    items: list[UOp | Branch] = list(line)
    positions = {node: position for position, node in enumerate(line)}
    taken: set[UOp] = set()
    # An outer select comes after the selects in its operand, so process the last ones first.
    for selects in sorted(_groups(line), key=lambda group: -positions[group[-1]]):
        if taken.isdisjoint(selects):
            needed = _needed_only_by(selects, positions, users, taken)
            moved = _with_branch(items, selects, needed) if len(needed) >= LEAST_NODES else None
            if moved is not None:
                items = moved
                taken.update(selects, needed)
    return items


def _groups(line: Sequence[UOp]) -> list[list[UOp]]:
    """Group the selects whose last operand is computed, by their condition."""
    groups: dict[UOp, list[UOp]] = {}
    for node in line:
        if node.op is Ops.WHERE and node.src[2].op in _PURE:
            groups.setdefault(node.src[0], []).append(node)
    return list(groups.values())


def _needed_only_by(
    selects: Sequence[UOp],
    positions: dict[UOp, int],
    users: dict[UOp, list[UOp]],
    taken: set[UOp],
) -> list[UOp]:
    """Return the nodes that only the last operands of `selects` need, in order.

    Nodes of other branches, `taken`, stay there: their last select is not among them.
    """
    needed: set[UOp] = set()

    def is_exclusive(node: UOp) -> bool:
        if node in selects or node in taken or not _may_move(node):
            return False
        return all(
            user in needed or (user in selects and node not in user.src[:2]) for user in users[node]
        )

    # Later nodes first, so that the users of a node are known.
    waiting = [
        (-positions[node.src[2]], node.src[2]) for node in selects if node.src[2] in positions
    ]
    seen = {node for _, node in waiting}
    heapq.heapify(waiting)
    while waiting:
        _, node = heapq.heappop(waiting)
        if is_exclusive(node):
            needed.add(node)
            for source in node.src:
                if source in positions and source not in seen:
                    seen.add(source)
                    heapq.heappush(waiting, (-positions[source], source))
    return sorted(needed, key=positions.__getitem__)


def _may_move(node: UOp) -> bool:
    return node.op in _PURE and not any(source.op in _VARIABLES for source in node.src)


def _with_branch(
    items: Sequence[UOp | Branch], selects: Sequence[UOp], nodes: Sequence[UOp]
) -> list[UOp | Branch] | None:
    """Return `items` with a branch at the last select, or None if a node may not move there.

    Items between the first and the last select that depend on one of them follow the branch.
    """
    # An earlier branch may have changed the order of the selects.
    positions = [items.index(select) for select in selects]
    first, last = min(positions), max(positions)
    dependent, moving = set(selects), set(nodes)
    before: list[UOp | Branch] = []
    after: list[UOp | Branch] = []
    for item in items[first : last + 1]:
        members = _members(item)
        if dependent.issuperset(members) or moving.issuperset(members):
            continue
        if all(dependent.isdisjoint(node.src) for node in members):
            before.append(item)
        elif all(map(_may_move, members)):
            after.append(item)
            dependent.update(members)
        else:
            return None
    if any(not dependent.isdisjoint(node.src) for node in (*selects, *nodes)):
        return None
    head = [item for item in items[:first] if not moving.issuperset(_members(item))]
    branch = Branch(tuple(selects), tuple(nodes))
    return [*head, *before, branch, *after, *items[last + 1 :]]


def _members(item: UOp | Branch) -> tuple[UOp, ...]:
    return (*item.nodes, *item.selects) if isinstance(item, Branch) else (item,)
