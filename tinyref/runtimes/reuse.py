"""Reuse of freed memory by size: an allocator around the allocator of a backend."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinyref.contract import Allocator, Handle
from tinyref.errors import DeviceError

DEFAULT_MAX_KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class ReuseStatistics:
    """Counts of an allocator since its start, and what it stores now.

    allocations: requests to the inner allocator.
    reuses: requests served from stored memory.
    frees: pieces returned to the inner allocator.
    in_use: pieces that are allocated and not freed yet.
    stored, stored_bytes: pieces stored for reuse, and their bytes.
    """

    allocations: int
    reuses: int
    frees: int
    in_use: int
    stored: int
    stored_bytes: int


class ReusingAllocator:
    """An allocator around `inner` that stores freed memory and reuses it for the same size.

    device: the name in errors.
    max_kept_bytes: the limit of stored memory; the piece that was freed first is returned first.
    synchronize: if `inner` is out of memory, all stored memory is returned to it, this is called,
    and `inner` is asked once more. Otherwise nothing waits. The calls of a device take effect in
    order, so a new owner of memory comes after the launches that used it before.

    Threads may share it, and memory may be freed at any time, also during a call. A forked child
    neither reuses nor frees the memory stored by its parent. `inner` must return a distinct object
    for each piece and be thread-safe if threads share it. It is never asked for 0 bytes.

    Examples:
        >>> from tinyref import Device
        >>> from tinyref.backend import ReusingAllocator
        >>> inner = Device["PYTHON"].allocator
        >>> memory = ReusingAllocator(inner, "MINE", 2**20, synchronize=lambda: None)
        >>> first = memory.allocate(64)
        >>> memory.free(first)
        >>> memory.allocate(64) is first
        True
    """

    def __init__(
        self,
        inner: Allocator,
        device: str,
        max_kept_bytes: int = DEFAULT_MAX_KEPT_BYTES,
        synchronize: Callable[[], None] | None = None,
    ) -> None:
        self.inner = inner
        self.device = device
        self.max_kept_bytes = max_kept_bytes
        self._synchronize = synchronize
        # The key is the identity of the handle, which is alive while it is stored here.
        self._in_use: dict[int, tuple[int, Handle]] = {}
        self._set_aside: list[object] = []
        self._allocations = self._reuses = self._frees = 0
        self._start_empty()
        _allocators.add(self)

    def __getattr__(self, name: str) -> Any:
        """Return what `inner` offers in addition to an `Allocator`."""
        if name == "inner":  # of an object that is not initialised yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    def allocate(self, nbytes: int) -> Handle:
        """Return memory of `nbytes`, reused or new, with undefined content.

        Raises `DeviceError` if there is not enough, even with nothing stored.
        """
        size = max(nbytes, 1)
        with self._lock:
            handle = self._take(size)
            self._reuses += handle is not None
        if handle is None:
            handle = self._allocate_new(size)
            with self._lock:
                self._allocations += 1
        if id(handle) in self._in_use:
            raise DeviceError(self.device, "allocate gave memory that is in use")
        self._in_use[id(handle)] = (size, handle)
        return handle

    def _allocate_new(self, size: int) -> Handle:
        try:
            return self.inner.allocate(size)
        except (DeviceError, MemoryError):
            returned = self.give_back()
            if self._synchronize is not None:
                # When earlier launches are done, a device may free memory that they needed.
                self._synchronize()
            elif not returned:
                raise
        return self.inner.allocate(size)

    def free(self, handle: Handle) -> None:
        """Store the memory, or return it to `inner` if too much is stored.

        Raises `DeviceError` for memory not in use: freed before, or not allocated here.
        """
        entry = self._in_use.pop(id(handle), None)
        if entry is None:
            raise DeviceError(self.device, "free: got memory that is not in use")
        if entry[0] > self.max_kept_bytes:
            self._frees += 1
            self.inner.free(handle)
            return
        self._freed.append(entry)
        self._shrink(self.max_kept_bytes, wait=False)

    def give_back(self) -> int:
        """Return all stored memory to `inner`; return the number of pieces."""
        return self._shrink(0, wait=True)

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        return self.inner.view(handle, offset, nbytes)

    def copy_in(self, handle: Handle, source: memoryview) -> None:
        self.inner.copy_in(handle, source)

    def copy_out(self, destination: memoryview, handle: Handle) -> None:
        self.inner.copy_out(destination, handle)

    @property
    def statistics(self) -> ReuseStatistics:
        """Return the counts since the start, and what is stored now."""
        with self._lock:
            self._keep_freed()
            return ReuseStatistics(
                self._allocations,
                self._reuses,
                self._frees,
                in_use=len(self._in_use),
                stored=len(self._sizes),
                stored_bytes=self._stored_bytes,
            )

    def _start_empty(self) -> None:
        self._lock = threading.Lock()
        # Freed memory that is not yet in `_stored`. The garbage collector may free memory inside a
        # locked block, on the same thread: an append needs no lock.
        self._freed: deque[tuple[int, Handle]] = deque()
        # Stored pieces are numbered as they are freed: the sizes of all, and the handles by size.
        self._sizes: dict[int, int] = {}
        self._stored: dict[int, dict[int, Handle]] = {}
        self._next_number = 0
        self._stored_bytes = 0

    def forget_parent(self) -> None:
        """Start again in a forked child: its lock may be held, and the memory is its parent's."""
        # The objects stay alive: destroying a handle may free memory of the parent's device.
        self._set_aside += [self._freed, self._stored]
        self._start_empty()

    # The lock must be held

    def _keep_freed(self) -> None:
        while self._freed:
            size, handle = self._freed.popleft()
            self._sizes[self._next_number] = size
            self._stored.setdefault(size, {})[self._next_number] = handle
            self._stored_bytes += size
            self._next_number += 1

    def _take(self, size: int) -> Handle | None:
        """Return the piece of that size that was freed last, or None."""
        self._keep_freed()
        alike = self._stored.get(size)
        return None if alike is None else self._remove(next(reversed(alike)))

    def _remove(self, number: int) -> Handle:
        size = self._sizes.pop(number)
        alike = self._stored[size]
        handle = alike.pop(number)
        if not alike:
            del self._stored[size]
        self._stored_bytes -= size
        return handle

    # The lock must not be held

    def _shrink(self, max_bytes: int, wait: bool) -> int:
        """Return the pieces freed first to `inner`, until at most `max_bytes` are stored.

        If the lock is taken and `wait` is False, the next call does that.
        """
        if not self._lock.acquire(blocking=wait):
            return 0
        try:
            self._keep_freed()
            surplus = []
            while self._stored_bytes > max_bytes:
                surplus.append(self._remove(next(iter(self._sizes))))
            self._frees += len(surplus)
        finally:
            self._lock.release()
        for handle in surplus:
            self.inner.free(handle)
        return len(surplus)


_allocators: weakref.WeakSet[ReusingAllocator] = weakref.WeakSet()


def _forget_parents() -> None:
    for allocator in _allocators:
        allocator.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
