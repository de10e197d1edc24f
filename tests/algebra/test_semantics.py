"""Test the scalar semantics by literals."""

import math
import warnings

import numpy as np
import pytest
from run_rows import failures

from tinyref.algebra.semantics import apply, fold, kernel_for, reduce_identity
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.ops import ALU, Ops
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest

NAN = math.nan
INF = math.inf
i8, u8, i16, u16 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16
i32, u32, i64, u64 = dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64
f16, bf16, f32, f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
e4m3, e5m2, truth, index = dtypes.fp8e4m3, dtypes.fp8e5m2, dtypes.bool, dtypes.index


def same(actual, expected):
    """Return True if the bits are equal, or both are NaN."""
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(actual)
    return (type(actual), actual, math.copysign(1, actual)) == (
        type(expected),
        expected,
        math.copysign(1, expected),
    )


# Cases that rows of the suite leave open, or lack types for: here they have one value.
LITERALS = [
    (Ops.ADD, index, (2**40, 2**40), 2**41),
    (Ops.IDIV, i8, (-128, -1), -128),
    (Ops.IDIV, i32, (5, 0), 0),
    (Ops.IDIV, i32, (-5, 0), 0),
    (Ops.IDIV, u8, (200, 0), 0),
    (Ops.MOD, i8, (-128, -1), 0),
    (Ops.MOD, i32, (5, 0), 0),
    (Ops.MOD, u8, (200, 0), 0),
    (Ops.SHL, i32, (1, 32), 0),
    (Ops.SHR, i8, (-5, 100), -1),
    (Ops.SIN, f64, (1e22,), -0.8522008497671888),
    (Ops.MULACC, i8, (16, 16, 5), 5),
    # Fused it would be 2**-24.
    (Ops.MULACC, f32, (1 + 2.0**-12, 1 + 2.0**-12, -1 - 2.0**-11), 0.0),
    (Ops.THREEFRY, u64, (0, 0), 0x99BA4EFE_6B200159),
    (Ops.THREEFRY, u64, (2**64 - 1, 2**64 - 1), 0xBB002BE7_1CB996FC),
    (Ops.THREEFRY, u64, (0x85A308D3_243F6A88, 0x03707344_13198A2E), 0x483DF7A0_C4923A9C),
]


@pytest.mark.table
@pytest.mark.parametrize(("op", "dtype", "values", "gives"), LITERALS)
def test_literal(op, dtype, values, gives):
    assert same(fold(op, dtype, values), gives)


CASTS = [
    (index, i32, 2**31, -(2**31)),
    (f32, i32, NAN, 0),
    (f32, i8, 1000.0, 127),
    (f64, i64, INF, 2**63 - 1),
    (f64, i64, -INF, -(2**63)),
    # Through float64 the last 1 would be lost, and the rest is a tie.
    (i64, bf16, 2**60 + 2**52 + 1, float(2**60 + 2**53)),
    (i64, bf16, -(2**60) - 2**52 - 1, -float(2**60 + 2**53)),
    (i64, bf16, 2**60 + 2**52, float(2**60)),
    (u64, bf16, 2**63 + 2**55 + 1, float(2**63 + 2**56)),
    (f64, bf16, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7),
    (f64, e4m3, 1 + 2.0**-4 + 2.0**-40, 1.125),
    (f32, e4m3, 464.0, 448.0),
    (f32, e4m3, 465.0, NAN),
]


@pytest.mark.table
@pytest.mark.parametrize(("source", "target", "value", "gives"), CASTS)
def test_cast(source, target, value, gives):
    assert same(fold(Ops.CAST, target, (value,), (source,)), gives)


def test_folding_keeps_python_types_and_the_types_of_sources():
    assert fold(Ops.CMPLT, truth, (-1, 0), (i32, i32)) is True
    assert fold(Ops.BITCAST, u32, (1.0,), (f32,)) == 0x3F800000
    assert fold(Ops.WHERE, f32, (False, 1.0, -0.0), (truth, f32, f32)) == 0
    assert fold(Ops.SHR, i8, (-128, 3), (i8, u64)) == -16


@pytest.mark.long
@pytest.mark.parametrize("query", ["isa.unary.*", "isa.binary.*", "isa.ternary.*", "isa.*cast.*"])
def test_rows_of_the_suite(query):
    """Check rows of the suite: the interpreter computes by these semantics."""
    cases = list(catalogue.cases(Profile.QUICK, query))[::11]
    assert failures(DeviceUnderTest("PYTHON"), cases) == {}


AWKWARD = {
    # Small numbers, and both ends of three types.
    "int": sorted(
        {*range(-2, 4), 7, 100, *(s * 2**k - (s > 0) for k in (7, 31, 63) for s in (-1, 1))}
    ),
    "float": [0.0, -0.0, 1.0, -1.5, 3.0, 1e-45, 1e-300, 1e30, -1e300, INF, -INF, NAN],
}


