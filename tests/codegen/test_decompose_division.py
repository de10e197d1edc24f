"""Divisions by constants as products: equal to the semantics, for every divisor of 8 bits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from decomposed import Array, decomposed, evaluate, every, load, run

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.integer_division import (
    divide_by_constants,
)
from tinyref.codegen.narrow import narrow_index
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.ops import ALU, Ops

ALL_OPS = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
WIDE = frozenset({dtypes.bool, *dtypes.ints, dtypes.float32, dtypes.float64})
SLOW = Capabilities(WIDE, ALL_OPS, vector_lanes=(1, 4), slow_division=True)
# No wider type to multiply in.
NARROW = dataclasses.replace(SLOW, dtypes=WIDE - {dtypes.int64, dtypes.uint64})
LARGE = (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)


def name(dtype: DType) -> str:
    return dtype.name


def truncated(x: int, divisor: int) -> tuple[int, int]:
    """Quotient towards zero and remainder, of Python's integers."""
    quotient = abs(x) // abs(divisor)
    quotient = quotient if (x < 0) == (divisor < 0) else -quotient
    return quotient, x - quotient * divisor


def expected(values: Array, divisor: int, dtype: DType) -> tuple[Array, Array]:
    """Return quotients and remainders by Python integers; MIN / -1 wraps to MIN."""
    mask = (1 << dtype.bits) - 1
    word = np.dtype(f"u{dtype.itemsize}")
    pairs = [truncated(int(x), divisor) for x in values.tolist()]
    actual = [np.array([pair[k] & mask for pair in pairs], word) for k in (0, 1)]
    return actual[0].view(numpy_dtype(dtype)), actual[1].view(numpy_dtype(dtype))


def check(dtype: DType, divisor: int, values: Array, device: Capabilities = SLOW) -> None:
    quotients, remainders = expected(values, divisor, dtype)
    constant = build.const(dtype, divisor)
    for op, want in ((Ops.IDIV, quotients), (Ops.MOD, remainders)):
        value = decomposed(build.binary(op, load(0, dtype), constant), device)
        assert not [node for node in value.toposort() if node.op in (Ops.IDIV, Ops.MOD)]
        got = np.broadcast_to(evaluate(value, [values]), want.shape)
        wrong = np.flatnonzero(got != want)
        assert not wrong.size, (op, divisor, values[wrong[0]], got[wrong[0]], want[wrong[0]])


def divisors(dtype: DType) -> list[int]:
    """Return powers of two and neighbours, small and random ones, and ends, of both signs."""
    powers = [1 << k for k in range(dtype.bits)]
    actual = {p + d for p in powers for d in (-1, 0, 1)} | set(range(1, 12)) | {25, 125, 641, 1000}
    random = np.random.default_rng(1)
    actual |= {int(random.integers(0, 2**63)) >> shift for shift in range(0, 60, 5)}
    actual |= {-d for d in actual} | {int(dtype.minimum), int(dtype.maximum)}
    return sorted(d for d in actual if d and dtype.minimum <= d <= dtype.maximum)


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=name)
def test_every_8_bit_dividend_by_every_divisor(dtype: DType) -> None:
    for divisor in range(int(dtype.minimum), int(dtype.maximum) + 1):
        if divisor:
            check(dtype, divisor, every(dtype))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dtypes.int16, dtypes.uint16], ids=name)
def test_every_16_bit_dividend_by_chosen_divisors(dtype: DType) -> None:
    for divisor in divisors(dtype)[::5]:
        check(dtype, divisor, every(dtype))


def dividends(dtype: DType, divisor: int) -> Array:
    """Return ends, multiples of the divisor and neighbours, and random bits of every length."""
    low, high = int(dtype.minimum), int(dtype.maximum)
    size = abs(divisor)
    actual = {low, low + 1, -1, 0, 1, high - 1, high}
    for k in (1, 2, 3, high // size, high // size // 2, high // size - 1):
        actual |= {sign * (k * size + d) for d in (-1, 0, 1) for sign in (-1, 1)}
    random = np.random.default_rng(2)
    for shift in range(0, dtype.bits, 3):
        value = int(random.integers(0, 1 << 63)) * 2 >> (64 - dtype.bits + shift)
        actual |= {value, -value, high - value}
    stored = sorted(x for x in actual if low <= x <= high)
    return np.array(stored, numpy_dtype(dtype))


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("dtype", "device"),
    [*((dtype, SLOW) for dtype in LARGE), *((dtype, NARROW) for dtype in LARGE[:2])],
)
def test_dividends_of_32_and_64_bits(dtype: DType, device: Capabilities) -> None:
    for divisor in divisors(dtype):
        check(dtype, divisor, dividends(dtype, divisor), device)


