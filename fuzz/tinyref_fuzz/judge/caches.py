"""The caches of tinyref, emptied where what was done before must not show."""

from __future__ import annotations

import functools
import sys

from tinyref.dtype import dtypes
from tinyref.interpret.interpreter import forget_translations
from tinyref.runtimes.kernel import forget_kernels
from tinyref.uops.node import forget_facts

# Types are equal where they are the same: one that is made again would be another one.
TYPES = dtypes.__module__
# What runtimes keep is of the machine: compilers that were probed, drivers, threads with stacks.
RUNTIMES = "tinyref.runtimes"
# Tables that follow from the sources alone, and fire no rule when they are made: the kernels that
# come with the fuzzer, what the reference says of each op, samples.
TABLES = (
    "tinyref_fuzz.generate.",
    "tinyref_fuzz.judge.oracles.reference",
    "tinyref_spec.",
    "tinyref.algebra.semantics",
    "tinyref.renderers.",
)


def forget() -> None:
    """Empties all caches of tinyref but those of `RUNTIMES`: its functions may be others now.

    Rewritten nodes keep their results while they live, and caches keep nodes alive.
    """
    forget_case(keeps=())
    forget_translations()


def forget_case(keeps: tuple[str, ...] = TABLES) -> None:
    """Empties what shows that another case was judged before: which rules fire, how often.

    `TABLES` stay: they cost more than a case. Nodes that they hold know nothing afterwards.
    """
    for cache in _caches(len(sys.modules)):
        if not cache.__module__.startswith(keeps):
            cache.cache_clear()
    forget_kernels()
    forget_facts()


@functools.lru_cache(maxsize=1)
def _caches(modules: int) -> tuple[functools._lru_cache_wrapper[object], ...]:
    """The caches of the modules that are imported by now, so many in all."""
    found = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith("tinyref"):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, functools._lru_cache_wrapper) and not _is_kept(value.__module__):
                found[id(value)] = value
    return tuple(found.values())


def _is_kept(module: str) -> bool:
    return module in (TYPES, __name__) or module.startswith(RUNTIMES)
