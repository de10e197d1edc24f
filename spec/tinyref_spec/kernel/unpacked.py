"""Products of a matrix of small integers, packed into words, and a vector: quantised weights.

Each weight is extracted from its word by a shift and a mask, and has a scale for its row. The
number of columns is odd, so that the last word of each row is not full.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import samples
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.products import accumulator_of
from tinyref_spec.kernels.notation import kernel_of, load, shaped, total
from tinyref_spec.measure import run_exact
from tinyref_spec.oracles import round_to

F16, F32, INT = dtypes.float16, dtypes.float32, dtypes.int32
# The type of a word, and the bits of a weight in it.
FORMATS = ((dtypes.uint8, 4), (dtypes.uint32, 4), (dtypes.uint32, 8))
# Rows and columns.
SHAPES = ((5, 23), (3, 67))
DTYPES = (F32, F16, dtypes.bfloat16, INT)
# Types of the quick profile.
QUICK = {dtypes.uint8: (F32, INT), dtypes.uint32: (F32, F16)}


def _kernel(word: DType, bits: int, dtype: DType, rows: int, columns: int) -> UOp:
    """Return out[i] = sum over k of (weight[i, k] - 2 ** (bits - 1)) * scale[i] * x[k]."""
    weights, wide = word.bits // bits, accumulator_of(dtype)
    words = -(-columns // weights)
    shape, whole = (rows, words, weights), (rows, words * weights)
    part = ((0, rows), (0, columns))
    packed = load(1, word, shaped(rows, words, 1).expand(shape).reshape(whole).shrink(part))
    lanes = shaped(1, 1, weights).expand(shape).reshape(whole).shrink(part)
    shift = build.cast(build.mul(build.iota(lanes), bits), word)
    masked = build.binary(Ops.AND, build.binary(Ops.SHR, packed, shift), (1 << bits) - 1)
    weight = build.sub(build.cast(masked, INT), 1 << (bits - 1))
    scale = load(2, dtype, shaped(rows, 1).expand((rows, columns)))
    x = load(3, dtype, shaped(1, columns).expand((rows, columns)))
    scaled = build.mul(build.cast(weight, wide), build.cast(scale, wide))
    value = total(build.mul(scaled, build.cast(x, wide)), 1)
    return kernel_of(build.cast(value, dtype), rows, 1)


def _measure(
    word: DType,
    bits: int,
    dtype: DType,
    shape: tuple[int, int],
    case_id: str,
    device: DeviceUnderTest,
) -> Measurement:
    rows, columns = shape
    weights = word.bits // bits
    words = -(-columns // weights)
    packed = samples.random_bits(word, rows * words, columns)
    scale = (2.0 ** (np.arange(rows) % 3)).astype(numpy_dtype(dtype))
    # The last column has an effect.
    x = (1 + np.arange(columns) % 3).astype(numpy_dtype(dtype))[::-1].copy()
    shifts = np.arange(weights) * bits
    taken = (packed.reshape(rows, words, 1).astype(np.int64) >> shifts) & ((1 << bits) - 1)
    matrix = taken.reshape(rows, -1)[:, :columns] - (1 << (bits - 1))
    exact = (matrix @ x.astype(np.int64)) * scale.astype(np.int64)
    is_float = dtype.is_float
    expected = round_to(exact, dtype) if is_float else exact.astype(numpy_dtype(dtype))
    kernel = _kernel(word, bits, dtype, rows, columns)
    return run_exact(case_id, device, kernel, [None, packed, scale, x], [expected])


def _checks(word: DType, bits: int) -> Iterator[Check]:
    for dtype in DTYPES:
        for number, shape in enumerate(SHAPES):
            yield Check(
                f"{dtype.name}:{shape[0]}x{shape[1]}",
                functools.partial(_measure, word, bits, dtype, shape),
                full_only=number != DTYPES.index(dtype) % 2 or dtype not in QUICK[word],
                needs=kernel_needs(dtype),
            )


def rows() -> Iterator[Row]:
    """Yield a row for each format."""
    for word, bits in FORMATS:
        yield make_row(
            f"kernel.unpacked.{word.name}_{bits}",
            f"A matrix of integers of {bits} bits, packed into {word.name}, times a vector, with "
            "an odd number of columns.",
            clauses=("kernel.matmul", "isa.shr", "isa.and"),
            rung=Rung.MATMUL,
            op="MATMUL",
            dtype=word,
            uses=(word, INT),
            checks=functools.partial(_checks, word, bits),
            advice="look at kernels for quantised weights: the shift of each lane, the scale of "
            "each row, and the last word of a row",
        )
