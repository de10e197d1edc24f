"""Kinds of data that reveal faults which ordinary numbers hide: one table, by type and op.

A sum of any of them is exact in every order, or wraps; so is a product or a maximum. So the result
of a row is known to the bit, except for the sign of a zero that a sum or a maximum gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec import samples
from tinyref_spec.bits import Array, from_bits

# A sum of this many elements is exact in every order and every float type of arithmetic.
MAX_EXACT = 96


@dataclass(frozen=True)
class DataKind:
    """One kind: `pattern` returns some elements of a type, which are repeated.

    ops: the rows that may use it: `add`, `mul`, `max`, and `each` for elementwise rows. of: returns
    True for types that have it. subnormal: True if a device must keep subnormals for it.
    """

    name: str
    sentence: str
    pattern: Callable[[DType], Array]
    ops: frozenset[str]
    of: Callable[[DType], bool]
    subnormal: bool = False

    def array(self, dtype: DType, count: int) -> Array:
        """Return `count` elements of `dtype`, the same on every machine."""
        return np.resize(self.pattern(dtype), count)


def _filled(*values: float) -> Callable[[DType], Array]:
    return lambda dtype: np.array(values).astype(numpy_dtype(dtype))


def _cancelling(dtype: DType) -> Array:
    """Return terms that cancel to a small number; every partial sum is exact."""
    large = 2.0 ** (dtype.mantissa_bits - 6)
    return np.array([large, -large, 1.0, -large, large]).astype(numpy_dtype(dtype))


def _subnormals(dtype: DType) -> Array:
    sign = 1 << (dtype.bits - 1)
    return from_bits([1, sign | 2, 3, sign | 1, sign | 3, 2], dtype)


def _nans(dtype: DType) -> Array:
    """Return quiet NaNs of either sign with different payloads, among numbers."""
    nan, sign = samples.quiet_nan_bits(dtype), 1 << (dtype.bits - 1)
    one = samples.bias(dtype) << dtype.mantissa_bits
    return from_bits([one, nan | 1, one, one, sign | nan | 2, one, one], dtype)


def _wrapping(dtype: DType) -> Array:
    low, high = int(dtype.minimum), int(dtype.maximum)
    values = [high, 1, low, high - 1, low + 1, high, high // 2 + 1]
    return np.array(values, numpy_dtype(dtype))


def _powers(dtype: DType) -> Array:
    """Return powers of all sizes among the first few elements, which may be used alone."""
    values = samples.ties(dtype)
    return values[np.arange(values.size) * 17 % values.size]


_ALL = frozenset({"add", "mul", "max", "each"})
_SIGNED_LIMITS = frozenset({"add", "max", "each"})


def _is_float(dtype: DType) -> bool:
    return dtype in dtypes.floats


KINDS = (
    DataKind("negative_zeros", "Zeros, all negative.", _filled(-0.0), _ALL, _is_float),
    DataKind("all_equal", "One number, again and again.", _filled(-1.0), _ALL, _is_float),
    DataKind(
        "cancelling",
        "Large terms of both signs that cancel, with small ones between them.",
        _cancelling,
        frozenset({"add", "max", "each"}),
        _is_float,
    ),
    DataKind(
        "subnormals",
        "Subnormals of both signs, whose sums are subnormal.",
        _subnormals,
        _SIGNED_LIMITS,
        _is_float,
        subnormal=True,
    ),
    DataKind(
        "nan_payloads",
        "Quiet NaNs with payloads among numbers.",
        _nans,
        # A maximum with a NaN may give either operand.
        frozenset({"add", "mul", "each"}),
        _is_float,
    ),
    DataKind(
        "signed_zeros",
        "Zeros of both signs.",
        _filled(0.0, -0.0, -0.0, 0.0, 0.0, -0.0, 0.0),
        _ALL,
        _is_float,
    ),
    DataKind(
        "wrapping",
        "Integers around the least and the largest one.",
        _wrapping,
        _ALL,
        lambda dtype: dtype.is_int,
    ),
    DataKind(
        "powers",
        "Powers of two and their neighbours, and numbers halfway between floats.",
        _powers,
        _ALL,
        lambda dtype: dtype.is_int,
    ),
    DataKind(
        "all_largest",
        "The largest integer, again and again.",
        lambda dtype: np.array([dtype.maximum], numpy_dtype(dtype)),
        _ALL,
        lambda dtype: dtype.is_int,
    ),
    DataKind("all_false", "Only false.", _filled(0), _ALL, lambda dtype: dtype.is_bool),
    DataKind("all_true", "Only true.", _filled(1), _ALL, lambda dtype: dtype.is_bool),
)


def kinds_of(dtype: DType, op: str = "each", keeps_subnormals: bool = True) -> tuple[DataKind, ...]:
    """Return the kinds for data of a type in rows of an op, in the order of the table."""
    return tuple(
        kind
        for kind in KINDS
        if op in kind.ops and kind.of(dtype) and (keeps_subnormals or not kind.subnormal)
    )


def of_all_kinds(
    dtype: DType, count: int, op: str = "each", keeps_subnormals: bool = True
) -> Array:
    """Return `count` elements, the same number of each kind, one kind after another."""
    kinds = kinds_of(dtype, op, keeps_subnormals)
    if not kinds:
        return samples.moderate(dtype, count, 1)
    share = -(-count // len(kinds))
    return np.concatenate([kind.array(dtype, share) for kind in kinds])[:count]


def small_and_extreme(dtype: DType, count: int, seed: int, limit: int = 4) -> Array:
    """Return small integers; of an integer type, every third element is of a kind.

    For rows of integers that compute modulo 2^n. Floats stay exact in every order, and every other
    zero of them is negative.
    """
    small = samples.small_integers(dtype, count, seed, limit)
    if dtype.is_float:
        zeros = np.flatnonzero(small == 0)
        small[zeros[::2]] = -0.0
    if not dtype.is_int:
        return small
    return np.where(np.arange(count) % 3 == 1, np.roll(of_all_kinds(dtype, count), seed), small)
