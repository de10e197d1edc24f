"""Devices that nobody sells: the interpreter with less than it has, to reach every decomposition;
the processor with more.

They are opened by path, as `--device tinyref_fuzz.judge.devices:Core`; programs for them are run,
and checked, by the interpreter.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tinyref.codegen.decompose import SMALL_FLOATS, WIDE_INTEGERS
from tinyref.device import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.dtype import dtypes
from tinyref.renderers.llvm import LLVM_OPS
from tinyref.runtimes.host.cpu import CpuBackend
from tinyref.runtimes.python import TextBackend
from tinyref.uops.words import STORABLE_IN_WORDS
from tinyref_fuzz.generate.optimisations import with_small_limits

NARROW_INTEGERS = frozenset({dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16})


class Core(TextBackend):
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


class SlowDivision(TextBackend):
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


class Words(TextBackend):
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


class Library(CpuBackend):
    """The processor, whose elementary functions are those of the C library, lane by lane."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, ops=LLVM_OPS)
