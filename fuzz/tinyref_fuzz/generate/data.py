"""The contents of buffers: numbers of a range, of any size, or those at which types differ.

As in `tinyref_fuzz.generate.inputs`, all of it is made of raw words by integer arithmetic and exact
scaling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, numpy_dtype
from tinyref_fuzz.generate.inputs import contents
from tinyref_fuzz.generate.values import Number, full_range
from tinyref_spec.bits import bits_dtype, from_bits
from tinyref_spec.data_kinds import kinds_of
from tinyref_spec.kernel_case import Array, Mode

# One of so many buffers has data of one kind: all equal, cancelling, negative zeros and the like.
KIND_SHARE = 8
# Of integers of the whole range one of so many is at most this, and of both signs.
SMALL_SHARE, SMALL = 3, 9
# Of floats of EDGE data one of so many is a small multiple of a half, and one has any bits.
KINDS_OF_FLOATS = 4

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Content:
    """What a buffer holds: `size` elements from `low` to `high`, drawn from `seed`."""

    dtype: DType
    size: int
    low: Number
    high: Number
    seed: int

    def array(self, mode: Mode) -> Array:
        """The contents, the same on any machine.

        Of the whole range of an integer type, and in EDGE mode, those of `inputs.contents`. One of
        `KIND_SHARE` seeds gives data of one kind: of the table that rows have, where any value may
        stand, else a pattern of values in the range.
        """
        is_whole = self.dtype.is_bool or (self.low, self.high) == full_range(self.dtype)
        values = self._ordinary(mode, is_whole)
        turn, lot = divmod(self.seed, KIND_SHARE)
        if lot != KIND_SHARE - 1 or not self.size:
            return values
        kinds = kinds_of(self.dtype) if mode is Mode.EDGE or is_whole else ()
        return (
            kinds[turn % len(kinds)].array(self.dtype, self.size)
            if kinds
            else (self._pattern(values, mode, turn % 3))
        )

    def _pattern(self, values: Array, mode: Mode, which: int) -> Array:
        """All equal; two numbers in turn, which cancel if they may; negative zeros."""
        first, second = values[0], values[-1]
        if which == 1:
            if self.low == -self.high:
                second = (-values[:1].astype(np.float64)).astype(values.dtype)[0]
            return np.resize(np.array([first, second], values.dtype), self.size)
        if which == 2 and mode is Mode.EXACT and self.dtype.is_float and self.low <= 0 <= self.high:
            return np.full(self.size, -0.0).astype(values.dtype)
        return np.full(self.size, first, values.dtype)

    def _ordinary(self, mode: Mode, is_whole: bool) -> Array:
        words = np.random.PCG64(self.seed).random_raw(self.size + 1)[: self.size]
        if mode is Mode.EDGE or is_whole:
            values = contents(mode, self.dtype, self.size, self.seed, wide=True)
            if self.dtype.is_float:
                return self._with_numbers_and_bits(values, words)
            return self._with_small(values, words) if self.dtype.is_int else values
        if self.dtype.is_int or mode is Mode.EXACT:
            low, count = int(self.low), int(self.high) - int(self.low) + 1
            drawn = (words >> np.uint64(1)) % np.uint64(min(count, 2**63 - 1))
            return _from_low(drawn, low).astype(numpy_dtype(self.dtype))
        return self._moderate(words)

    def _with_small(self, values: Array, words: Words) -> Array:
        """Integers of any size with some near 0 among them, at which most expressions change."""
        least = 0 if self.dtype.is_unsigned else -SMALL
        near = _from_low((words >> np.uint64(8)) % np.uint64(SMALL - least + 1), least)
        is_small = (words >> np.uint64(40)) % np.uint64(SMALL_SHARE) == 0
        return np.where(is_small, near.astype(values.dtype), values)

    def _with_numbers_and_bits(self, values: Array, words: Words) -> Array:
        """Floats with small integers and halves among them, and with any bits: every exponent."""
        near = _from_low((words >> np.uint64(8)) % np.uint64(4 * SMALL + 1), -2 * SMALL) / 2
        others = np.random.PCG64(self.seed + 1).random_raw(self.size)
        kind = (words >> np.uint64(40)) % np.uint64(KINDS_OF_FLOATS)
        bits = from_bits(others.astype(bits_dtype(self.dtype)), self.dtype)
        found = np.where(kind == 0, near.astype(values.dtype), values)
        return np.where(kind == 1, bits, found)

    def _moderate(self, words: Words) -> Array:
        """Floats of both signs or of the only one, their exponents spread evenly over the range."""
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
    """`drawn` numbers from 0 on, from `low` on: in the wrapping arithmetic of 64 bits."""
    moved: npt.NDArray[np.uint64] = drawn + np.uint64(low % 2**64)
    return moved.astype(np.int64)
