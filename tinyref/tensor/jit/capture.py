"""Capture a call of a function, replay it with other tensors, and save it in a pickle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast
from weakref import ref

from tinyref.engine.capture import RecordedBuffer, Replay
from tinyref.engine.report import is_told
from tinyref.engine.runner import InterruptsHeld
from tinyref.errors import UserError, UserStateError, words_of
from tinyref.lazy.buffers import buffer_of, new_buffer_like
from tinyref.lazy.shape import is_empty
from tinyref.tensor.assignment import base_tensor, refresh_views
from tinyref.tensor.core import (
    TensorCore,
    from_node,
    from_value,
    gradient_of,
    leave_storage,
    registry,
    steps_of,
    storage_of,
    value_of,
)
from tinyref.tensor.creation import streams
from tinyref.tensor.data import compute
from tinyref.tensor.jit.arguments import Arguments, rebuilt
from tinyref.tensor.jit.results import Output, Results, fill
from tinyref.tensor.jit.session import (
    CaptureSession,
    Holder,
    buffers_behind,
    capture_session,
    compute_copies,
    copied,
    describe_node,
    is_backed,
    preserve_elements,
    readers_of,
    views_same_elements,
)
from tinyref.tensor.realisation import lose
from tinyref.tensor.registry import buffer_numbers, graph_lock, is_computed, is_view, parts_of
from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import values_bound
from tinyref.tensor.views import has_expand
from tinyref.uops.node import UOp, substitute
from tinyref.uops.payload import BufferArg


@dataclass(frozen=True)
class Captured:
    """A summary of a capture: see `TinyJit.captured`.

    inputs: a description of each tensor and variable that may change from call to call.
    state: the number of outside buffers that the capture writes.
    arena_bytes: the shared memory of intermediate results.
    unplanned_bytes: the memory that intermediate results would take without sharing.
    """

    kernels: int
    copies: int
    inputs: tuple[str, ...]
    state: int
    arena_bytes: int
    unplanned_bytes: int


def capture_call(
    fxn: Callable[..., object],
    arguments: Arguments,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    prune: bool,
) -> tuple[Capture, object]:
    """Run the function and record its kernels. Return the capture and the result of the call."""
    tensors, paths = arguments.tensors, arguments.tensor_paths
    nodes = [
        _copy_in_memory(*_argument_in_memory(tensor, path))
        for tensor, path in zip(tensors, paths, strict=True)
    ]
    # Stand-ins tell uses of an argument from uses of the same tensor from outside.
    stand_ins = [
        from_value(type(tensor), replace(value_of(tensor), node=node, record=None, owner=None))
        for tensor, node in zip(tensors, nodes, strict=True)
    ]
    queue = iter(stand_ins)

    def swapped(values: object) -> Any:
        return rebuilt(values, lambda x, _: next(queue) if isinstance(x, TensorCore) else x)

    positional = swapped(tuple(args))
    named = swapped({name: kwargs[name] for name in sorted(kwargs)})
    with capture_session(stand_ins) as session:
        # No variable refers to what `fxn` returns: otherwise `Results` would have to copy it.
        results = Results(fxn(*positional, **named), stand_ins, session)
        results.compute(session)
        for path, tensor, node in zip(paths, stand_ins, nodes, strict=True):
            _check_argument(path, tensor, node)
        session.check()
        if not session.recorder.steps and results.is_bare:
            raise UserStateError(
                "TinyJit: the function ran no kernel and no copy, and returns no tensor, so there "
                "is nothing to replay: return the computed tensor, or realize() it within"
            )
        capture = Capture(arguments, nodes, results, session, prune)
    capture.memory_of(arguments)
    for index in capture.assigned:
        _assign_elements(tensors[index], nodes[index])
    returned = results.build(tensors)
    # Later calls need only the descriptions: do not keep the caller's tensors alive.
    arguments.tensors = []
    return capture, returned


def _check_argument(path: str, tensor: TensorCore, node: UOp) -> None:
    """Raise `UserError` if the function changed an argument in a way that replays cannot repeat."""
    if not views_same_elements(node, tensor.node):
        raise UserError(
            f"TinyJit: the function moves argument {path} to other memory, as a "
            f"{describe_node(tensor.node)}: assign() to it in place, or return the new tensor"
        )
    if gradient_of(tensor) is not None:
        raise UserStateError(
            f"TinyJit: argument {path} gets a grad within the function, which a replay "
            f"cannot set: use gradient() and return its result"
        )


class Capture:
    """A captured function: checks the arguments of a call, and replays.

    inputs: the BUFFERs of all tensor arguments; None for a BUFFER that no step uses.
    assigned: the indices of the tensor arguments that the function assigns to.
    outside: the other BUFFERs that live before or after the steps, by number.
    written: the numbers of those that the steps write. holders: the tensors that view them.
    """

    def __init__(
        self,
        arguments: Arguments,
        nodes: Sequence[UOp],
        results: Results,
        session: CaptureSession,
        prune: bool,
    ) -> None:
        recorder = session.recorder
        written = recorder.written()
        inputs = [[recorder.buffers.get(n) for n in buffer_numbers(node)] for node in nodes]
        self.arguments, self.template = arguments, results.template
        self.inputs = [buffer for buffers in inputs for buffer in buffers]
        self.outputs = [Output.of(tensor, recorder) for tensor in results.tensors]
        self.assigned = [i for i, buffers in enumerate(inputs) if not written.isdisjoint(buffers)]
        results_of = [part[0] for output in self.outputs for part in output.parts]
        exchanged = {b for b in (*self.inputs, *results_of) if b is not None}
        outside = {
            number: buffer
            for number, buffer in recorder.buffers.items()
            if buffer not in exchanged and not buffer.is_temporary
        }
        self.written = frozenset(n for n, buffer in outside.items() if buffer in written)
        varying = {outside[number] for number in self.written} if prune else None
        self.replayed = Replay(recorder.steps, tuple(recorder.constraints), exchanged, varying)
        used = {buffer for step in self.replayed.steps for buffer in step.buffers}
        self.outside = {number: buffer for number, buffer in outside.items() if buffer in used}
        for tensor in results.tensors:
            # The shape of a constant may have variables that no captured kernel has.
            for name, value in values_bound(tensor.shape, "TinyJit").items():
                self.replayed.bindings.setdefault(name, value)
        reads = [h for h in session.reads.values() if self._is_used(h.node)]
        read = {id(holder.tensor()) for holder in reads}
        views = [value for number in self.written for value in registry.views_of(number)]
        made = [value.tensor for value in views if value.session is session]
        unread = [
            Holder(ref(tensor), tensor.node, is_read=False)
            for tensor in made
            if tensor is not None and id(tensor) not in read
        ]
        self._hold([*reads, *unread])

    def _is_used(self, node: UOp) -> bool:
        return not self.outside.keys().isdisjoint(buffer_numbers(node))

    def describe(self) -> Captured:
        """Return the summary that is `TinyJit.captured`."""
        replayed = self.replayed
        return Captured(
            replayed.kernels,
            len(replayed.steps) - replayed.kernels,
            self.arguments.describe(),
            len(self.written),
            replayed.arena_bytes,
            replayed.unplanned_bytes,
        )

    def memory_of(self, call: Arguments) -> tuple[list[UOp], frozenset[int]]:
        """Return the BUFFERs of the computed arguments, and those that a replay overwrites.

        Raises `UserError` for a wrong argument, and for one that shares assigned memory.
        """
        buffers: list[UOp] = []
        for index, tensor in enumerate(call.tensors):
            is_assigned = index in self.assigned
            buffers += _argument_in_memory(tensor, call.tensor_paths[index], is_assigned)[1]
        # Most functions write only what they return.
        in_use = [n for buffer in buffers for n in buffer_numbers(buffer)] if self.written else []
        if not self.assigned and self.written.isdisjoint(in_use):
            return buffers, self.written
        groups = [set(buffer_numbers(tensor.node)) for tensor in call.tensors]
        numbers = [number for group in groups for number in group]
        assigned = {number for index in self.assigned for number in groups[index]}
        twice = {n for n in assigned if n in self.outside or numbers.count(n) > 1}
        shared = twice.union(self.written.intersection(numbers))
        for path, group in zip(call.tensor_paths, groups, strict=True):
            if not shared.isdisjoint(group):
                raise UserError(
                    f"TinyJit: argument {path} shares memory with another argument, or with a "
                    f"tensor that the function uses, and one of them is assigned to: pass a copy, "
                    f"as in Tensor(x.numpy())"
                )
        return buffers, self.written | assigned if assigned else self.written

    def replay(self, call: Arguments) -> object:
        """Run the captured steps for a call. Raises `UserError` if the call does not fit."""
        self.arguments.check(call)
        self.replayed.check(call.values)
        buffers, overwritten = self.memory_of(call)
        exchanged = {
            recorded: buffer_of(buffer)
            for recorded, buffer in zip(self.inputs, buffers, strict=True)
            if recorded is not None
        }
        # Variables that the function itself binds keep their captured values.
        values = {**self.replayed.bindings, **call.values}
        results = [output.fresh(values, exchanged) for output in self.outputs]
        if overwritten or self.holders:
            self._before_replay(overwritten)
        self.replayed.bind(exchanged, call.values)
        if overwritten:
            self._run(overwritten)
        else:
            self.replayed.run(is_told())
        return fill(self.template, [*call.tensors, *results])

    def _run(self, overwritten: frozenset[int]) -> None:
        """Run the steps. If they stop early, the BUFFERs that they overwrite are lost."""
        told = is_told()
        is_one_call = self.replayed.is_one_call and not told
        # Holding interrupts takes 10 us: nearly as long as a small replay.
        with nullcontext() if is_one_call else InterruptsHeld():
            try:
                self.replayed.run(told)
            except BaseException as error:
                # An interrupt comes before or after all steps of one call, never between them.
                if not (is_one_call and isinstance(error, KeyboardInterrupt)):
                    lose(overwritten, f"were being assigned to by a replay: {words_of(error)}")
                raise

    # The tensors outside

    def _hold(self, holders: Sequence[Holder]) -> None:
        self.holders = holders
        self._moments = registry.moments(self.written)
        # The state of the registry in which no pending value read these overwritten BUFFERs.
        self._unread: tuple[int, frozenset[int]] | None = None

    def _before_replay(self, overwritten: frozenset[int]) -> None:
        """Prepare tensors from outside so that a replay affects them as a plain call would.

        Raises `UserError` if a tensor that the function reads has other memory by now.
        """
        for holder in self.holders:
            tensor = holder.tensor()
            if tensor is None or tensor.node is not holder.node:
                self._renew()
                break
        pending = (registry.pending_entered, overwritten)
        is_unread = not registry.has_pending or pending == self._unread
        if overwritten and (not is_unread or registry.has_changed(self._moments)):
            self._preserve_elements(overwritten)
            self._unread = pending

    def _renew(self) -> None:
        """Update the holders whose tensors were assigned to."""
        held = [tensor for holder in self.holders if (tensor := holder.tensor()) is not None]
        # A view of memory needs no kernel, also if it leaves its source for other sizes.
        compute([x for x in held if not is_computed(x.node) and not is_view(x.node)])
        holders = []
        for holder in self.holders:
            renewed = holder.renewed()
            if renewed is not None:
                holders.append(renewed)
            elif holder.is_read:
                raise UserStateError(
                    f"TinyJit: a {describe_node(holder.node)} that the captured function reads "
                    f"is gone, or has other memory by now: assign() to it in place, or capture "
                    f"the function again after reset()"
                )
        self.holders = holders

    def _preserve_elements(self, numbers: frozenset[int]) -> None:
        """Compute or copy values that read or view memory that a replay overwrites.

        Views of written outside tensors are left out: they follow the new elements.
        """
        # Read first: the next replay then looks at values that another thread adds meanwhile.
        self._moments = registry.moments(self.written)
        held = [tensor for holder in self.holders if (tensor := holder.tensor()) is not None]
        written = [x for x in held if not self.written.isdisjoint(buffer_numbers(x.node))]
        followers = {value_of(view) for tensor in written for view in _views_in_one_memory(tensor)}
        # An argument that is assigned to has no other views: only outside BUFFERs may have some.
        views = [value for number in self.written for value in registry.views_of(number)]
        values = dict.fromkeys((*views, *readers_of(numbers)))
        preserve_elements([value for value in values if value not in followers], numbers)

    # Pickles

    def __getstate__(self) -> dict[str, object]:
        """Return the members that `__setstate__` needs: kernels as programs, state by value.

        Raises `UserError` if a replay could not run now. Raises it also if two tensors share
        memory that the loaded capture would not share.
        """
        replayed = self.replayed
        with graph_lock:
            self._before_replay(self.written)
            tensors = self._saved_tensors()
            others = {b for step in replayed.steps for b in step.buffers}
            others -= {*replayed.exchanged, *replayed.temporaries}
            others.difference_update(buffer for _, buffers in tensors for buffer in buffers)
            contents = [(buffer, bytes(buffer.allocated().copy_out())) for buffer in others]
        names = ("arguments", "inputs", "template", "outputs", "assigned")
        return {name: getattr(self, name) for name in names} | {
            "steps": replayed.steps,
            "constraints": replayed.constraints,
            "bindings": replayed.bindings,
            "exchanged": replayed.exchanged,
            # A loaded capture draws random numbers from the counters of its own process.
            "tensors": [(streams.role_of(tensor) or tensor, them) for tensor, them in tensors],
            "contents": contents,
        }

    def _saved_tensors(self) -> list[tuple[TensorCore, list[RecordedBuffer | None]]]:
        """Return the tensors that hold the state, each with those of its BUFFERs that steps use."""
        owners: dict[RecordedBuffer, TensorCore] = {}
        saved = []
        for holder in self.holders:
            tensor = _saved_tensor(holder)
            buffers = [self.outside.get(number) for number in buffer_numbers(tensor.node)]
            own = [b for b in buffers if b is not None and owners.setdefault(b, tensor) is tensor]
            if own:
                saved.append((tensor, buffers))
            elif holder.is_read:
                raise UserStateError(
                    f"TinyJit: cannot be saved: the function reads two tensors in the memory of a "
                    f"{describe_node(tensor.node)}, as after clone(), which a pickle would "
                    f"separate: give one of them memory of its own before the capture, as in "
                    f"x.assign(Tensor(x.numpy()))"
                )
        return saved

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in ("arguments", "inputs", "template", "outputs", "assigned"):
            setattr(self, name, state[name])
        # No other object refers to these tensors.
        self.loaded = [
            streams.in_role(Tensor, *saved) if isinstance(saved, tuple) else saved
            for saved, _ in state["tensors"]
        ]
        compute(self.loaded)
        self.outside = {}
        for tensor, (_, buffers) in zip(self.loaded, state["tensors"], strict=True):
            for node, buffer in zip(buffers_behind(tensor.node), buffers, strict=True):
                if buffer is not None:
                    buffer.memory, buffer.existed = buffer_of(node), True
                    self.outside[cast(BufferArg, node.arg).number] = buffer
        for buffer, contents in state["contents"]:
            buffer.existed = True
            buffer.allocated().copy_in(memoryview(contents))
        self.replayed = Replay(state["steps"], state["constraints"], state["exchanged"])
        for name, value in state["bindings"].items():
            self.replayed.bindings.setdefault(name, value)
        written = self.replayed.written
        self.written = frozenset(number for number, b in self.outside.items() if b in written)
        self._hold([Holder(ref(tensor), tensor.node) for tensor in self.loaded])


def _views_in_one_memory(tensor: TensorCore) -> list[TensorCore]:
    """Return all views of the base of `tensor`, after they view the base's memory again.

    A view may have been computed separately, in other memory.
    """
    storage = storage_of(tensor)
    views = [tensor] if storage is None else storage.tensors()
    numbers = set(buffer_numbers(tensor.node))
    plain = next((view for view in views if not has_expand(steps_of(view))), tensor)
    if not all(numbers.issuperset(buffer_numbers(view.node)) for view in views):
        base = base_tensor(cast(Tensor, plain), "TinyJit")
        refresh_views(base, value_of(base).requires_grad)
    return views


def _saved_tensor(holder: Holder) -> TensorCore:
    """Return the tensor that a pickle stores for a holder: the base of its views, if that lives."""
    tensor = holder.tensor()
    assert tensor is not None, "the holders must be renewed before"
    storage = storage_of(tensor)
    views = [tensor] if storage is None else storage.tensors()
    backed = [view for view in views if is_backed(view.node)]
    if not backed:
        raise UserStateError(
            f"TinyJit: cannot be saved: the function reads a {describe_node(holder.node)}, but "
            f"only views of it are left: keep a reference to the tensor itself"
        )
    return min(backed, key=lambda view: len(steps_of(view)))


# --- arguments in memory ------------------------------------------------------------------------


def _argument_in_memory(
    tensor: TensorCore, path: str, is_assigned: bool = False
) -> tuple[UOp, list[UOp]]:
    """Return a node with the argument's elements in memory, in order, and its BUFFERs.

    The argument is computed or copied if needed. One that is assigned to gets memory that no other
    tensor views. Raises `UserError` if it is a view or has views, as these would have to follow the
    new elements.
    """
    value = value_of(tensor)
    if value.requires_grad and value.record is not None:
        raise UserStateError(
            f"TinyJit: argument {path} was computed from tensors that require grad, but a replay "
            f"has no gradient: pass {path}.detach()"
        )
    if is_assigned:
        _give_own_memory(tensor, path)
    node = value_of(tensor).node
    buffers = buffers_behind(node)
    if len(buffers) == len(parts_of(node)) or is_empty(tensor.shape):
        return node, buffers
    compute([tensor])
    node = tensor.node if is_backed(tensor.node) else copied(tensor).node
    return node, buffers_behind(node)


def _give_own_memory(tensor: TensorCore, path: str) -> None:
    storage = storage_of(tensor)
    if storage is not None and len(storage.tensors()) > 1:
        raise UserError(
            f"TinyJit: argument {path}, which the function assigns to, shares its elements with "
            f"views: pass a tensor without views, such as the copy Tensor({path}.numpy())"
        )
    numbers = buffer_numbers(tensor.node)
    if not is_backed(tensor.node) or any(registry.count_views_of(n) > 1 for n in numbers):
        leave_storage(tensor)
        compute_copies([value_of(tensor)])


def _copy_in_memory(node: UOp, buffers: Sequence[UOp]) -> UOp:
    """Return a copy of a computed node, which is made of `buffers`, in memory of its own."""
    copies = {}
    for buffer in buffers:
        copies[buffer], memory = new_buffer_like(cast(BufferArg, buffer.arg), buffer.dtype)
        memory.copy_from(buffer_of(buffer))
    return substitute(node, copies)


def _assign_elements(tensor: TensorCore, node: UOp) -> None:
    """Assign the elements of the computed `node` to an argument."""
    with Tensor.no_grad():
        cast(Tensor, tensor).assign(from_node(Tensor, node, tensor.device))
    compute([tensor])
