"""Freed memory kept for reuse by size: an allocator around the one of a backend."""

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
    """What an allocator has done so far, and what it keeps now.

    allocations: asked of the inner allocator. reuses: given out of what was kept. frees: given
    back to the inner allocator. in_use: pieces given out and not freed yet.
    """

    allocations: int
    reuses: int
    frees: int
    in_use: int
    kept: int
    kept_bytes: int


class ReusingAllocator:
    """An allocator around `inner` that keeps freed memory and gives it out again for its size.

    `device` is the name that errors carry. At most `max_kept_bytes` are kept; what was freed first
    goes first. Where `inner` has no more memory, all that is kept is given back, `synchronize` is
    called, where there is one, and `inner` is asked once more. Nothing is waited for otherwise:
    calls of a device have the effect of coming one after the other, so that whoever gets memory
    comes after the launches that used it before.

    Threads may share it, and memory may be freed at any time, also while a call is under way. In a
    forked child what the parent keeps is neither given out nor freed. `inner` gives an object of
    its own for each piece, is never asked for 0 bytes, and must be thread-safe if threads share it.
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
        # By the identity of the handle, which is alive as long as it stands here.
        self._in_use: dict[int, tuple[int, Handle]] = {}
        self._set_aside: list[object] = []
        self._allocations = self._reuses = self._frees = 0
        self._start_empty()
        _allocators.add(self)

    def __getattr__(self, name: str) -> Any:
        """What `inner` offers beyond an `Allocator`."""
        if name == "inner":  # of an object that is not initialised yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    def allocate(self, nbytes: int) -> Handle:
        """Memory of `nbytes`, used before or new, with no defined content.

        Raises `DeviceError` where there is not so much, even with nothing kept.
        """
        size = max(nbytes, 1)
        with self._lock:
            handle = self._take(size)
            self._reuses += handle is not None
        if handle is None:
            handle = self._allocate_anew(size)
            with self._lock:
                self._allocations += 1
        if id(handle) in self._in_use:
            raise DeviceError(self.device, "allocate gave memory that is in use")
        self._in_use[id(handle)] = (size, handle)
        return handle

    def _allocate_anew(self, size: int) -> Handle:
        try:
            return self.inner.allocate(size)
        except (DeviceError, MemoryError):
            given_back = self.give_back()
            if self._synchronize is not None:
                # A device may free what the launches before still need when they are done.
                self._synchronize()
            elif not given_back:
                raise
        return self.inner.allocate(size)

    def free(self, handle: Handle) -> None:
        """Keeps the memory, or gives it back to `inner` where too much is kept.

        Raises `DeviceError` for what is not in use: it was freed before, or never allocated here.
        """
        found = self._in_use.pop(id(handle), None)
        if found is None:
            raise DeviceError(self.device, "free: got memory that is not in use")
        if found[0] > self.max_kept_bytes:
            self._frees += 1
            self.inner.free(handle)
            return
        self._freed.append(found)
        self._shrink(self.max_kept_bytes, wait=False)

    def give_back(self) -> int:
        """Gives all that is kept back to `inner`; how many pieces that were."""
        return self._shrink(0, wait=True)

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        return self.inner.view(handle, offset, nbytes)

    def copy_in(self, handle: Handle, source: memoryview) -> None:
        self.inner.copy_in(handle, source)

    def copy_out(self, destination: memoryview, handle: Handle) -> None:
        self.inner.copy_out(destination, handle)

    @property
    def statistics(self) -> ReuseStatistics:
        """Counts since the beginning, and what is kept now."""
        with self._lock:
            self._keep_freed()
            return ReuseStatistics(
                self._allocations,
                self._reuses,
                self._frees,
                in_use=len(self._in_use),
                kept=len(self._sizes),
                kept_bytes=self._kept_bytes,
            )

    def _start_empty(self) -> None:
        self._lock = threading.Lock()
        # What was freed and is not yet among the kept. The collector of objects may free memory in
        # the midst of a locked block, on the same thread: an append needs no lock.
        self._freed: deque[tuple[int, Handle]] = deque()
        # Kept pieces are numbered as they are freed: the sizes of all, and the handles by size.
        self._sizes: dict[int, int] = {}
        self._kept: dict[int, dict[int, Handle]] = {}
        self._next_number = 0
        self._kept_bytes = 0

    def forget_parent(self) -> None:
        """For a forked child: the lock may be held by nobody, what is kept is the parent's."""
        # Kept alive all the same: the end of a handle may free memory of the parent's device.
        self._set_aside += [self._freed, self._kept]
        self._start_empty()

    # With the lock held

    def _keep_freed(self) -> None:
        while self._freed:
            size, handle = self._freed.popleft()
            self._sizes[self._next_number] = size
            self._kept.setdefault(size, {})[self._next_number] = handle
            self._kept_bytes += size
            self._next_number += 1

    def _take(self, size: int) -> Handle | None:
        """The piece of that size that was freed last, or None."""
        self._keep_freed()
        alike = self._kept.get(size)
        return None if alike is None else self._remove(next(reversed(alike)))

    def _remove(self, number: int) -> Handle:
        size = self._sizes.pop(number)
        alike = self._kept[size]
        handle = alike.pop(number)
        if not alike:
            del self._kept[size]
        self._kept_bytes -= size
        return handle

    # Without it

    def _shrink(self, max_bytes: int, wait: bool) -> int:
        """Gives what was freed first back to `inner`, until no more than so many bytes are kept.

        Where the lock is taken and `wait` is False, that is left to the next call.
        """
        if not self._lock.acquire(blocking=wait):
            return 0
        try:
            self._keep_freed()
            surplus = []
            while self._kept_bytes > max_bytes:
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
