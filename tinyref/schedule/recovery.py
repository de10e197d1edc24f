"""What is left of graphs whose schedule broke off, so that nothing is computed from wrong elements.

An ASSIGN that ran has overwritten what other outputs were still to be computed from. What they
need of it lies in intermediate results, as every kernel that reads it ran before. So what is not
computed yet becomes a graph that goes on from those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyref.lazy import graph
from tinyref.lazy.buffers import lost_buffer_like
from tinyref.lazy.shape import shape_of
from tinyref.schedule.hazards import assigned_buffer
from tinyref.schedule.items import Item, KernelItem, Schedule
from tinyref.schedule.memory import buffers_of, written_by
from tinyref.schedule.prepare import peel
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, rebuild, substitute, toposort
from tinyref.uops.ops import Ops

Nodes = Mapping[UOp, UOp]


def left_of(
    planned: Schedule, completed: Nodes, items: Sequence[Item], is_begun: bool, why: str
) -> dict[UOp, UOp]:
    """What nodes become of which something was overwritten before they were computed.

    completed: those of `planned.results` that are there. items: what has not run; with `is_begun`
    the first of them may have, in part or as a whole. A node becomes what there still is to compute
    of it; what nobody can compute any more a BUFFER whose contents are lost, for the reason `why`.
    """
    begun = items[0] if is_begun else None
    # Prepared graphs do not say which values their variables have, so nothing goes on from those.
    goes_on = not planned.bindings
    found: dict[UOp, UOp] = {}
    if isinstance(begun, KernelItem) and not (goes_on and _runs_again(begun)):
        found.update(_lost_with(begun, planned.results, why))
    overwritten = (*completed, *(() if begun is None else begun.completes))
    for assign in (_assign_of(planned.prepared[owner]) for owner in overwritten):
        base = None if assign is None else assigned_buffer(assign)
        if base is not None and base not in found:
            text = f"were assigned to before all was computed from them: {why}"
            found[base] = lost_buffer_like(base, text)
    if not found:
        return {}
    found.update(completed)
    done = {**found, **_in_memory(planned, found, items)} if goes_on else dict(found)
    for assign, target in _assigned_again(planned, begun, found).items():
        done[assign] = assign.replace(src=(target, rebuild(assign.src[1], _unchanged, done)))
    for owner, prepared in planned.prepared.items():
        root = prepared if goes_on else owner
        if owner not in found and rebuild(root, _unchanged, done) is not root:
            found[owner] = graph.reshape(done[root], shape_of(owner))
    return {node: new for node, new in found.items() if node not in completed}


def _assign_of(prepared: UOp) -> UOp | None:
    """The ASSIGN that gives a prepared node its elements, if one does."""
    node = peel(prepared)
    return node if node.op is Ops.ASSIGN else None


def _in_memory(planned: Schedule, found: Nodes, items: Sequence[Item]) -> dict[UOp, UOp]:
    """Where each prepared node is whose elements are in memory, or were lost there."""
    written = {buffer for item in items for buffer in written_by(item)}
    held = {
        buffer.arg: found.get(buffer, buffer)
        for item in items
        for buffer in buffers_of(item)
        if buffer in found or buffer not in written
    }
    there = {
        node: graph.window(held[argument], shape_of(node))
        for node, argument in planned.stored.items()
        if argument in held
    }
    for owner, node in planned.prepared.items():
        if owner in found:
            below = peel(node)
            there[below] = graph.reshape(found[owner], shape_of(below))
    return there


def _lost_with(item: KernelItem, results: Nodes, why: str) -> dict[UOp, UOp]:
    """What is lost where nobody knows how far `item` ran."""
    text = f"were being assigned to: {why}"
    lost = {buffer: lost_buffer_like(buffer, text) for buffer in written_by(item)}
    return {**lost, **{owner: substitute(results[owner], lost) for owner in item.completes}}


def _runs_again(item: KernelItem) -> bool:
    """Whether a kernel that has run, in part or as a whole, finds what it found when it ran."""
    written = {slot_of(store) for store in item.ast.src}
    loads = (node for node in item.ast.toposort() if node.op is Ops.LOAD)
    return written.isdisjoint(map(slot_of, loads))


def _assigned_again(planned: Schedule, begun: Item | None, found: Nodes) -> dict[UOp, UOp]:
    """The ASSIGNs that an item runs again, and the views of memory that they write.

    Sources first. Their targets stay, though nothing else may read what those have held.
    """
    owners = () if begun is None else [owner for owner in begun.completes if owner not in found]
    targets = {
        assign: graph.reshape(planned.results[owner], shape_of(assign))
        for owner in owners
        if (assign := _assign_of(planned.prepared[owner])) is not None
    }
    return {node: targets[node] for node in toposort(targets) if node in targets}


def _unchanged(node: UOp, src: tuple[UOp, ...]) -> None:
    return None
