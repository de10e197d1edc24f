"""Computing the graphs of tensors, and putting what was computed into all graphs that live.

The scheduler and the compiler are imported with this module, when a tensor is first computed.
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
    store_apart,
    value_of,
)
from tinyref.tensor.registry import (
    below_views,
    graph_lock,
    is_computed,
    parts_of,
    shown_buffers,
    shown_node,
)
from tinyref.uops.node import UOp, rebuild, substitute, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg, ShapeArg


def compute_graphs(tensors: Sequence[TensorCore], begun: tuple[Sequence[UOp], ...] = ()) -> None:
    """Each of `tensors` is computed; what no schedule can hold at once is computed in parts.

    begun: parts that `tensors` are computed for. Raises `ConflictError` and `CycleError` for graphs
    that no parts help, `UserError` for parts of which each would have to be first.
    """
    before: Sequence[UOp] = ()
    while tensors:
        try:
            _compute_together(tensors)
            return
        except (ConflictError, CycleError) as error:
            if isinstance(error, ConflictError) and not error.apart and len(tensors) > 1:
                # Each of them may bind a variable to a value of its own.
                for tensor in tensors:
                    compute_graphs([tensor], begun)
                return
            roots = [tensor.node for tensor in tensors]
            first = _parts_to_compute_first(error, roots)
            if not first or first == before:
                raise
            if first in begun:
                # A part overwrites what a live graph needs that needs the part itself.
                raise UserError(
                    f"{error}; a part of it overwrites what is still needed: call realize() on the "
                    "tensors that it is computed from first"
                ) from error
            if isinstance(error, ConflictError) and error.apart:
                _compute_live(roots, first, (*begun, first))
            else:
                device = first_device(tensors[0].device)
                _compute_below(first, device, (*begun, first))
            before = first
            # What shows memory now needs no value of a variable before somebody reads it.
            tensors = [tensor for tensor in tensors if not is_computed(tensor.node)]


def _parts_to_compute_first(
    error: ConflictError | CycleError, roots: Sequence[UOp]
) -> Sequence[UOp]:
    """What keeps `roots`, or live graphs beside them, from one schedule; empty if nothing helps."""
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
        # Once memory is assigned to in place the graphs must be rewritten, so an interrupt waits.
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
    """A tensor that can take back its last assignment."""

    def _undo(self) -> Value:
        """Return the value that it has again."""


def undo_assignments(values: Iterable[Value], failed: Collection[UOp] | None = None) -> None:
    """Give tensors the elements from before their last assignment, unless that has run.

    failed: the nodes that could not be computed; assignments that are not among them stay. What was
    computed from the assigned elements is computed from what was assigned.
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
        node in failed for part in parts for node in (part, shown_node(part), below_views(part))
    )


def _run_for(node: UOp) -> UOp:
    """The ASSIGN that `node` is a view of: that is all there is to run; else `node` itself."""
    base = shown_node(node)
    return base if base.op is Ops.ASSIGN else _held_copy_below(node)


def _held_copy_below(node: UOp) -> UOp:
    """The copy that `node` is a view of, to where nothing is computed; else `node` itself."""
    base = below_views(node)
    return base if base.op is Ops.COPY and only_holds_data(base) else node


def _compute_live(
    roots: Sequence[UOp], nodes: Sequence[UOp], begun: tuple[Sequence[UOp], ...]
) -> None:
    """Computes the live tensors that stand for `nodes`, one by one, before `roots` overwrite what
    they show: each gets memory of its own.
    """
    for value in _Watched(roots).values(()):
        tensor = value.tensor
        if tensor is not None and any(part in nodes for part in parts_of(value.node)):
            store_apart(value)
            compute_graphs([tensor], begun)


