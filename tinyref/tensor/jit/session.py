"""The tensors from outside that a captured function reads and writes.

A replay finds what a tensor holds by then in its memory, and nowhere else: a graph that is not
computed yet would be repeated as it was. So a tensor from outside gets memory when the function
first reads it, by kernels that are no part of the capture. What the function does not read stays
as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from weakref import ref

from tinyref.algebra.symbolic import describe_shape
from tinyref.engine.capture import Recorder, recording
from tinyref.errors import UserStateError
from tinyref.lazy.buffers import assigned_buffer
from tinyref.lazy.folding import shows_constant
from tinyref.lazy.graph import backing
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.tensor.assignment import has_memory_alone, refresh_views, sharing_memory
from tinyref.tensor.core import (
    TensorCore,
    Value,
    capturing,
    peek_value,
    registry,
    same_node,
    store_apart,
    value_of,
)
from tinyref.tensor.data import compute
from tinyref.tensor.registry import graph_lock, is_computed, is_view, parts_of, shown_numbers
from tinyref.tensor.tensor import Tensor
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg


@dataclass(frozen=True, slots=True)
class Holder:
    """A tensor that showed memory as `node`.

    is_read: the function reads it; else the function made it, and it was kept outside.
    """

    tensor: ref[TensorCore]
    node: UOp
    is_read: bool = True

    def renewed(self) -> Holder | None:
        """Return a holder of the node of now; None where the tensor is gone or shows others."""
        tensor = self.tensor()
        if tensor is None or not shows_alike(self.node, tensor.node):
            return None
        return Holder(self.tensor, tensor.node, self.is_read)


def shows_alike(before: UOp, now: UOp) -> bool:
    """Return True if two nodes show the same elements of the same memory, in the same order."""
    if before is now:
        return True
    is_same = buffers_behind(before) == buffers_behind(now) and is_backed(now)
    return shape_of(before) == shape_of(now) and (is_same or is_empty(shape_of(now)))


def describe_shown(node: UOp) -> str:
    """Return the type and the shape of a tensor."""
    return f"{node.dtype.name} tensor of shape {describe_shape(shape_of(node))}"


class CaptureSession:
    """A function that is captured, in this thread: see `Session`.

    reads: tensors from outside, as they were when it read or wrote them first. changed: those that
    stand for another value since.
    """

    is_over = False

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.reads: dict[Value, Holder] = {}
        self.changed: list[ref[TensorCore]] = []

    def read(self, value: Value) -> None:
        """Give a tensor from outside memory, unless it is in some. Raises where that fails."""
        if value not in self.reads and self._is_from_outside(value):
            self._give_memory(value)
            tensor = value.tensor
            if tensor is not None:
                self.reads[value] = Holder(ref(tensor), value.node)

    def write(self, tensor: Tensor, base: Tensor) -> None:
        """Give a base that the function is about to write memory that only its views show.

        So replays write where the capture does. Raises `UserStateError` where the function has read
        another tensor in that memory: what was captured of that reads what is written.
        """
        value = value_of(base)
        if self._is_from_outside(value):
            self._give_memory(value)
        others = sharing_memory(base)
        if not self.reads.keys().isdisjoint(others):
            raise UserStateError(
                "TinyJit: the function assigns to a tensor and reads another one that is in the "
                "same memory, as after clone(): a replay would read what it has written: give one "
                "of them memory of its own before, as in x.assign(Tensor(x.numpy()))"
            )
        compute_copies([other for other in others if other.session is self])
        with self._outside():
            compute_copies([other for other in others if other.session is not self])
            if self._is_from_outside(value) and not has_memory_alone(base):
                # It shows an element at several places, or a part of what nobody else shows.
                compute_copies([value])
                refresh_views(base, value.requires_grad)
        self.read(value_of(tensor))

    def _is_from_outside(self, value: Value) -> bool:
        return value.session is not self and not is_empty(shape_of(value.node))

    def _give_memory(self, value: Value) -> None:
        if not _is_in_memory(value.node):
            with self._outside():
                compute([peek_value(TensorCore, value)])
                if not _is_in_memory(value.node):
                    compute_copies([value])

    def before_compute(self, roots: Sequence[UOp]) -> None:
        """Compute tensors from outside that read what `roots` overwrite.

        Otherwise their kernels would be part of the capture, and each replay would run them again.
        """
        nodes = [node for node in toposort(roots) if node.op is Ops.ASSIGN]
        numbers = {number for node in nodes for number in shown_numbers(assigned_buffer(node))}
        if numbers:
            with self._outside():
                readers = readers_of(numbers)
                keep_elements([v for v in readers if v.session is not self], numbers)

    def before_change(self, tensor: TensorCore) -> None:
        """Note a tensor from outside that is about to stand for another value."""
        if value_of(tensor).session is not self:
            self.changed.append(ref(tensor))

    def left_over(self) -> list[TensorCore]:
        """Return the tensors that the function made, or assigned to, and did not compute."""
        mine = [value for value in registry.pending() if value.session is self]
        return [tensor for value in mine if (tensor := value.tensor) is not None]

    def check(self) -> None:
        """Raise `UserError` where tensors from outside hold what no replay would give them."""
        used, written = self.recorder.buffers, self.recorder.written()
        for holder in self.reads.values():
            is_used = not used.keys().isdisjoint(shown_numbers(holder.node))
            if is_used and holder.renewed() is None:
                raise UserStateError(
                    f"TinyJit: a {describe_shown(holder.node)} that the function reads was "
                    f"replaced in it: replays would read the old one; assign() to it in place, "
                    f"after x.replace(x.contiguous().realize()) where it shows a part of memory, "
                    f"or pass it in and return it"
                )
        for tensor in (tensor for held in self.changed if (tensor := held()) is not None):
            shown = [used.get(number) for number in shown_numbers(tensor.node)]
            if not is_empty(shape_of(tensor.node)) and not (shown and written.issuperset(shown)):
                raise UserStateError(
                    f"TinyJit: the function gives a {describe_shown(tensor.node)} from "
                    f"outside other memory, which no replay would do: assign() to it in place, "
                    f"within Tensor.no_grad() where it requires grad, or return what it is to hold"
                )

    @contextlib.contextmanager
    def _outside(self) -> Iterator[None]:
        token = capturing.set(None)
        try:
            with recording(None):
                yield
        finally:
            capturing.reset(token)


@contextlib.contextmanager
def capture_session(stand_ins: Sequence[TensorCore]) -> Iterator[CaptureSession]:
    """Capture a function within the block; `stand_ins` are its arguments. Other threads wait."""
    session = CaptureSession()
    for tensor in stand_ins:
        value_of(tensor).session = session
    token = capturing.set(session)
    try:
        with graph_lock.held_by_capture(), recording(session.recorder):
            yield session
    finally:
        # From now on what the function made is like any other tensor.
        session.is_over = True
        capturing.reset(token)
        # Values refer to their session, which would refer to them.
        session.reads.clear()


def keep_elements(values: Sequence[Value], numbers: Collection[int]) -> None:
    """Compute values that read or show the BUFFERs `numbers`, which are about to be written.

    Those that show them get copies. That a graph has the elements of memory, as a choice between a
    tensor and itself, is seen only once it is computed.
    """
    tensors = [tensor for value in values if (tensor := value.tensor) is not None]
    compute(tensors)
    living = list(map(value_of, tensors))
    compute_copies([v for v in living if not set(shown_numbers(v.node)).isdisjoint(numbers)])
    for value in set(values).difference(living):
        # Only gradients may want it, and they are refused then.
        value.is_overwritten = True


def readers_of(numbers: Collection[int]) -> list[Value]:
    """Return the values whose graphs are not computed yet and read the BUFFERs `numbers`."""
    values = registry.computable()
    reached: set[UOp] = set()
    for node in toposort({value.node: None for value in values}):
        is_read = isinstance(node.arg, BufferArg) and node.arg.number in numbers
        if is_read or any(source in reached for source in node.src):
            reached.add(node)
    return [value for value in values if value.node in reached]


def compute_copies(values: Sequence[Value]) -> None:
    """Give values, which live, memory of their own."""
    for value in values:
        store_apart(value)
    compute([tensor for value in values if (tensor := value.tensor) is not None])


def copied(tensor: TensorCore) -> TensorCore:
    """Return a tensor of the same elements in memory of its own."""
    copy = same_node(tensor)
    compute_copies([value_of(copy)])
    return copy


def buffers_behind(node: UOp) -> list[UOp]:
    """Return the BUFFERs behind a computed tensor, one a part; none for what has no elements."""
    if node.op is not Ops.MULTI:
        buffer = backing(node)
        return [] if buffer is None else [buffer]
    return [buffer for part in node.src for buffer in buffers_behind(part)]


def is_backed(node: UOp) -> bool:
    """Return True if the elements are in memory, in order, on each device."""
    return len(buffers_behind(node)) == len(parts_of(node))


def _is_in_memory(node: UOp) -> bool:
    # A view that may be outside for other numbers is checked by each kernel that reads it.
    return (is_computed(node) or is_view(node)) and not any(
        shows_constant(part) for part in parts_of(node) if not is_empty(shape_of(part))
    )
