"""The locks that all tensors share, and what a fork does with them.

A fork waits until no other thread computes or builds, so that the child finds every tensor whole:
it has the forking thread alone, which holds both locks there and gives them back.
"""

from __future__ import annotations

import os
import threading
import time
from weakref import WeakSet

from tinyref.errors import UserStateError

# Held while graphs are computed, and while a replay runs: what one thread computes changes the
# graphs of all others. Taken before `building`, never after it.
computing = threading.RLock()
# Held, for microseconds, while a node is built from those of tensors, until it is registered, and
# while computed nodes are put into the graphs of all tensors.
building = threading.RLock()


# The capture of a function may wait for other threads; after so many seconds in which it used no
# tensor, it is taken to wait for the thread that waits for it.
PATIENCE = 10.0


class TurnLock:
    """A reentrant lock that captures hold from the first use to their end.

    what: for messages, what a thread does that takes it.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.last_use = 0.0
        self._lock = threading.RLock()
        self._owners: list[int] = []
        _turn_locks.add(self)

    def renew(self) -> None:
        """For a forked child: a thread that held it is not there to release it."""
        if threading.get_ident() not in self._owners:
            self._lock = threading.RLock()
            self._owners = []

    def acquire(self) -> None:
        """Waits for other threads. Raises `UserStateError` where a capture waits for this one."""
        while not self._lock.acquire(timeout=PATIENCE / 10):
            if time.monotonic() - self.last_use > PATIENCE and _nobody_computes():
                raise UserStateError(
                    f"TinyJit: this thread {self.what}, and so does a function that another thread "
                    f"captures, which has used no tensor for {PATIENCE:g} s: a captured function "
                    f"may not wait for a thread that {self.what}: do that outside of it"
                )

        self._owners.append(threading.get_ident())

    def release(self) -> None:
        """Gives it to other threads."""
        self._owners.pop()
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()
        self.last_use = time.monotonic()

    def __exit__(self, *exc: object) -> None:
        self.release()


def _nobody_computes() -> bool:
    if not computing.acquire(blocking=False):
        return False
    computing.release()
    return True


_turn_locks: WeakSet[TurnLock] = WeakSet()


def _before_fork() -> None:
    computing.acquire()
    building.acquire()


def _after_fork() -> None:
    building.release()
    computing.release()


def _in_child() -> None:
    for lock in _turn_locks:
        lock.renew()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