def _compute_below(nodes: Sequence[UOp], device: str, begun: tuple[Sequence[UOp], ...]) -> None:
    """Computes parts of graphs before the rest."""
    places = [graph.device_of(node) or device for node in nodes]
    pairs = zip(nodes, places, strict=True)
    compute_graphs([from_node(TensorCore, node, place) for node, place in pairs], begun)


class _Watched:
    """The values that computing `outputs` may concern: all others are plain views of other memory.

    Those are what is not computed yet, and what shows memory that an assignment overwrites.
    """

    def __init__(self, outputs: Sequence[UOp]) -> None:
        self.outputs = outputs

    def graphs(self) -> Iterator[tuple[UOp, Place]]:
        """The graphs of tensors that can be computed later; asked for only where it matters.

        Another thread may go on from a tensor that it drops then: as no node is built meanwhile,
        either the tensor is there or what was made of it is.
        """
        with graph_lock:
            found = [
                (_held_copy_below(value.node), value.device)
                for value in self.values(())
                if value.tensor is not None
            ]
        lost = lost_below([node for node, _ in found])
        yield from (pair for pair in found if pair[0] not in lost)

    def held(self) -> Iterator[UOp]:
        """The graphs of all values that are not computed yet, those of records too."""
        with graph_lock:
            found = [value.node for value in registry.pending()]
        yield from found

    def values(self, requested: Sequence[TensorCore]) -> list[Value]:
        """All of them, with those of the requested tensors."""
        pending = registry.pending()
        roots = [*self.outputs, *(value.node for value in pending)]
        numbers = dict.fromkeys(
            base.arg.number
            for node in toposort(roots)
            if node.op is Ops.ASSIGN
            for base in (assigned_buffer(node),)
            if isinstance(base.arg, BufferArg)
        )
        found = {id(value): value for value in pending}
        for number in numbers:
            found.update((id(value), value) for value in registry.showing(number))
        found.update((id(value_of(tensor)), value_of(tensor)) for tensor in requested)
        return list(found.values())


def _substitute_everywhere(
    watched: _Watched, tensors: Sequence[TensorCore], realised: dict[UOp, UOp]
) -> None:
    """Puts the realised nodes into all graphs of their devices, those of other threads too.

    A graph of constants alone belongs to every device, and its result only to one. A function
    that is being captured shares no results with what is outside: a replay computes them anew.
    Assignments alone are run for all.
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
    """Puts the realised nodes into graphs, and marks those whose memory was overwritten."""
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
        was = value.node
        rebuild(was, change, done)
        if done[was] is not was:
            value.node = done[was]
            registry.add(value)
        value.is_overwritten |= was in lost
        if is_computed(value.node):
            value.before = None
        # A computed tensor is a leaf, unless gradients have to go through it.
        if was in realised and not value.requires_grad and is_computed(value.node):
            value.record = None


def lose(numbers: Collection[int], why: str) -> None:
    """Nobody knows any more what these BUFFERs hold: what shows them, or reads them, refuses."""
    with graph_lock:
        showing = [value for number in numbers for value in registry.showing(number)]
        shown = {buffer for value in showing for buffer in shown_buffers(value.node)}
        lost = {
            buffer: lost_buffer_like(buffer, why)
            for buffer in shown
            if isinstance(buffer.arg, BufferArg) and buffer.arg.number in numbers
        }
        values = {id(value): value for value in (*showing, *registry.pending())}
        _substitute_on_devices(list(values.values()), lost)


def _on_sources(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """`node` with other sources; a reshape of a reshape is one, as its builder has it."""
    if isinstance(node.arg, ShapeArg) and node.op is Ops.RESHAPE:
        return graph.reshape(src[0], node.arg.shape)
    return node.replace(src=src)


def schedule_of(tensors: Sequence[TensorCore]) -> Schedule:
    """What computing `tensors` would run, in order."""
    outputs = [(tensor.node, tensor.device) for tensor in tensors]
    watched = _Watched([node for node, _ in outputs])
    return schedule(outputs, watched.graphs(), watched.held())
