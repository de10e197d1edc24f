"""Capturing a call of a function, and replaying it with other tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tinyref.device import Buffer
from tinyref.engine.capture import Recorder, Replay, recording
from tinyref.engine.interrupts import InterruptsHeld
from tinyref.errors import UserError, UserStateError, words_of
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of
from tinyref.lazy.shards import join_parts
from tinyref.tensor.core import TensorCore, from_node
from tinyref.tensor.data import compute
from tinyref.tensor.jit.arguments import (
    Arguments,
    mismatch,
    rebuilt,
)
from tinyref.tensor.jit.inputs import (
    Input,
    also_state,
    buffers_behind,
    check_unshared,
    copy_in_memory,
    hand_over,
    in_memory,
    is_alone,
    numbers_behind,
)
from tinyref.tensor.jit.results import Output, Result, fill_template
from tinyref.tensor.jit.session import CaptureSession, capture_session
from tinyref.tensor.jit.state import State
from tinyref.tensor.realisation import lose
from tinyref.tensor.registry import TurnLock, graph_lock, shown_numbers
from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import rebound, values_bound
from tinyref.uops.node import UOp, sint


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


def captured_call(
    fxn: Callable[..., object],
    arguments: Arguments,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    prune: bool,
) -> tuple[Capture, Result]:
    """Runs the function while its kernels are noted; what it returns and what to replay."""
    pairs = zip(arguments.tensors, arguments.tensor_paths, strict=True)
    inputs = [Input.of(tensor, path) for tensor, path in pairs]
    stand_ins = [item.stand_in for item in inputs]
    queue = iter(stand_ins)

    def next_stand_in(_: TensorCore) -> object:
        return next(queue)

    given = [rebuilt(value, next_stand_in) for value in args]
    named = {name: rebuilt(kwargs[name], next_stand_in) for name in sorted(kwargs)}
    with capture_session(stand_ins) as session, recording() as recorder:
        try:
            # Nothing else holds what is returned: it would have memory that a copy is made of.
            result = Result(fxn(*given, **named), stand_ins, session)
        except Exception as error:
            try:
                _compute_left_over(inputs, session)
            except Exception as other:
                error.add_note(f"TinyJit: not all that it had made was computed: {other}")
            _hand_over_written(arguments.tensors, inputs, recorder)
            raise
        written_back = [tensor for item in inputs for tensor in item.written_back()]
        own = [number for item in inputs for number in item.numbers]
        result.settle(own, [*session.left_over(), *written_back], recorder)
        session.check()
    for item in inputs:
        item.check(recorder)
    written = [place for place, item in enumerate(inputs) if item.is_written]
    check_unshared(arguments.tensor_paths, [item.given for item in inputs], written)
    for place in written:
        hand_over(arguments.tensors[place], inputs[place].node)
    return Capture.of(recorder, arguments, inputs, result, session, prune), result


def _compute_left_over(inputs: Sequence[Input], session: CaptureSession) -> None:
    """Computes what a function that raises has made or assigned to, and not computed."""
    written_back = [tensor for item in inputs for tensor in item.written_back()]
    compute([*session.left_over(), *written_back])


def _hand_over_written(
    given: Sequence[TensorCore], inputs: Sequence[Input], recorder: Recorder
) -> None:
    """What a function that raises has assigned to its arguments is theirs, as in a plain call."""
    for tensor, item in zip(given, inputs, strict=True):
        item.find_written(recorder)
        if item.is_written:
            hand_over(tensor, item.node)


class Capture:
    """A captured function: checks what a call gives, and replays."""

    def __init__(
        self,
        arguments: Arguments,
        numbers: list[tuple[int, ...]],
        written: list[int],
        result: tuple[object, list[Output]],
        replayed: Replay,
        state: State,
        locks: list[TurnLock],
    ) -> None:
        """numbers: the BUFFERs of each argument. written: the places of those assigned to.

        result: what is returned around the tensors, and the tensors. locks: what replays take.
        """
        self.arguments = arguments
        self.numbers = numbers
        self.written = written
        self.template, self.outputs = result
        self.replayed = replayed
        self.state = state
        self.locks = locks
        # Why a replay broke off that had begun to write state.
        self.broken = ""

    @classmethod
    def of(
        cls,
        recorder: Recorder,
        arguments: Arguments,
        inputs: Sequence[Input],
        result: Result,
        session: CaptureSession,
        prune: bool,
    ) -> Capture:
        """What was captured. Raises `UserError` where no replay could repeat it."""
        if not recorder.steps and not (result.tensors or result.has_given):
            raise UserStateError(
                "TinyJit: the function ran no kernel and no copy, and returns no tensor: nothing "
                "there is to replay; return what it computes, or realize it within"
            )
        outputs = [Output.of(tensor, inputs) for tensor in result.tensors]
        own = {number for item in inputs for number in item.numbers}
        own |= {
            part.buffer.number
            for output in outputs
            for part in output.parts
            if part.buffer is not None
        }
        state = State(recorder, own, session)
        replayed = Replay(recorder, sorted(own), own | state.written if prune else None)
        state.keep(replayed.memory)
        for tensor in result.tensors:
            # A constant has sizes too, which no kernel of the capture may have.
            for name, value in values_bound(tensor.shape, "TinyJit").items():
                replayed.bindings.setdefault(name, value)
        # The tensors themselves are the caller's; what they were says the specs.
        arguments.tensors = []
        numbers = [item.numbers for item in inputs]
        written = [place for place, item in enumerate(inputs) if item.is_written]
        around = (result.template, outputs)
        return cls(arguments, numbers, written, around, replayed, state, session.locks)

    def describe(self) -> Captured:
        steps = self.replayed.steps
        kernels = self.replayed.kernels
        inputs = [
            f"{path}: {spec}"
            for path, spec in zip(self.arguments.paths, self.arguments.specs, strict=True)
            if path in self.arguments.tensor_paths
        ]
        inputs += [f"{name}: a variable" for name in self.arguments.values]
        replayed = self.replayed
        return Captured(
            kernels,
            len(steps) - kernels,
            tuple(inputs),
            len(self.state),
            replayed.arena_bytes,
            replayed.unplanned_bytes,
        )

    def replay(self, given: Arguments) -> object:
        if given.specs != self.arguments.specs or given.paths != self.arguments.paths:
            raise UserError(
                f"TinyJit: {mismatch(self.arguments, given)}: "
                f"call it as it was captured, or reset() it to capture anew"
            )
        self.replayed.check(given.values)
        if not self.locks:
            return self._run(given)
        with contextlib.ExitStack() as turns:
            for lock in self.locks:
                turns.enter_context(lock)
            return self._run(given)

    def _run(self, given: Arguments) -> object:
        with graph_lock:
            if self.broken:
                raise UserStateError(
                    f"TinyJit: a replay broke off, and what the function assigns to is lost: "
                    f"{self.broken}: assign() to those tensors, and capture anew after reset()"
                )
            tensors = given.tensors
            nodes = list(map(in_memory, tensors, given.tensor_paths))
            if self._writes:
                self._check_memory(given)
            for place in self.written:
                if not is_alone(tensors[place], nodes[place]):
                    nodes[place] = copy_in_memory(nodes[place])
            exchanged: dict[int, Buffer] = {}
            for numbers, node in zip(self.numbers, nodes, strict=True):
                # What has no elements has no memory either.
                for number, buffer in zip(numbers, buffers_behind(node), strict=True):
                    exchanged[number] = buffer_of(buffer)
            results = [self._result(output, nodes, given, exchanged) for output in self.outputs]
            overwritten = [n for place in self.written for n in numbers_behind(nodes[place])]
            self.state.before_replay(compute, overwritten)
            # An interrupt that has waited for the replay waits for what it gives to arguments, too.
            with self._interrupts_held():
                self._replay(exchanged, given.values, overwritten)
                for place in self.written:
                    if tensors[place]._node is not nodes[place]:
                        hand_over(tensors[place], nodes[place])
            return fill_template(self.template, results, tensors)

    @property
    def _writes(self) -> bool:
        """Whether a replay assigns to memory that is not its own."""
        return bool(self.written or self.state.written)

    def _interrupts_held(self) -> contextlib.AbstractContextManager[None]:
        return InterruptsHeld() if self._writes else contextlib.nullcontext()

    def _replay(
        self, exchanged: Mapping[int, Buffer], values: Mapping[str, int], arguments: Sequence[int]
    ) -> None:
        """Runs the steps; where that breaks off, what they assign to is lost.

        arguments: the BUFFERs of arguments that are assigned to.
        """
        try:
            self.replayed.run(exchanged, values)
        except BaseException as error:
            if self._writes and self.replayed.is_begun:
                why = words_of(error)
                written = self.state.written.union(arguments)
                lose(written, f"were being assigned to by a replay: {why}")
                self.broken = why if self.state.written else ""
            raise

    def _check_memory(self, given: Arguments) -> None:
        """Raises `UserError` where an argument shares memory that the function assigns to."""
        shown = [shown_numbers(tensor._node) for tensor in given.tensors]
        for place, numbers in enumerate(shown):
            if self.state.overlaps(numbers, place in self.written):
                raise also_state(given.tensor_paths[place])
        check_unshared(given.tensor_paths, shown, self.written)

    def _result(
        self,
        output: Output,
        nodes: Sequence[UOp],
        given: Arguments,
        exchanged: dict[int, Buffer],
    ) -> TensorCore:
        """A tensor for one result, whose memory, if it is fresh, is added to `exchanged`."""
        if output.input is not None:
            shape = tuple(rebound(size, given.values) for size in output.parts[0].shape.shape)
            node = nodes[output.input]
            if output.layout is None:
                node = _first_elements(node, shape)
            return from_node(Tensor, node, output.device)
        parts = []
        for part in output.parts:
            # Variables that the function binds itself keep their values.
            node, fresh = part.fresh({**self.replayed.bindings, **given.values})
            parts.append(node)
            if part.buffer is not None and fresh is not None:
                exchanged[part.buffer.number] = fresh
        whole = parts[0] if output.layout is None else join_parts(output.layout, parts)
        return from_node(Tensor, whole, output.device)


def _first_elements(node: UOp, shape: tuple[sint, ...]) -> UOp:
    """What an input holds, as `shape`: of a part that a symbolic size cuts off the first ones."""
    memory = graph.backing(node)
    return graph.reshape(node, shape) if memory is None else graph.window(memory, shape)
