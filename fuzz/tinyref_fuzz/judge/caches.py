"""The caches of tinyref, emptied where what was done before must not show."""

from __future__ import annotations

import functools
import sys

from tinyref.dtype import dtypes

# Types are equal where they are the same: one that is made again would be another one.
TYPES = dtypes.__module__
# What runtimes keep is of the machine: compilers that were probed, drivers, threads with stacks.
RUNTIMES = "tinyref.runtimes"


def forget() -> None:
    """Empties the caches of tinyref, so that what fires next does not depend on what ran before.

    Rewritten nodes keep their results while they live, and caches keep nodes alive.
    """
    for name, module in list(sys.modules.items()):
        if not name.startswith("tinyref"):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, functools._lru_cache_wrapper) and not _is_kept(value.__module__):
                value.cache_clear()


def _is_kept(module: str) -> bool:
    return module == TYPES or module.startswith(RUNTIMES)
