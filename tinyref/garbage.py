"""Pausing the collector of reference cycles while many objects are made that are in few cycles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Search for no reference cycles inside the block; reference counts still free memory.

    Use it for work that makes thousands of objects and few cycles, such as a compile. A search
    would visit all of them, and sometimes every object of the process, almost in vain.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
