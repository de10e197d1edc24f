"""The interpreter with the types that real accelerators have: what they lack is emulated or absent.

Each is named as a backend is: `accelerators:EverythingEmulated`.
"""

from __future__ import annotations

import dataclasses
import functools

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.runtimes.python import InterpretedKernel, TextBackend

ALL = frozenset(dtypes.all)
WORDS = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32})
SMALL_INTEGERS = frozenset({dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16})
SMALL_FLOATS = frozenset({*dtypes.fp8s, dtypes.float16, dtypes.bfloat16})
WIDE_INTEGERS = frozenset({dtypes.int64, dtypes.uint64})


class Accelerator(TextBackend):
    """Computes in `has`, and takes `emulated` too; images and matrix tiles are left out."""

    has: frozenset[DType] = ALL
    emulated: frozenset[DType] = frozenset()
    vector_lanes: tuple[int, ...] = (1, 2, 4)
    has_grid = True

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"accelerators:{type(self).__name__}"

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(
            super().capabilities,
            dtypes=self.has,
            emulated=self.emulated,
            vector_lanes=self.vector_lanes,
            has_grid=self.has_grid,
            has_groups=self.has_grid,
            images=False,
            matrix_tiles=(),
        )


class CoreAlone(Accelerator):
    """The types and ops that every device has, and no others: a kernel's are made of them."""

    has = CORE_DTYPES

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, ops=CORE_OPS)


class NoFloat64(Accelerator):
    """Most GPUs of phones, and all of Apple's."""

    has = ALL - {dtypes.float64}


class NoInt64(Accelerator):
    """64-bit integers are pairs of words."""

    has = ALL - WIDE_INTEGERS
    emulated = WIDE_INTEGERS


class WordsAlone(Accelerator):
    """WebGPU without its extensions: no 8 or 16 bits in memory, so no small floats either."""

    has = WORDS
    emulated = WIDE_INTEGERS


class WordsWithoutWide(Accelerator):
    """Types of 32 bits, and no others."""

    has = WORDS


class NoSmallFloats(Accelerator):
    """An older CPU or GPU: small floats are stored, and computed in float32."""

    has = ALL - SMALL_FLOATS
    emulated = SMALL_FLOATS


class FlatGrid(Accelerator):
    """A small machine: a grid of two dimensions, groups of 16 that share no memory."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(
            super().capabilities,
            grid_limit=(65535, 65535, 1),
            group_limit=(16, 16, 1),
            group_size_limit=16,
            shared_bytes=0,
        )


class Scalars(Accelerator):
    """No vectors, no launch indices: every type."""

    vector_lanes = (1,)
    has_grid = False

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        assert b"Special" not in binary, f"{entry} has a launch index"
        return super().load(entry, binary)


class EverythingEmulated(Accelerator):
    """As little as can be had with all types but float64: whatever can be emulated is."""

    has = WORDS | SMALL_INTEGERS
    emulated = SMALL_FLOATS | WIDE_INTEGERS
    vector_lanes = (1,)


ACCELERATORS = (
    NoFloat64,
    NoInt64,
    WordsAlone,
    WordsWithoutWide,
    NoSmallFloats,
    Scalars,
    EverythingEmulated,
)
