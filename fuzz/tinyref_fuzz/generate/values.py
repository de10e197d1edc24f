"""Drawn values: nodes with what is known of their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinyref.algebra.bounds import bounds
from tinyref.dtype import DType, dtypes
from tinyref.uops.node import UOp, sint
from tinyref_spec.kernel_case import Mode

Shape = tuple[sint, ...]
Number = int | float
# In FLOAT mode values stay below this: far from overflow and from the loss of digits.
MODERATE = {dtypes.float16: 1000.0, dtypes.fp8e4m3: 60.0, dtypes.fp8e5m2: 1000.0}
MODERATE_ELSE = 1e6


@dataclass(frozen=True, slots=True)
class DrawnValue:
    """A node, its shape (1 where it is repeated), and the range of its elements."""

    node: UOp
    shape: Shape
    low: Number
    high: Number
    bound: Number
    """Bound of the absolute value of each partial result, in any order of evaluation."""
    is_rough: bool = False
    """True if two correct programs may differ: by rounding, in the last places, or unspecified."""

    @property
    def dtype(self) -> DType:
        """Return the type of the elements."""
        return self.node.dtype


def exact_bound(dtype: DType) -> int:
    """Return the largest integer up to which `dtype` holds every integer, of either sign."""
    if dtype.is_bool:
        return 1
    if dtype.is_float:
        return int(2 ** (dtype.mantissa_bits + 1))
    return int(dtype.maximum)


def float_limit(mode: Mode, dtype: DType) -> float:
    """Return the largest absolute value that floats of a kernel may have in this mode."""
    if mode is Mode.EXACT:
        return exact_bound(dtype)
    return math.inf if mode is Mode.EDGE else MODERATE.get(dtype, MODERATE_ELSE)


def full_range(dtype: DType) -> tuple[Number, Number]:
    """Return the smallest and largest value of the type."""
    low, high = dtype.minimum, dtype.maximum
    return (low, high) if dtype.is_float else (int(low), int(high))


def magnitude(value: DrawnValue) -> Number:
    """Return the largest absolute value of an element."""
    return max(abs(value.low), abs(value.high))


def most(size: sint) -> int:
    """Return the largest value of a size."""
    return int(bounds(size)[1]) if isinstance(size, UOp) else size


def positions(shape: Sequence[sint]) -> int:
    """Return the largest number of positions of a shape."""
    return math.prod(map(most, shape))


def is_one(size: sint) -> bool:
    """Return True if the size is known to be 1."""
    return isinstance(size, int) and size == 1


def broadcast(*shapes: Shape) -> Shape:
    """Return the broadcast shape of shapes of one space: each size that is not 1."""
    return tuple(
        next((size for size in sizes if not is_one(size)), 1) for sizes in zip(*shapes, strict=True)
    )


def value_in_range(
    mode: Mode,
    node: UOp,
    shape: Shape,
    low: Number,
    high: Number,
    *,
    bound: Number | None = None,
    is_rough: bool = False,
) -> DrawnValue | None:
    """Return the value of `node`, whose elements are `low` to `high` if nothing wraps.

    Returns None if the mode does not allow it: a float beyond its limit.
    """
    dtype = node.dtype
    if not dtype.is_float:
        lowest, highest = full_range(dtype)
        if low < lowest or high > highest:
            low, high = lowest, highest
        return DrawnValue(node, shape, low, high, max(abs(low), abs(high)), is_rough)
    if mode is Mode.EDGE:
        return DrawnValue(node, shape, -math.inf, math.inf, math.inf, is_rough)
    bound = max(abs(low), abs(high)) if bound is None else bound
    if bound > float_limit(mode, dtype):
        return None
    return DrawnValue(node, shape, low, high, bound, is_rough)


def corners(x: DrawnValue, y: DrawnValue) -> tuple[Number, Number]:
    """Return the range of a product."""
    ends = [_product(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    return min(ends), max(ends)


def _product(a: Number, b: Number) -> Number:
    return 0 if a == 0 or b == 0 else a * b
