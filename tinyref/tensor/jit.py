"""TinyJit: a function of tensors that runs as the list of kernels that it was seen to run."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload
from weakref import WeakSet

from tinyref import config
from tinyref.device import Buffer
from tinyref.dtype import DType
from tinyref.engine.capture import Recorder, Replay, active_recorder, recording
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of, new_buffer_like
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.multi import assign
from tinyref.lazy.shape import is_empty
from tinyref.lazy.shards import Place
from tinyref.schedule.prepare import unbound
from tinyref.tensor.core import TensorCore
from tinyref.tensor.data import compute
from tinyref.tensor.jit_arguments import (
    Arguments,
    check_returned,
    mismatch,
    read_arguments,
    rebuilt,
)
from tinyref.tensor.jit_session import CaptureSession, capture_session, description_of
from tinyref.tensor.jit_state import State
from tinyref.tensor.locks import building, computing
from tinyref.tensor.registry import parts_of, registry, shown_numbers
from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import rebound
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg, ShapeArg
from tinyref.uops.symbolic import product

P = ParamSpec("P")
R = TypeVar("R")


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


class TinyJit(Generic[P, R]):
    """Runs `fxn` plainly once, captures its kernels in the second call, then replays only those.

    As a decorator of a function or a method, or as a call: `step = TinyJit(step)`. Tensors and
    bound variables, in arguments and in lists, tuples and dicts in them, may change from call to
    call, but no shape, type or device; any other argument, like all else that Python decides, is
    part of the capture. Tensors that the function assigns to in place go on being updated. It
    returns tensors, numbers, texts and None in lists, tuples and dicts: the tensors have memory
    of their own and no gradients, all else is as it was captured.

    A call that fits no replay raises `UserError`; so do reading elements within the function,
    and replacing tensors instead of assigning to them. An argument that the function assigns to
    has the new elements after the call, as in a plain one, but shares no memory with another
    argument. Within another TinyJit's capture, and with the flag JIT=0, the function runs plainly.
    Threads take turns.

    prune: kernels that depend on no argument, and on nothing that the function assigns to, run
    once with the capture and are not replayed: what they read may not change any more.
    """

    def __init__(self, fxn: Callable[P, R], *, prune: bool = False) -> None:
        if not callable(fxn):
            raise UserTypeError(f"TinyJit: got a {type(fxn).__name__}, accepted is a function")
        self.fxn = fxn
        functools.update_wrapper(self, fxn)
        self.prune = bool(prune)
        self._program = _Program(_parameter_names(fxn), self.prune)
        self._methods: dict[int, tuple[weakref.ref[object], _Program]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self._program.call(self.fxn, args, kwargs))

    @overload
    def __get__(self, instance: None, owner: type) -> TinyJit[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> JitMethod: ...
    def __get__(self, instance: object | None, owner: type) -> TinyJit[P, R] | JitMethod:
        """As a method: each instance has a capture of its own."""
        if instance is None:
            return self
        return JitMethod(self.fxn, instance, self._program_of(instance))

    def _program_of(self, instance: object) -> _Program:
        with building:
            return self._found_program(instance)

    def _found_program(self, instance: object) -> _Program:
        identity = id(instance)
        found = self._methods.get(identity)
        if found is not None and found[0]() is instance:
            return found[1]

        def forget(reference: weakref.ref[object]) -> None:
            # Another instance may have its identity by now.
            if self._methods.get(identity, (None,))[0] is reference:
                self._methods.pop(identity, None)

        try:
            reference = weakref.ref(instance, forget)
        except TypeError:
            raise UserTypeError(
                f"TinyJit: a {type(instance).__name__} takes no weak references: "
                f"add '__weakref__' to its slots"
            ) from None
        program = _Program(_parameter_names(self.fxn)[1:], self.prune)
        self._methods[identity] = (reference, program)
        return program

    def reset(self) -> None:
        """Forgets the capture: the next call runs plainly, the one after captures again."""
        self._program.reset()

    @property
    def captured(self) -> Captured | None:
        """What was captured; None before the second call."""
        return self._program.captured


class JitMethod:
    """A captured function bound to one instance."""

    def __init__(self, fxn: Callable[..., Any], instance: object, program: _Program) -> None:
        self.fxn = fxn
        self.instance = instance
        self._program = program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program.call(functools.partial(self.fxn, self.instance), args, kwargs)

    def reset(self) -> None:
        """As `TinyJit.reset`, for this instance."""
        self._program.reset()

    @property
    def captured(self) -> Captured | None:
        """As `TinyJit.captured`, for this instance."""
        return self._program.captured


def _parameter_names(fxn: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(fxn).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]


class _Program:
    """The calls of one function: plainly first, then captured, then replayed."""

    def __init__(self, names: Sequence[str], prune: bool) -> None:
        self._names = names
        self._prune = prune
        self._runner: int | None = None
        self.renew_lock()
        self.reset()
        _programs.add(self)

    def renew_lock(self) -> None:
        """For a forked child: a thread that held it is not there to release it."""
        self._lock = threading.RLock()
        if self._runner != threading.get_ident():
            self._runner = None

    def reset(self) -> None:
        self._has_run = False
        self._capture: _Capture | None = None

    @property
    def captured(self) -> Captured | None:
        return None if self._capture is None else self._capture.describe()

    def call(
        self, fxn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        if not config.integer("JIT") or active_recorder() is not None:
            return fxn(*args, **kwargs)
        with self._lock:
            if self._runner is not None:
                return fxn(*args, **kwargs)
            self._runner = threading.get_ident()
            try:
                return self._call(fxn, args, kwargs)
            finally:
                self._runner = None

    def _call(
        self, fxn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        arguments = read_arguments(self._names, args, kwargs)
        if self._capture is not None:
            return self._capture.replay(arguments)
        if not self._has_run:
            result = _Result(fxn(*args, **kwargs), arguments.tensors)
            result.settle()
            self._has_run = True
            return result.build(arguments.tensors)
        given = arguments.tensors
        self._capture, result = _captured(fxn, arguments, args, kwargs, self._prune)
        return result.build(given)


_programs: WeakSet[_Program] = WeakSet()


def _in_child() -> None:
    for program in _programs:
        program.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


# --- inputs -------------------------------------------------------------------------------------


@dataclass
class _Input:
    """A tensor argument during a capture: another tensor, in memory of its own, stands for it.

    So the function's uses of its argument can be told from uses of a tensor that it keeps.
    is_written: the function assigns to it.
    """

    path: str
    stand_in: TensorCore
    numbers: tuple[int, ...]
    node: UOp
    given: tuple[int, ...]
    is_written: bool = False

    @classmethod
    def of(cls, tensor: TensorCore, path: str) -> _Input:
        """Copies the elements of `tensor`, computed if need be."""
        node = _copy_in_memory(_in_memory(tensor, path))
        value = replace(tensor._value, node=node, record=None, owner=None)
        stand_in = type(tensor)._of(value)
        return cls(path, stand_in, _numbers(node), node, shown_numbers(tensor._node))

    def written_back(self) -> list[TensorCore]:
        """Where the function gave the argument other memory: an assignment to its own memory.

        Raises `UserError` where the elements do not fit there.
        """
        found = self.stand_in
        if found._node is self.node or _is_assignment_to(found._node, self.node):
            return []
        memory = Tensor._from_node(self.node, found._device)
        if (memory.shape, memory.dtype) != (found.shape, found.dtype) or not self.numbers:
            raise UserError(
                f"TinyJit: argument {self.path} becomes {description_of(found)} within the "
                f"function, it was {description_of(memory)}: return the new tensor"
            )
        node = assign(self.node, Tensor._from_node(found._node, found._device)._node)
        return [Tensor._from_node(node, found._device)]

    def check(self, recorder: Recorder) -> None:
        """Raises `UserError` where the function did to it what a replay could not do."""
        known = [recorder.known[number] for number in self.numbers if number in recorder.known]
        self.is_written = any(found.is_written for found in known)
        for number in self.given:
            found = recorder.known.get(number)
            if found is not None and (found.is_written or self.is_written):
                raise _also_state(self.path)
        if self.stand_in._grad is not None:
            raise UserStateError(
                f"TinyJit: argument {self.path} gets a grad within the function, which a replay "
                f"could not hand out: use gradient() and return it"
            )


def _is_assignment_to(node: UOp, memory: UOp) -> bool:
    """Whether all that `node` still has to do is to write its elements to `memory`."""
    targets = []
    for part in parts_of(node):
        while part.op is Ops.ASSIGN:
            part = part.src[0]
        targets.append(part)
    return tuple(targets) == parts_of(memory)


def _check_written(
    paths: Sequence[str], shown: Sequence[tuple[int, ...]], written: Sequence[int]
) -> None:
    """Raises `UserError` where an argument that is assigned to shares memory with another one.

    paths: where each argument was found. shown: the BUFFERs that it shows. written: those assigned
    to, by their places.
    """
    for place in written:
        for other, numbers in enumerate(shown):
            if other != place and set(shown[place]) & set(numbers):
                raise UserError(
                    f"TinyJit: argument {paths[place]}, which the function assigns to, shares "
                    f"memory with argument {paths[other]}: pass a copy, "
                    f"{paths[other]}.clone().realize()"
                )


def _also_state(path: str) -> UserError:
    return UserError(
        f"TinyJit: argument {path} is a tensor that the function assigns to as well: "
        f"pass another tensor, and let the function use the one that it keeps"
    )


def _buffers(node: UOp) -> list[UOp]:
    """The BUFFERs behind a computed tensor, one for each part; none for what has no elements."""
    found = [graph.backing(part) for part in parts_of(node)]
    return [buffer for buffer in found if buffer is not None]


def _number(buffer: UOp) -> int:
    assert isinstance(buffer.arg, BufferArg), "a BUFFER has a number"
    return buffer.arg.number


def _numbers(node: UOp) -> tuple[int, ...]:
    """The numbers of the BUFFERs behind a computed tensor."""
    return tuple(map(_number, _buffers(node)))


def _copy_in_memory(node: UOp) -> UOp:
    """A computed tensor with the same elements in memory of its own."""
    return substitute(node, {buffer: _copied(buffer) for buffer in _buffers(node)})


def _hand_over(tensor: TensorCore, node: UOp) -> None:
    """Assigns the elements of `node`, which is computed, to an argument, as a plain call does."""
    assert isinstance(tensor, Tensor), "arguments are Tensors"
    with Tensor.no_grad():
        tensor.assign(Tensor._from_node(node, tensor._device))
    compute([tensor])


def _copied(buffer: UOp) -> UOp:
    """A BUFFER of its own with the same contents."""
    assert isinstance(buffer.arg, BufferArg), "a BUFFER has a size"
    node, memory = new_buffer_like(buffer.arg, buffer.dtype)
    memory.copy_in(memoryview(buffer_of(buffer).copy_out()))
    return node


def _in_memory(tensor: TensorCore, path: str) -> UOp:
    """A node of the elements of `tensor` in memory, in order: computes and copies if need be."""
    if tensor._value.requires_grad and tensor._value.record is not None:
        raise UserStateError(
            f"TinyJit: argument {path} was computed from tensors that require grad, and no "
            f"gradient flows through a replay: pass {path}.detach()"
        )
    node = tensor._node
    if _is_backed(node) or is_empty(graph.shape_of(node)):
        return node
    compute([tensor])
    if _is_backed(tensor._node):
        return tensor._node
    copy = Tensor._from_node(tensor._node, tensor._device).contiguous()
    compute([copy])
    return copy._node


def _is_alone(tensor: TensorCore, node: UOp) -> bool:
    """Whether `tensor` is in memory as `node`, and no other value shows that memory."""
    return tensor._node is node and all(
        registry.count_showing(number) == 1 for number in _numbers(node)
    )


def _is_backed(node: UOp) -> bool:
    if node.op is not Ops.MULTI:
        return graph.backing(node) is not None
    return all(graph.backing(part) is not None for part in node.src)


# --- results ------------------------------------------------------------------------------------


class _Result:
    """What a call returned: its tensors in order, computed and detached, and all around them.

    A tensor among `given`, the arguments, is returned itself.
    """

    def __init__(
        self,
        returned: object,
        given: Sequence[TensorCore],
        session: CaptureSession | None = None,
    ) -> None:
        check_returned(returned)
        arguments = {id(tensor): _Given(place) for place, tensor in enumerate(given)}
        places: dict[int, int] = {}
        self.has_given = False
        self.tensors: list[TensorCore] = []
        originals: list[TensorCore] = []

        def take(tensor: TensorCore) -> object:
            if id(tensor) in arguments:
                self.has_given = True
                return arguments[id(tensor)]
            if session is not None:
                session.read(tensor._value)
            if id(tensor) not in places:
                places[id(tensor)] = len(originals)
                originals.append(tensor)
            return _Placeholder(places[id(tensor)])

        self.template = rebuilt(returned, take)
        # From here on the function's own tensors are held by whoever keeps them outside.
        self.tensors = [type(x)._from_node(x._node, x._device) for x in originals]

    def settle(
        self,
        own: Sequence[int] = (),
        others: Sequence[TensorCore] = (),
        recorder: Recorder | None = None,
    ) -> None:
        """Computes the tensors, with `others`, and gives each memory that nothing else shows.

        `own` are the BUFFERs of inputs: an input that is returned stays what it is. With a
        `recorder` the memory is also one that its steps fill: what was there before, or came from
        the host, is copied by a step of its own.
        """
        compute([*self.tensors, *others])
        mine = {id(tensor._value) for tensor in self.tensors}
        copies = []
        seen: set[int] = set()
        for place, tensor in enumerate(self.tensors):
            if not _is_private(tensor, mine, own, seen) or not _is_made(tensor, own, recorder):
                nodes = [UOp(Ops.CONTIGUOUS, p.dtype, (p,)) for p in parts_of(tensor._node)]
                node = tensor._node.replace(src=tuple(nodes)) if _is_multi(tensor) else nodes[0]
                self.tensors[place] = type(tensor)._from_node(node, tensor._device)
                copies.append(self.tensors[place])
        compute(copies)

    def build(self, given: Sequence[TensorCore]) -> object:
        """The returned value of a call with the tensors `given`."""
        return _filled(self.template, self.tensors, given)


def _is_multi(tensor: TensorCore) -> bool:
    return tensor._node.op is Ops.MULTI


def _is_private(tensor: TensorCore, mine: set[int], own: Sequence[int], seen: set[int]) -> bool:
    """Whether a computed result is a constant, an input, or memory that only results show."""
    node = tensor._node
    if uniform_value(node) is not None or is_empty(graph.shape_of(node)):
        return True
    if not _is_backed(node):
        return False
    numbers = [_number(buffer) for buffer in _buffers(node)]
    if all(number in own for number in numbers):
        return True
    shown = itertools.chain.from_iterable(map(registry.showing, numbers))
    others = [value for value in shown if id(value) not in mine and value.tensor is not None]
    is_first = not seen.intersection(numbers)
    seen.update(numbers)
    return is_first and not others


def _is_made(tensor: TensorCore, own: Sequence[int], recorder: Recorder | None) -> bool:
    """Whether the steps of `recorder` fill all memory of a result that is no input."""
    if recorder is None:
        return True
    numbers = [_number(buffer) for buffer in _buffers(tensor._node)]
    return all(number in own or recorder.makes(number) for number in numbers)


@dataclass(frozen=True)
class _Placeholder:
    """Stands for tensor number `place` in what a function returned."""

    place: int


@dataclass(frozen=True)
class _Given:
    """Stands for the tensor that is argument number `place` of the call."""

    place: int


def _filled(template: object, tensors: Sequence[object], given: Sequence[object]) -> object:
    if isinstance(template, _Placeholder):
        return tensors[template.place]
    if isinstance(template, _Given):
        return given[template.place]
    if isinstance(template, dict):
        items = {key: _filled(item, tensors, given) for key, item in template.items()}
        return items if type(template) is dict else cast(Any, type(template))(items)
    if isinstance(template, list | tuple):
        listed = [_filled(item, tensors, given) for item in template]
        if hasattr(template, "_fields"):
            return cast(Any, type(template))(*listed)
        return listed if type(template) is list else cast(Any, type(template))(listed)
    return template


@dataclass(frozen=True)
class _Part:
    """One part of a result: `buffer` is what it had in the capture, None for a constant `node`.

    is_whole: of a shape without symbolic sizes, which takes up all of the buffer.
    """

    buffer: BufferArg | None
    dtype: DType
    shape: ShapeArg
    is_whole: bool
    node: UOp | None

    @classmethod
    def of(cls, node: UOp) -> _Part:
        buffer = graph.backing(node)
        shape = tuple(unbound(size) for size in graph.shape_of(node))
        if buffer is None:
            return cls(None, node.dtype, ShapeArg(shape), False, node)
        argument = buffer.arg
        assert isinstance(argument, BufferArg), "a BUFFER has a size"
        is_whole = product(shape) == argument.size and shape != (argument.size,)
        return cls(argument, node.dtype, ShapeArg(shape), is_whole, None)

    def fresh(self, values: Mapping[str, int]) -> tuple[UOp, Buffer | None]:
        """A node for the result of the next replay, and its memory."""
        if self.buffer is not None and self.is_whole:
            # What `window` would build, without its checks: this is done for every replay.
            node, memory = new_buffer_like(self.buffer, self.dtype)
            return UOp(Ops.RESHAPE, self.dtype, (node,), self.shape), memory
        shape = tuple(rebound(size, values) for size in self.shape.shape)
        if self.buffer is None:
            value = None if self.node is None else uniform_value(self.node)
            return graph.full(shape, 0 if value is None else value, self.dtype), None
        node, memory = new_buffer_like(self.buffer, self.dtype)
        return graph.window(node, shape), memory


@dataclass(frozen=True)
class _Output:
    """A tensor of a result: the parts of fresh memory, or the number of the input that it is."""

    device: Place
    parts: tuple[_Part, ...]
    input: int | None
    multi: UOp | None

    @classmethod
    def of(cls, tensor: TensorCore, inputs: Sequence[_Input]) -> _Output:
        node = tensor._node
        numbers = tuple(_number(buffer) for buffer in _buffers(node))
        same = (n for n, item in enumerate(inputs) if numbers and item.numbers == numbers)
        multi = node if node.op is Ops.MULTI else None
        parts = tuple(map(_Part.of, parts_of(node)))
        return cls(tensor._device, parts, next(same, None), multi)


# --- capture and replay -------------------------------------------------------------------------


def _captured(
    fxn: Callable[..., object],
    arguments: Arguments,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    prune: bool,
) -> tuple[_Capture, _Result]:
    """Runs the function while its kernels are noted; what it returns and what to replay."""
    pairs = zip(arguments.tensors, arguments.tensor_paths, strict=True)
    inputs = [_Input.of(tensor, path) for tensor, path in pairs]
    stand_ins = [item.stand_in for item in inputs]
    queue = iter(stand_ins)

    def next_stand_in(_: TensorCore) -> object:
        return next(queue)

    given = [rebuilt(value, next_stand_in) for value in args]
    named = {name: rebuilt(kwargs[name], next_stand_in) for name in sorted(kwargs)}
    with capture_session(stand_ins) as session, recording() as recorder:
        result = _Result(fxn(*given, **named), stand_ins, session)
        written_back = [tensor for item in inputs for tensor in item.written_back()]
        own = [number for item in inputs for number in item.numbers]
        result.settle(own, [*session.left_over(), *written_back], recorder)
        session.check()
    for item in inputs:
        item.check(recorder)
    written = [place for place, item in enumerate(inputs) if item.is_written]
    _check_written(arguments.tensor_paths, [item.given for item in inputs], written)
    for place in written:
        _hand_over(arguments.tensors[place], inputs[place].node)
    return _Capture(recorder, arguments, inputs, result, session, prune), result


class _Capture:
    """A captured function: checks what a call gives, and replays."""

    def __init__(
        self,
        recorder: Recorder,
        arguments: Arguments,
        inputs: Sequence[_Input],
        result: _Result,
        session: CaptureSession,
        prune: bool,
    ) -> None:
        self.arguments = arguments
        self.numbers = [item.numbers for item in inputs]
        self.written = [place for place, item in enumerate(inputs) if item.is_written]
        self.locks = session.locks
        self.template = result.template
        self.outputs = [_Output.of(tensor, inputs) for tensor in result.tensors]
        own = {number for numbers in self.numbers for number in numbers}
        results = {
            part.buffer.number
            for output in self.outputs
            for part in output.parts
            if part.buffer is not None
        }
        if not recorder.steps and not (result.tensors or result.has_given):
            raise UserStateError(
                "TinyJit: the function ran no kernel and no copy, and returns no tensor: nothing "
                "there is to replay; return what it computes, or realize it within"
            )
        self.state = State(recorder, own | results, session)
        varying = own | self.state.written if prune else None
        self.replayed = Replay(recorder, sorted(own | results), varying)
        # The tensors themselves are the caller's; what they were says the specs.
        arguments.tensors = []

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
        with computing:
            tensors = given.tensors
            nodes = list(map(_in_memory, tensors, given.tensor_paths))
            if self.written or self.state.written:
                self._check_memory(given)
            for place in self.written:
                if not _is_alone(tensors[place], nodes[place]):
                    nodes[place] = _copy_in_memory(nodes[place])
            exchanged: dict[int, Buffer] = {}
            for numbers, node in zip(self.numbers, nodes, strict=True):
                # What has no elements has no memory either.
                for number, buffer in zip(numbers, _buffers(node), strict=True):
                    exchanged[number] = buffer_of(buffer)
            results = [self._result(output, nodes, given, exchanged) for output in self.outputs]
            overwritten = [number for place in self.written for number in _numbers(nodes[place])]
            self.state.before_replay(compute, overwritten)
            self.replayed.run(exchanged, given.values)
            for place in self.written:
                if tensors[place]._node is not nodes[place]:
                    _hand_over(tensors[place], nodes[place])
            return _filled(self.template, results, tensors)

    def _check_memory(self, given: Arguments) -> None:
        """Raises `UserError` where an argument shares memory that the function assigns to."""
        shown = [shown_numbers(tensor._node) for tensor in given.tensors]
        for place, numbers in enumerate(shown):
            if self.state.touches(numbers, place in self.written):
                raise _also_state(given.tensor_paths[place])
        _check_written(given.tensor_paths, shown, self.written)

    def _result(
        self,
        output: _Output,
        nodes: Sequence[UOp],
        given: Arguments,
        exchanged: dict[int, Buffer],
    ) -> TensorCore:
        """A tensor for one result, whose memory, if it is fresh, is added to `exchanged`."""
        if output.input is not None:
            shape = tuple(rebound(size, given.values) for size in output.parts[0].shape.shape)
            node = nodes[output.input]
            node = node if output.multi is not None else graph.reshape(node, shape)
            return Tensor._from_node(node, output.device)
        parts = []
        for part in output.parts:
            # Variables that the function binds itself keep their values.
            node, memory = part.fresh({**self.replayed.bindings, **given.values})
            parts.append(node)
            if part.buffer is not None and memory is not None:
                exchanged[part.buffer.number] = memory
        whole = parts[0] if output.multi is None else output.multi.replace(src=tuple(parts))
        return Tensor._from_node(whole, output.device)
