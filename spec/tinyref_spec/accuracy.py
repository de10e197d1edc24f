"""Distances of results from the right ones, as a few counts for charts of accuracy.

Distances are counted in bins that double. For each bin of the first operand, the largest distance
is stored. So the size does not depend on the number of compared values.
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
    """Return the bin of each distance in ULP, 0 to `LAST_BIN`."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(distance), distance, 0))
    # A power of two is the largest value of its bin.
    bins = np.where(mantissa == 0.5, exponent, exponent + 1)
    bins = np.where(distance == 0, 0, bins)
    return np.where(np.isfinite(distance), np.minimum(bins, LAST_BIN - 1), LAST_BIN).astype(int)


def largest_of_bin(number: int) -> float:
    """Return the largest distance that a bin counts."""
    if number == LAST_BIN:
        return math.inf
    return 2.0 ** (number - 1) if number else 0.0


def exponents(dtype: DType) -> tuple[int, int]:
    """Return the exponents of the smallest and the largest number of a float type."""
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    return 1 - bias - dtype.mantissa_bits, bias


def _octaves(dtype: DType) -> int:
    """Return the number of powers of two in a bin of the range."""
    low, high = exponents(dtype)
    return math.ceil((high - low + 1) / SIDE)


def range_bin_of(values: Array, dtype: DType) -> Array:
    """Return the range bin of each finite number of a float type, 0 to 2 * `SIDE`."""
    wide = values.astype(np.float64)
    _, exponent = np.frexp(np.abs(wide))
    steps = 1 + (exponent - 1 - exponents(dtype)[0]) // _octaves(dtype)
    return np.asarray(MIDDLE + np.sign(wide) * np.clip(steps, 1, SIDE)).astype(int)


def range_of_bin(number: int, dtype: DType) -> tuple[float, float]:
    """Return the least and the largest magnitude of a range bin."""
    steps = abs(number - MIDDLE)
    if not steps:
        return 0.0, 0.0
    low = exponents(dtype)[0] + (steps - 1) * _octaves(dtype)
    return 2.0**low, math.ldexp(1.0, min(low + _octaves(dtype), 1023))


@dataclass
class Accuracy:
    """Distances of one measurement, or of many.

    histogram: the number of distances in each bin. by_operand: the largest distance in each bin of
    the first operand; operand: its dtype. share: the largest used part of what is allowed, over 1
    if it was too much; None if only the exact result is allowed.
    """

    histogram: dict[int, int] = field(default_factory=dict)
    by_operand: dict[int, float] = field(default_factory=dict)
    operand: str = ""
    share: float | None = None

    def add(self, other: Accuracy) -> None:
        """Add the distances of another measurement."""
        for number, count in other.histogram.items():
            self.histogram[number] = self.histogram.get(number, 0) + count
        if other.operand and self.operand in ("", other.operand):
            self.operand = other.operand
            for number, distance in other.by_operand.items():
                self.by_operand[number] = max(distance, self.by_operand.get(number, 0.0))
        if other.share is not None:
            self.share = max(other.share, self.share or 0.0)

    def quantile(self, part: float) -> float | None:
        """Return the largest distance of the bin below which `part` of all lie; None if empty."""
        left = math.ceil(part * sum(self.histogram.values()))
        for number, count in sorted(self.histogram.items()):
            left -= count
            if left <= 0:
                return largest_of_bin(number)
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not empty; infinity is text."""
        data: dict[str, Any] = {}
        if self.histogram:
            data["histogram"] = {str(number): count for number, count in self.histogram.items()}
        if self.by_operand:
            largest = {str(number): _plain(value) for number, value in self.by_operand.items()}
            data |= {"operand": self.operand, "by_operand": largest}
        if self.share is not None:
            data["share"] = _plain(self.share)
        return data

    @staticmethod
    def from_json(data: object) -> Accuracy:
        """Return the accuracy. Raises `ValueError` for data that no measurement wrote."""
        if not isinstance(data, Mapping):
            raise ValueError("accuracy is an object")
        share = data.get("share")
        operand = str(data.get("operand", ""))
        if operand and not dtype_from_name(operand).is_float:
            raise ValueError(f"operand: {operand} is no float type")
        return Accuracy(
            {_bin(number, LAST_BIN): int(count) for number, count in items_of(data, "histogram")},
            {_bin(number, 2 * SIDE): float(most) for number, most in items_of(data, "by_operand")},
            operand,
            None if share is None else float(share),
        )


# Many JSON readers refuse integers of more than 64 bits.
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
        raise ValueError(f"{name}: got a {type(members).__name__}, accepted is an object")
    return members.items()


def _bin(text: str, last: int) -> int:
    number = int(text)
    if not 0 <= number <= last:
        raise ValueError(f"a bin is 0 to {last}, got {text}")
    return number


def accuracy_of(
    distance: Array, share: Array | None, operand: Array | None, specified: BoolArray | None = None
) -> Accuracy:
    """Return the distances of one output; `operand` holds the first operand of each element."""
    mask = slice(None) if specified is None else specified
    counted = distance[mask]
    if not counted.size:
        return Accuracy()
    most = None if share is None else float(np.max(share[mask]))
    if not counted.any():
        return Accuracy({0: int(counted.size)}, share=most)
    bins, counts = np.unique(bin_of(counted), return_counts=True)
    accuracy = Accuracy({int(p): int(n) for p, n in zip(bins, counts, strict=True)}, share=most)
    if operand is not None and from_numpy_dtype(operand.dtype).is_float:
        _add_range(accuracy, counted, operand[mask])
    return accuracy


def _add_range(accuracy: Accuracy, distance: Array, operand: Array) -> None:
    dtype = from_numpy_dtype(operand.dtype)
    with np.errstate(all="ignore"):
        finite = np.isfinite(operand.astype(np.float64))
        largest = np.full(2 * SIDE + 1, -1.0)
        np.maximum.at(largest, range_bin_of(operand[finite], dtype), distance[finite])
    accuracy.operand = dtype.name
    accuracy.by_operand = {
        int(number): float(largest[number]) for number in np.flatnonzero(largest >= 0)
    }
