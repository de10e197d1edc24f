"""The allowed contents of the written slots of a kernel, and the sentence about a violation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinyref_spec.bits import BoolArray, to_bits
from tinyref_spec.kernel_case import Array


@dataclass(frozen=True)
class AllowedElements:
    """The allowed elements of one slot: flat arrays of its type and size."""

    low: Array
    high: Array
    """The smallest and largest accepted values; one array if each element has only one."""
    unknown: BoolArray | None = None
    """The elements that may have any value; None if there are none."""
    reordered: bool = False
    """True for bounds of reordered floats, or of elementary functions that may be folded.

    If False, two runs must agree bit for bit.
    """

    @property
    def is_exact(self) -> bool:
        """Return True if every element has one value, perhaps NaN or a zero of either sign."""
        return self.low is self.high and self.unknown is None

    def rejected_elements(self, actual: Array) -> BoolArray:
        """Return where `actual` is not accepted."""
        with np.errstate(all="ignore"):
            wrong = different(actual, self.low)
            if self.low is not self.high:
                # A comparison with a NaN is false: a NaN is accepted only where a NaN is expected.
                wrong &= ~(np.less_equal(self.low, actual) & np.less_equal(actual, self.high))
        return self.where_known(wrong)

    def where_known(self, wrong: BoolArray) -> BoolArray:
        """Return `wrong` without the elements that may hold anything."""
        return wrong if self.unknown is None else wrong & ~self.unknown

    def sentence(self, number: int, actual: Array) -> str:
        """Describe the error of the element with this number."""
        low, high = self.low[number], self.high[number]
        accepted = f"{low!s}" if not low < high else f"a value from {low!s} to {high!s}"
        subject = f"element {number} of {actual.size} is {actual[number]!s}"
        return f"{subject}, the reference gives {accepted}"


@dataclass(frozen=True)
class Oracle:
    """The allowed contents of each written slot of a kernel."""

    allowed: Mapping[int, AllowedElements]

    @property
    def slots(self) -> tuple[int, ...]:
        """Return the written slots, in order."""
        return tuple(sorted(self.allowed))

    def difference(self, slot: int, actual: Array, against: Array | None = None) -> str:
        """Describe in one line why `slot` may not hold `actual`; "" if it may.

        Args:
            actual: The flat contents of the slot after the kernel.
            against: The contents after another run, which must agree bit for bit. Exceptions are
                float sums in another order, and unspecified values. Zeros of either sign are equal,
                and so are all NaNs.
        """
        allowed = self.allowed[slot]
        if actual.size != allowed.low.size:
            return f"{actual.size} elements instead of {allowed.low.size}"
        if not allowed.is_exact or not is_same(actual, allowed.low):
            rejected = np.flatnonzero(allowed.rejected_elements(actual))
            if rejected.size:
                return self._describe(
                    slot, allowed.sentence(int(rejected[0]), actual), rejected.size
                )
        if against is None or allowed.reordered:
            return ""
        differing = np.flatnonzero(allowed.where_known(different(actual, against)))
        if not differing.size:
            return ""
        number = int(differing[0])
        text = f"element {number} of {actual.size} is {actual[number]!s} in one run and "
        return self._describe(slot, f"{text}{against[number]!s} in the other", differing.size)

    def _describe(self, slot: int, sentence: str, count: int) -> str:
        where = f"output b{slot}: " if len(self.allowed) > 1 else ""
        more = f" ({count} elements differ)" if count > 1 else ""
        return f"{where}{sentence}{more}"


def is_nan(values: Array) -> BoolArray:
    """Return where `values` of any type are NaNs."""
    return np.asarray(values != values)


def is_same(actual: Array, expected: Array) -> bool:
    """Return True if all bits are equal: a quick check before `different`."""
    return actual.dtype == expected.dtype and bool((to_bits(actual) == to_bits(expected)).all())


def different(actual: Array, expected: Array) -> BoolArray:
    """Return where two arrays of one type differ; zeros of either sign, and all NaNs, are equal."""
    with np.errstate(all="ignore"):
        wrong = np.asarray(actual != expected)
        if wrong.any():
            wrong &= ~(is_nan(actual) & is_nan(expected))
    return wrong
