"""The results of a captured function: each replay returns tensors in memory of their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyref.device import Buffer
from tinyref.dtype import ConstType, DType
from tinyref.engine.capture import RecordedBuffer, Recorder
from tinyref.errors import UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.buffers import new_buffer_like
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.shape import is_empty, leave_unnamed
from tinyref.lazy.shards import Place, join_parts, layout_of
from tinyref.schedule.prepare import unbound
from tinyref.tensor.core import TensorCore, from_node, registry, same_node, value_of
from tinyref.tensor.data import compute
from tinyref.tensor.jit.arguments import rebuilt
from tinyref.tensor.jit.session import CaptureSession, copied, is_backed
from tinyref.tensor.registry import buffer_numbers, parts_of
from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import rebound
from tinyref.uops.node import UOp, sint, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ShardArg


@dataclass(frozen=True)
class Placeholder:
    """A mark for one tensor in the template of the results."""

    number: int  # Index into the tensors of the arguments followed by those of the results.


class Results:
    """The results of a call: its tensors in order, and a template with a mark for each tensor."""

    def __init__(
        self, returned: object, args: Sequence[TensorCore], session: CaptureSession | None = None
    ) -> None:
        marks = {id(tensor): Placeholder(number) for number, tensor in enumerate(args)}
        originals: list[TensorCore] = []
        self.is_bare = True

        def take(value: object, path: str) -> object:
            if not isinstance(value, TensorCore):
                _check_returned(value, path)
                return value
            self.is_bare = False
            if id(value) not in marks:
                marks[id(value)] = Placeholder(len(args) + len(originals))
                originals.append(value)
                if session is not None:
                    session.read(value_of(value))
            return marks[id(value)]

        self.template = rebuilt(returned, take)
        # From here on the function's own tensors live only if something outside refers to them.
        self.tensors = [same_node(tensor) for tensor in originals]

    def compute(self, session: CaptureSession | None = None) -> None:
        """Compute the tensors, each in memory that no other tensor views.

        With a session, compute also what it captures. Its steps must write that memory.
        """
        recorder = None if session is None else session.recorder
        compute([*self.tensors, *([] if session is None else session.left_over())])
        taken: set[int] = set()
        for index, tensor in enumerate(self.tensors):
            if not _is_private(tensor, taken, recorder):
                # One by one: equal copies that are computed together share one memory.
                self.tensors[index] = copied(tensor)
            taken.update(buffer_numbers(self.tensors[index].node))

    def build(self, args: Sequence[TensorCore]) -> object:
        """Return the result of a call with these tensors as arguments."""
        return fill(self.template, [*args, *self.tensors])


def _check_returned(value: object, path: str) -> None:
    """Raise `UserError` unless a replay can return `value` as it is."""
    if not isinstance(value, bool | int | float | str | bytes | None):
        raise UserTypeError(
            f"TinyJit: {path} is a {type(value).__name__}: accepted are Tensors, numbers, texts "
            f"and None, also in tuples, lists and dicts"
        )


def _is_private(tensor: TensorCore, taken: set[int], recorder: Recorder | None) -> bool:
    """Return True for a constant, and for memory that only `tensor` views and the steps write."""
    node = tensor.node
    if uniform_value(node) is not None or is_empty(tensor.shape):
        return True
    numbers = buffer_numbers(node)
    others = (value.tensor for number in numbers for value in registry.views_of(number))
    return (
        is_backed(node)
        and taken.isdisjoint(numbers)
        and all(other is None or other is tensor for other in others)
        and (recorder is None or all(map(recorder.makes, numbers)))
    )


def fill(template: object, tensors: Sequence[object]) -> object:
    """Return `template` with each placeholder replaced by its tensor."""
    if isinstance(template, Placeholder):
        return tensors[template.number]
    # Each replay comes here, and `rebuilt` also makes a path for each item.
    if isinstance(template, list | tuple) and type(template) in (list, tuple):
        items = [fill(item, tensors) for item in template]
        return items if type(template) is list else tuple(items)
    return rebuilt(template, lambda x, _: fill(x, tensors) if isinstance(x, Placeholder) else x)


# The count of references to an object to which only a list refers.
(_IN_A_LIST,) = map(sys.getrefcount, [object()])


class ResultMemory:
    """The memory of a result, and its nodes: another result gets them after the last use.

    values: of the variables. buffers: the memory by BUFFER. nodes: the last is of the tensor.
    """

    def __init__(self, output: Output, values: Mapping[str, int]) -> None:
        self.values = values
        self.buffers: dict[RecordedBuffer, Buffer] = {}
        self.nodes = toposort([output.build(values, self.buffers)])
        # Nodes refer to their sources. Every other reference is a use.
        users = [user.src for user in self.nodes]
        self._own = [_IN_A_LIST + sum(src.count(node) for src in users) for node in self.nodes]

    def is_unused(self) -> bool:
        """Return True if no tensor, graph or capture refers to a node."""
        return [*map(sys.getrefcount, self.nodes)] == self._own


@dataclass(frozen=True)
class Output:
    """The description of one result tensor, from which each replay makes a new one."""

    device: Place
    # For each device the BUFFER (None for a constant), the type, the shape, a constant's value.
    parts: tuple[tuple[RecordedBuffer | None, DType, tuple[sint, ...], ConstType], ...]
    # How several parts make one tensor; None for one part.
    layout: ShardArg | None
    # Of the last two replays: a caller often holds a result until it has the next one.
    _made: list[ResultMemory] = field(default_factory=list, init=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Output, (self.device, self.parts, self.layout)

    @classmethod
    def of(cls, tensor: TensorCore, recorder: Recorder) -> Output:
        """Return the description of a computed result."""
        parts = []
        for node in parts_of(tensor.node):
            shape = tuple(unbound(size) for size in graph.shape_of(node))
            value = uniform_value(node)
            buffer = None
            if value is None and not is_empty(shape):
                (number,) = buffer_numbers(node)
                buffer = recorder.buffers[number]
            parts.append((buffer, node.dtype, shape, 0 if value is None else value))
        layout = layout_of(tensor.node) if tensor.node.op is Ops.MULTI else None
        return cls(tensor.device, tuple(parts), layout)

    def fresh(
        self, values: Mapping[str, int], exchanged: dict[RecordedBuffer, Buffer]
    ) -> TensorCore:
        """Return the tensor of the next replay, and add its memory to `exchanged`."""
        for made in self._made:
            if made.values == values and made.is_unused():
                break
        else:
            made = ResultMemory(self, values)
            self._made[:] = [*self._made[-1:], made]
        exchanged.update(made.buffers)
        return from_node(Tensor, made.nodes[-1], self.device)

    def build(self, values: Mapping[str, int], memory: dict[RecordedBuffer, Buffer]) -> UOp:
        """Return a node in new memory, which is added to `memory`."""
        nodes = []
        for buffer, dtype, shape, value in self.parts:
            sizes = tuple([s if type(s) is int else rebound(s, values) for s in shape])
            if buffer is None:
                nodes.append(graph.full(sizes, value, dtype))
                continue
            node, memory[buffer] = new_buffer_like(buffer.argument, dtype)
            nodes.append(graph.window(node, sizes))
            # Like any computed tensor, the node is memory and not a function's view of memory.
            leave_unnamed(nodes[-1])
        return nodes[0] if self.layout is None else join_parts(self.layout, nodes)