def test_known_ranges_make_shorter_divisions() -> None:
    x = build.both(load(0, dtypes.int32), 0xFFFF)
    value = decomposed(build.idiv(x, 10), SLOW)
    values = np.arange(-70_000, 70_000, dtype=np.int32)
    assert (evaluate(value, [values]) == (values & 0xFFFF) // 10).all()
    # No sign to care for: a product and a shift.
    assert len([node for node in value.toposort() if node.op in ALU]) <= 9


def test_vectors_divide_lane_by_lane() -> None:
    values = np.arange(-32, 32, dtype=np.int32).reshape(4, -1)
    value = build.mod(load(0, dtypes.int32, 4), -7)
    assert (run(value, [values], SLOW) == np.fmod(values, -7)).all()


@pytest.mark.parametrize("dtype", [dtypes.uint64, dtypes.int64, dtypes.uint32])
def test_a_remainder_is_an_index_of_what_it_can_be(dtype: DType) -> None:
    """Guard x % 5 of uint64, which was refused as an index that may be beyond int64."""
    value = build.cast(build.mod(load(0, dtype), 5), dtypes.index)
    actual = narrow_index(divide_by_constants(value, SLOW), SLOW)
    assert actual.dtype is dtypes.int32
    values = np.array([0, 4, 5, 2**31 - 1, int(dtype.maximum)], numpy_dtype(dtype))
    assert evaluate(actual, [values]).tolist() == [0, 4, 0, 2, int(dtype.maximum) % 5]


def test_an_index_with_a_remainder_needs_no_64_bits() -> None:
    position = build.add(build.cast(build.mod(load(0, dtypes.uint32), 5), dtypes.index), 100)
    actual = narrow_index(divide_by_constants(position, NARROW), NARROW)
    assert actual.dtype is dtypes.int32
    values = np.array([0, 4, 5, 2**32 - 1], np.uint32)
    assert evaluate(actual, [values]).tolist() == [100, 104, 100, 100]


def test_an_index_that_may_be_beyond_int64_is_refused() -> None:
    quotient = build.cast(build.idiv(load(0, dtypes.uint64), 1), dtypes.index)
    with pytest.raises(UserError, match="from 0 to 18446744073709551615 is beyond int64"):
        narrow_index(divide_by_constants(quotient, SLOW), SLOW)


def test_divisions_stay_where_they_are_not_slow_or_not_by_a_constant() -> None:
    fast = dataclasses.replace(SLOW, slow_division=False)
    by_ten = build.idiv(load(0, dtypes.int32), 10)
    assert decomposed(by_ten, fast) is by_ten
    by_value = build.idiv(load(0, dtypes.int32), load(1, dtypes.int32))
    assert decomposed(by_value, SLOW) is by_value
    by_zero = build.idiv(load(0, dtypes.int32), 0)
    assert decomposed(by_zero, SLOW) is by_zero


@pytest.mark.table
@pytest.mark.parametrize(
    ("divisor", "steps"),
    [
        (8, "SHR"),
        (641, "CAST CAST MUL SHR CAST"),
        (5, "CAST CAST MUL SHR CAST SHR"),
        # Its factor has a bit too many: half of the difference is added to what is computed.
        (7, "CAST CAST MUL SHR CAST SUB SHR ADD SHR"),
        # So would the factor of 14, but a dividend that is halved first needs no such factor.
        (14, "SHR CAST CAST MUL SHR CAST SHR"),
        (28, "SHR CAST CAST MUL SHR CAST"),
    ],
)
def test_steps_of_an_unsigned_division(divisor: int, steps: str) -> None:
    value = decomposed(build.idiv(load(0, dtypes.uint32), divisor), SLOW)
    assert " ".join(node.op.name for node in value.toposort() if node.op in ALU) == steps
