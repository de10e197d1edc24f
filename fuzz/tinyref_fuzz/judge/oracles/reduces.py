"""Apply REDUCE to spans: sums and products of floats in any order.

In any order, a sum of n floats differs from the exact sum by at most (n - 1) u sum |a|. This holds
for every n, without higher-order terms; see Jeannerod and Rump, "Improved error bounds for inner
products in floating-point arithmetic", 2013. A sum whose partial sums are all representable is
exact in every order.

A matrix tile adds all its terms to the earlier sum at once, and may truncate instead of rounding.
So each of n terms, instead of n - 1 additions, may lose 2 u. See Fasi, Higham, Mikaitis and
Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tinyref.algebra.semantics import reduce_identity
from tinyref.dtype import DType, dtypes, narrow_float64
from tinyref.uops.ops import Ops
from tinyref_fuzz.judge.oracles.span import Span, Values, is_nan, mask_of, point, span
from tinyref_spec.bits import BoolArray, from_bits
from tinyref_spec.error_rules import unit_roundoff
from tinyref_spec.samples import largest_bits

Axes = tuple[int, ...]
# Error of the references, which sum in float64, or in long double for float64.
MARGIN = 1 + 2.0**-10


@dataclass(frozen=True)
class Additions:
    """Rounding of the additions of a device."""

    flushes: bool = False
    """True if a subnormal partial sum may become zero."""
    in_tiles: bool = False
    """True if matrix tiles add."""


ROUNDED = Additions()


def reduce_spans(op: Ops, dtype: DType, x: Span, axes: Axes, how: Additions = ROUNDED) -> Span:
    """Return the sum, product or maximum of `x` over `axes`, which keep size 1."""
    if not dtype.is_float:
        return _integers(op, dtype, x, axes)
    if op is Ops.MAX:
        return _largest(dtype, x, axes)
    terms = _Terms(dtype, x, axes)
    if op is Ops.MUL:
        return _product(terms)
    return _sum(terms, smallest_normal(dtype) if how.flushes else 0.0, how.in_tiles)


def _any(mask: BoolArray, axes: Axes) -> BoolArray:
    return np.asarray(mask.any(axis=axes, keepdims=True))


def _integers(op: Ops, dtype: DType, x: Span, axes: Axes) -> Span:
    unknown = None if x.unknown is None else _any(x.unknown, axes)
    if dtype.is_bool:
        # Bools only have a maximum: one certain True decides.
        result = _any(np.asarray(x.low & ~mask_of(x)), axes)
        return point(result, None if unknown is None else unknown & ~result)
    if op is Ops.MAX:
        lowest = np.array(reduce_identity(op, dtype), x.low.dtype)
        result = np.maximum.reduce(x.low, axis=axes, keepdims=True, initial=lowest)
        return point(result, unknown)
    ufunc = np.add if op is Ops.ADD else np.multiply
    return point(ufunc.reduce(x.low, axis=axes, keepdims=True, dtype=x.low.dtype), unknown)


def _largest(dtype: DType, x: Span, axes: Axes) -> Span:
    """Return the maximum; with a NaN among numbers it is unspecified, as is the sign of a zero."""
    lowest = np.array(reduce_identity(Ops.MAX, dtype), x.low.dtype)
    low = np.maximum.reduce(x.low, axis=axes, keepdims=True, initial=lowest)
    high = (
        low if x.is_point else np.maximum.reduce(x.high, axis=axes, keepdims=True, initial=lowest)
    )
    unknown = _any(is_nan(x.low) | mask_of(x), axes)
    zeros = np.asarray((low == 0) | (high == 0))
    if x.is_point and not zeros.any():
        return point(low, unknown)
    return span(low, high, unknown, zeros | _any(x.open(), axes))


class _Terms:
    """The terms of a sum or product, in a type that holds the result, and their properties."""

    def __init__(self, dtype: DType, x: Span, axes: Axes) -> None:
        self.dtype, self.x, self.axes = dtype, x, axes
        self.wide = np.longdouble if dtype is dtypes.float64 else np.float64
        self.low: Values = x.low.astype(self.wide)
        self.high: Values = self.low if x.is_point else x.high.astype(self.wide)
        self.largest: Values = np.abs(self.low)
        if not x.is_point:
            self.largest = np.maximum(self.largest, np.abs(self.high))
        self.finite = np.isfinite(self.largest)
        self.all_finite = bool(self.finite.all())
        self.limit = float(largest_finite(dtype))

    @property
    def precision(self) -> int:
        """Return the number of bits of a significand, including the implicit one."""
        return self.dtype.mantissa_bits + 1

    @property
    def loss(self) -> float:
        """Return the sum of the unit roundoffs of the type and of the reference's type."""
        return unit_roundoff(self.dtype) * MARGIN + float(np.finfo(self.wide).eps)

    def sum(self, values: Values) -> Values:
        """Sum over the axes, in the type of `values`."""
        return np.asarray(np.add.reduce(values, axis=self.axes, keepdims=True))

    def any(self, mask: BoolArray) -> BoolArray:
        """Return where `mask` holds for at least one term."""
        return _any(mask, self.axes)

    def narrow(self, low: Values, high: Values, unknown: BoolArray) -> Span:
        """Round wide ends to the type; the sign of a zero depends on the order."""
        ends = [narrow_float64(end.astype(np.float64), self.dtype) for end in (low, high)]
        if not unknown.any() and np.array_equal(low, high) and not (ends[0] == 0).any():
            return point(ends[0])
        return span(ends[0], ends[1], unknown, np.ones(unknown.shape, np.bool_))

    def odd_parts(self) -> tuple[Values, Values]:
        """Return the value of each term's last set bit, and its number of significant bits."""
        significand, exponent = np.frexp(self.largest.astype(np.float64))
        whole = np.where(self.finite, np.ldexp(significand, 53), 0).astype(np.int64)
        last = (whole & -whole).astype(np.float64)
        with np.errstate(divide="ignore"):
            length = np.where(whole != 0, 53 - np.log2(last), 0)
        return np.where(whole != 0, np.ldexp(last, exponent - 53), np.inf), length


