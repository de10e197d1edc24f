"""The locks that all tensors share, and what a fork does with them.

A fork waits until no other thread computes or builds, so that the child finds every tensor whole:
it has the forking thread alone, which holds both locks there and gives them back.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from tinyref.errors import UserStateError

# The function that a thread captures may wait for another thread, which waits for the capture.
# After this many seconds in which it used no tensor the other thread is refused.
PATIENCE = 10.0


class ComputingLock:
    """The one lock for threads: reentrant, and held by a capture from its begin to its end.

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
                    f"wait for a thread that computes or draws random numbers: do that outside"
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


# Held while graphs are computed, while a replay runs and while random numbers are drawn: what one
# thread computes changes the graphs of all others. Taken before `building`, never after it.
computing = ComputingLock()
# Held, for microseconds, while a node is built from those of tensors, until it is registered, and
# while computed nodes are put into the graphs of all tensors.
building = threading.RLock()


def _before_fork() -> None:
    # However long a capture takes: a fork that is refused here would go on without the locks.
    while True:
        try:
            computing.acquire()
            break
        except UserStateError:
            continue
    building.acquire()


def _after_fork() -> None:
    building.release()
    computing.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
