"""Every value that a tensor or a record refers to, found by its state and by its memory.

Realising one value gives the others that share its graph the result as well. What is in memory
already shares no graph that could be computed, so only the others are looked at.

Here is also the lock that all tensors share. A fork waits until no other thread computes or builds,
so that the child finds every tensor whole: it has the forking thread alone, which holds the lock
there and gives it back.
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

# The function that a thread captures may wait for another thread, which waits for the capture.
# After this many seconds in which it used no tensor the other thread is refused.
PATIENCE = 10.0


class GraphLock:
    """The one lock of all tensors: reentrant, and held by a capture from its begin to its end.

    last_use: when the function that is captured last used a tensor.
    """

    def __init__(self) -> None:
        self.last_use = 0.0
        self._lock = threading.RLock()
        self._depth = 0
        # The depth at which a function is captured that computes nothing now; else 0.
        self._capture_depth = 0

    def acquire(self) -> None:
        """Wait for other threads. Raises `UserStateError` where a capture waits for this one."""
        if not self._lock.acquire(blocking=False):
            self._wait()
        self._depth += 1

    __enter__ = acquire

    def _wait(self) -> None:
        while not self._lock.acquire(timeout=PATIENCE / 10):
            is_idle = self._depth == self._capture_depth
            if is_idle and time.monotonic() - self.last_use > PATIENCE:
                raise UserStateError(
                    f"TinyJit: this thread waits for a function that another thread captures, "
                    f"which has used no tensor for {PATIENCE:g} s: a captured function may not "
                    f"wait for a thread that uses tensors: do that outside"
                )

    def release(self) -> None:
        """Let other threads go on."""
        self._depth -= 1
        if self._capture_depth:
            self.last_use = time.monotonic()
        self._lock.release()

    def __exit__(self, *exc: object) -> None:
        self.release()

    @contextlib.contextmanager
    def held_by_capture(self) -> Iterator[None]:
        """Hold it while a function is captured in the block."""
        with self:
            self.last_use, self._capture_depth = time.monotonic(), self._depth
            try:
                yield
            finally:
                self._capture_depth = 0


# It is held while a node is built from those of tensors, until it is registered: another thread may
# give them other nodes. It is held while graphs are computed, while a replay runs and while random
# numbers are drawn, as what one thread computes changes the graphs of all others.
graph_lock = GraphLock()


def _before_fork() -> None:
    # However long a capture takes: a fork that is refused here would go on without the lock.
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


# What shows memory without changing a bit; padding is computed.
_SHOWING = (MOVEMENT - {Ops.PAD}) | {Ops.BITCAST, Ops.DETACH}
# Below which memory is found, or what overwrites it.
_REACHING = MOVEMENT | {Ops.BITCAST, Ops.DETACH}


def is_computed(node: UOp) -> bool:
    """True for a view of memory, and for a constant, on each of its devices."""
    if node.op is Ops.MULTI:
        return all(is_computed(part) for part in node.src)
    return shown_node(node).op is Ops.BUFFER or shows_constant(node)


def shown_node(node: UOp) -> UOp:
    """The node below views that change no bit and pad nothing."""
    # Whether an uncertain view is inside its source is looked at when it is computed.
    while node.op in _SHOWING and is_certain(node):
        node = node.src[0]
    return node


def is_view(node: UOp) -> bool:
    """True for a view of memory, an uncertain one too: nothing of it is left to compute."""
    return all(_below(part, _SHOWING).op is Ops.BUFFER for part in parts_of(node))


def is_assigned(node: UOp) -> bool:
    """True where memory is overwritten once `node` is computed, which shows it."""
    return any(below_views(part).op is Ops.ASSIGN for part in parts_of(node))


def shown_buffers(node: UOp) -> tuple[UOp, ...]:
    """The BUFFERs whose elements `node` shows, on each of its devices, below all views."""
    bases = [_base_of(part) for part in parts_of(node)]
    return tuple([base for base in bases if isinstance(base.arg, BufferArg)])


def below_views(node: UOp) -> UOp:
    """The node whose elements `node` shows, perhaps in another order, cut or padded."""
    return _below(node, _REACHING)


def _below(node: UOp, ops: Collection[Ops]) -> UOp:
    """The first node that is none of `ops`, down the first sources."""
    while node.op in ops:
        node = node.src[0]
    return node


def _base_of(node: UOp) -> UOp:
    found = below_views(node)
    # Of which there may be thousands, one below the other.
    return assigned_buffer(found) if found.op is Ops.ASSIGN else found


def parts_of(node: UOp) -> tuple[UOp, ...]:
    """The parts of a tensor on several devices; of one on a single device the node itself."""
    return node.src if node.op is Ops.MULTI else (node,)


def shown_numbers(node: UOp) -> tuple[int, ...]:
    """The numbers of the BUFFERs whose elements `node` shows."""
    # Every replay asks, and every value that is entered.
    arguments = [_base_of(part).arg for part in parts_of(node)]
    return tuple([each.number for each in arguments if isinstance(each, BufferArg)])


class HasNode(Protocol):
    """A value, as the registry needs it."""

    node: UOp


V = TypeVar("V", bound=HasNode)


class _Entry(weakref.ref[V]):
    """A value that lives as long as someone holds it, and where the registry keeps it."""

    __slots__ = ("buffers", "identity")

    identity: int
    buffers: tuple[int, ...]

    def leave(self, entries: dict[int, _Entry[V]]) -> None:
        """Take this entry out of `entries`, unless another value has its identity by now."""
        if entries.get(self.identity) is self:
            entries.pop(self.identity, None)


class Registry(Generic[V]):
    """Values by identity; `pending` are not computed yet, `showing` those of one buffer.

    A buffer goes by its number, which does not keep it alive. pending_entered: how often a value
    was entered that is not computed yet; while that is the same, no other ones are pending, and
    none has another node.
    """

    def __init__(self) -> None:
        self._all: dict[int, _Entry[V]] = {}
        self._pending: dict[int, _Entry[V]] = {}
        self.pending_entered = 0
        self._by_buffer: dict[int, dict[int, _Entry[V]]] = {}
        # When what shows a buffer last changed, but for values that are gone.
        self._changed: dict[int, int] = {}
        self._moments = itertools.count()

    def add(self, value: V) -> None:
        """Enters a value, or enters it anew after its node has changed."""
        entry = _Entry(value, self._forget)
        entry.identity = id(value)
        entry.buffers = shown_numbers(value.node)
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
            self._add_shown(buffer, entry)

    def _add_shown(self, buffer: int, entry: _Entry[V]) -> None:
        while True:
            shown = self._by_buffer.setdefault(buffer, {})
            shown[entry.identity] = entry
            self._changed[buffer] = next(self._moments)
            # Another thread may have taken it away as empty.
            if self._by_buffer.get(buffer) is shown:
                return

    def _forget(self, entry: Any) -> None:
        """Forget a value that is gone; no global is used, as the interpreter may be at its end."""
        entry.leave(self._all)
        entry.leave(self._pending)
        for buffer in entry.buffers:
            shown = self._by_buffer.get(buffer)
            if shown is None:
                continue
            entry.leave(shown)
            if not shown:
                self._changed.pop(buffer, None)
                self._by_buffer.pop(buffer, None)
                for added in list(shown.values()):
                    self._add_shown(buffer, added)

    def pending(self) -> list[V]:
        """The live values that are not computed yet."""
        return _alive(self._pending)

    def computable(self) -> list[V]:
        """The pending values that can be computed: they need nothing that is lost."""
        found = self.pending()
        lost = lost_below([value.node for value in found])
        return [value for value in found if value.node not in lost]

    def showing(self, number: int) -> list[V]:
        """The live values that show BUFFER `number`, or what will be assigned to it."""
        return _alive(self._by_buffer.get(number, {}))

    @property
    def has_pending(self) -> bool:
        """Whether any value is not computed yet."""
        return bool(self._pending)

    def moments(self, numbers: Iterable[int]) -> dict[int, int | None]:
        """When what shows each of these BUFFERs last changed; None where nothing does.

        A value was entered then, or got other memory. That one is gone is no change.
        """
        return {number: self._changed.get(number) for number in numbers}

    def has_changed(self, moments: Mapping[int, int | None]) -> bool:
        """Whether any of the BUFFERs has another moment by now."""
        # Every replay asks this of all memory that it writes.
        return any(map(operator.ne, map(self._changed.get, moments), moments.values()))

    def count_showing(self, number: int) -> int:
        """How many values show BUFFER `number`: quicker than to list them."""
        return len(self._by_buffer.get(number, ()))


def _alive(entries: dict[int, _Entry[V]]) -> list[V]:
    found = [entry() for entry in list(entries.values())]
    return [value for value in found if value is not None]
