"""Capturing a call of a function, replaying it with other tensors, and saving it in a pickle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

from tinyref.engine.capture import RecordedBuffer, Recorder, Replay, recording
from tinyref.engine.runner import InterruptsHeld
from tinyref.errors import UserError, UserStateError, words_of
from tinyref.lazy.buffers import buffer_of
from tinyref.tensor.assignment import base_tensor, refresh_view
from tinyref.tensor.core import (
    TensorCore,
    Value,
    from_value,
    gradient_of,
    registry,
    steps_of,
    storage_of,
    value_of,
    whole_tensors,
)
from tinyref.tensor.creation import streams
from tinyref.tensor.data import compute
from tinyref.tensor.jit.arguments import (
    Arguments,
    Results,
    argument_in_memory,
    buffers_behind,
    copy_in_memory,
    fill,
    fresh_result,
    hand_over,
    is_alone,
    is_backed,
    output_of,
    rebuilt,
)
from tinyref.tensor.jit.session import (
    CaptureSession,
    Holder,
    capture_session,
    keep_elements,
    readers_of,
    shows_alike,
)
from tinyref.tensor.realisation import lose
from tinyref.tensor.registry import graph_lock, is_computed, is_view, shown_numbers
from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import values_bound
from tinyref.tensor.views import has_expand
from tinyref.uops.node import UOp
from tinyref.uops.payload import BufferArg

_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Captured:
    """What a capture holds: see `TinyJit.captured`.

    inputs: a description of each tensor and symbolic size that may change from call to call.
    state: how many buffers outside are written. arena_bytes: memory of intermediate results, which
    would take unplanned_bytes if they shared none.
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
    """Run the function while its kernels are recorded: the capture, and what the call returns."""
    nodes = [
        copy_in_memory(argument_in_memory(tensor, path))
        for tensor, path in zip(arguments.tensors, arguments.tensor_paths, strict=True)
    ]
    # So uses of an argument are distinguished from uses of a tensor that the function keeps.
    stand_ins = [
        from_value(type(tensor), replace(value_of(tensor), node=node, record=None, owner=None))
        for tensor, node in zip(arguments.tensors, nodes, strict=True)
    ]
    shown = [shown_numbers(tensor.node) for tensor in arguments.tensors]
    queue = iter(stand_ins)
    given = [rebuilt(value, TensorCore, lambda _: next(queue)) for value in args]
    named = {
        name: rebuilt(kwargs[name], TensorCore, lambda _: next(queue)) for name in sorted(kwargs)
    }
    recorder = Recorder()
    with capture_session(stand_ins) as session, recording(recorder):
        # Nothing else holds what is returned: it would have memory that a copy is made of.
        results = Results(fxn(*given, **named), stand_ins, session)
        results.compute(session.left_over(), recorder)
        for path, tensor, node in zip(arguments.tensor_paths, stand_ins, nodes, strict=True):
            _check_argument(path, tensor, node)
        session.check(recorder)
        if not recorder.steps and results.is_bare:
            raise UserStateError(
                "TinyJit: the function ran no kernel and no copy, and returns no tensor: there is "
                "nothing to replay; return what it computes, or realize it within"
            )
        capture = Capture(arguments, nodes, results, recorder, session, prune)
    capture.check_sharing(arguments.tensor_paths, shown)
    for place in capture.assigned:
        hand_over(arguments.tensors[place], nodes[place])
    returned = results.build(arguments.tensors)
    # The tensors themselves are the caller's.
    arguments.tensors = []
    return capture, returned


def _check_argument(path: str, tensor: TensorCore, node: UOp) -> None:
    """Raise `UserError` where the function did to an argument what no replay could do."""
    if not shows_alike(node, tensor):
        raise UserError(
            f"TinyJit: argument {path} becomes {Holder.of(tensor, False).describe()} in other "
            f"memory within the function: assign() to it in place, or return the new tensor"
        )
    if gradient_of(tensor) is not None:
        raise UserStateError(
            f"TinyJit: argument {path} gets a grad within the function, which a replay "
            f"could not hand out: use gradient() and return it"
        )


