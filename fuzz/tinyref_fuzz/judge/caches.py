"""Empty tinyref's caches where earlier work must not influence later work."""

from __future__ import annotations

import functools
import sys

from tinyref.dtype import dtypes
from tinyref.interpret.interpreter import forget_translations
from tinyref.runtimes.kernel import forget_kernels
from tinyref.uops.node import forget_facts

# Types are compared by identity, so a type must not be created again.
TYPES = dtypes.__module__
# Caches of runtimes are about the machine: probed compilers, drivers, threads with stacks.
RUNTIMES = "tinyref.runtimes"
# Tables that depend on the sources only, and fire no rule when they are built: the kernels that
# come with the fuzzer, the reference's checks of each op, samples.
TABLES = (
    "tinyref_fuzz.generate.",
    "tinyref_fuzz.judge.oracles.reference",
    "tinyref_spec.",
    "tinyref.algebra.semantics",
    "tinyref.renderers.",
)


def forget_all() -> None:
    """Empty all caches of tinyref except those of `RUNTIMES`: its functions may have been replaced.

    A rewritten node remembers its result while it lives, and caches keep nodes alive.
    """
    forget_case(exempt=())
    forget_translations()


def forget_case(exempt: tuple[str, ...] = TABLES) -> None:
    """Empty the caches that reveal earlier cases: which rules fire, and how often.

    `TABLES` stay: they cost more than a case. The nodes that they hold lose their facts.
    """
    for cache in _caches(len(sys.modules)):
        if not cache.__module__.startswith(exempt):
            cache.cache_clear()
    forget_kernels()
    forget_facts()


@functools.lru_cache(maxsize=1)
def _caches(modules: int) -> tuple[functools._lru_cache_wrapper[object], ...]:
    """Return the caches of all imported modules; the argument is their number."""
    caches = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith("tinyref"):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, functools._lru_cache_wrapper) and not _is_exempt(value.__module__):
                caches[id(value)] = value
    return tuple(caches.values())


def _is_exempt(module: str) -> bool:
    return module in (TYPES, __name__) or module.startswith(RUNTIMES)
