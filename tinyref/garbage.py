"""The collector of reference cycles, put off while many objects are made that are in hardly any."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """In the block nothing is searched for reference cycles; counts of references still free.

    For work that makes thousands of objects and few cycles, such as a compile: each search would
    look at all of them, and now and then at everything that the process has, almost in vain.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
