"""Programs on disk, so that a later process does not lower the same kernels again.

Only a process that calls `store_programs` reads and writes them. A process that replaces parts of
the compiler, as tests do, would leave wrong programs to others.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tinyref import config
from tinyref.algebra.rewrite import Listeners, listeners
from tinyref.arrays import np
from tinyref.capabilities import Capabilities, plain_capabilities
from tinyref.formats.text import to_text
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
        with contextlib.suppress(Exception):  # the program can always be made
            return _from_bytes(data)
    program = lower()
    default_cache().put(key, _to_bytes(program))
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


def _to_bytes(program: Program) -> bytes:
    """Return a program as numbered nodes, sources before users: a deep graph does not pickle."""
    numbers: dict[UOp, int] = {}
    nodes: list[tuple[Any, ...]] = []

    def number_of(node: UOp) -> int:
        if node not in numbers:
            sources = tuple([number_of(source) for source in node.src])
            numbers[node] = len(nodes)
            nodes.append((node.op, node.dtype, sources, node.arg))
        return numbers[node]

    uops = [number_of(node) for node in program.uops]
    variables = [number_of(node) for node in program.variables]
    grid = [number_of(size) if isinstance(size, UOp) else (size,) for size in program.grid]
    return pickle.dumps(
        (nodes, uops, program.name, program.parameters, variables, grid, program.group)
    )


def _from_bytes(data: bytes) -> Program:
    members, uops, name, parameters, variables, grid, group = pickle.loads(data)
    nodes: list[UOp] = []
    for op, dtype, sources, arg in members:
        nodes.append(UOp(op, dtype, tuple([nodes[number] for number in sources]), arg))
    first, second, third = (size[0] if isinstance(size, tuple) else nodes[size] for size in grid)
    return Program(
        name,
        tuple([nodes[number] for number in uops]),
        parameters,
        tuple([nodes[number] for number in variables]),
        (first, second, third),
        group,
    )
