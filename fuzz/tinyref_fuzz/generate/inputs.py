"""What buffers hold before a kernel: data of each mode, and poison for what nobody wrote.

All of it is made of the raw words of PCG64 (O'Neill, 2014), whose stream numpy never changes, by
integer arithmetic and exact scaling: no function that a platform may round otherwise.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, Kind, numpy_dtype
from tinyref.errors import UserError
from tinyref_spec.bits import bits_dtype, from_bits
from tinyref_spec.kernel_case import Array, Mode
from tinyref_spec.samples import edges

Words = npt.NDArray[np.uint64]
# Sums of some hundred such integers are exact in float16, and their products in bfloat16.
LARGEST_EXACT = 3
# Moderate floats have exponents from here, so many: magnitudes from 2**-4 to 2**4.
LEAST_EXPONENT, EXPONENTS = -4, 8
# Of so many elements of EDGE data one is an edge, and of integers of any size one an extreme.
EDGE_SHARE = 3
# Of so many blocks, each of so many elements, one holds no positive number: a maximum that starts
# at zero, or takes in what is masked, shows there.
BLOCKS, BLOCK = 4, 8


def contents(mode: Mode, dtype: DType, size: int, seed: int, wide: bool = False) -> Array:
    """A flat array of `size` elements; the same arguments give the same bytes on any machine.

    EXACT: integers up to `LARGEST_EXACT`. FLOAT: floats of both signs and of magnitudes from 2**-4
    to 2**4; of an integer type as EXACT. EDGE: a third NaNs, infinities, zeros, subnormals, limits
    and the like (`edge_values`), moderate ones between them. wide: integers of any size, for
    kernels that may wrap. Two or more elements are never all equal. Raises `UserError` for a
    negative size or seed.
    """
    if size < 0 or seed < 0:
        raise UserError(f"contents: size {size} and seed {seed}: accepted are numbers from 0")
    words = np.random.PCG64(seed).random_raw(3 * size + 1)
    drawn, picks, shares = words[:size], words[size : 2 * size], words[2 * size : 3 * size]
    if dtype.is_bool:
        return _uneven((drawn >> np.uint64(32)) % np.uint64(2) == 1)
    if dtype.is_float and mode is not Mode.EXACT:
        values = _moderate(dtype, drawn)
    elif wide and dtype.is_int:
        values = from_bits(drawn.astype(bits_dtype(dtype)), dtype)
    else:
        values = _small(dtype, drawn, int(words[-1] % np.uint64(BLOCKS)))
    if mode is Mode.EDGE or (wide and dtype.is_int):
        grid = edge_values(dtype)
        chosen = grid[(picks % np.uint64(grid.size)).astype(np.int64)]
        values = np.where(shares % np.uint64(EDGE_SHARE) == 0, chosen, values)
    return _uneven(values)


def _small(dtype: DType, words: Words, negative: int) -> Array:
    """Small integers; one block of `BLOCKS` is negative, where the type has such numbers."""
    draws = (words >> np.uint64(32)).astype(np.int64)
    if dtype.is_unsigned:
        return (draws % (LARGEST_EXACT + 1)).astype(numpy_dtype(dtype))
    values = draws % (2 * LARGEST_EXACT + 1) - LARGEST_EXACT
    block = np.arange(values.size) // BLOCK % BLOCKS
    below_zero = -1 - draws % LARGEST_EXACT
    return np.where(block == negative, below_zero, values).astype(numpy_dtype(dtype))


def _moderate(dtype: DType, words: Words) -> Array:
    """Any significand, one of `EXPONENTS` exponents, either sign: each exact in the type."""
    steps = 1 << dtype.mantissa_bits
    significand = 1.0 + (words % np.uint64(steps)).astype(np.float64) / steps
    exponent = (words >> np.uint64(53)).astype(np.int64) % EXPONENTS + LEAST_EXPONENT
    sign = np.where(words >> np.uint64(63) == 1, -1.0, 1.0)
    return np.ldexp(significand * sign, exponent).astype(numpy_dtype(dtype))


def _uneven(values: Array) -> Array:
    """Not all equal: what is equal everywhere hides a wrong position."""
    if values.size > 1 and bool((values == values[0]).all()):
        values[-1] = np.zeros((), values.dtype) if values[0] else np.ones((), values.dtype)
    return values


@functools.cache
def edge_values(dtype: DType) -> Array:
    """The values at which a type changes: limits, zeros, ones, powers of two, alternate bits.

    Of floats also NaN, infinities, the ends of the subnormals, and the neighbours of 1.
    """
    grid = edges(dtype)
    if not dtype.is_int:
        return grid
    alternate = [int("55" * dtype.itemsize, 16), int("AA" * dtype.itemsize, 16)]
    powers = [1 << shift for shift in range(2, dtype.bits, 3)]
    top = [1 << (dtype.bits - 1)] if dtype.kind is Kind.UNSIGNED else []
    return np.unique(np.concatenate([grid, from_bits([*alternate, *powers, *top], dtype)]))
