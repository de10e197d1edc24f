"""Fill buffers: numbers of a range, numbers of any size, or the edge values of a type.

The data come from the raw words of PCG64 (O'Neill, 2014), whose stream numpy never changes. Only
integer arithmetic and exact scaling follow, so that no platform rounds differently.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, numpy_dtype
from tinyref_fuzz.generate.values import Number, full_range
from tinyref_spec.bits import bits_dtype, from_bits
from tinyref_spec.data_kinds import kinds_of
from tinyref_spec.kernel_case import Array, Mode
from tinyref_spec.samples import edges, quiet_nan_bits

# One of this many buffers has a special kind of data: all equal, cancelling, negative zeros.
KIND_SHARE = 8
# Of a whole type, one of this many values is an edge and one is small; the rest are random bits.
SHARES = 3
# Largest absolute value of the small numbers.
SMALL = 9
# Widths whose limits matter for integers: narrower types, and the significand of float32.
LIMITS = (7, 8, 15, 16, 24, 31, 32, 53)
# Numbers at which functions overflow, underflow or lose their argument.
FAR = (1e-30, 1e-8, 5000.0, 1e20, 1e30)

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Content:
    """Contents of a buffer: `size` elements from `low` to `high`, drawn from `seed`."""

    dtype: DType
    size: int
    low: Number
    high: Number
    seed: int

    def array(self, mode: Mode) -> Array:
        """Return the contents, which are the same on any machine.

        If any value of the type may occur, a third are edges and a third small numbers: so for
        whole integer types, and in EDGE mode. One of `KIND_SHARE` seeds selects special data: a
        kind from the suite's table for whole types, else a pattern of values in the range.
        """
        is_whole = self.dtype.is_bool or (self.low, self.high) == full_range(self.dtype)
        is_any = is_whole or mode is Mode.EDGE
        values = self._of_the_type() if is_any else self._of_the_range(mode)
        turn, lot = divmod(self.seed, KIND_SHARE)
        if lot != KIND_SHARE - 1 or not self.size:
            return values
        kinds = kinds_of(self.dtype) if is_any else ()
        return (
            kinds[turn % len(kinds)].array(self.dtype, self.size)
            if kinds
            else (self._pattern(values, mode, turn % 3))
        )

    def _pattern(self, values: Array, mode: Mode, which: int) -> Array:
        """Return one value, two alternating ones that cancel if possible, or negative zeros."""
        first, second = values[0], values[-1]
        if which == 1:
            if self.low == -self.high:
                second = (-values[:1].astype(np.float64)).astype(values.dtype)[0]
            return np.resize(np.array([first, second], values.dtype), self.size)
        if which == 2 and mode is Mode.EXACT and self.dtype.is_float and self.low <= 0 <= self.high:
            return np.full(self.size, -0.0).astype(values.dtype)
        return np.full(self.size, first, values.dtype)

    def _of_the_type(self) -> Array:
        """Return values with any bits, edges, and small values, which change most expressions.

        Small floats are multiples of 0.5.
        """
        drawn, picks, shares = np.random.PCG64(self.seed).random_raw((3, self.size))
        if self.dtype.is_bool:
            flags: npt.NDArray[np.bool_] = (drawn >> np.uint64(32)) % np.uint64(2) == 1
            return flags
        values = from_bits(drawn.astype(bits_dtype(self.dtype)), self.dtype)
        grid = edge_values(self.dtype)
        least = 0 if self.dtype.is_unsigned else -SMALL
        small = _from_low((picks >> np.uint64(8)) % np.uint64(SMALL - least + 1), least)
        near = small / 2 if self.dtype.is_float else small
        kind = (shares >> np.uint64(40)) % np.uint64(SHARES)
        values = np.where(kind == 0, grid[(picks % np.uint64(grid.size)).astype(np.int64)], values)
        return np.where(kind == 1, near.astype(values.dtype), values)

    def _of_the_range(self, mode: Mode) -> Array:
        words = np.random.PCG64(self.seed).random_raw(self.size)
        if self.dtype.is_int or mode is Mode.EXACT:
            low, count = int(self.low), int(self.high) - int(self.low) + 1
            drawn = (words >> np.uint64(1)) % np.uint64(min(count, 2**63 - 1))
            return _from_low(drawn, low).astype(numpy_dtype(self.dtype))
        return self._moderate(words)

    def _moderate(self, words: Words) -> Array:
        """Return floats of one or both signs, with exponents spread evenly over the range."""
        ends = sorted((abs(self.low), abs(self.high)))
        least = ends[0] if self.low * self.high > 0 else ends[1] / 64
        lowest, highest = (round(math.log2(end)) for end in (least, ends[1]))
        steps = 1 << self.dtype.mantissa_bits
        significand = 1.0 + (words % np.uint64(steps)).astype(np.float64) / steps
        binades = np.uint64(highest - lowest)
        exponent = ((words >> np.uint64(54)) % binades).astype(np.int64) + lowest
        if self.low * self.high > 0:
            sign = np.full(self.size, math.copysign(1.0, self.low))
        else:
            sign = np.where(words >> np.uint64(63) == 1, -1.0, 1.0)
        values: npt.NDArray[np.float64] = np.ldexp(significand * sign, exponent)
        return values.astype(numpy_dtype(self.dtype))


def _from_low(drawn: Words, low: int) -> npt.NDArray[np.int64]:
    """Shift `drawn`, numbers from 0, to start at `low`, in wrapping 64-bit arithmetic."""
    moved: npt.NDArray[np.uint64] = drawn + np.uint64(low % 2**64)
    return moved.astype(np.int64)


@functools.cache
def edge_values(dtype: DType) -> Array:
    """Return the edge values of a type: limits, zeros, ones, powers of two, alternating bits.

    Integers include the limits of narrower types and of float32. Floats include NaNs with payloads,
    infinities, the ends of the subnormals, and the neighbours of 1.
    """
    grid = edges(dtype)
    if dtype.is_float:
        return np.concatenate([grid, _far_floats(dtype)])
    if dtype.is_bool:
        return grid
    alternate = [int("55" * dtype.itemsize, 16), int("AA" * dtype.itemsize, 16)]
    powers = [1 << shift for shift in range(2, dtype.bits, 3)]
    limits = [1 << width for width in LIMITS if width < dtype.bits]
    near = [sign * limit + step for limit in limits for sign in (1, -1) for step in (-1, 0, 1)]
    bits = [number % (1 << dtype.bits) for number in (*alternate, *powers, *near)]
    return np.unique(np.concatenate([grid, from_bits(bits, dtype)]))


def _far_floats(dtype: DType) -> Array:
    """Return NaNs with payloads of both signs, and the limits of functions and narrower types."""
    nan, sign = quiet_nan_bits(dtype), 1 << (dtype.bits - 1)
    payloads = [sign - 1, 2 * sign - 1, nan | 1, sign | nan | 1]
    with np.errstate(over="ignore"):
        numbers = np.array([*FAR, *(-number for number in FAR)]).astype(numpy_dtype(dtype))
    return np.concatenate([from_bits(payloads, dtype), numbers])
