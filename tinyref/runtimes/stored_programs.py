"""Programs on disk, so that a later process does not lower the same kernels again.

Only a process that calls `store_programs` reads and writes them. A process that replaces parts of
the compiler, as tests do, would leave wrong programs to others.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections.abc import Callable, Hashable, Sequence

from tinyref import config
from tinyref.algebra.rewrite import Listeners, listeners
from tinyref.arrays import np
from tinyref.capabilities import Capabilities, plain_capabilities
from tinyref.errors import UserError
from tinyref.formats.text import program_from_text, program_to_text, to_text
from tinyref.optimise.opt import Opt
from tinyref.runtimes.cache import default_cache
from tinyref.sources import package_hash
from tinyref.uops.node import UOp
from tinyref.uops.program import Program

_NOBODY = Listeners()
# Flags for checks, output and order of steps of a lowering, which a stored program would skip.
_OBSERVING = ("BISECT", "CHECK_BOUNDS", "DUMP", "SHUFFLE_RULES")
_storing = threading.Event()


def store_programs() -> None:
    """Let this process read and write programs on disk, if the flag CACHE is not 0."""
    _storing.set()


def stored_program(
    ast: UOp,
    capabilities: Capabilities,
    opts: Sequence[Opt] | None,
    flags: Hashable,
    lower: Callable[[], Program],
) -> Program:
    """Return what `lower` returns for these arguments, from the disk if it is there.

    flags: the values of the flags that change a program.
    """
    if not _storing.is_set() or not config.integer("CACHE") or _is_observed():
        return lower()
    parts = (_compiler(), _declared(capabilities), opts, flags, config.get("VERIFY"), to_text(ast))
    key = hashlib.sha256(repr(parts).encode()).hexdigest()
    data = default_cache().get(key)
    if data is not None:
        with contextlib.suppress(UserError, UnicodeDecodeError):  # it can always be lowered
            return program_from_text(data.decode())
    program = lower()
    default_cache().put(key, program_to_text(program).encode())
    return program


def _is_observed() -> bool:
    is_changed = any(config.get(name) != config.FLAGS[name].default for name in _OBSERVING)
    return is_changed or listeners() != _NOBODY


@functools.cache
def _compiler() -> tuple[str, str]:
    """Return what identifies the code that lowers: our sources, and numpy for constants."""
    return package_hash("tinyref"), np.__version__


@functools.lru_cache(maxsize=64)
def _declared(capabilities: Capabilities) -> str:
    return repr(plain_capabilities(capabilities))
