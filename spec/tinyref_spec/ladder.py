"""The cases that others depend on: if they fail, a case on a higher rung says nothing.

A case depends on the plainest cases of the lower rungs that it uses, and on the same cases in its
own dtype. So a device with a broken float64 is still judged in float32, and one that multiplies
wrongly is still judged on its casts. Cases after a broken kind of reduce are judged in other kinds.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tinyref.dtype import dtypes
from tinyref_spec.case import Rung

# The row whose cases show that kernels may be compiled in one call.
TOGETHER = "kernel.together"
_KERNELS = (Rung.OPEN, Rung.MEMORY, Rung.STORE, Rung.ONE_ALU, Rung.INDEX)
# Heuristics also use vectors and groups on devices that have them. On other devices those cases
# are skipped, and a skipped case suppresses nothing.
_OPTIMISED = (*_KERNELS, Rung.VECTOR, Rung.LOOP, Rung.GROUP)

# The lower rungs that a rung uses. Casts, gates and vectors use no arithmetic. No rung depends
# on optimisations, because kernels run without them.
RESTS_ON: dict[Rung, tuple[Rung, ...]] = {
    Rung.OPEN: (),
    Rung.MEMORY: (Rung.OPEN,),
    Rung.STORE: (Rung.OPEN, Rung.MEMORY),
    Rung.ONE_ALU: (Rung.OPEN, Rung.MEMORY, Rung.STORE),
    Rung.INDEX: (Rung.OPEN, Rung.MEMORY, Rung.STORE, Rung.ONE_ALU),
    Rung.ALU: _KERNELS,
    Rung.CAST: _KERNELS,
    Rung.GATE: _KERNELS,
    Rung.VECTOR: _KERNELS,
    Rung.LOOP: _KERNELS,
    Rung.GROUP: _KERNELS,
    Rung.OPTIMISED: _OPTIMISED,
    Rung.MATMUL: _OPTIMISED,
    Rung.TENSOR: _OPTIMISED,
    Rung.AUTOGRAD: (*_OPTIMISED, Rung.TENSOR),
    Rung.JIT: (*_OPTIMISED, Rung.TENSOR),
    Rung.MODEL: (*_OPTIMISED, Rung.MATMUL, Rung.TENSOR),
}

# For each rung, the cases that show it in its plainest form; every one must be in the tables.
FOUNDATIONS: dict[Rung, tuple[str, ...]] = {
    Rung.OPEN: ("memory.open.opens",),
    Rung.MEMORY: ("memory.copy.uint8.size:16",),
    Rung.STORE: ("kernel.store.constant.int32.size:7", "kernel.store.constant.float32.size:7"),
    Rung.ONE_ALU: (
        "kernel.one_alu.add.int32.size:7",
        "kernel.one_alu.add.float32.size:7",
        "memory.launch.float32.again",
    ),
    Rung.INDEX: (
        "kernel.elements.float32.copy:33",
        "kernel.view.permute.float32.read.5x7",
        "kernel.view.flip.float32.read.9",
    ),
    Rung.VECTOR: tuple(f"kernel.program.vector{lanes}.float32.add" for lanes in (2, 4)),
    Rung.GROUP: ("kernel.program.item.4x1x1",),
    Rung.TENSOR: ("tensor.add.float32.forward:0",),
}


@dataclass(frozen=True)
class _OwnCase:
    """A case of the tables that exists once for each of `dtypes`: PREFIX.DTYPE.NAME."""

    rung: Rung
    prefix: str
    name: str
    dtypes: frozenset[str]

    def id(self, dtype: str) -> str:
        return f"{self.prefix}.{dtype}.{self.name}"


_ALL = frozenset(dtype.name for dtype in dtypes.all)
_NUMBERS = frozenset(dtype.name for dtype in (*dtypes.ints, *dtypes.floats))
_MULTIPLIED = frozenset({"uint8", "int32", "int64", *(dtype.name for dtype in dtypes.floats)})
_OWN_CASES = (
    _OwnCase(Rung.MEMORY, "memory.copy", "size:16", _ALL),
    _OwnCase(Rung.STORE, "kernel.store.constant", "size:7", _ALL),
    _OwnCase(Rung.ONE_ALU, "kernel.copy", "size:7", _ALL),
    _OwnCase(Rung.ONE_ALU, "kernel.one_alu.add", "size:7", _NUMBERS),
    _OwnCase(Rung.ONE_ALU, "kernel.one_alu.mul", "size:7", _NUMBERS),
    _OwnCase(Rung.INDEX, "kernel.elements", "copy:33", _ALL),
    _OwnCase(Rung.LOOP, "kernel.reduce.add", "7x13_over_1", _NUMBERS),
    _OwnCase(Rung.MATMUL, "kernel.matmul", "exact.7x5x3", _MULTIPLIED),
)


@functools.cache
def foundations(rung: Rung, dtype: str) -> tuple[str, ...]:
    """Return ids of the cases that a case of `rung` and `dtype` depends on, lowest rung first.

    With a `dtype` of "", these are the plain cases alone.
    """
    lower = RESTS_ON[rung]
    plain = [case for item in lower for case in FOUNDATIONS.get(item, ())]
    own = [case.id(dtype) for case in _OWN_CASES if case.rung in lower and dtype in case.dtypes]
    return tuple(dict.fromkeys(plain + own))
