"""Sums over products and distances of bytes, for which processors have special instructions.

Compilers look for these sums in unrolled code: x86 has VPDPBUSD and PSADBW, GPUs DP4A. Each adds
four or eight bytes at a time, so a fault loses the lanes after those. Each takes the bytes out of
words, so a fault may use an operand instead of a byte that is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref_spec.bits import Array
from tinyref_spec.kernel.opt_kernels import CheckedKernel, evaluated
from tinyref_spec.kernels.notation import kernel_of, load, total

# The lanes of a register, and half of them.
SIZES = (8, 16)
I8, U8 = dtypes.int8, dtypes.uint8


@dataclass(frozen=True)
class ByteSum:
    """The sum of `term` over rows of bytes x and y, an int32: axis reduce 8 or 16.

    second: the type of y, by default the type of x. least: the least element of y.
    """

    sentence: str
    term: Callable[[UOp, UOp], UOp]
    dtypes: tuple[DType, ...]
    second: DType | None = None
    least: int = -128
    rows: int = 2


def _wide(byte: UOp) -> UOp:
    return build.cast(byte, dtypes.int32)


def _distance(x: UOp, y: UOp) -> UOp:
    difference = build.sub(_wide(x), _wide(y))
    return build.maximum(difference, build.sub(_wide(y), _wide(x)))


BYTE_SUMS: Mapping[str, ByteSum] = {
    "mixed_bytes": ByteSum(
        "The sum of x[i] * y[i], y unsigned.",
        lambda x, y: build.mul(_wide(x), _wide(y)),
        (I8, U8),
        second=U8,
    ),
    "rectified_bytes": ByteSum(
        "The sum of x[i] * max(y[i], 0).",
        lambda x, y: build.mul(_wide(x), build.maximum(_wide(y), 0)),
        (I8,),
        least=1,
    ),
    "distance_of_bytes": ByteSum("The sum of |x[i] - y[i]|.", _distance, (I8, U8)),
    "doubled_bytes": ByteSum(
        "The sum of x[i] * (2 * x[i] as a byte, which wraps).",
        lambda x, y: build.mul(_wide(x), _wide(build.mul(x, 2))),
        (I8, U8),
        rows=1,
    ),
    "quotient_of_bytes": ByteSum(
        "The sum of x[i] / -16 as a byte, towards zero.",
        lambda x, y: _wide(build.idiv(x, -16)),
        (I8,),
        rows=1,
    ),
}


def _bytes(dtype: DType, size: int, seed: int, least: int = -128) -> Array:
    """Return bytes of the whole range except zero, so that a lost lane is always visible."""
    limits = (-128, 127) if dtype is I8 else (0, 255)
    drawn = np.maximum(np.random.default_rng(seed).integers(*limits, size, endpoint=True), least)
    return np.where(drawn == 0, 1, drawn).astype(numpy_dtype(dtype))


def byte_sum(name: str, size: int, dtype: DType) -> CheckedKernel:
    """Return the sum of this name over rows of `size` bytes, x of `dtype`."""
    entry, number = BYTE_SUMS[name], 2 * list(BYTE_SUMS).index(name)
    kinds = (dtype, entry.second or dtype)
    x, y = (load(slot, kind, (size,)) for slot, kind in enumerate(kinds, 1))
    data = [_bytes(dtype, size, number + 1), _bytes(kinds[1], size, number + 2, entry.least)]
    return evaluated(kernel_of(total(entry.term(x, y), 0), 1), data[: entry.rows])
