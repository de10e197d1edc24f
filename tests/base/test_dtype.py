"""Test element types: names, lattice, constants, rounding."""

from __future__ import annotations

import math
import pickle

import ml_dtypes
import numpy as np
import pytest

from tinyref.dtype import (
    AddressSpace,
    as_const,
    dtype_from_name,
    dtypes,
    from_numpy_dtype,
    image,
    narrow_float64,
    numpy_dtype,
    pointer,
    promote,
    round_float,
    sum_dtype,
    to_dtype,
)
from tinyref.errors import UserError


def test_types_are_interned():
    assert dtypes.float32.vec(4) is dtypes.float32.vec(4)
    assert pointer(dtypes.int8, 3) is pointer(dtypes.int8, 3, AddressSpace.GLOBAL)
    assert pointer(dtypes.int8, 3) is not pointer(dtypes.int8, 3, AddressSpace.LOCAL)
    assert dtypes.half is dtypes.float16


@pytest.mark.parametrize(
    "dtype",
    [
        *dtypes.all,
        dtypes.index,
        dtypes.float16.vec(8),
        pointer(dtypes.float32, 12),
        pointer(dtypes.bfloat16.vec(4), 0, AddressSpace.REGISTER),
        image(dtypes.float16, 3, 5),
    ],
    ids=lambda dtype: dtype.name,
)
def test_names_read_back_to_the_same_object(dtype):
    assert dtype_from_name(dtype.name) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@pytest.mark.parametrize("name", ["", "int", "float32x3", "float32xx", "image.int8[1,2]", "*@"])
def test_bad_names_are_refused(name):
    with pytest.raises(UserError):
        dtype_from_name(name)


def test_vectors_of_vectors_are_refused():
    with pytest.raises(UserError, match="only scalar types"):
        dtypes.float32.vec(4).vec(2)
    with pytest.raises(UserError, match="lanes must be one of"):
        dtypes.float32.vec(3)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("bool", "bool", "bool"),
        ("bool", "uint8", "uint8"),
        ("int8", "uint8", "int16"),
        ("int16", "uint16", "int32"),
        ("int32", "uint32", "int64"),
        ("int64", "float16", "float16"),
        ("int64", "uint64", "float16"),
        ("uint64", "bfloat16", "bfloat16"),
        ("uint64", "int8", "float16"),
        ("float16", "bfloat16", "float32"),
        ("float32", "float64", "float64"),
        ("fp8e4m3", "fp8e5m2", "float16"),
        ("fp8e4m3", "fp8e4m3", "fp8e4m3"),
    ],
)
def test_promotion_follows_the_lattice(left, right, expected):
    assert promote(to_dtype(left), to_dtype(right)) is to_dtype(expected)
    assert promote(to_dtype(right), to_dtype(left)) is to_dtype(expected)


def test_promotion_is_associative_but_for_the_two_half_widths():
    exceptions = {dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.bfloat16, *dtypes.fp8s}
    plain = [dtype for dtype in dtypes.all if dtype not in exceptions]
    for a in plain:
        for b in plain:
            for c in plain:
                assert promote(promote(a, b), c) is promote(a, promote(b, c))


def test_sums_of_narrow_types_accumulate_wide():
    assert sum_dtype(dtypes.bool) is dtypes.int32
    assert sum_dtype(dtypes.int8) is dtypes.int32
    assert sum_dtype(dtypes.uint16) is dtypes.uint32
    assert sum_dtype(dtypes.uint64) is dtypes.uint64
    assert sum_dtype(dtypes.bfloat16) is dtypes.float32
    assert sum_dtype(dtypes.float64) is dtypes.float64


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (128, "int8", -128),
        (-1, "uint16", 65535),
        (2**63, "int64", -(2**63)),
        (3.9, "int32", 3),
        (-3.9, "int32", -3),
        (2, "bool", True),
        (0.0, "bool", False),
        (65520.0, "float16", math.inf),
        (65519.9, "float16", 65504.0),
        (1 + 2**-8 + 2**-40, "bfloat16", 1 + 2**-7),
        (1 + 2**-8, "bfloat16", 1.0),
        (2**60 + 2**36 + 1, "float32", 2.0**60 + 2**37),
        (2**60 + 2**36, "float32", 2.0**60),
        (10**400, "float32", math.inf),
        (-(10**400), "bfloat16", -math.inf),
        (448.0, "fp8e4m3", 448.0),
        (1e9, "fp8e5m2", math.inf),
    ],
)
def test_constants_wrap_or_round_once(value, dtype, expected):
    result = as_const(value, to_dtype(dtype))
    assert result == expected
    assert type(result) is type(expected)


def test_constants_keep_the_sign_of_zero_and_nan():
    assert math.copysign(1, as_const(-0.0, dtypes.bfloat16)) == -1
    assert math.isnan(as_const(math.nan, dtypes.float16))
    assert math.isnan(round_float(1e9, dtypes.fp8e4m3))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_integers_have_no_nan(value):
    with pytest.raises(UserError, match="has no value in int32"):
        as_const(value, dtypes.int32)


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, *dtypes.fp8s], ids=lambda dtype: dtype.name)
def test_narrowing_rounds_ties_to_even_between_all_neighbours(dtype):
    bits = np.arange(2 ** (dtype.itemsize * 8), dtype=np.uint32).astype(f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        values = np.unique(bits.view(numpy_dtype(dtype)).astype(np.float64))
    values = values[np.isfinite(values)]
    low, high = values[:-1], values[1:]
    middle = (low + high) / 2
    below = narrow_float64(np.nextafter(middle, -np.inf), dtype).astype(np.float64)
    above = narrow_float64(np.nextafter(middle, np.inf), dtype).astype(np.float64)
    np.testing.assert_array_equal(below, low)
    np.testing.assert_array_equal(above, high)
    tie = narrow_float64(middle, dtype)
    assert not (tie.view(f"u{dtype.itemsize}") & 1).any()


def test_numpy_types_go_both_ways():
    assert from_numpy_dtype(ml_dtypes.bfloat16) is dtypes.bfloat16
    assert from_numpy_dtype(np.int64) is dtypes.int64
    with pytest.raises(UserError, match="complex64 is not supported"):
        from_numpy_dtype(np.complex64)
    with pytest.raises(UserError, match=">f4"):
        from_numpy_dtype(">f4")


def test_unknown_dtype_names_the_argument_and_what_is_accepted():
    with pytest.raises(UserError, match=r"dtype: unknown dtype 'int33': accepted are bool, int8"):
        to_dtype("int33")
    with pytest.raises(UserError, match="out: unknown dtype 3"):
        to_dtype(3, "out")


@pytest.mark.parametrize(
    ("dtype", "minimum", "maximum"),
    [
        ("bool", False, True),
        ("int8", -128, 127),
        ("uint64", 0, 2**64 - 1),
        ("int64", -(2**63), 2**63 - 1),
        ("float16", -math.inf, math.inf),
    ],
)
def test_limits(dtype, minimum, maximum):
    assert to_dtype(dtype).minimum == minimum
    assert to_dtype(dtype).maximum == maximum