class Capture:
    """A captured function: checks what a call gives, and replays.

    inputs: the BUFFERs of each tensor argument, None for those that no step touches. assigned: the
    places of arguments that are assigned to. holders: the tensors outside.
    """

    def __init__(
        self,
        arguments: Arguments,
        nodes: Sequence[UOp],
        results: Results,
        recorder: Recorder,
        session: CaptureSession,
        prune: bool,
    ) -> None:
        written = recorder.written()
        inputs = [[recorder.buffers.get(n) for n in shown_numbers(node)] for node in nodes]
        self.arguments, self.inputs, self.template = arguments, inputs, results.template
        self.outputs = [output_of(tensor, recorder) for tensor in results.tensors]
        self.assigned = [i for i, buffers in enumerate(inputs) if not written.isdisjoint(buffers)]
        results_of = [part.buffer for _, parts, _ in self.outputs for part in parts]
        exchanged = {b for group in (*inputs, results_of) for b in group if b is not None}
        outside = {
            number: buffer
            for number, buffer in recorder.buffers.items()
            if buffer not in exchanged and not buffer.is_temporary
        }
        self.written = {number for number, buffer in outside.items() if buffer in written}
        varying = {outside[number] for number in self.written} if prune else None
        self.replayed = Replay(recorder.steps, tuple(recorder.constraints), exchanged, varying)
        used = {buffer for step in self.replayed.steps for buffer in step.buffers}
        self.outside = {number: buffer for number, buffer in outside.items() if buffer in used}
        for tensor in results.tensors:
            # A constant has sizes too, which no kernel of the capture may have.
            for name, value in values_bound(tensor.shape, "TinyJit").items():
                self.replayed.bindings.setdefault(name, value)
        reads = [holder.renewed() for holder in session.reads]
        kept = [value for number in self.written for value in registry.showing(number)]
        made = [value.tensor for value in kept if value.session is session]
        self._hold(
            [
                holder
                for holder in (*reads, *(Holder.of(t, False) for t in made if t is not None))
                if holder is not None and self._is_outside(holder)
            ]
        )

    def _is_outside(self, holder: Holder) -> bool:
        """Return True if a replay uses what a tensor shows, or it is a constant."""
        numbers = shown_numbers(holder.node)
        return not numbers or not self.outside.keys().isdisjoint(numbers)

    def describe(self) -> Captured:
        """Return what `TinyJit.captured` says."""
        replayed = self.replayed
        return Captured(
            replayed.kernels,
            len(replayed.steps) - replayed.kernels,
            self.arguments.describe(),
            len(self.written),
            replayed.arena_bytes,
            replayed.unplanned_bytes,
        )

    def replay(self, call: Arguments) -> object:
        """Run the captured steps on a call. Raises `UserError` if it does not fit."""
        self.arguments.check(call)
        self.replayed.check(call.values)
        tensors = call.tensors
        nodes = list(map(argument_in_memory, tensors, call.tensor_paths))
        if self.assigned or self.written:
            self.check_sharing(call.tensor_paths, [shown_numbers(t.node) for t in tensors])
        for place in self.assigned:
            if not is_alone(tensors[place], nodes[place]):
                nodes[place] = copy_in_memory(nodes[place])
        exchanged = {
            recorded: buffer_of(buffer)
            for recorded_parts, node in zip(self.inputs, nodes, strict=True)
            for recorded, buffer in zip(recorded_parts, buffers_behind(node), strict=True)
            if recorded is not None
        }
        # Variables that the function binds itself keep their values.
        values = {**self.replayed.bindings, **call.values}
        results = [fresh_result(output, values, exchanged) for output in self.outputs]
        assigned = _NONE
        if self.assigned:
            assigned = frozenset(n for i in self.assigned for n in shown_numbers(nodes[i]))
        self._before_replay(assigned)
        self.replayed.bind(exchanged, call.values)
        if not (assigned or self.written):
            self.replayed.run()
            return fill(self.template, results, tensors)
        copied = [i for i in self.assigned if tensors[i].node is not nodes[i]]
        is_one_call = self.replayed.is_one_call and not copied
        # An interrupt that has waited for the replay waits for what it gives to arguments, too.
        # To hold it takes 10 us: a third of a small replay.
        with nullcontext() if is_one_call else InterruptsHeld():
            self._run(assigned, is_one_call)
            for place in copied:
                hand_over(tensors[place], nodes[place])
        return fill(self.template, results, tensors)

    def _run(self, assigned: frozenset[int], is_one_call: bool) -> None:
        """Run the steps; the BUFFERs that they write are lost if that breaks off.

        assigned: those of arguments. is_one_call: an interrupt finds all steps done, or none.
        """
        try:
            self.replayed.run()
        except BaseException as error:
            if not (is_one_call and isinstance(error, KeyboardInterrupt)):
                why = f"were being assigned to by a replay: {words_of(error)}"
                lose({*assigned, *self.written}, why)
            raise

    def check_sharing(self, paths: Sequence[str], shown: Sequence[Sequence[int]]) -> None:
        """Raise `UserError` where an argument shares memory that the function assigns to.

        shown: the BUFFERs that each argument shows.
        """
        if not self.assigned and self.written.isdisjoint(n for numbers in shown for n in numbers):
            return
        for place, numbers in enumerate(shown):
            is_assigned = place in self.assigned
            if not set(self.outside if is_assigned else self.written).isdisjoint(numbers):
                raise UserError(
                    f"TinyJit: argument {paths[place]} is a tensor that the function assigns to as "
                    f"well: pass another tensor, and let the function use the one that it keeps"
                )
            for other, others in enumerate(shown):
                if is_assigned and other != place and not set(numbers).isdisjoint(others):
                    raise UserError(
                        f"TinyJit: argument {paths[place]}, which the function assigns to, shares "
                        f"memory with argument {paths[other]}: pass a copy, "
                        f"{paths[other]}.clone().realize()"
                    )

    # The tensors outside

    def _hold(self, holders: Sequence[Holder]) -> None:
        self.holders = holders
        self._identities = [id(holder.value) for holder in holders]
        self._moments = registry.moments(self.outside)
        # What was pending when none of it read memory that is written, and which memory that was.
        self._unread: tuple[int, Collection[int]] | None = None

    def _before_replay(self, assigned: frozenset[int]) -> None:
        """Make sure that a replay does what a call would do to the tensors outside.

        assigned: the BUFFERs of arguments that are written. Raises `UserError` where a tensor that
        the function reads has other memory by now.
        """
        is_changed = registry.has_changed(self._moments)
        if is_changed or self._has_stale():
            self._renew()
        pending = (registry.pending_entered, assigned)
        if is_changed or (registry.has_pending and pending != self._unread):
            self._keep_elements({*assigned, *self.written})
            self._unread = pending

    def _has_stale(self) -> bool:
        """Return True if a tensor was assigned to, or is gone."""
        # A value that gets another node is out of the registry for a moment.
        with graph_lock:
            for holder in self.holders:
                tensor = holder.tensor()
                if tensor is None or value_of(tensor) is not holder.value:
                    return True
            return registry.any_pending(self._identities)

    def _renew(self) -> None:
        """Find the tensors again that were assigned to, or are gone."""
        holders = []
        # A view that may be outside for other numbers is one of memory as it is.
        held = [tensor for holder in self.holders if (tensor := holder.tensor()) is not None]
        stale = [x for x in held if not is_computed(x.node) and not is_view(x.node)]
        compute(stale)
        for tensor in stale:
            _views_shown_again(tensor)
        for holder in self.holders:
            now = holder.renewed()
            if now is not None:
                holders.append(now)
            elif holder.is_read:
                raise UserStateError(
                    f"TinyJit: a {holder.describe()} that the captured function reads is gone, or "
                    f"has other memory by now: assign() to it in place (a constant needs memory "
                    f"before the capture, as by x.replace(x.contiguous().realize())), or capture "
                    f"it again after reset()"
                )
        self._hold(holders)

    def _keep_elements(self, numbers: set[int]) -> None:
        """Compute or copy what reads or shows memory that a replay overwrites.

        Views of the tensors outside show the new elements, as those do.
        """
        held = [tensor for holder in self.holders if (tensor := holder.tensor()) is not None]
        written = [x for x in held if not self.written.isdisjoint(shown_numbers(x.node))]
        views = [view for tensor in written for view in _views_shown_again(tensor)]
        spared = {id(value_of(tensor)) for tensor in (*held, *views)}

        def find() -> list[Value]:
            # Of the arguments that are assigned to no other tensor shows the elements.
            shown = [value for number in self.written for value in registry.showing(number)]
            values = dict.fromkeys((*shown, *readers_of(numbers)))
            return [value for value in values if id(value) not in spared]

        # Asked first: what another thread enters meanwhile is looked at by the next replay.
        self._moments = registry.moments(self.outside)
        for value in keep_elements(find, numbers):
            value.is_overwritten = True

    # Pickles

    def __getstate__(self) -> dict[str, object]:
        """Return all that `__setstate__` needs: kernels as programs, state by value.

        Raises `UserError` where a replay could not run now, or where what is loaded would not see
        an assignment to a tensor that this one sees.
        """
        with graph_lock:
            self._before_replay(frozenset())
            tensors, contents = self._contents()
        names = ("arguments", "inputs", "template", "outputs", "assigned")
        return {name: getattr(self, name) for name in names} | {
            "steps": self.replayed.steps,
            "constraints": self.replayed.constraints,
            "bindings": self.replayed.bindings,
            "exchanged": self.replayed.exchanged,
            # Random numbers are drawn from the counters of the process that loads it.
            "tensors": [streams.role_of(tensor) or tensor for tensor in tensors],
            "contents": contents,
        }

    def _contents(self) -> tuple[list[TensorCore], list[tuple[RecordedBuffer, bytes | int, int]]]:
        """Return the tensors that hold the state, and the contents of each BUFFER of the steps.

        Those are bytes, or the number of one of these tensors and of its part.
        """
        keeper: dict[RecordedBuffer, tuple[TensorCore, int]] = {}
        for holder in self.holders:
            whole = _whole_of(holder)
            for part, number in enumerate(shown_numbers(whole.node)):
                buffer = self.outside.get(number)
                if buffer is None or (not holder.is_read and buffer in keeper):
                    continue
                if not is_backed(whole.node):
                    raise UserStateError(
                        f"TinyJit: cannot be saved: only views show the memory of a "
                        f"{holder.describe()} that the function reads: keep the tensor itself"
                    )
                if keeper.setdefault(buffer, (whole, part))[0] is not whole:
                    raise UserStateError(
                        f"TinyJit: cannot be saved: the function reads copies of a "
                        f"{holder.describe()}, as after clone(), which a pickle has once: "
                        f"give one of them memory of its own before the capture, as in "
                        f"x.assign(Tensor(x.numpy()))"
                    )
        tensors = list({id(tensor): tensor for tensor, _ in keeper.values()}.values())
        numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
        replayed = self.replayed
        contents: list[tuple[RecordedBuffer, bytes | int, int]] = []
        for buffer in {buffer: None for step in replayed.steps for buffer in step.buffers}:
            if buffer in keeper:
                tensor, part = keeper[buffer]
                contents.append((buffer, numbers[id(tensor)], part))
            elif buffer not in replayed.exchanged and buffer not in replayed.temporaries:
                contents.append((buffer, bytes(buffer.allocated().copy_out()), 0))
        return tensors, contents

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in ("arguments", "inputs", "template", "outputs", "assigned"):
            setattr(self, name, state[name])
        tensors = [
            streams.in_role(Tensor, *tensor) if isinstance(tensor, tuple) else tensor
            for tensor in state["tensors"]
        ]
        compute(tensors)
        self.kept, self.outside = tensors, {}
        for buffer, contents, part in state["contents"]:
            buffer.existed = True
            if isinstance(contents, bytes):
                buffer.allocated().copy_in(memoryview(contents))
            else:
                node = buffers_behind(tensors[contents].node)[part]
                buffer.memory = buffer_of(node)
                self.outside[cast(BufferArg, node.arg).number] = buffer
        self.replayed = Replay(state["steps"], state["constraints"], state["exchanged"])
        for name, value in state["bindings"].items():
            self.replayed.bindings.setdefault(name, value)
        written = self.replayed.written
        self.written = {number for number, b in self.outside.items() if b in written}
        self._hold([Holder.of(tensor, is_read=True) for tensor in tensors])


def _views_shown_again(tensor: TensorCore) -> list[TensorCore]:
    """Return the views of what `tensor` shows, each in its memory again.

    A view may have been computed for itself, in other memory.
    """
    storage = storage_of(tensor)
    views = [] if storage is None else storage.tensors()
    if len(views) > 1:
        # Of an expanded view the base is not found; nothing is written to it here.
        plain = next((view for view in views if not has_expand(steps_of(view))), tensor)
        base = base_tensor(cast(Tensor, plain), "TinyJit")
        numbers = set(shown_numbers(base.node))
        for view in views:
            if view is not base and not numbers.issuperset(shown_numbers(view.node)):
                refresh_view(cast(Tensor, view), base, value_of(base).requires_grad)
    return views


def _whole_of(holder: Holder) -> TensorCore:
    """Return the tensor that a pickle holds for a holder: what it is a view of, if that lives.

    A pickle of a tensor that was computed from others with gradients would be refused.
    """
    tensor = holder.tensor()
    assert tensor is not None, "holders are renewed before"
    wholes = [
        t
        for t in whole_tensors(tensor)
        if value_of(t).record is None or not value_of(t).requires_grad
    ]
    return next(iter(wholes), tensor)
