"""Emulated devices with fewer features than any product, to reach every decomposition.

Open them by path: `--device tinyref_fuzz.judge.devices:Core`. The interpreter runs and checks their
programs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from tinyref.algebra.semantics import kernel_for
from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.codegen.decompose import SMALL_FLOATS, WIDE_INTEGERS
from tinyref.dtype import DType, dtypes
from tinyref.errors import DeviceError
from tinyref.interpret import Interpreter
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops.ops import Ops
from tinyref_spec.bits import Array

NARROW_INTEGERS = frozenset({dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16})


def _divided(op: Ops, dtype: DType, operands: list[Array], sources: Sequence[DType]) -> Array:
    """Divide as processors do: they trap instead of returning a value."""
    x, y = operands
    if dtype.is_int:
        overflows = (x == dtype.minimum) & (y == -1) if not dtype.is_unsigned else False
        if ((y == 0) | overflows).any():
            raise DeviceError(
                "PYTHON", f"{op.name} of {dtype.name} traps: a divisor is not guarded"
            )
    return kernel_for(op, dtype, sources)(x, y)


def _shifted(op: Ops, dtype: DType, operands: list[Array], sources: Sequence[DType]) -> Array:
    """Shift as processors do: by the count modulo the width."""
    x, count = operands
    return kernel_for(op, dtype, sources)(x, count & count.dtype.type(dtype.bits - 1))


class Processor(TextBackend):
    """Interpreter that acts like a processor where the specification leaves a value open.

    So a decomposition that relies on such a value is detected.
    """

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        kernel = super().load(entry, binary)
        divisions = (Ops.IDIV, Ops.MOD) if self.capabilities.division_traps else ()
        overrides = {
            **{op: functools.partial(_divided, op) for op in divisions},
            **{op: functools.partial(_shifted, op) for op in (Ops.SHL, Ops.SHR)},
        }
        kernel.interpreter = Interpreter(kernel.program, overrides)
        return kernel


class Core(Processor):
    """Smallest accepted device: core ops, 32 bits, loops, no vectors, no groups."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            dtypes=CORE_DTYPES | NARROW_INTEGERS,
            ops=CORE_OPS,
            emulated=frozenset((*SMALL_FLOATS, *WIDE_INTEGERS)),
            shared_bytes=4096,
            division_traps=True,
            is_interpreted=True,
        )


class SlowDivision(Processor):
    """Device that divides by constants with products and shifts, and guards other divisions."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        own = super().capabilities
        return replace(
            own,
            slow_division=True,
            division_traps=True,
            emulated=frozenset(SMALL_FLOATS),
        )
