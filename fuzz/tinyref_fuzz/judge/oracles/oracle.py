"""What the written slots of a kernel may hold, and the sentence about what they hold instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinyref_spec.bits import BoolArray, to_bits
from tinyref_spec.kernel_case import Array


@dataclass(frozen=True)
class AllowedElements:
    """What one slot may hold, element by element: flat arrays of its type and size.

    low, high: the smallest and largest value that is accepted; the same array where there is but
    one for every element. A NaN at both ends is a NaN. unknown: where any value will do, None for
    nowhere. reordered: whether the bounds cover a float sum or product whose order is free, or an
    elementary function, which is folded in one program and approximated in another; else two runs
    must agree bit for bit.
    """

    low: Array
    high: Array
    unknown: BoolArray | None = None
    reordered: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether every element has one value, which may be a NaN or a zero of either sign."""
        return self.low is self.high and self.unknown is None

    def rejected_places(self, actual: Array) -> BoolArray:
        """Where `actual` is not accepted."""
        with np.errstate(all="ignore"):
            wrong = different(actual, self.low)
            if self.low is not self.high:
                # A comparison with a NaN is false: only where a NaN is owed is one accepted.
                wrong &= ~(np.less_equal(self.low, actual) & np.less_equal(actual, self.high))
        return self.where_known(wrong)

    def where_known(self, wrong: BoolArray) -> BoolArray:
        """`wrong` but for elements that may hold anything."""
        return wrong if self.unknown is None else wrong & ~self.unknown

    def sentence(self, number: int, actual: Array) -> str:
        """What is wrong with the element of this number."""
        low, high = self.low[number], self.high[number]
        want = f"{low!s}" if not low < high else f"a value from {low!s} to {high!s}"
        found = f"element {number} of {actual.size} is {actual[number]!s}"
        return f"{found}, the reference gives {want}"


@dataclass(frozen=True)
class Oracle:
    """What each written slot of a kernel may hold after it ran."""

    allowed: Mapping[int, AllowedElements]

    @property
    def slots(self) -> tuple[int, ...]:
        """The written slots, in order."""
        return tuple(sorted(self.allowed))

    def difference(self, slot: int, actual: Array, against: Array | None = None) -> str:
        """Why `actual` is not what `slot` may hold, in one line; "" where it is acceptable.

        actual: the flat contents of the slot after the kernel. against: those of another run, with
        which it must agree bit for bit but where a float sum may be taken in another order, or no
        value is specified. Zeros of either sign are equal, and so are all NaNs.
        """
        allowed = self.allowed[slot]
        if actual.size != allowed.low.size:
            return f"{actual.size} elements instead of {allowed.low.size}"
        if not allowed.is_exact or not is_same(actual, allowed.low):
            rejected = np.flatnonzero(allowed.rejected_places(actual))
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
    """Where `values` of any type are NaNs."""
    return np.asarray(values != values)


def is_same(actual: Array, expected: Array) -> bool:
    """Whether all bits are equal: quicker than to ask for differences that count."""
    return actual.dtype == expected.dtype and bool((to_bits(actual) == to_bits(expected)).all())


def different(actual: Array, expected: Array) -> BoolArray:
    """Where two arrays of one type differ; zeros of either sign are equal, and so are NaNs."""
    with np.errstate(all="ignore"):
        wrong = np.asarray(actual != expected)
        if wrong.any():
            wrong &= ~(is_nan(actual) & is_nan(expected))
    return wrong
