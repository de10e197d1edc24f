"""Inputs: edge grids, samples spaced evenly over the bit patterns, random bits, whole tables."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from tinyref.dtype import DType, Kind, dtypes, numpy_dtype
from tinyref_spec.bits import Array, bits_dtype, from_bits, to_bits


# Written again in the compiler's emulation of small floats: the rows judge it, so must not share.
def inf_bits(dtype: DType) -> int:
    """Return the bits of +infinity; of +NaN for fp8e4m3, which has no infinity."""
    if dtype is dtypes.fp8e4m3:
        return 0x7F
    return ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits


def quiet_nan_bits(dtype: DType) -> int:
    """Return the bits of the positive quiet NaN."""
    if dtype is dtypes.fp8e4m3:
        return 0x7F
    return inf_bits(dtype) | (1 << (dtype.mantissa_bits - 1))


def bias(dtype: DType) -> int:
    """Return the exponent bias."""
    return (1 << (dtype.exponent_bits - 1)) - 1


def largest_bits(dtype: DType) -> int:
    """Return the bits of the largest finite value."""
    return inf_bits(dtype) - 1


def _float_edge_bits(dtype: DType) -> list[int]:
    """Return positive edges: zero, subnormal and normal limits, ones, powers, ties, inf, NaN."""
    mantissa = dtype.mantissa_bits
    one = bias(dtype) << mantissa
    smallest_normal = 1 << mantissa
    half_ulp_tie = one | (1 << (mantissa - 1))
    edge_bits = [0, 1, 2, 3, smallest_normal - 1, smallest_normal, smallest_normal + 1]
    edge_bits += [one - 1, one, one + 1, half_ulp_tie, one + smallest_normal, one - smallest_normal]
    edge_bits += [
        largest_bits(dtype) - 1,
        largest_bits(dtype),
        inf_bits(dtype),
        quiet_nan_bits(dtype),
    ]
    for exponent in (-8, -3, 2, 3, 7):
        shifted = one + (exponent << mantissa)
        if 0 < shifted < inf_bits(dtype):
            edge_bits += [shifted, shifted + 1]
    return sorted({bits for bits in edge_bits if bits <= quiet_nan_bits(dtype)})


@functools.cache
def edges(dtype: DType) -> Array:
    """Return the edge grid of `dtype`: about 20 integers or 50 floats; NaNs are quiet."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_float:
        sign = 1 << (dtype.bits - 1)
        positive = _float_edge_bits(dtype)
        return from_bits(positive + [bits | sign for bits in positive], dtype)
    low, high = int(dtype.minimum), int(dtype.maximum)
    numbers = {low, low + 1, low + 2, high, high - 1, high - 2, high // 2, high // 2 + 1}
    numbers |= {0, 1, 2, 3, 5, 7, 10, 100, -1, -2, -3, -5, -7, -10, -100}
    in_range = sorted(value for value in numbers if low <= value <= high)
    return np.array(in_range, dtype=numpy_dtype(dtype))


@functools.cache
def nan_payloads(dtype: DType) -> Array:
    """Return NaNs of a float type, signalling and quiet, of both signs; empty for other types.

    Those of float32 include 0x7fffffff and 0x7f800001. A rounding that adds to the bits carries the
    first into the sign. The second is an infinity if the low bits are dropped.
    """
    if not dtype.is_float:
        return edges(dtype)[:0]
    if dtype is dtypes.fp8e4m3:
        return from_bits([0x7F, 0xFF], dtype)
    mantissa = dtype.mantissa_bits
    quiet_bit, ones = 1 << (mantissa - 1), (1 << mantissa) - 1
    mixed = (0x7F8C22 << 29) >> (52 - mantissa)
    payloads = {1, quiet_bit - 1, quiet_bit, quiet_bit | 1, mixed, ones} - {0}
    sign = 1 << (dtype.bits - 1)
    bits = [inf_bits(dtype) | payload for payload in sorted(payloads)]
    return from_bits([*bits, *(item | sign for item in bits)], dtype)


# The mantissa bits of fp8e5m2, fp8e4m3, bfloat16, float16, float32 and float64.
_MANTISSAS = (2, 3, 7, 10, 23, 52)


@functools.cache
def ties(dtype: DType) -> Array:
    """Return powers of two, their neighbours, and numbers halfway between two floats of a type.

    A conversion to that type changes sides there, and one that rounds twice fails. Both signs,
    without NaNs and infinities; for bool, both values.
    """
    if dtype.is_bool:
        return edges(dtype)
    if dtype.is_float:
        one = bias(dtype) << dtype.mantissa_bits
        halves = [1 << (dtype.mantissa_bits - m - 1) for m in _MANTISSAS if m < dtype.mantissa_bits]
        bits = [one + half + step for half in (0, *halves) for step in (-1, 0, 1)]
        sign = 1 << (dtype.bits - 1)
        return from_bits([*bits, *(item | sign for item in bits)], dtype)
    numbers = set()
    for power in range(2, dtype.bits, 3):
        halves = [1 << (power - m - 1) for m in _MANTISSAS if m < power]
        numbers |= {(1 << power) + half + step for half in (0, *halves) for step in (-1, 0, 1)}
    numbers |= {-value for value in numbers}
    in_range = sorted(
        value for value in numbers if int(dtype.minimum) <= value <= int(dtype.maximum)
    )
    return np.array(in_range, dtype=numpy_dtype(dtype))


@functools.cache
def ties_between(source: DType, target: DType) -> Array:
    """Return numbers of `source` halfway between values of the float `target`, and neighbours.

    A conversion that goes through another type, or loses a bit, fails for these. Both signs; none
    if the source has no value in between.
    """
    if source.is_bool or not target.is_float:
        return edges(source)[:0]
    if source.is_float:
        bits = _float_tie_bits(source, target)
        sign = 1 << (source.bits - 1)
        return from_bits([*bits, *(item | sign for item in bits)], source)
    numbers = set()
    for power in range(target.mantissa_bits + 1, source.bits):
        ulp = 1 << (power - target.mantissa_bits)
        # Ties with the even neighbour below, and above.
        ties = [(1 << power) + odd * ulp + ulp // 2 for odd in (0, 1)]
        numbers |= {sign * (tie + step) for tie in ties for step in (-1, 0, 1) for sign in (-1, 1)}
    in_range = sorted(n for n in numbers if int(source.minimum) <= n <= int(source.maximum))
    return np.array(in_range, dtype=numpy_dtype(source))


def _float_tie_bits(source: DType, target: DType) -> list[int]:
    """Return bits of positive ties and their neighbours: normal, subnormal and largest results."""
    dropped = source.mantissa_bits - target.mantissa_bits
    if dropped <= 0:
        return []
    half, ulp, ones = 1 << (dropped - 1), 1 << dropped, (1 << source.mantissa_bits) - (1 << dropped)
    least, most = 1 - bias(target), bias(target)
    ties = [
        ((exponent + bias(source)) << source.mantissa_bits) + mantissa + half
        for exponent in (least, least + 1, -3, 0, 1, 5, most - 1, most)
        if 0 < exponent + bias(source) < 2 * bias(source) + 1
        for mantissa in (0, ulp, ones)
    ]
    smallest = least - target.mantissa_bits
    if smallest - 1 > 1 - bias(source):
        # Ties between two subnormals are normal numbers of the source.
        values = np.ldexp(np.array([0.5, 1.5, 2.5, 3.5]), smallest).astype(numpy_dtype(source))
        ties += to_bits(values).tolist()
    return sorted({tie + step for tie in ties for step in (-1, 0, 1)})


@functools.cache
def limits_between(source: DType, target: DType) -> Array:
    """Return the finite values of `source` at the edges of `target`, and their neighbours.

    A conversion of these wraps, overflows, is truncated or becomes zero.
    """
    if source.is_bool:
        return edges(source)[:0]
    edge_numbers = {sign * number for number in _limits(target) for sign in (1, -1)}
    if source.is_int:
        least, most = int(source.minimum), int(source.maximum)
        whole = {int(number) for number in edge_numbers if number == int(number)}
        in_range = sorted(number for number in whole if least <= number <= most)
        return np.array(in_range, dtype=numpy_dtype(source))
    with np.errstate(over="ignore"):
        values = np.array(sorted(map(float, edge_numbers))).astype(numpy_dtype(source))
    nearer_to_zero = from_bits(to_bits(values[values != 0]) - 1, source)
    values = np.concatenate([values, nearer_to_zero])
    return values[np.isfinite(values.astype(np.float64))]


def _limits(target: DType) -> set[float]:
    """Return edges by magnitude: of an integer and its modulus, of a float and its overflow."""
    if target.is_bool:
        return {1 << 8, 1 << 16, 1 << 32}
    if target.is_int:
        powers = (1 << (target.bits - 1), 1 << target.bits)
        whole = {*edges(target).tolist(), *(p + step for p in powers for step in (-1, 0, 1))}
        return whole | {number + 0.5 for number in whole}
    smallest, before, largest = map(
        float, from_bits([1, largest_bits(target) - 1, largest_bits(target)], target)
    )
    around = {*map(float, edges(target))}
    around |= {largest + (largest - before) / 2 + step for step in (-1, 0, 1)}
    around |= {smallest * number for number in (0.5, 0.75, 1.5, 2.5)}
    return set(filter(math.isfinite, around))


def random_bits(dtype: DType, count: int, seed: int) -> Array:
    """Return `count` values with uniform random bits; NaNs are quiet and bools are 0 or 1."""
    generator = np.random.default_rng([seed, dtype.bits, dtype.priority])
    if dtype.is_bool:
        return generator.integers(0, 2, count).astype(np.bool_)
    raw = generator.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    return quiet(raw.view(bits_dtype(dtype)), dtype)


def quiet(bits: Array, dtype: DType) -> Array:
    """Return the values with these bits, NaNs made quiet, since hardware may change others."""
    if not dtype.is_float or dtype is dtypes.fp8e4m3:
        return from_bits(bits, dtype)
    magnitude = bits & np.array((1 << (dtype.bits - 1)) - 1, dtype=bits.dtype)
    quiet_bit = np.array(1 << (dtype.mantissa_bits - 1), dtype=bits.dtype)
    return from_bits(np.where(magnitude > inf_bits(dtype), bits | quiet_bit, bits), dtype)


def moderate(dtype: DType, count: int, seed: int) -> Array:
    """Return `count` moderate values: floats around 1, integers small enough to multiply."""
    generator = np.random.default_rng([seed, dtype.bits, dtype.priority, 1])
    if dtype.is_bool:
        return generator.integers(0, 2, count).astype(np.bool_)
    if dtype.is_float:
        values = generator.standard_normal(count) * np.exp2(generator.integers(-2, 3, count))
        return values.astype(numpy_dtype(dtype))
    low = -100 if dtype.kind is Kind.SIGNED else 0
    return generator.integers(low, 101, count).astype(numpy_dtype(dtype))


def spaced_patterns(dtype: DType, count: int, offset: int = 0) -> Array:
    """Return `count` values at even distances over bit patterns, shifted by `offset` patterns."""
    step = max(1, (1 << dtype.bits) // count)
    mask = (1 << dtype.bits) - 1
    bits = np.array([(index * step + offset) & mask for index in range(count)], bits_dtype(dtype))
    return quiet(bits, dtype)


def small_integers(dtype: DType, count: int, seed: int, limit: int = 4) -> Array:
    """Return `count` integers within +-limit in any dtype: their sums and products are exact."""
    generator = np.random.default_rng([seed, dtype.bits, dtype.priority, 2])
    if dtype.is_bool:
        return generator.integers(0, 2, count).astype(np.bool_)
    low = 0 if dtype.is_unsigned else -limit
    return generator.integers(low, limit + 1, count).astype(numpy_dtype(dtype))


def table(dtype: DType) -> Array:
    """Return every value of a type of up to 16 bits, in the order of the bits."""
    return from_bits(np.arange(1 << dtype.bits), dtype)


def pair_table(left: DType, right: DType, numbers: Array) -> tuple[Array, Array]:
    """Return some of the 65,536 pairs of two 8-bit types, by number."""
    return from_bits(numbers >> 8, left), from_bits(numbers & 0xFF, right)


def fit_columns(columns: Sequence[Array], count: int) -> tuple[Array, ...]:
    """Return the columns repeated from their beginning to exactly `count` elements."""
    return tuple(np.resize(column, count) for column in columns)


def integers(*shape: int, seed: int = 0, most: int = 5) -> Array:
    """Return random integers from -`most` to `most` as float32."""
    generator = np.random.default_rng(seed)
    return generator.integers(-most, most + 1, shape).astype(np.float32)
