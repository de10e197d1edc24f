"""Devices that nobody sells: the interpreter with less than it has, to reach every decomposition.

They are opened by path, as `--device tinyref_fuzz.devices:Core`; programs for them are run, and
checked, by the interpreter.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tinyref.device import Capabilities
from tinyref.dtype import dtypes
from tinyref.runtimes.python import PythonBackend

CORE_DTYPES = frozenset(
    {
        *(dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16),
        *(dtypes.int32, dtypes.uint32, dtypes.float32),
    }
)
SMALL_FLOATS = frozenset({*dtypes.fp8s, dtypes.float16, dtypes.bfloat16})
WIDE_INTEGERS = frozenset({dtypes.int64, dtypes.uint64})
CORE_OPS = frozenset(
    {
        *("ADD", "MUL", "IDIV", "MOD", "MAX", "CMPLT", "CMPNE", "AND", "OR", "XOR", "SHL", "SHR"),
        *("WHERE", "CAST", "BITCAST", "LOAD", "STORE"),
    }
)


class Core(PythonBackend):
    """The least that an accelerator must bring: core ops, 32 bits, loops, no vectors, no groups."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            dtypes=CORE_DTYPES,
            ops=CORE_OPS,
            emulated=SMALL_FLOATS | WIDE_INTEGERS,
            shared_bytes=4096,
            division_traps=True,
            is_interpreted=True,
        )


class SlowDivision(PythonBackend):
    """Divides by constants with products and shifts, and guards every other division."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        own = super().capabilities
        return replace(own, slow_division=True, division_traps=True, emulated=SMALL_FLOATS)


class Cramped(PythonBackend):
    """Has groups, vectors and memory, but little of each: most limits are met."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        own = super().capabilities
        return replace(
            own,
            dtypes=own.dtypes - SMALL_FLOATS,
            emulated=SMALL_FLOATS,
            vector_lanes=(1, 2, 4),
            grid_limit=(7, 5, 40),
            group_limit=(8, 4, 2),
            group_size_limit=16,
            shared_bytes=256,
            matrix_tiles=(),
        )
