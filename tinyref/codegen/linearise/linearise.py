"""From a graph of an indexed kernel to a program: one order of its nodes, blocks closed.

An item belongs to the loops that it depends on, so what does not change in a loop stands before
it. Loops that meet in one item nest by their numbers, lower ones outside. Within a block, values
are computed such that few of them live at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from tinyref.codegen.linearise.graph import KernelItems
from tinyref.codegen.linearise.needs import Needs
from tinyref.codegen.linearise.order import BlockOrder, definitions_first
from tinyref.codegen.linearise.scopes import BODY, Blocks, Scopes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import MemoryVersionArg

_ACCESSES = frozenset({Ops.LOAD, Ops.STORE})


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
    needs = Needs(items, blocks)
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


def _definitions(items: KernelItems, needs: Needs) -> dict[int, None]:
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
        if op in _ACCESSES:
            before = versions.get(form, 0)
            versions[form] = before + 1
            if before:
                form = form.replace(arg=MemoryVersionArg(before))
        forms[item] = form
        emitted.append(form)
    return tuple(emitted)
