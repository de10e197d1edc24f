"""A registry of the values that tensors and records refer to, by state and by memory.

When one value is computed, all values that share its graph get the result. Only values that are not
computed yet can share such a graph, so only these are searched.

This file also has the lock of all tensors. A fork waits until no other thread computes or builds,
so that the child process finds every tensor in a consistent state. The child has only the forking
thread, which holds the lock there and releases it.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from tinyref.algebra.sizes import is_certain
from tinyref.errors import UserStateError
from tinyref.lazy.buffers import assigned_buffer, lost_below
from tinyref.lazy.folding import shows_constant
from tinyref.uops.node import UOp
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import BufferArg

# A captured function may wait for another thread, while that thread waits for the capture to end.
# The other thread gets an error if the function used no tensor for this many seconds.
PATIENCE = 10.0


class GraphLock:
    """The one lock of all tensors. It is reentrant, and a capture holds it from begin to end.

    last_use: the time when the captured function last used a tensor.
    """

    def __init__(self) -> None:
        self.last_use = 0.0
        self._lock = threading.RLock()
        self._depth = 0
        # The depth of the lock at the start of the current capture; 0 without one.
        self._capture_depth = 0

    def acquire(self) -> None:
        """Wait for other threads. Raises `UserStateError` if a capture waits for this thread."""
        if not self._lock.acquire(blocking=False):
            self._wait()
        self._depth += 1

    __enter__ = acquire

    def _wait(self) -> None:
        while not self._lock.acquire(timeout=PATIENCE / 10):
            is_idle = self._depth == self._capture_depth
            if is_idle and time.monotonic() - self.last_use > PATIENCE:
                raise UserStateError(
                    f"TinyJit: another thread captures a function that has used no tensor for "
                    f"{PATIENCE:g} s: a captured function must not wait for a thread that uses "
                    f"tensors: wait for it outside of the function"
                )

    def release(self) -> None:
        """Let other threads continue."""
        self._depth -= 1
        if self._capture_depth:
            self.last_use = time.monotonic()
        self._lock.release()

    def __exit__(self, *exc: object) -> None:
        self.release()

    @contextlib.contextmanager
    def held_by_capture(self) -> Iterator[None]:
        """Hold the lock while a function is captured in the block."""
        with self:
            self.last_use, self._capture_depth = time.monotonic(), self._depth
            try:
                yield
            finally:
                self._capture_depth = 0


# A thread holds it from building a node on tensors until the node is registered: another thread
# could replace the tensors' nodes. A thread also holds it while it computes graphs, runs a replay
# or draws random numbers. Computing in one thread changes the graphs of all others.
graph_lock = GraphLock()


def _before_fork() -> None:
    # Wait however long a capture takes: after an error here, a fork would go on without the lock.
    while True:
        try:
            graph_lock.acquire()
            return
        except UserStateError:
            continue


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=graph_lock.release,
        after_in_child=graph_lock.release,
    )


# Ops whose result is a view of memory. Not PAD: padding is computed.
_VIEWING = (MOVEMENT - {Ops.PAD}) | {Ops.BITCAST, Ops.DETACH}
# Ops to pass on the way down to memory, or to the ASSIGN that overwrites it.
_REACHING = MOVEMENT | {Ops.BITCAST, Ops.DETACH}


def is_computed(node: UOp) -> bool:
    """Return True for a view of memory and for a constant, on each of its devices."""
    if node.op is Ops.MULTI:
        return all(is_computed(part) for part in node.src)
    return viewed_node(node).op is Ops.BUFFER or shows_constant(node)


def viewed_node(node: UOp) -> UOp:
    """Return the node below views that change no bit and pad nothing."""
    # A symbolic view that may leave its source is checked when it is computed.
    while node.op in _VIEWING and is_certain(node):
        node = node.src[0]
    return node


def is_view(node: UOp) -> bool:
    """Return True for a view of memory, also for a symbolic one that may leave its source."""
    return all(_below(part, _VIEWING).op is Ops.BUFFER for part in parts_of(node))


def is_assigned(node: UOp) -> bool:
    """Return True if `node` is a view of memory that computing it overwrites."""
    return any(below_views(part).op is Ops.ASSIGN for part in parts_of(node))


def viewed_buffers(node: UOp) -> tuple[UOp, ...]:
    """Return the BUFFERs that `node` is a view of, on each of its devices."""
    bases = [_base_of(part) for part in parts_of(node)]
    return tuple([base for base in bases if isinstance(base.arg, BufferArg)])


def below_views(node: UOp) -> UOp:
    """Return the node below all views, also those that reorder, cut or pad elements."""
    return _below(node, _REACHING)


def _below(node: UOp, ops: Collection[Ops]) -> UOp:
    """Return the first node that is none of `ops`, following the first source of each node."""
    while node.op in ops:
        node = node.src[0]
    return node


def _base_of(node: UOp) -> UOp:
    base = below_views(node)
    # There may be thousands of ASSIGNs, one below the other.
    return assigned_buffer(base) if base.op is Ops.ASSIGN else base


def parts_of(node: UOp) -> tuple[UOp, ...]:
    """Return the part on each device; on a single device, the node itself."""
    return node.src if node.op is Ops.MULTI else (node,)


def buffer_numbers(node: UOp) -> tuple[int, ...]:
    """Return the numbers of the BUFFERs that `node` is a view of."""
    # This must be fast: every replay calls it, and `Registry.add` for every value.
    if node.op is Ops.MULTI:
        return sum(map(buffer_numbers, node.src), ())
    argument = _base_of(node).arg
    return (argument.number,) if isinstance(argument, BufferArg) else ()


class HasNode(Protocol):
    """The interface of a value for the registry."""

    node: UOp


V = TypeVar("V", bound=HasNode)


class _Entry(weakref.ref[V]):
    """A weak reference to a value, with the keys under which the registry has it."""

    __slots__ = ("buffers", "identity")

    identity: int
    buffers: tuple[int, ...]

    def leave(self, entries: dict[int, _Entry[V]]) -> None:
        """Remove this entry from `entries`, unless another value has its identity by now."""
        if entries.get(self.identity) is self:
            entries.pop(self.identity, None)


class Registry(Generic[V]):
    """The live values by identity, by state (`pending`) and by the BUFFER that they view.

    The key of a BUFFER is its number, which does not keep it alive.
    pending_entered: the number of times that a value not computed yet was added. While it stays the
    same, no other values are pending and none has another node.
    """

    def __init__(self) -> None:
        self._all: dict[int, _Entry[V]] = {}
        self._pending: dict[int, _Entry[V]] = {}
        self.pending_entered = 0
        self._by_buffer: dict[int, dict[int, _Entry[V]]] = {}
        # The moment at which the views of a BUFFER last changed. A deleted value is no change.
        self._changed: dict[int, int] = {}
        self._moments = itertools.count()

    def add(self, value: V) -> None:
        """Add a value, or update its entry after its node has changed."""
        entry = _Entry(value, self._forget)
        entry.identity = id(value)
        entry.buffers = buffer_numbers(value.node)
        before = self._all.get(entry.identity)
        if before is not None:
            self._forget(before)
            for buffer in before.buffers:
                if buffer in self._changed:
                    self._changed[buffer] = next(self._moments)
        self._all[entry.identity] = entry
        if not is_computed(value.node):
            self._pending[entry.identity] = entry
            self.pending_entered += 1
        for buffer in entry.buffers:
            self._add_view(buffer, entry)

    def _add_view(self, buffer: int, entry: _Entry[V]) -> None:
        while True:
            views = self._by_buffer.setdefault(buffer, {})
            views[entry.identity] = entry
            self._changed[buffer] = next(self._moments)
            # Another thread may have removed the dict while it was empty.
            if self._by_buffer.get(buffer) is views:
                return

    def _forget(self, entry: Any) -> None:
        """Remove a deleted value. Uses no global: the interpreter may be shutting down."""
        entry.leave(self._all)
        entry.leave(self._pending)
        for buffer in entry.buffers:
            views = self._by_buffer.get(buffer)
            if views is None:
                continue
            entry.leave(views)
            if not views:
                self._changed.pop(buffer, None)
                self._by_buffer.pop(buffer, None)
                for added in list(views.values()):
                    self._add_view(buffer, added)

    def pending(self) -> list[V]:
        """Return the live values that are not computed yet."""
        return _alive(self._pending)

    def computable(self) -> list[V]:
        """Return the pending values that do not need lost memory."""
        pending = self.pending()
        lost = lost_below([value.node for value in pending])
        return [value for value in pending if value.node not in lost]

    def views_of(self, number: int) -> list[V]:
        """Return the live values that view BUFFER `number`, also after a pending assignment."""
        return _alive(self._by_buffer.get(number, {}))

    @property
    def has_pending(self) -> bool:
        """Return True if any value is not computed yet."""
        return bool(self._pending)

    def moments(self, numbers: Iterable[int]) -> dict[int, int | None]:
        """Return the moment at which the views of each BUFFER last changed; None without views.

        A change is a value that was added or got other memory, not a value that was deleted.
        """
        return {number: self._changed.get(number) for number in numbers}

    def has_changed(self, moments: Mapping[int, int | None]) -> bool:
        """Return True if the views of any of the BUFFERs changed since these moments."""
        # This must be fast: every replay calls it for all memory that it writes.
        return any(map(operator.ne, map(self._changed.get, moments), moments.values()))

    def count_views_of(self, number: int) -> int:
        """Return the number of values that view a BUFFER, without listing them."""
        return len(self._by_buffer.get(number, ()))


def _alive(entries: dict[int, _Entry[V]]) -> list[V]:
    values = [entry() for entry in list(entries.values())]
    return [value for value in values if value is not None]
