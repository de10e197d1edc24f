"""Spans: what the elements of a value may be, as the two ends of an interval of its own type.

Rounding to nearest is monotone. So an operation that is rounded correctly, on operands that lie in
intervals, gives a result between what the operation gives at the ends, rounded in the type itself:
there is no error term to derive, and where nothing is uncertain the two ends are one value, exact
to the bit (Moore, "Interval Analysis", 1966; Higham, "Accuracy and Stability", chapter 2).
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
    """What each element may be: from `low` to `high`, and anything at all where `unknown`.

    Arrays of the node's type and of one shape. `high` is `low` where every element has one value;
    so has an element whose ends have the same bits, or are both NaN. -0 is below +0, so that from
    -0 to +0 is a zero of unspecified sign. Integers and bools have one value or are unknown.
    unknown: None for nowhere.
    """

    low: Values
    high: Values
    unknown: BoolArray | None = None

    @property
    def is_point(self) -> bool:
        """Whether every element has one value, or is unknown."""
        return self.high is self.low

    def open(self) -> BoolArray:
        """Where the ends differ."""
        if self.is_point:
            return np.zeros(self.low.shape, np.bool_)
        return np.asarray(to_bits(self.low) != to_bits(self.high)) & ~(
            is_nan(self.low) & is_nan(self.high)
        )

    def may_be_zero(self) -> BoolArray:
        """Where zero lies between the ends, or is one."""
        return np.asarray((self.low <= 0) & (self.high >= 0))

    def is_number(self, value: Any) -> BoolArray:
        """Where the value is known to be this number; a zero may have either sign."""
        found = np.asarray((self.low == value) & (self.high == value))
        return found if self.unknown is None else found & ~self.unknown

    def is_certain_nan(self) -> BoolArray:
        """Where the value is known to be a NaN."""
        found = is_nan(self.low) & is_nan(self.high)
        return found if self.unknown is None else found & ~self.unknown


def is_nan(values: Values) -> BoolArray:
    """Where `values` of any type are NaNs."""
    return np.asarray(values != values)


def point(value: Values, unknown: BoolArray | None = None) -> Span:
    """Elements of one value each; `unknown` of a shape that broadcasts to that of `value`."""
    value = np.asarray(value)
    return Span(value, value, _without_specials(unknown, value.shape))


def span(low: Values, high: Values, unknown: BoolArray | None, is_open: BoolArray) -> Span:
    """From `low` to `high`; a NaN at one end makes the element unknown unless both have it.

    From one infinity to the other it is unknown too, for what may be both may soon be a NaN.
    is_open: where an operand was no single value. There a zero at an end has either sign, for
    which of two zeros a minimum gives is by chance.
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
    """Where one of the two holds; None for nowhere."""
    if first is None:
        return second
    return first if second is None else first | second


def any_unknown(spans: Sequence[Span]) -> BoolArray | None:
    """Where one of `spans` is unknown."""
    unknown = None
    for each in spans:
        unknown = either(unknown, each.unknown)
    return unknown


def mask_of(value: Span) -> BoolArray:
    """Where `value` is unknown, as an array also for nowhere."""
    if value.unknown is not None:
        return value.unknown
    return np.broadcast_to(np.False_, value.low.shape)


def step_values(values: Values, steps: int) -> Values:
    """`values` moved up by so many representable ones, or down, at most to infinity; not NaNs.

    Only types of arithmetic, not fp8.
    """
    dtype = from_numpy_dtype(values.dtype)
    bits = to_bits(values).astype(np.uint64)
    sign = np.uint64(1 << (dtype.bits - 1))
    magnitude = (bits & ~sign).astype(np.int64)
    place = np.where(bits & sign, -magnitude, magnitude)
    moved = np.clip(place + steps, -inf_bits(dtype), inf_bits(dtype))
    found = np.abs(moved).astype(np.uint64) | np.where(moved < 0, sign, np.uint64(0))
    return np.where(is_nan(values), values, from_bits(found.astype(bits_dtype(dtype)), dtype))


def widen(found: Span, limit: float, is_special: BoolArray) -> Span:
    """`found` with its ends so many units in the last place further apart, but special results."""
    steps = math.ceil(limit)
    low = np.where(is_special, found.low, step_values(found.low, -steps))
    high = np.where(is_special, found.high, step_values(found.high, steps))
    return Span(low, high, found.unknown)
