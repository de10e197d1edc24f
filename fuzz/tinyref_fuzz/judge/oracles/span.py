"""Spans: the possible values of elements, as two ends of an interval of their own type.

Rounding to nearest is monotonic. So a correctly rounded operation on operands in intervals gives a
result between its values at the ends, rounded in the type itself. No error term is needed. If
nothing is uncertain, the two ends are one value, exact to the bit (Moore, "Interval Analysis",
1966; Higham, "Accuracy and Stability", chapter 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.dtype import from_numpy_dtype
from tinyref_spec.bits import BoolArray, bits_dtype, from_bits, to_bits
from tinyref_spec.samples import inf_bits

Values = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Span:
    """Possible values of elements: from `low` to `high`, and any value where `unknown`.

    The arrays have the node's type and one shape. `high` is `low` if every element has one value.
    An element whose ends have the same bits, or are both NaN, also has one value. -0 is below +0,
    so the span from -0 to +0 is a zero of either sign. Integers and bools have one value or are
    unknown.
    """

    low: Values
    high: Values
    unknown: BoolArray | None = None
    """The elements that may have any value; None if there are none."""

    @property
    def is_point(self) -> bool:
        """Return True if every element has one value, or is unknown."""
        return self.high is self.low

    def open(self) -> BoolArray:
        """Return where the ends differ."""
        if self.is_point:
            return np.zeros(self.low.shape, np.bool_)
        return np.asarray(to_bits(self.low) != to_bits(self.high)) & ~(
            is_nan(self.low) & is_nan(self.high)
        )

    def may_be_zero(self) -> BoolArray:
        """Return where zero lies in the span."""
        return np.asarray((self.low <= 0) & (self.high >= 0))

    def is_number(self, value: Any) -> BoolArray:
        """Return where the value is known to be this number; a zero may have either sign."""
        matches = np.asarray((self.low == value) & (self.high == value))
        return matches if self.unknown is None else matches & ~self.unknown

    def is_certain_nan(self) -> BoolArray:
        """Return where the value is known to be a NaN."""
        matches = is_nan(self.low) & is_nan(self.high)
        return matches if self.unknown is None else matches & ~self.unknown


def is_nan(values: Values) -> BoolArray:
    """Return where `values` of any type are NaNs."""
    return np.asarray(values != values)


def point(value: Values, unknown: BoolArray | None = None) -> Span:
    """Return a span of one value for each element; `unknown` broadcasts to the shape of `value`."""
    value = np.asarray(value)
    return Span(value, value, _without_specials(unknown, value.shape))


def span(low: Values, high: Values, unknown: BoolArray | None, is_open: BoolArray) -> Span:
    """Return the span from `low` to `high`; unknown where only one end is a NaN.

    An element from -inf to inf is unknown too, because computing with it may give a NaN. Where
    `is_open` (an operand has no single value), a zero end has either sign, because a minimum may
    return either zero.
    """
    low, high = np.asarray(low), np.asarray(high)
    anything = (is_nan(low) != is_nan(high)) | ((low == -np.inf) & (high == np.inf))
    unknown = anything if unknown is None else unknown | anything
    zero = np.zeros((), low.dtype)
    low = np.where(is_open & (low == 0), -zero, low)
    high = np.where(is_open & (high == 0), zero, high)
    return Span(low, high, _without_specials(unknown, low.shape))


def _without_specials(unknown: BoolArray | None, shape: tuple[int, ...]) -> BoolArray | None:
    if unknown is None or not unknown.any():
        return None
    return unknown if unknown.shape == shape else np.broadcast_to(unknown, shape)


def either(first: BoolArray | None, second: BoolArray | None) -> BoolArray | None:
    """Return where one of the two holds; None for nowhere."""
    if first is None:
        return second
    return first if second is None else first | second


def any_unknown(spans: Sequence[Span]) -> BoolArray | None:
    """Return where one of `spans` is unknown."""
    unknown = None
    for operand in spans:
        unknown = either(unknown, operand.unknown)
    return unknown


def mask_of(value: Span) -> BoolArray:
    """Return where `value` is unknown, as an array in any case."""
    if value.unknown is not None:
        return value.unknown
    return np.broadcast_to(np.False_, value.low.shape)


def step_values(values: Values, steps: int) -> Values:
    """Move `values` up (or down) by `steps` representable values, at most to infinity; NaNs stay.

    This works for types of arithmetic only, not for fp8.
    """
    dtype = from_numpy_dtype(values.dtype)
    bits = to_bits(values).astype(np.uint64)
    sign = np.uint64(1 << (dtype.bits - 1))
    magnitude = (bits & ~sign).astype(np.int64)
    ordinal = np.where(bits & sign, -magnitude, magnitude)
    moved = np.clip(ordinal + steps, -inf_bits(dtype), inf_bits(dtype))
    moved_bits = np.abs(moved).astype(np.uint64) | np.where(moved < 0, sign, np.uint64(0))
    return np.where(is_nan(values), values, from_bits(moved_bits.astype(bits_dtype(dtype)), dtype))


def widen(value: Span, limit: float, is_special: BoolArray) -> Span:
    """Widen `value` by `limit` units in the last place at each end, except special results."""
    steps = math.ceil(limit)
    low = np.where(is_special, value.low, step_values(value.low, -steps))
    high = np.where(is_special, value.high, step_values(value.high, steps))
    return Span(low, high, value.unknown)
