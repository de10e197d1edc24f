"""What the rungs rest on: the rows without which a case of a higher rung says nothing.

A case rests on the plainest rows of the rungs below it, and on the same rows of its own dtype: a
device whose float64 is broken is still judged in float32, and one that multiplies wrongly is still
judged on its casts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tinyref.dtype import dtypes
from tinyref_spec.case import Rung

_KERNELS = (Rung.STORE, Rung.ONE_ALU, Rung.INDEX)
_LOOPS = (*_KERNELS, Rung.ALU)
_TENSORS = (*_LOOPS, Rung.LOOP)

# The lower rungs that a rung uses. Casts, gates and vectors use no arithmetic; nothing rests on
# vectors and groups, which a device need not have, or on optimisations: nobody need ask for them.
RESTS_ON: dict[Rung, tuple[Rung, ...]] = {
    Rung.OPEN: (),
    Rung.MEMORY: (Rung.OPEN,),
    Rung.STORE: (Rung.OPEN, Rung.MEMORY),
    Rung.ONE_ALU: (Rung.STORE,),
    Rung.INDEX: (Rung.STORE, Rung.ONE_ALU),
    Rung.ALU: _KERNELS,
    Rung.CAST: _KERNELS,
    Rung.GATE: _KERNELS,
    Rung.VECTOR: _KERNELS,
    Rung.LOOP: _LOOPS,
    Rung.GROUP: _LOOPS,
    Rung.OPTIMISED: _TENSORS,
    Rung.MATMUL: _TENSORS,
    Rung.TENSOR: _TENSORS,
    Rung.AUTOGRAD: (*_TENSORS, Rung.TENSOR),
    Rung.JIT: (*_TENSORS, Rung.TENSOR),
    Rung.MODEL: (*_TENSORS, Rung.MATMUL, Rung.TENSOR),
}

# For each rung, the rows that show it in its plainest form; every one must be in the tables.
FOUNDATIONS: dict[Rung, tuple[str, ...]] = {
    Rung.OPEN: ("memory.open",),
    Rung.MEMORY: ("memory.copy.uint8",),
    Rung.STORE: ("kernel.store.constant.int32", "kernel.store.constant.float32"),
    Rung.ONE_ALU: (
        *("kernel.one_alu.add.int32", "kernel.one_alu.add.float32"),
        "memory.launch.float32",
    ),
    Rung.INDEX: ("kernel.view.permute.float32", "kernel.view.flip.float32"),
    Rung.TENSOR: ("tensor.add.float32.forward",),
}


@dataclass(frozen=True)
class _OwnRow:
    """A row of the tables that exists once for each of `dtypes`."""

    rung: Rung
    prefix: str
    dtypes: frozenset[str]

    def id(self, dtype: str) -> str:
        return f"{self.prefix}.{dtype}"


_NUMBERS = frozenset(dtype.name for dtype in (*dtypes.ints, *dtypes.floats))
_VIEWED = frozenset({"bool", "uint8", "int32", "float32", "float64"})
_MULTIPLIED = frozenset({"uint8", "int32", "int64", *(dtype.name for dtype in dtypes.floats)})
_OWN_ROWS = (
    _OwnRow(Rung.STORE, "kernel.store.constant", frozenset(dtype.name for dtype in dtypes.all)),
    _OwnRow(Rung.ONE_ALU, "kernel.one_alu.add", _NUMBERS),
    _OwnRow(Rung.INDEX, "kernel.view.permute", _VIEWED),
    _OwnRow(Rung.ALU, "isa.binary.add", _NUMBERS),
    _OwnRow(Rung.ALU, "isa.binary.mul", _NUMBERS),
    _OwnRow(Rung.LOOP, "kernel.reduce.add", _NUMBERS),
    _OwnRow(Rung.MATMUL, "kernel.matmul", _MULTIPLIED),
)


@functools.cache
def foundations(rung: Rung, dtype: str) -> tuple[str, ...]:
    """Ids of the rows that a case of `rung` and `dtype` rests on, lowest rung first.

    `dtype` is "" for a case without one: it rests on the plain rows alone.
    """
    lower = RESTS_ON[rung]
    plain = [row for item in lower for row in FOUNDATIONS.get(item, ())]
    own = [row.id(dtype) for row in _OWN_ROWS if row.rung in lower and dtype in row.dtypes]
    return tuple(dict.fromkeys(plain + own))
