"""What a capture must know of the tensors that its function uses, found while the function runs.

A replay finds what a tensor holds by then in its memory, and nowhere else: a graph that is not
computed yet, or a constant, would be repeated as it was. So a tensor from outside gets memory when
the function first reads it, by kernels that are no part of the capture. What the function does not
read stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from weakref import WeakSet, ref

from tinyref.algebra.symbolic import describe_shape
from tinyref.engine.capture import not_recording
from tinyref.errors import UserError, UserStateError, VerifyError
from tinyref.lazy.buffers import assigned_buffer
from tinyref.lazy.folding import shows_constant
from tinyref.lazy.multi import build
from tinyref.lazy.shape import is_empty, largest_size, shape_of
from tinyref.tensor.core import (
    TensorCore,
    Value,
    capturing,
    hold_tensors,
    peek_value,
    registry,
    steps_of,
    store_apart,
    whole_tensors,
)
from tinyref.tensor.data import compute
from tinyref.tensor.registry import (
    TurnLock,
    graph_lock,
    is_computed,
    is_view,
    parts_of,
    shown_numbers,
)
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops

# A constant of more elements is part of a capture: that much memory is not taken unasked.
LARGEST_CONSTANT = 1 << 22


class CaptureSession:
    """The tensors that a function meets while it is captured.

    before: the BUFFERs that tensors from outside showed when they were read, with descriptions.
    left: those that a tensor showed which was then given memory of its own, to be assigned to.
    constants: tensors that were constants too large for memory, and the nodes of these, which are
    part of the capture. changed: tensors from outside that stand for another value since.
    is_over: the function has returned, and all that it computes has run. locks: held until then,
    and by each replay.
    """

    def __init__(self) -> None:
        self.before: dict[int, str] = {}
        self.left: set[int] = set()
        self.constants: list[tuple[ref[TensorCore], UOp]] = []
        self.changed: list[ref[TensorCore]] = []
        self.is_over = False
        self.thread = threading.get_ident()
        self._is_disturbed = False
        self.locks: list[TurnLock] = []
        self._read: WeakSet[Value] = WeakSet()
        # The tensors that showed each BUFFER when they were read.
        self._readers: dict[int, list[ref[TensorCore]]] = {}
        _sessions.add(self)

    def read(self, value: Value) -> None:
        """Gives a tensor from outside memory of its own, unless it is in some.

        A tensor whose graph cannot be computed, and a constant above `LARGEST_CONSTANT` elements,
        stays as it is. Raises `DeviceError` where computing it fails.
        """
        for lock in self.locks:
            lock.last_use = time.monotonic()
        if value.session is self or is_empty(shape_of(value.node)):
            return
        if not _is_in_memory(value.node):
            self._compute_whole(value)
        if not _is_in_memory(value.node) and not self._compute(value):
            return
        self._read.add(value)
        if value.tensor is not None:
            for number in shown_numbers(value.node):
                self.before.setdefault(number, description_of(value.tensor))
                self._readers.setdefault(number, []).append(ref(value.tensor))

    def _compute(self, value: Value) -> bool:
        """Whether a tensor from outside is no constant that is too large for memory, or has some.

        Raises `DeviceError`.
        """
        with self._outside(), contextlib.suppress(UserError, VerifyError):
            if not is_computed(value.node):
                compute([peek_value(TensorCore, value)])
            # That a graph is a constant is seen of some only when they are computed.
            if is_computed(value.node) and not _is_in_memory(value.node):
                if largest_size(shape_of(value.node)) > LARGEST_CONSTANT:
                    if value.tensor is not None:
                        self.constants.append((ref(value.tensor), value.node))
                    return False
                store_apart(value)
                compute([peek_value(TensorCore, value)])
        return True

    def _compute_whole(self, value: Value) -> None:
        """Computes what `value` is a view of: by itself it would be in memory of its own.

        What is assigned to it is written where it is a view, and a replay would not read that.
        """
        tensor = value.tensor
        if tensor is None or not steps_of(tensor):
            return
        whole = next(iter(whole_tensors(tensor)), None)
        if whole is None:
            return
        self.read(whole._value)
        if _is_in_memory(whole._node):
            with graph_lock:
                node = whole._node
                for step in steps_of(tensor):
                    node = build(step.op, step.arg, step.result, (node,))
                value.node = node
                registry.add(value)

    def has_read(self, value: Value) -> bool:
        """Whether the function reads this value from outside."""
        return value in self._read

    def has_left(self, number: int) -> bool:
        """Whether a tensor that showed a BUFFER when it was read shows it no more."""
        tensors = (reader() for reader in self._readers.get(number, ()))
        return any(
            tensor is not None and number not in shown_numbers(tensor._node) for tensor in tensors
        )

    def separate(self, values: Sequence[Value]) -> None:
        """Gives values copies of their own: the function is about to write the memory they show.

        Raises `UserStateError` where it has read one from outside: what was captured of that reads
        the memory that is written.
        """
        own = [value for value in values if value.session is self]
        others = [value for value in values if value.session is not self]
        if any(value in self._read for value in others):
            raise UserStateError(
                "TinyJit: the function assigns to a tensor and reads another one that is in the "
                "same memory, as after clone(): a replay would read what it has written: give one "
                "of them memory of its own before, as in x.assign(Tensor(x.numpy()))"
            )
        compute_copies(own)
        with self._outside():
            compute_copies(others)

    def give_memory(self, value: Value) -> None:
        """A whole buffer for a tensor from outside that the function is about to write."""
        if is_empty(shape_of(value.node)):
            return
        self.left.update(shown_numbers(value.node))
        with self._outside():
            compute_copies([value])
        self.read(value)

    def before_compute(self, roots: Sequence[UOp]) -> None:
        """Computes tensors from outside that read what `roots` overwrite.

        Else their kernels would be part of the capture, and each replay would run them again.
        """
        self.check()
        nodes = toposort(roots)
        assigned = {assigned_buffer(node) for node in nodes if node.op is Ops.ASSIGN}
        if not assigned:
            return
        pending = hold_tensors(registry.computable)
        others = [value for value in pending if value.session is not self]
        read = reaching(others, assigned.__contains__)
        numbers = {number for node in assigned for number in shown_numbers(node)}
        with self._outside():
            compute_before_write(read, numbers)

    def before_change(self, tensor: TensorCore) -> None:
        """A tensor is about to stand for another value: one from outside is noted."""
        if tensor._value.session is not self:
            self.changed.append(ref(tensor))

    def hold(self, lock: TurnLock) -> None:
        """Other threads wait for `lock` until the function is captured."""
        if lock not in self.locks and threading.get_ident() == self.thread:
            lock.acquire()
            self.locks.append(lock)

    def end(self) -> None:
        """What the function made is like any other tensor from now on."""
        self.is_over = True
        for lock in self.locks:
            lock.release()

    def disturb(self) -> None:
        """Another thread computed an assignment of the function: the capture does not have it."""
        self._is_disturbed = True

    def check(self) -> None:
        """Raises `UserError` where another thread took part in what is captured."""
        if self._is_disturbed:
            raise UserStateError(
                "TinyJit: another thread computed what the function assigns to while it was "
                "captured: call it while no other thread uses these tensors"
            )

    def left_over(self) -> list[TensorCore]:
        """The tensors that the function made, or assigned to, and did not compute."""
        mine = [value for value in registry.pending() if value.session is self]
        return [tensor for value in mine if (tensor := value.tensor) is not None]

    @contextlib.contextmanager
    def _outside(self) -> Iterator[None]:
        token = capturing.set(None)
        try:
            with not_recording():
                yield
        finally:
            capturing.reset(token)


_sessions: WeakSet[CaptureSession] = WeakSet()


def _in_child() -> None:
    """Of a forked child: captures by other threads will never end there."""
    for found in _sessions:
        if found.thread != threading.get_ident():
            found.is_over = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@contextlib.contextmanager
def capture_session(stand_ins: Sequence[TensorCore]) -> Iterator[CaptureSession]:
    """A function is captured within the block, in this thread; `stand_ins` are its arguments."""
    found = CaptureSession()
    for tensor in stand_ins:
        tensor._value.session = found
    token = capturing.set(found)
    try:
        yield found
    finally:
        found.end()
        capturing.reset(token)


def description_of(tensor: TensorCore) -> str:
    """Type and shape, for messages."""
    return f"{tensor.dtype.name} tensor of shape {describe_shape(tensor.shape)}"


def compute_before_write(values: Sequence[Value], numbers: Collection[int]) -> None:
    """Computes what reads BUFFERs that are about to be written.

    Of some, as of a choice between a tensor and itself, it is seen only then that they have the
    elements of one, and they are in its memory: these get copies of their own.
    """

    def shows(value: Value) -> bool:
        return any(number in numbers for number in shown_numbers(value.node))

    others = [value for value in values if not shows(value)]
    compute([tensor for value in values if (tensor := value.tensor) is not None])
    compute_copies([value for value in others if shows(value)])


def compute_copies(values: Sequence[Value]) -> None:
    """Gives values, which live, memory of their own."""
    for value in values:
        store_apart(value)
    compute([tensor for value in values if (tensor := value.tensor) is not None])


def _is_in_memory(node: UOp) -> bool:
    # A view that may be outside for other numbers is checked by each kernel that reads it.
    return (is_computed(node) or is_view(node)) and not any(
        shows_constant(part) for part in parts_of(node) if not is_empty(shape_of(part))
    )


def reaching(values: Sequence[Value], is_wanted: Callable[[UOp], bool]) -> list[Value]:
    """Those of `values` whose graph holds a wanted node."""
    reached: set[UOp] = set()
    for node in toposort({value.node: None for value in values}):
        if is_wanted(node) or any(source in reached for source in node.src):
            reached.add(node)
    return [value for value in values if value.node in reached]