def awkward(dtype):
    """Return values that overflow, divide by zero, or are no numbers: all pairs, as two arrays."""
    with np.errstate(all="ignore"):
        values = np.array(AWKWARD["float" if dtype.is_float else "int"]).astype(numpy_dtype(dtype))
    return np.repeat(values, len(values)), np.tile(values, len(values))


@pytest.mark.table
@pytest.mark.parametrize(
    "dtype", [*dtypes.ints, *dtypes.floats, index], ids=lambda dtype: dtype.name
)
def test_nothing_warns_and_types_stay(dtype):
    first, second = awkward(dtype)
    floats_only = {Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.FDIV, Ops.POW}
    ints_only = {Ops.IDIV, Ops.MOD, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR}
    special = {Ops.WHERE, Ops.MULACC, Ops.CAST, Ops.BITCAST, Ops.THREEFRY, Ops.CMPLT, Ops.CMPNE}
    unary = {Ops.NEG, *floats_only} - {Ops.FDIV, Ops.POW}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for op in ALU - special - (ints_only if dtype.is_float else floats_only):
            operands = [first] if op in unary else [first, second]
            assert apply(op, dtype, operands).dtype == numpy_dtype(dtype), op
            small = [operand[:1].reshape(()) for operand in operands]
            assert isinstance(apply(op, dtype, small), np.ndarray), op
        assert apply(Ops.MULACC, dtype, [first, second, first]).dtype == numpy_dtype(dtype)
        for target in (*dtypes.all, index):
            assert apply(Ops.CAST, target, [first]).dtype == numpy_dtype(target)
            assert apply(Ops.CAST, target, [first[:0]]).shape == (0,)


# The special cases of pow in C23, F.10.4.4.
POWERS = {
    0.5: [math.inf, 0.0, 0.0, math.nan, 2.0, math.inf, math.nan],
    -0.5: [0.0, math.inf, math.inf, math.nan, 0.5, 0.0, math.nan],
    1.0: [-math.inf, -0.0, 0.0, -4.0, 4.0, math.inf, math.nan],
    -1.0: [-0.0, -math.inf, math.inf, -0.25, 0.25, 0.0, math.nan],
    2.0: [math.inf, 0.0, 0.0, 16.0, 16.0, math.inf, math.nan],
    0.0: [1.0] * 7,
}


@pytest.mark.parametrize("exponent", POWERS)
def test_a_power_by_one_number_is_a_power_by_an_array(exponent):
    bases = np.array([-math.inf, -0.0, 0.0, -4.0, 4.0, math.inf, math.nan], np.float32)
    exponents = np.full(bases.shape, exponent, np.float32)
    for one in (exponents, exponents[:1], np.array(exponent, np.float32)):
        powers = apply(Ops.POW, f32, [bases, one])
        assert list(map(repr, powers.tolist())) == list(map(repr, POWERS[exponent]))
    for base, power in zip(bases, POWERS[exponent], strict=True):
        result = apply(Ops.POW, f32, [np.array(base), np.array(exponent, np.float32)])
        assert repr(result.item()) == repr(power)


def test_division_by_one_number_is_division_by_an_array():
    for dtype in (i8, u8):
        every = np.arange(256).astype(numpy_dtype(dtype))
        for op in (Ops.IDIV, Ops.MOD):
            table = apply(op, dtype, [every[:, None], every[None, :]])
            for column, divisor in enumerate(every):
                one = apply(op, dtype, [every, np.array(divisor)])
                np.testing.assert_array_equal(one, table[:, column])


def test_threefry_keeps_shape_and_broadcasts():
    counters = np.arange(6, dtype=np.uint64).reshape(2, 3)
    result = apply(Ops.THREEFRY, u64, [counters, np.array(0, np.uint64)])
    assert result.shape == (2, 3)
    assert int(result[0, 0]) == 0x99BA4EFE_6B200159
    assert len(np.unique(result)) == 6


def test_kernel_is_resolved_once():
    assert kernel_for(Ops.ADD, f32) is np.add
    assert kernel_for(Ops.CAST, bf16, (i64,)) is kernel_for(Ops.CAST, bf16, (i64,))
    assert kernel_for(Ops.ADD, f32.vec(4)) is np.add


def test_reduce_identity():
    assert reduce_identity(Ops.ADD, f32) == 0.0
    assert reduce_identity(Ops.MUL, i8) == 1
    assert reduce_identity(Ops.MAX, i8) == -128
    assert reduce_identity(Ops.MAX, u8) == 0
    assert reduce_identity(Ops.MAX, f16) == -INF
    assert reduce_identity(Ops.MAX, truth) is False
    with pytest.raises(UserError, match="SUB does not reduce"):
        reduce_identity(Ops.SUB, f32)


def test_structure_has_no_semantics():
    with pytest.raises(UserError, match="LOAD: has no scalar semantics"):
        kernel_for(Ops.LOAD, f32)
