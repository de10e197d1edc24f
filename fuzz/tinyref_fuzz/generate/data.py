"""The contents of buffers: numbers of a range, of any size, or those at which types differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, numpy_dtype
from tinyref_fuzz.case import Mode
from tinyref_fuzz.generate.values import Number, full_range

Array = npt.NDArray[np.generic]
# One in so many integers of any size is an extreme of its type, and of edge data an edge.
EXTREME = 6
EDGE = 3


@dataclass(frozen=True)
class Content:
    """What a buffer holds: `size` elements from `low` to `high`, drawn from `seed`.

    An integer buffer whose range is that of its type has extremes as well.
    """

    dtype: DType
    size: int
    low: Number
    high: Number
    seed: int

    def array(self, mode: Mode) -> Array:
        """The contents; the same on any machine."""
        random = np.random.default_rng(self.seed)
        if self.dtype.is_bool:
            return random.integers(0, 2, self.size).astype(np.bool_)
        if self.dtype.is_int:
            return self._integers(random)
        if mode is Mode.EXACT:
            low, high = int(self.low), int(self.high)
            drawn = random.integers(low, high, self.size, endpoint=True)
            return drawn.astype(numpy_dtype(self.dtype))
        moderate = self._floats(random)
        return moderate if mode is Mode.FLOAT else self._edges(random, moderate)

    def _integers(self, random: np.random.Generator) -> Array:
        target = numpy_dtype(self.dtype)
        low, high = int(self.low), int(self.high)
        values = random.integers(low, high, self.size, dtype=target.type, endpoint=True)
        if (self.low, self.high) != full_range(self.dtype):
            return values
        extremes = np.array([low, low + 1, 0, 1, high - 1, high], target)
        is_extreme = random.integers(0, EXTREME, self.size) == 0
        return np.where(is_extreme, random.choice(extremes, self.size), values)

    def _floats(self, random: np.random.Generator) -> Array:
        """Of both signs as the range has them, their sizes spread evenly over a few binades."""
        largest = max(abs(self.low), abs(self.high))
        largest = 4.0 if math.isinf(largest) else float(largest)
        least = min(abs(self.low), abs(self.high)) if self.low * self.high > 0 else largest / 64
        sizes = np.exp2(random.uniform(math.log2(least), math.log2(largest), self.size))
        if self.low >= 0:
            signs = np.ones(self.size)
        else:
            signs = (
                np.full(self.size, -1.0)
                if self.high <= 0
                else random.choice([-1.0, 1.0], self.size)
            )
        return (sizes * signs).astype(numpy_dtype(self.dtype))

    def _edges(self, random: np.random.Generator, others: Array) -> Array:
        edges = edge_values(self.dtype)
        is_edge = random.integers(0, EDGE, self.size) == 0
        return np.where(is_edge, random.choice(edges, self.size), others)


def edge_values(dtype: DType) -> Array:
    """Zeros of either sign, infinities, NaN, the least and largest numbers, and 1 and -1."""
    target = numpy_dtype(dtype)
    bits = np.dtype(f"uint{dtype.bits}")
    largest_subnormal = (1 << dtype.mantissa_bits) - 1
    patterns = np.array([1, largest_subnormal, largest_subnormal + 1], bits).view(target)
    with np.errstate(all="ignore"):
        named = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0]).astype(target)
        return np.concatenate([named, patterns, -patterns])
