"""Compute the graphs of tensors, and put the results into all graphs of live tensors.

This module is imported when a tensor is first computed. It imports the scheduler and the compiler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Protocol, cast

from tinyref.engine.runner import InterruptsHeld, ScheduleRun
from tinyref.errors import UserError, words_of
from tinyref.lazy import graph
from tinyref.lazy.buffers import (
    assigned_buffer,
    is_lost,
    lost_below,
    lost_buffer_like,
    only_holds_data,
)
from tinyref.lazy.shape import keep_name
from tinyref.lazy.shards import Place, first_device
from tinyref.schedule import Schedule, schedule
from tinyref.schedule.ordering import CycleError, parts_to_read_first
from tinyref.schedule.variables import ConflictError, made_with_one_value
from tinyref.tensor.core import (
    Session,
    TensorCore,
    Value,
    capturing,
    from_node,
    registry,
    store_separately,
    value_of,
)
from tinyref.tensor.registry import (
    below_views,
    graph_lock,
    is_computed,
    parts_of,
    viewed_buffers,
    viewed_node,
)
from tinyref.uops.node import UOp, rebuild, substitute, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg, ShapeArg


def compute_graphs(tensors: Sequence[TensorCore], begun: tuple[Sequence[UOp], ...] = ()) -> None:
    """Compute `tensors`. If one schedule cannot hold their graphs, compute these in parts.

    begun: the parts whose computation needs `tensors`. Raises `ConflictError` or `CycleError` if
    parts do not help, and `UserError` for parts that each need another one first.
    """
    before: Sequence[UOp] = ()
    while tensors:
        try:
            _compute_together(tensors)
            return
        except (ConflictError, CycleError) as error:
            if isinstance(error, ConflictError) and not error.apart and len(tensors) > 1:
                # Each tensor may bind a variable to a different value.
                for tensor in tensors:
                    compute_graphs([tensor], begun)
                return
            roots = [tensor.node for tensor in tensors]
            first = _parts_to_compute_first(error, roots)
            if not first or first == before:
                raise
            if first in begun:
                # A part overwrites memory that a live graph reads, and that graph needs the part.
                raise UserError(
                    f"{error}; a part of it overwrites memory that is still needed: call realize() "
                    "on the tensors that it is computed from first"
                ) from error
            if isinstance(error, ConflictError) and error.apart:
                _compute_live(roots, first, (*begun, first))
            else:
                device = first_device(tensors[0].device)
                _compute_below(first, device, (*begun, first))
            before = first
            # A tensor that is a view of memory by now is done.
            tensors = [tensor for tensor in tensors if not is_computed(tensor.node)]


def _parts_to_compute_first(
    error: ConflictError | CycleError, roots: Sequence[UOp]
) -> Sequence[UOp]:
    """Return the nodes to compute first so that one schedule can hold `roots`; empty if none."""
    if isinstance(error, ConflictError):
        return error.apart or made_with_one_value(roots)
    live = [node for node, _ in _Watched(roots).graphs()]
    return parts_to_read_first([*roots, *live])


def _compute_together(tensors: Sequence[TensorCore]) -> None:
    outputs = [(_run_for(tensor.node), tensor.device) for tensor in tensors]
    watched = _Watched([node for node, _ in outputs])
    schedule_run = ScheduleRun(outputs, watched.graphs(), watched.held())
    try:
        schedule_run.compile()
        # After memory was assigned to in place, the graphs must be rewritten: interrupts wait.
        with InterruptsHeld() if schedule_run.assigns else nullcontext():
            schedule_run.run()
            with InterruptsHeld():
                _substitute_everywhere(watched, tensors, schedule_run.results)
    except BaseException as error:
        with InterruptsHeld():
            undo_assignments(watched.values(tensors), schedule_run.failed())
            _substitute_everywhere(watched, tensors, schedule_run.remains(words_of(error)))
        raise


class Assigned(Protocol):
    """A tensor that can undo its last assignment."""

    def _undo(self) -> Value:
        """Undo the last assignment and return the restored value."""


def undo_assignments(values: Iterable[Value], failed: Collection[UOp] | None = None) -> None:
    """Restore tensors to their values before the last assignment, unless that has run.

    failed: the nodes that could not be computed; other assignments stay. Graphs that read the
    assigned tensor then read the assigned value directly.
    """
    with InterruptsHeld(), graph_lock:
        undone: dict[UOp, None] = {}
        for value in values:
            while _can_undo(value, failed):
                before = value.node
                value = cast(Assigned, value.tensor)._undo()
                undone.update(dict.fromkeys(_assignments_since(value.node, before)))
                if failed is None:
                    break
        assigned: dict[UOp, UOp] = {}
        for node in toposort(undone):
            if node in undone:
                assigned[node] = substitute(node.src[1], assigned)
        for value in registry.pending() if assigned else ():
            value.node = substitute(value.node, assigned)
            registry.add(value)


def _assignments_since(old: UOp, new: UOp) -> Iterator[UOp]:
    """Yield the assignments to the memory of `new` that `old` does not need."""
    needed = set(toposort((old,)))
    for base in map(below_views, parts_of(new)):
        if base.op is Ops.ASSIGN:
            buffer = assigned_buffer(base)
            for node in base.toposort():
                if node.op is Ops.ASSIGN and assigned_buffer(node) is buffer and node not in needed:
                    yield node


def _can_undo(value: Value, failed: Collection[UOp] | None) -> bool:
    if value.tensor is None or value.before is None or is_computed(value.node):
        return False
    if failed is None:
        return True
    parts = parts_of(value.node)
    return any(
        node in failed for part in parts for node in (part, viewed_node(part), below_views(part))
    )


def _run_for(node: UOp) -> UOp:
    """Return the node to run for `node`: the ASSIGN that it is a view of; else `node` itself."""
    base = viewed_node(node)
    return base if base.op is Ops.ASSIGN else _held_copy_below(node)


def _held_copy_below(node: UOp) -> UOp:
    """Return the COPY below `node` to a device that only holds data; else `node` itself."""
    base = below_views(node)
    return base if base.op is Ops.COPY and only_holds_data(base) else node


def _compute_live(
    roots: Sequence[UOp], nodes: Sequence[UOp], begun: tuple[Sequence[UOp], ...]
) -> None:
    """Compute each live tensor of `nodes` into its own memory, before `roots` overwrite theirs."""
    for value in _Watched(roots).values(()):
        tensor = value.tensor
        if tensor is not None and any(part in nodes for part in parts_of(value.node)):
            store_separately(value)
            compute_graphs([tensor], begun)


def _compute_below(nodes: Sequence[UOp], device: str, begun: tuple[Sequence[UOp], ...]) -> None:
    """Compute parts of graphs before the rest."""
    devices = [graph.device_of(node) or device for node in nodes]
    pairs = zip(nodes, devices, strict=True)
    compute_graphs([from_node(TensorCore, node, device) for node, device in pairs], begun)


class _Watched:
    """The values that computing `outputs` may change.

    These are the values that are not computed yet, and the views of memory that an assignment
    overwrites. All others are plain views of other memory.
    """

    def __init__(self, outputs: Sequence[UOp]) -> None:
        self.outputs = outputs

    def graphs(self) -> Iterator[tuple[UOp, Place]]:
        """Yield the graphs of tensors that can be computed later.

        Another thread may compute from a tensor and then drop it. No node is built while the lock
        is held, so either the tensor or its result is seen.
        """
        with graph_lock:
            pairs = [
                (_held_copy_below(value.node), value.device)
                for value in self.values(())
                if value.tensor is not None
            ]
        lost = lost_below([node for node, _ in pairs])
        yield from (pair for pair in pairs if pair[0] not in lost)

    def held(self) -> Iterator[UOp]:
        """Yield the graphs of all values that are not computed yet, also of values in records."""
        with graph_lock:
            nodes = [value.node for value in registry.pending()]
        yield from nodes

    def values(self, requested: Sequence[TensorCore]) -> list[Value]:
        """Return all these values, and the values of the requested tensors."""
        pending = registry.pending()
        roots = [*self.outputs, *(value.node for value in pending)]
        numbers = dict.fromkeys(
            base.arg.number
            for node in toposort(roots)
            if node.op is Ops.ASSIGN
            for base in (assigned_buffer(node),)
            if isinstance(base.arg, BufferArg)
        )
        values = {id(value): value for value in pending}
        for number in numbers:
            values.update((id(value), value) for value in registry.views_of(number))
        values.update((id(value_of(tensor)), value_of(tensor)) for tensor in requested)
        return list(values.values())


def _substitute_everywhere(
    watched: _Watched, tensors: Sequence[TensorCore], realised: dict[UOp, UOp]
) -> None:
    """Put the realised nodes into all graphs of their devices, also into those of other threads.

    A graph of constants alone belongs to every device, but its result belongs to one. A captured
    function shares no results with tensors outside, because each replay computes them again. Only
    the results of assignments are shared with all.
    """
    here = capturing.get()
    assigns = {
        node: result
        for node, result in realised.items()
        if node.op is Ops.ASSIGN or is_lost(result)
    }
    with graph_lock:
        by_session: dict[Session | None, list[Value]] = {}
        for value in watched.values(tensors):
            session = value.session
            active = None if session is None or session.is_over else session
            by_session.setdefault(active, []).append(value)
        _substitute_on_devices(by_session.pop(here, []), realised)
        _substitute_on_devices(by_session.pop(None, []), assigns)


def _substitute_on_devices(values: Sequence[Value], realised: dict[UOp, UOp]) -> None:
    for device in {value.device for value in values}:
        here = {
            node: result
            for node, result in realised.items()
            if graph.device_of(node) or graph.device_of(result) in (None, device)
        }
        if here:
            _substitute([value for value in values if value.device == device], here)


def _substitute(values: Sequence[Value], realised: dict[UOp, UOp]) -> None:
    """Put the realised nodes into graphs, and mark values whose memory was overwritten."""
    overwritten = {
        assigned_buffer(node)
        for node, result in realised.items()
        if node.op is Ops.ASSIGN and is_computed(result)
    }
    done = dict(realised)
    lost: set[UOp] = set(overwritten - realised.keys())

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        new = node if src == node.src else _on_sources(node, src)
        keep_name(node, new)
        if not lost.isdisjoint(node.src):
            lost.add(node)
        return new

    for value in values:
        old = value.node
        rebuild(old, change, done)
        if done[old] is not old:
            value.node = done[old]
            registry.add(value)
        value.is_overwritten |= old in lost
        if is_computed(value.node):
            value.before = None
        # A computed tensor is a leaf, unless gradients have to flow through it.
        if old in realised and not value.requires_grad and is_computed(value.node):
            value.record = None


def lose(numbers: Collection[int], why: str) -> None:
    """Mark BUFFERs with unknown contents as lost: tensors that view or read them raise an error."""
    with graph_lock:
        views = [value for number in numbers for value in registry.views_of(number)]
        buffers = {buffer for value in views for buffer in viewed_buffers(value.node)}
        lost = {
            buffer: lost_buffer_like(buffer, why)
            for buffer in buffers
            if isinstance(buffer.arg, BufferArg) and buffer.arg.number in numbers
        }
        values = {id(value): value for value in (*views, *registry.pending())}
        _substitute_on_devices(list(values.values()), lost)


def _on_sources(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """Return `node` with other sources. A reshape of a reshape becomes one reshape."""
    if isinstance(node.arg, ShapeArg) and node.op is Ops.RESHAPE:
        return graph.reshape(src[0], node.arg.shape)
    return node.replace(src=src)


def schedule_of(tensors: Sequence[TensorCore]) -> Schedule:
    """Return the schedule of the kernels and copies that computing `tensors` would run."""
    outputs = [(tensor.node, tensor.device) for tensor in tensors]
    watched = _Watched([node for node, _ in outputs])
    return schedule(outputs, watched.graphs(), watched.held())
