"""The tensors from outside that a captured function reads and writes.

A replay reads the elements that a tensor has in memory at that time. It could only repeat a graph
that was not computed before the capture. So a tensor from outside is computed when the function
first reads it, by kernels that are not part of the capture. A tensor that the function does not
read is left alone.
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
    store_separately,
    value_of,
)
from tinyref.tensor.data import compute
from tinyref.tensor.registry import buffer_numbers, graph_lock, is_computed, is_view, parts_of
from tinyref.tensor.tensor import Tensor
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg


@dataclass(frozen=True, slots=True)
class Holder:
    """A tensor outside of the capture, and the node with which it viewed memory."""

    tensor: ref[TensorCore]
    node: UOp
    # False for a tensor that the function made and something outside still refers to.
    is_read: bool = True

    def renewed(self) -> Holder | None:
        """Return a holder of the current node; None if the tensor is gone or views other memory."""
        tensor = self.tensor()
        if tensor is None or not views_same_elements(self.node, tensor.node):
            return None
        return Holder(self.tensor, tensor.node, self.is_read)


def views_same_elements(before: UOp, now: UOp) -> bool:
    """Return True if two nodes view the same elements of the same memory, in the same order."""
    if before is now:
        return True
    is_same = buffers_behind(before) == buffers_behind(now) and is_backed(now)
    return shape_of(before) == shape_of(now) and (is_same or is_empty(shape_of(now)))


def describe_node(node: UOp) -> str:
    """Return the type and shape of a tensor in words."""
    return f"{node.dtype.name} tensor of shape {describe_shape(shape_of(node))}"


class CaptureSession:
    """The capture of a function in this thread: see `Session`."""

    is_over = False

    def __init__(self) -> None:
        self.recorder = Recorder()
        # Tensors from outside, as they were when the function first read or wrote them.
        self.reads: dict[Value, Holder] = {}
        # Tensors from outside that got another value during the capture.
        self.changed: list[ref[TensorCore]] = []

    def read(self, value: Value) -> None:
        """Compute a tensor from outside if it is not in memory yet. Raises if that fails."""
        if value not in self.reads and self._is_from_outside(value):
            self._give_memory(value)
            tensor = value.tensor
            if tensor is not None:
                self.reads[value] = Holder(ref(tensor), value.node)

    def write(self, tensor: Tensor, base: Tensor) -> None:
        """Move `base`, which the function is about to write, to memory that only its views use.

        So replays write the same memory as the capture. Raises `UserStateError` if the function
        has read another tensor in that memory: its captured kernels would read the new elements.
        """
        value = value_of(base)
        if self._is_from_outside(value):
            self._give_memory(value)
        others = sharing_memory(base)
        if not self.reads.keys().isdisjoint(others):
            raise UserStateError(
                "TinyJit: the function assigns to a tensor and reads another tensor in the same "
                "memory, as after clone(): a replay would read the new elements: give one of them "
                "memory of its own before, as in x.assign(Tensor(x.numpy()))"
            )
        compute_copies([other for other in others if other.session is self])
        with self._outside():
            compute_copies([other for other in others if other.session is not self])
            if self._is_from_outside(value) and not has_memory_alone(base):
                # The base repeats elements, or views only a part of its memory.
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
        """Compute tensors from outside that read memory that `roots` overwrite.

        Otherwise their kernels would be part of the capture, and each replay would run them again.
        """
        nodes = [node for node in toposort(roots) if node.op is Ops.ASSIGN]
        numbers = {number for node in nodes for number in buffer_numbers(assigned_buffer(node))}
        if numbers:
            with self._outside():
                readers = readers_of(numbers)
                preserve_elements([v for v in readers if v.session is not self], numbers)

    def before_change(self, tensor: TensorCore) -> None:
        """Record a tensor from outside that is about to get another value."""
        if value_of(tensor).session is not self:
            self.changed.append(ref(tensor))

    def left_over(self) -> list[TensorCore]:
        """Return the tensors that the function made or assigned to, but did not compute."""
        mine = [value for value in registry.pending() if value.session is self]
        return [tensor for value in mine if (tensor := value.tensor) is not None]

    def check(self) -> None:
        """Raise `UserError` if a tensor from outside got a value that no replay can give it."""
        used, written = self.recorder.buffers, self.recorder.written()
        for holder in self.reads.values():
            is_used = not used.keys().isdisjoint(buffer_numbers(holder.node))
            if is_used and holder.renewed() is None:
                raise UserStateError(
                    f"TinyJit: the function reads and replaces a {describe_node(holder.node)}: "
                    f"replays would read the old one: assign() to it in place (if it is a view of "
                    f"a part of memory, call x.replace(x.contiguous().realize()) before), "
                    f"or pass it in and return it"
                )
        for tensor in (tensor for held in self.changed if (tensor := held()) is not None):
            buffers = [used.get(number) for number in buffer_numbers(tensor.node)]
            is_written = bool(buffers) and written.issuperset(buffers)
            if not is_empty(shape_of(tensor.node)) and not is_written:
                raise UserStateError(
                    f"TinyJit: the function moves a {describe_node(tensor.node)} from outside "
                    f"to other memory, which no replay would do: assign() to it in place (within "
                    f"Tensor.no_grad() if it requires grad), or return the new tensor"
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
    """Capture a function in the block while other threads wait. `stand_ins` are its arguments."""
    session = CaptureSession()
    for tensor in stand_ins:
        value_of(tensor).session = session
    token = capturing.set(session)
    try:
        with graph_lock.held_by_capture(), recording(session.recorder):
            yield session
    finally:
        # From now on, tensors that the function made are like any other tensor.
        session.is_over = True
        capturing.reset(token)
        # Values refer to their session: break the reference cycle.
        session.reads.clear()


def preserve_elements(values: Sequence[Value], numbers: Collection[int]) -> None:
    """Compute values that read or view the BUFFERs `numbers`, before these are overwritten.

    Values that view them are copied. Only after it is computed is a graph known to be a view of
    memory: one example is a choice between a tensor and itself.
    """
    tensors = [tensor for value in values if (tensor := value.tensor) is not None]
    compute(tensors)
    living = list(map(value_of, tensors))
    compute_copies([v for v in living if not set(buffer_numbers(v.node)).isdisjoint(numbers)])
    for value in set(values).difference(living):
        # Only a gradient can still need the value, and is then refused.
        value.is_overwritten = True


def readers_of(numbers: Collection[int]) -> list[Value]:
    """Return the values whose graphs read the BUFFERs `numbers` and are not computed yet."""
    values = registry.computable()
    reached: set[UOp] = set()
    for node in toposort({value.node: None for value in values}):
        is_read = isinstance(node.arg, BufferArg) and node.arg.number in numbers
        if is_read or any(source in reached for source in node.src):
            reached.add(node)
    return [value for value in values if value.node in reached]


def compute_copies(values: Sequence[Value]) -> None:
    """Compute living values, each into memory of its own."""
    for value in values:
        store_separately(value)
    compute([tensor for value in values if (tensor := value.tensor) is not None])


def copied(tensor: TensorCore) -> TensorCore:
    """Return a tensor of the same elements in memory of its own."""
    copy = same_node(tensor)
    compute_copies([value_of(copy)])
    return copy


def buffers_behind(node: UOp) -> list[UOp]:
    """Return the BUFFER of each part of a computed tensor; none for a part without elements."""
    if node.op is not Ops.MULTI:
        buffer = backing(node)
        return [] if buffer is None else [buffer]
    return [buffer for part in node.src for buffer in buffers_behind(part)]


def is_backed(node: UOp) -> bool:
    """Return True if the elements are in memory, in order, on each device."""
    return len(buffers_behind(node)) == len(parts_of(node))


def _is_in_memory(node: UOp) -> bool:
    # For other values of a variable a view may leave its source: each kernel that reads it checks.
    return (is_computed(node) or is_view(node)) and not any(
        shows_constant(part) for part in parts_of(node) if not is_empty(shape_of(part))
    )
