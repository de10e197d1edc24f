"""Threads that share a launch on the host: the caller, and helpers that wait between launches.

Kernels release Python's interpreter lock, so Python threads suffice: passing on a group takes a
microsecond, waking a helper some tens.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from tinyref import config
from tinyref.workers.machine import usable_cores

# For kernels' scratch memory: the C library's default for a thread may be only 128 KB.
STACK_BYTES = 8 * 2**20


def thread_count() -> int:
    """Return how many threads a launch may use: the flag THREADS, or for 0 the usable cores."""
    return config.integer("THREADS") or usable_cores()


def run_groups(call: Callable[[int], object], count: int) -> None:
    """Call `call` with 0 to `count` - 1, on up to `thread_count()` threads at a time.

    It returns when all calls are done. If one raises, or the caller is interrupted, no further
    group starts, the running ones are waited for, and the error is raised.
    """
    helpers = min(thread_count(), count) - 1
    if helpers < 1:
        for group in range(count):
            call(group)
        return
    launch = _SharedLaunch(call, count)
    _pool.give(launch, helpers)
    try:
        launch.work()
    finally:
        launch.wait_for_helpers()
    if launch.error is not None:
        raise launch.error


class _SharedLaunch:
    """The groups of one launch that have not started yet, and its helpers."""

    def __init__(self, call: Callable[[int], object], count: int) -> None:
        self._call = call
        self._left = iter(range(count))
        self._changed = threading.Condition()
        self._helpers = 0
        self._is_over = False
        self.error: BaseException | None = None

    def help(self) -> None:
        """Work on the remaining groups as a helper, unless the launch is over."""
        with self._changed:
            if self._is_over:
                return
            self._helpers += 1
        try:
            self.work()
        except BaseException as error:
            with self._changed:
                self.error = error
                self._is_over = True
        finally:
            with self._changed:
                self._helpers -= 1
                self._changed.notify_all()

    def work(self) -> None:
        """Run groups until none is left."""
        while (group := self._take()) is not None:
            self._call(group)

    def _take(self) -> int | None:
        with self._changed:
            return None if self._is_over else next(self._left, None)

    def wait_for_helpers(self) -> None:
        """End the launch. An interrupt waits too: helpers still use the caller's memory."""
        interrupt: BaseException | None = None
        while True:
            try:
                with self._changed:
                    self._is_over = True
                    self._changed.wait_for(lambda: self._helpers == 0)
                break
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


class _Pool:
    """Helper threads, started at first use, which do not keep the process alive."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Start again in a forked child, which has none of its parent's threads."""
        self._lock = threading.Lock()
        self._launches: SimpleQueue[_SharedLaunch] = SimpleQueue()
        self._threads = 0

    def give(self, launch: _SharedLaunch, helpers: int) -> None:
        """Ask `helpers` threads to work on `launch`; fewer if the host refuses threads."""
        if self._threads < helpers:
            with self._lock, contextlib.suppress(RuntimeError):
                while self._threads < helpers:
                    self._start()
        for _ in range(min(helpers, self._threads)):
            self._launches.put(launch)

    def _start(self) -> None:
        before = threading.stack_size(STACK_BYTES)
        try:
            name = f"tinyref-helper-{self._threads}"
            threading.Thread(target=_serve, args=(self._launches,), name=name, daemon=True).start()
        finally:
            threading.stack_size(before)
        self._threads += 1


def _serve(launches: SimpleQueue[_SharedLaunch]) -> None:
    while True:
        # Without a variable: it would keep the launch alive until the next one comes.
        launches.get().help()


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.renew)
