"""How far results are from the right ones, in few numbers: what pictures of accuracy are made of.

Distances are counted in bins that double; over the range of the first operand the largest one of
each bin is known. Both have an end, however many values are compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtype_from_name, from_numpy_dtype
from tinyref_spec.bits import Array, BoolArray

# Bins of a distance: 0, 1, 2, 3 to 4, 5 to 8 ...; the last has NaN against a number.
LAST_BIN = 66
# Bins of the range of an operand: the middle one is zero, on each side are powers of two.
SIDE = 24
MIDDLE = SIDE


def bin_of(distance: Array) -> Array:
    """The bin of each distance in ULP, 0 to `LAST_BIN`."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(distance), distance, 0))
    # A power of two is the largest of its bin.
    bins = np.where(mantissa == 0.5, exponent, exponent + 1)
    bins = np.where(distance == 0, 0, bins)
    return np.where(np.isfinite(distance), np.minimum(bins, LAST_BIN - 1), LAST_BIN).astype(int)


def largest_of_bin(place: int) -> float:
    """The largest distance that a bin counts."""
    if place == LAST_BIN:
        return math.inf
    return 2.0 ** (place - 1) if place else 0.0


def exponents(dtype: DType) -> tuple[int, int]:
    """The exponents of the smallest and the largest number of a float type."""
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    return 1 - bias - dtype.mantissa_bits, bias


def _octaves(dtype: DType) -> int:
    """How many powers of two a bin of the range has."""
    low, high = exponents(dtype)
    return math.ceil((high - low + 1) / SIDE)


def place_of(values: Array, dtype: DType) -> Array:
    """The bin of each finite number of a float type, 0 to 2 * `SIDE`."""
    wide = values.astype(np.float64)
    _, exponent = np.frexp(np.abs(wide))
    steps = 1 + (exponent - 1 - exponents(dtype)[0]) // _octaves(dtype)
    return np.asarray(MIDDLE + np.sign(wide) * np.clip(steps, 1, SIDE)).astype(int)


def range_of_place(place: int, dtype: DType) -> tuple[float, float]:
    """The numbers between which the magnitudes of a bin lie."""
    steps = abs(place - MIDDLE)
    if not steps:
        return 0.0, 0.0
    low = exponents(dtype)[0] + (steps - 1) * _octaves(dtype)
    return 2.0**low, math.ldexp(1.0, min(low + _octaves(dtype), 1023))


@dataclass
class Accuracy:
    """Distances of one measurement, or of many.

    histogram: how many distances are in each bin. by_operand: the largest distance over the bins
    of the first operand, of those that have one; operand: its dtype. share: the largest part of
    what is allowed that was used, more than 1 where it was too much; None where only the exact
    result is allowed.
    """

    histogram: dict[int, int] = field(default_factory=dict)
    by_operand: dict[int, float] = field(default_factory=dict)
    operand: str = ""
    share: float | None = None

    def add(self, other: Accuracy) -> None:
        """Takes the distances of another in."""
        for place, count in other.histogram.items():
            self.histogram[place] = self.histogram.get(place, 0) + count
        if other.operand and self.operand in ("", other.operand):
            self.operand = other.operand
            for place, distance in other.by_operand.items():
                self.by_operand[place] = max(distance, self.by_operand.get(place, 0.0))
        if other.share is not None:
            self.share = max(other.share, self.share or 0.0)

    def quantile(self, part: float) -> float | None:
        """The largest distance of the bin below which `part` of all lie; None without any."""
        left = math.ceil(part * sum(self.histogram.values()))
        for place, count in sorted(self.histogram.items()):
            left -= count
            if left <= 0:
                return largest_of_bin(place)
        return None

    def to_json(self) -> dict[str, Any]:
        """Members that say nothing are left out; infinity is text, as in all our JSON."""
        found: dict[str, Any] = {}
        if self.histogram:
            found["histogram"] = {str(place): count for place, count in self.histogram.items()}
        if self.by_operand:
            largest = {str(place): _plain(value) for place, value in self.by_operand.items()}
            found |= {"operand": self.operand, "by_operand": largest}
        if self.share is not None:
            found["share"] = _plain(self.share)
        return found

    @staticmethod
    def from_json(data: object) -> Accuracy:
        """Raises `ValueError` for data that no measurement wrote."""
        if not isinstance(data, Mapping):
            raise ValueError("accuracy is an object")
        share = data.get("share")
        operand = str(data.get("operand", ""))
        if operand and not dtype_from_name(operand).is_float:
            raise ValueError(f"operand: {operand} is no float type")
        return Accuracy(
            {_bin(place, LAST_BIN): int(count) for place, count in items_of(data, "histogram")},
            {_bin(place, 2 * SIDE): float(most) for place, most in items_of(data, "by_operand")},
            operand,
            None if share is None else float(share),
        )


# No integer in a JSON file of ours may be larger than 64 bits: readers refuse it.
_LARGEST_INTEGER = 2**53


def _plain(value: float) -> float | int | str:
    if not math.isfinite(value):
        return str(value)
    if abs(value) <= _LARGEST_INTEGER and value == int(value):
        return int(value)
    return round(value, 4)


def items_of(data: Mapping[str, Any], name: str) -> Any:
    """Return the pairs of a member that is an object. Raises `ValueError` for another member."""
    members = data.get(name, {})
    if not isinstance(members, Mapping):
        raise ValueError(f"{name}: a {type(members).__name__}, expected is an object")
    return members.items()


def _bin(text: str, last: int) -> int:
    place = int(text)
    if not 0 <= place <= last:
        raise ValueError(f"a bin is 0 to {last}, got {text}")
    return place


def accuracy_of(
    distance: Array, share: Array | None, operand: Array | None, specified: BoolArray | None = None
) -> Accuracy:
    """The distances of one output, with the first operand of each element where it has one."""
    owed = slice(None) if specified is None else specified
    counted = distance[owed]
    if not counted.size:
        return Accuracy()
    most = None if share is None else float(np.max(share[owed]))
    if not counted.any():
        return Accuracy({0: int(counted.size)}, share=most)
    places, counts = np.unique(bin_of(counted), return_counts=True)
    found = Accuracy({int(p): int(n) for p, n in zip(places, counts, strict=True)}, share=most)
    if operand is not None and from_numpy_dtype(operand.dtype).is_float:
        _add_range(found, counted, operand[owed])
    return found


def _add_range(found: Accuracy, distance: Array, operand: Array) -> None:
    dtype = from_numpy_dtype(operand.dtype)
    with np.errstate(all="ignore"):
        finite = np.isfinite(operand.astype(np.float64))
        largest = np.full(2 * SIDE + 1, -1.0)
        np.maximum.at(largest, place_of(operand[finite], dtype), distance[finite])
    found.operand = dtype.name
    found.by_operand = {int(place): float(largest[place]) for place in np.flatnonzero(largest >= 0)}