def _sum(terms: _Terms, tiny: float, in_tiles: bool) -> Span:
    """Return a sum: exact if all partial sums are, else within (n - 1) u times the magnitudes.

    Args:
        tiny: The error of each addition on a device that flushes subnormals.
        in_tiles: True for an error of 2 n u instead.
    """
    largest = terms.largest if terms.all_finite else np.where(terms.finite, terms.largest, 0)
    magnitude = terms.sum(largest)
    number = terms.sum((terms.largest != 0).astype(np.float64))
    additions = np.where(number > 1, 2 * number, 0) if in_tiles else np.maximum(number - 1, 0)
    error = additions * (terms.loss * magnitude + tiny)
    if terms.x.is_point and error.any():
        last, _ = terms.odd_parts()
        quantum = np.minimum.reduce(last, axis=terms.axes, keepdims=True, initial=np.inf)
        exact = (magnitude <= quantum * 2.0**terms.precision) & (quantum >= tiny)
        error = np.where(exact, 0, error)
    unknown = terms.any(mask_of(terms.x)) | (magnitude + error > terms.limit)
    low = terms.sum(terms.low) - error
    high = terms.sum(terms.high) + error
    if terms.all_finite:
        return terms.narrow(low, high, unknown)
    # A certain infinity decides, unless the others may overflow. So does a certain NaN.
    unknown = unknown | terms.any(terms.x.open() & ~terms.finite)
    nan = terms.any(terms.x.is_certain_nan())
    nan |= terms.any(terms.x.is_number(np.inf)) & terms.any(terms.x.is_number(-np.inf))
    low, high = (np.where(nan, np.nan, end) for end in (low, high))
    return terms.narrow(low, high, unknown & ~nan)


def _product(terms: _Terms) -> Span:
    """Return a product: each multiplication that rounds contributes a factor from 1 - u to 1 + u.

    The result is unknown if some order may overflow or reach the subnormals.
    """
    x = terms.x
    smallest = terms.largest
    if not x.is_point:
        smallest = np.minimum(np.abs(terms.low), np.abs(terms.high))
        smallest = np.where(x.open() & x.may_be_zero(), 0, smallest)
    logarithm = np.log2(np.where(terms.finite & (terms.largest > 0), terms.largest, 1))
    above = terms.sum(np.maximum(logarithm, 0))
    logarithm = np.log2(np.where(terms.finite & (smallest > 0), smallest, 1))
    below = terms.sum(np.minimum(logarithm, 0))
    _, length = terms.odd_parts()
    inexact = (length > 1) | x.open()
    rounds = np.maximum(terms.sum(inexact.astype(np.float64)) - 1, 0)
    bits = terms.sum(np.where(inexact, np.where(x.open(), np.inf, length), 0))
    rounds = np.where(bits <= terms.precision, 0, rounds)
    slack = 2 * rounds * terms.loss + 1e-6
    overflows = above + slack >= math.log2(terms.limit)
    underflows = below - slack <= 2 - (1 << (terms.dtype.exponent_bits - 1))
    zero = terms.any(x.is_number(0))
    straddles = terms.any(x.open() & x.may_be_zero())
    unknown = overflows | ((underflows | straddles) & ~zero)
    return _signed_product(terms, unknown, zero, rounds, smallest)


def _signed_product(
    terms: _Terms, unknown: BoolArray, zero: BoolArray, rounds: Values, smallest: Values
) -> Span:
    x = terms.x

    def product(values: Values) -> Values:
        return np.asarray(np.multiply.reduce(values, axis=terms.axes, keepdims=True))

    negative = terms.sum((terms.low < 0).astype(np.int64)) % 2 == 1
    near = product(smallest) * (1 - terms.loss) ** rounds
    far = product(terms.largest) * (1 + terms.loss) ** rounds
    low, high = np.where(negative, -far, near), np.where(negative, -near, far)
    infinite = terms.any(~terms.finite)
    unknown = unknown | terms.any(mask_of(x)) | terms.any(x.open() & ~terms.finite)
    nan = terms.any(x.is_certain_nan())
    nan |= terms.any(x.is_number(np.inf) | x.is_number(-np.inf)) & zero
    low = np.where(zero & ~infinite, 0, low)
    high = np.where(zero & ~infinite, 0, high)
    low, high = np.where(nan, np.nan, low), np.where(nan, np.nan, high)
    return terms.narrow(low, high, unknown & ~nan)


def smallest_normal(dtype: DType) -> float:
    """Return the smallest positive value with a full significand."""
    return float(2.0 ** (2 - (1 << (dtype.exponent_bits - 1))))


def largest_finite(dtype: DType) -> float:
    """Return the largest value below infinity."""
    return float(from_bits(largest_bits(dtype), dtype).astype(np.float64))
