"""Devices that nobody sells: the interpreter with less than it has, to reach every decomposition;
the processor with more.

They are opened by path, as `--device tinyref_fuzz.judge.devices:Core`; programs for them are run,
and checked, by the interpreter.
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
from tinyref.renderers.llvm import LLVM_OPS
from tinyref.runtimes.host.cpu import CpuBackend
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops.ops import Ops
from tinyref.uops.words import STORABLE_IN_WORDS
from tinyref_fuzz.generate.optimisations import with_small_limits
from tinyref_spec.bits import Array

NARROW_INTEGERS = frozenset({dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16})


def _divided(op: Ops, dtype: DType, operands: list[Array], sources: Sequence[DType]) -> Array:
    """What a processor gives: no value where it traps."""
    x, y = operands
    if dtype.is_int:
        overflows = (x == dtype.minimum) & (y == -1) if not dtype.is_unsigned else False
        if ((y == 0) | overflows).any():
            raise DeviceError(
                "PYTHON", f"{op.name} of {dtype.name} traps: a divisor is not guarded"
            )
    return kernel_for(op, dtype, sources)(x, y)


def _shifted(op: Ops, dtype: DType, operands: list[Array], sources: Sequence[DType]) -> Array:
    """As processors do: by as many bits of the count as the width has."""
    x, count = operands
    return kernel_for(op, dtype, sources)(x, count & count.dtype.type(dtype.bits - 1))


class Processor(TextBackend):
    """The interpreter that does as processors do where the specification leaves a value open.

    So what the compiler makes of other ops is seen to leave nothing open.
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
    """The least that an accelerator must bring: core ops, 32 bits, loops, no vectors, no groups."""

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


class Relaxed(Core):
    """Promises less of its floats than it gives: what is computed there may be reassociated."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, reassociates_floats=True)


class SlowDivision(Processor):
    """Divides by constants with products and shifts, and guards other divisions."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        own = super().capabilities
        return replace(
            own,
            slow_division=True,
            division_traps=True,
            emulated=frozenset(SMALL_FLOATS),
        )


class Narrow(TextBackend):
    """A grid of small dimensions: most launches have to be cut into all of them, or covered."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, grid_limit=(7, 5, 40))


class Cramped(TextBackend):
    """Has groups, vectors and memory, but little of each: most limits are met; no maximum."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        own = super().capabilities
        # MAX is owed by every device of the suite; here the compiler has to do without.
        return replace(
            with_small_limits(own),
            ops=own.ops - {"MAX"},
            dtypes=own.dtypes.difference(SMALL_FLOATS),
            emulated=frozenset(SMALL_FLOATS),
            matrix_tiles=(),
        )


class Words(Processor):
    """Memory is words of 32 bits, and so are integers: smaller ones are parts of words."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        own = super().capabilities
        return replace(
            own,
            dtypes=own.dtypes.difference(SMALL_FLOATS, NARROW_INTEGERS),
            emulated=frozenset(SMALL_FLOATS) | NARROW_INTEGERS,
            stored_in_words=frozenset(STORABLE_IN_WORDS),
            matrix_tiles=(),
        )


class Shader(Words):
    """As in browsers: it computes in float16 and 32 bits; of 64 bits it has pairs of words."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        own = super().capabilities
        lacked = frozenset(WIDE_INTEGERS)
        return replace(
            own,
            dtypes=own.dtypes - lacked - {dtypes.float64} | {dtypes.float16},
            emulated=(own.emulated | lacked) - {dtypes.float16},
        )


class Host(Processor):
    """A processor whose loops are no grid: threads, and scratch memory for copies in a loop."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(
            super().capabilities,
            has_grid=False,
            has_groups=False,
            images=False,
            matrix_tiles=(),
            threads=4,
            division_traps=True,
        )


class Library(CpuBackend):
    """The processor, whose elementary functions are those of the C library, lane by lane."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, ops=LLVM_OPS)
