"""The locks that all tensors share, and what a fork does with them.

A fork waits until no other thread computes or builds, so that the child finds every tensor whole:
it has the forking thread alone, which holds both locks there and gives them back.
"""

from __future__ import annotations

import os
import threading

# Held while graphs are computed, and while a replay runs: what one thread computes changes the
# graphs of all others. Taken before `building`, never after it.
computing = threading.RLock()
# Held, for microseconds, while a node is built from those of tensors, until it is registered, and
# while computed nodes are put into the graphs of all tensors.
building = threading.RLock()


def _before_fork() -> None:
    computing.acquire()
    building.acquire()


def _after_fork() -> None:
    building.release()
    computing.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
