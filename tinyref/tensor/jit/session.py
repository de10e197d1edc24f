"""The tensors from outside that a captured function reads and writes.

A replay finds what a tensor holds by then in its memory, and nowhere else: a graph that is not
computed yet would be repeated as it was. So a tensor from outside gets memory when the function
first reads it, by kernels that are no part of the capture. What the function does not read stays
as it is.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from weakref import ref

from tinyref.algebra.symbolic import describe_shape
from tinyref.engine.capture import Recorder, recording
from tinyref.errors import UserError, UserStateError, VerifyError
from tinyref.lazy.buffers import assigned_buffer
from tinyref.lazy.folding import shows_constant
from tinyref.lazy.graph import backing
from tinyref.lazy.shape import is_empty, largest_size, shape_of
from tinyref.tensor.core import (
    TensorCore,
    Value,
    capturing,
    hold_tensors,
    peek_value,
    registry,
    storage_of,
    store_apart,
    value_of,
)
from tinyref.tensor.data import compute
from tinyref.tensor.registry import graph_lock, is_computed, is_view, parts_of, shown_numbers
from tinyref.tensor.views import Storage
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg

# A constant of more elements, 16 MiB of float32, gets no memory: it is part of the capture, and a
# replay is refused once the tensor holds other elements.
LARGEST_CONSTANT = 1 << 22


@dataclass(slots=True)
class Holder:
    """A tensor that showed memory in `value` as `node`, and the storage that its views share.

    is_read: the function reads it; else the function made it, and it was kept outside.
    """

    value: Value
    node: UOp
    tensor: ref[TensorCore]
    storage: Storage[TensorCore] | None
    is_read: bool

    @classmethod
    def of(cls, tensor: TensorCore, is_read: bool) -> Holder:
        """Return the holder of what `tensor` shows now."""
        return cls(value_of(tensor), tensor.node, ref(tensor), storage_of(tensor), is_read)

    def renewed(self) -> Holder | None:
        """Return a holder of the same elements for the tensors of now; None if there is none.

        If the tensor is gone, a view of the same elements stands for it.
        """
        tensor = self.tensor()
        if tensor is not None:
            return Holder.of(tensor, self.is_read) if shows_alike(self.node, tensor) else None
        numbers = set(shown_numbers(self.node))
        views = [] if self.storage is None else self.storage.tensors()
        alike = (view for view in views if numbers == set(shown_numbers(view.node)))
        return next((Holder.of(view, self.is_read) for view in alike), None)

    def describe(self) -> str:
        """Return type and shape."""
        return f"{self.node.dtype.name} tensor of shape {describe_shape(shape_of(self.node))}"


def shows_alike(before: UOp, tensor: TensorCore) -> bool:
    """Return True if `tensor` shows the same elements of the same memory, in the same order."""
    now = tensor.node
    if before is now:
        return True
    pairs = list(zip(parts_of(before), parts_of(now), strict=False))
    is_same = all(
        (memory := backing(old)) is not None and memory is backing(new) for old, new in pairs
    )
    return shape_of(before) == shape_of(now) and (is_same or is_empty(shape_of(now)))


class CaptureSession:
    """A function that is captured, in this thread: see `Session`.

    reads: tensors from outside, as they were when it read or wrote them first. changed: those that
    stand for another value since.
    """

    is_over = False

    def __init__(self) -> None:
        self.reads: list[Holder] = []
        self._read_values: set[Value] = set()
        self.changed: list[ref[TensorCore]] = []

    def read(self, value: Value) -> None:
        """Give a tensor from outside memory, unless it is in some.

        A graph that cannot be computed stays as it is, and so does a constant of more than
        `LARGEST_CONSTANT` elements. Raises `DeviceError` where computing fails.
        """
        graph_lock.last_use = time.monotonic()
        if value.session is self or value in self._read_values or is_empty(shape_of(value.node)):
            return
        if not _is_in_memory(value.node):
            with self._outside(), contextlib.suppress(UserError, VerifyError):
                compute([peek_value(TensorCore, value)])
                is_small = largest_size(shape_of(value.node)) <= LARGEST_CONSTANT
                if is_small and not _is_in_memory(value.node):
                    compute_copies([value])
        self._note(value)

    def _note(self, value: Value) -> None:
        tensor = value.tensor
        if tensor is not None and (is_computed(value.node) or is_view(value.node)):
            self._read_values.add(value)
            self.reads.append(Holder.of(tensor, is_read=True))

    def give_memory(self, value: Value) -> None:
        """Give a tensor from outside a whole buffer: the function is about to write it."""
        if not is_empty(shape_of(value.node)):
            with self._outside():
                compute_copies([value])
            self._note(value)

    def separate(self, values: Sequence[Value]) -> None:
        """Give values copies of their own: the function is about to write the memory they show.

        Raises `UserStateError` where it has read one from outside: what was captured of that reads
        the memory that is written.
        """
        if not self._read_values.isdisjoint(values):
            raise UserStateError(
                "TinyJit: the function assigns to a tensor and reads another one that is in the "
                "same memory, as after clone(): a replay would read what it has written: give one "
                "of them memory of its own before, as in x.assign(Tensor(x.numpy()))"
            )
        compute_copies([value for value in values if value.session is self])
        with self._outside():
            compute_copies([value for value in values if value.session is not self])

    def before_compute(self, roots: Sequence[UOp]) -> None:
        """Compute tensors from outside that read what `roots` overwrite.

        Otherwise their kernels would be part of the capture, and each replay would run them again.
        """
        nodes = [node for node in toposort(roots) if node.op is Ops.ASSIGN]
        numbers = {number for node in nodes for number in shown_numbers(assigned_buffer(node))}
        if numbers:
            with self._outside():
                keep_elements(
                    lambda: [v for v in readers_of(numbers) if v.session is not self], numbers
                )

    def before_change(self, tensor: TensorCore) -> None:
        """Note a tensor from outside that is about to stand for another value."""
        if value_of(tensor).session is not self:
            self.changed.append(ref(tensor))

    def end(self) -> None:
        """From now on what the function made is like any other tensor."""
        self.is_over = True
        # Values refer to their session, which would refer to them.
        self.reads.clear()
        self._read_values.clear()

    def left_over(self) -> list[TensorCore]:
        """Return the tensors that the function made, or assigned to, and did not compute."""
        mine = [value for value in registry.pending() if value.session is self]
        return [tensor for value in mine if (tensor := value.tensor) is not None]

    def check(self, recorder: Recorder) -> None:
        """Raise `UserError` where tensors from outside hold what no replay would give them."""
        for holder in self.reads:
            numbers = shown_numbers(holder.node)
            if numbers and recorder.buffers.keys().isdisjoint(numbers):
                continue
            if holder.renewed() is None:
                raise UserStateError(
                    f"TinyJit: a {holder.describe()} that the function reads was replaced in it: "
                    f"replays would read the old one; assign() to it in place, after "
                    f"x.replace(x.contiguous().realize()) where it shows a part of memory, or "
                    f"pass it in and return it"
                )
        written = {buffer.argument.number for buffer in recorder.written()}
        for held in self.changed:
            tensor = held()
            if tensor is None or is_empty(shape_of(tensor.node)):
                continue
            numbers = shown_numbers(tensor.node)
            if not numbers or not written.issuperset(numbers):
                raise UserStateError(
                    f"TinyJit: the function gives a {Holder.of(tensor, False).describe()} from "
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
        with graph_lock.held_by_capture():
            yield session
    finally:
        session.end()
        capturing.reset(token)


def keep_elements(find: Callable[[], list[Value]], numbers: Collection[int]) -> list[Value]:
    """Compute values that read the BUFFERs `numbers`, which are about to be written.

    Those that show them get copies. Return those whose tensor is gone, which stay as they are.
    That a graph has the elements of memory, as a choice between a tensor and itself, is seen only
    once it is computed.
    """
    tensors = hold_tensors(find)
    compute([tensor for tensor in tensors.values() if tensor is not None])
    living = [value for value, tensor in tensors.items() if tensor is not None]
    compute_copies([v for v in living if not set(shown_numbers(v.node)).isdisjoint(numbers)])
    return [value for value, tensor in tensors.items() if tensor is None]


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


def _is_in_memory(node: UOp) -> bool:
    # A view that may be outside for other numbers is checked by each kernel that reads it.
    return (is_computed(node) or is_view(node)) and not any(
        shows_constant(part) for part in parts_of(node) if not is_empty(shape_of(part))
    )
