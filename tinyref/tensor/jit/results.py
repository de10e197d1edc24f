"""What a captured function returns: its tensors in memory of their own, and all around them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tinyref.algebra.symbolic import product
from tinyref.device import Buffer
from tinyref.dtype import ConstType, DType
from tinyref.engine.capture import Recorder
from tinyref.lazy import graph
from tinyref.lazy.buffers import new_buffer_like
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.shape import is_empty, leave_unnamed
from tinyref.lazy.shards import Place, layout_of
from tinyref.schedule.prepare import unbound
from tinyref.tensor.core import TensorCore, from_node, registry, same_node
from tinyref.tensor.data import compute
from tinyref.tensor.jit.arguments import (
    check_returned,
    rebuilt,
)
from tinyref.tensor.jit.inputs import Input, buffers_behind, is_backed, number_of, numbers_behind
from tinyref.tensor.jit.session import CaptureSession
from tinyref.tensor.registry import graph_lock, parts_of
from tinyref.tensor.variable import rebound
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg, ShapeArg, ShardArg


class Result:
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
        arguments = {id(tensor): Given(place) for place, tensor in enumerate(given)}
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
            return Placeholder(places[id(tensor)])

        self.template = rebuilt(returned, take)
        # From here on the function's own tensors are held by whoever keeps them outside.
        self.tensors = [same_node(x) for x in originals]

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
        # What comes to equal nodes is one, in one memory: the first of these has it after a round.
        for _ in self.tensors:
            mine = {id(tensor._value) for tensor in self.tensors}
            seen: set[int] = set()
            copies: list[TensorCore] = []
            for place, tensor in enumerate(self.tensors):
                if not _is_private(tensor, mine, own, seen) or not _is_made(tensor, own, recorder):
                    self.tensors[place] = _copied(tensor)
                    copies.append(self.tensors[place])
            if not copies:
                return
            compute(copies)

    def build(self, given: Sequence[TensorCore]) -> object:
        """The returned value of a call with the tensors `given`."""
        return fill_template(self.template, self.tensors, given)


def _copied(tensor: TensorCore) -> TensorCore:
    """A tensor of the same elements, which has memory of its own when it is computed."""
    with graph_lock:
        node = tensor._node
        parts = tuple(UOp(Ops.CONTIGUOUS, part.dtype, (part,)) for part in parts_of(node))
        copied = node.replace(src=parts) if node.op is Ops.MULTI else parts[0]
        return from_node(type(tensor), copied, tensor._device)


def _is_private(tensor: TensorCore, mine: set[int], own: Sequence[int], seen: set[int]) -> bool:
    """Whether a computed result is a constant, an input, or memory that only results show."""
    node = tensor._node
    if uniform_value(node) is not None or is_empty(graph.shape_of(node)):
        return True
    if not is_backed(node):
        return False
    numbers = [number_of(buffer) for buffer in buffers_behind(node)]
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
    numbers = [number_of(buffer) for buffer in buffers_behind(tensor._node)]
    return all(number in own or recorder.makes(number) for number in numbers)


@dataclass(frozen=True)
class Placeholder:
    """Stands for tensor number `place` in what a function returned."""

    place: int


@dataclass(frozen=True)
class Given:
    """Stands for the tensor that is argument number `place` of the call."""

    place: int


def fill_template(template: object, tensors: Sequence[object], given: Sequence[object]) -> object:
    """`template` with tensors in place of the objects that stand for them."""
    if isinstance(template, Placeholder):
        return tensors[template.place]
    if isinstance(template, Given):
        return given[template.place]
    if isinstance(template, dict):
        items = {key: fill_template(item, tensors, given) for key, item in template.items()}
        return items if type(template) is dict else cast(Any, type(template))(items)
    if isinstance(template, list | tuple):
        listed = [fill_template(item, tensors, given) for item in template]
        if hasattr(template, "_fields"):
            return cast(Any, type(template))(*listed)
        return listed if type(template) is list else cast(Any, type(template))(listed)
    return template


@dataclass(frozen=True)
class Part:
    """One part of a result: `buffer` is what it had in the capture, None for a constant `value`.

    is_whole: of a shape without symbolic sizes, which takes up all of the buffer.
    """

    buffer: BufferArg | None
    dtype: DType
    shape: ShapeArg
    is_whole: bool
    value: ConstType = 0

    @classmethod
    def of(cls, node: UOp) -> Part:
        buffer = graph.backing(node)
        shape = tuple(unbound(size) for size in graph.shape_of(node))
        if buffer is None:
            value = uniform_value(node)
            return cls(None, node.dtype, ShapeArg(shape), False, 0 if value is None else value)
        argument = buffer.arg
        assert isinstance(argument, BufferArg), "a BUFFER has a size"
        return cls(argument, node.dtype, ShapeArg(shape), product(shape) == argument.size)

    def fresh(self, values: Mapping[str, int]) -> tuple[UOp, Buffer | None]:
        """A node for the result of the next replay, and its memory."""
        if self.buffer is not None and self.is_whole:
            # What `window` would build, without its checks: this is done for every replay.
            node, memory = new_buffer_like(self.buffer, self.dtype)
            if self.shape.shape != (self.buffer.size,):
                node = UOp(Ops.RESHAPE, self.dtype, (node,), self.shape)
                # It is memory, as what is computed is, and no function's view of that.
                leave_unnamed(node)
            return node, memory
        shape = tuple(rebound(size, values) for size in self.shape.shape)
        if self.buffer is None:
            return graph.full(shape, self.value, self.dtype), None
        node, memory = new_buffer_like(self.buffer, self.dtype)
        return graph.window(node, shape), memory


@dataclass(frozen=True)
class Output:
    """A tensor of a result: the parts of fresh memory, or the number of the input that it is."""

    device: Place
    parts: tuple[Part, ...]
    input: int | None
    layout: ShardArg | None

    @classmethod
    def of(cls, tensor: TensorCore, inputs: Sequence[Input]) -> Output:
        node = tensor._node
        numbers = numbers_behind(node)
        same = (n for n, item in enumerate(inputs) if numbers and item.numbers == numbers)
        layout = layout_of(node) if node.op is Ops.MULTI else None
        parts = tuple(map(Part.of, parts_of(node)))
        return cls(tensor._device, parts, next(same, None), layout)
