"""What is left of graphs whose schedule broke off, so that nothing is computed from wrong elements.

An ASSIGN that ran has overwritten what other outputs were still to be computed from. What they
need of it lies in intermediate results, as every kernel that reads it ran before. So what is not
computed yet becomes a graph that goes on from those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyref.lazy import graph
from tinyref.lazy.buffers import assigned_buffer, is_lost, lost_buffer_like
from tinyref.lazy.shape import shape_of
from tinyref.schedule.items import Item, Schedule
from tinyref.schedule.memory import buffers_of, written_by
from tinyref.schedule.prepare import peel
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
    begun = items[0].completes if is_begun and items else ()
    # Prepared graphs do not say which values their variables have, so nothing goes on from those.
    goes_on = not planned.bindings
    lost = _overwritten(planned, completed, begun, why)
    if not lost:
        return {}
    # What is being assigned to holds no version of before for certain.
    unsure = {assigned_buffer(node) for node in _targets(planned, begun, is_prepared=True)}
    gone = {base: new for base, new in lost.items() if base in unsure}
    found = {**lost, **{owner: substitute(view, gone) for owner, view in completed.items()}}
    done = {**found, **_in_memory(planned, found, items)} if goes_on else dict(found)
    for assign, target in _targets(planned, begun, is_prepared=goes_on).items():
        again = assign.replace(src=(target, rebuild(assign.src[1], _unchanged, done)))
        # An ASSIGN that runs again must find what it found when it ran.
        is_possible = goes_on and not is_lost(again)
        done[assign] = again if is_possible else substitute(target, lost)
    for owner, prepared in planned.prepared.items():
        root = prepared if goes_on else owner
        if owner not in found and rebuild(root, _unchanged, done) is not root:
            found[owner] = graph.reshape(done[root], shape_of(owner))
    return {node: new for node, new in found.items() if completed.get(node) is not new}


def _overwritten(
    planned: Schedule, completed: Nodes, begun: Sequence[UOp], why: str
) -> dict[UOp, UOp]:
    """The BUFFERs that were assigned to, or may have been, and what stands for their old contents.

    begun: what the item completes of which nobody knows how far it ran.
    """
    found: dict[UOp, UOp] = {}
    for owner in (*begun, *completed):
        assign = _assign_of(planned.prepared[owner])
        base = None if assign is None else assigned_buffer(assign)
        if base is not None and base not in found:
            text = "were being assigned to"
            if owner in completed:
                text = "were assigned to before all was computed from them"
            found[base] = lost_buffer_like(base, f"{text}: {why}")
    return found


def _targets(planned: Schedule, begun: Sequence[UOp], is_prepared: bool) -> dict[UOp, UOp]:
    """The ASSIGNs among what an item completes, sources first, and the views that they write."""
    found: dict[UOp, UOp] = {}
    for owner in begun:
        assign = _assign_of(planned.prepared[owner] if is_prepared else owner)
        if assign is not None:
            found[assign] = graph.reshape(planned.results[owner], shape_of(assign))
    return {node: found[node] for node in toposort(found) if node in found}


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


def _unchanged(node: UOp, src: tuple[UOp, ...]) -> None:
    return None
