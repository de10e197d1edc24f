"""The scalar semantics, as literals."""

import math
import warnings

import numpy as np
import pytest

from tinyref.algebra.semantics import apply, fold, kernel_for, reduce_identity
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.ops import ALU, Ops

NAN = math.nan
INF = math.inf
i8, u8, i16, u16 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16
i32, u32, i64, u64 = dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64
f16, bf16, f32, f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
e4m3, e5m2, truth, index = dtypes.fp8e4m3, dtypes.fp8e5m2, dtypes.bool, dtypes.index


def same(found, wanted):
    """Equal as bits, but for the sign and payload of NaN."""
    if isinstance(wanted, float) and math.isnan(wanted):
        return math.isnan(found)
    return (type(found), found, math.copysign(1, found)) == (
        type(wanted),
        wanted,
        math.copysign(1, wanted),
    )


LITERALS = [
    (Ops.ADD, i8, (127, 1), -128),
    (Ops.ADD, u8, (255, 1), 0),
    (Ops.ADD, index, (2**40, 2**40), 2**41),
    (Ops.ADD, f32, (16777216.0, 1.0), 16777216.0),
    (Ops.ADD, f16, (2048.0, 1.0), 2048.0),
    (Ops.ADD, f16, (65504.0, 16.0), INF),
    (Ops.ADD, bf16, (256.0, 1.0), 256.0),
    (Ops.ADD, f64, (INF, -INF), NAN),
    (Ops.ADD, f32, (-0.0, -0.0), -0.0),
    (Ops.ADD, f32, (-0.0, 0.0), 0.0),
    (Ops.SUB, u32, (0, 1), 2**32 - 1),
    (Ops.SUB, i64, (-(2**63), 1), 2**63 - 1),
    (Ops.MUL, i32, (65536, 65536), 0),
    (Ops.MUL, i16, (-32768, -1), -32768),
    (Ops.MUL, f32, (0.0, INF), NAN),
    (Ops.MUL, bf16, (1.0078125, 1.0078125), 1.015625),
    (Ops.NEG, i8, (-128,), -128),
    (Ops.NEG, u8, (1,), 255),
    (Ops.NEG, f32, (0.0,), -0.0),
    (Ops.IDIV, i32, (-7, 2), -3),
    (Ops.IDIV, i32, (7, -2), -3),
    (Ops.IDIV, i32, (-7, -2), 3),
    (Ops.IDIV, i32, (-8, 2), -4),
    (Ops.IDIV, i8, (-128, -1), -128),
    (Ops.IDIV, i32, (5, 0), 0),
    (Ops.IDIV, i32, (-5, 0), 0),
    (Ops.IDIV, u8, (200, 7), 28),
    (Ops.IDIV, u8, (200, 0), 0),
    (Ops.MOD, i32, (-7, 2), -1),
    (Ops.MOD, i32, (7, -2), 1),
    (Ops.MOD, i32, (-7, -2), -1),
    (Ops.MOD, i32, (-8, 2), 0),
    (Ops.MOD, i8, (-128, -1), 0),
    (Ops.MOD, i32, (5, 0), 0),
    (Ops.MOD, u8, (200, 7), 4),
    (Ops.MOD, u8, (200, 0), 0),
    (Ops.FDIV, f32, (1.0, 3.0), 0.3333333432674408),
    (Ops.FDIV, f32, (1.0, -0.0), -INF),
    (Ops.FDIV, f32, (0.0, 0.0), NAN),
    (Ops.FDIV, bf16, (1.0, 3.0), 0.333984375),
    (Ops.RECIP, f16, (3.0,), 0.333251953125),
    (Ops.RECIP, f32, (-0.0,), -INF),
    (Ops.SQRT, f32, (2.0,), 1.4142135381698608),
    (Ops.SQRT, f32, (-0.0,), -0.0),
    (Ops.SQRT, f32, (-1.0,), NAN),
    (Ops.EXP2, f32, (-INF,), 0.0),
    (Ops.EXP2, f32, (INF,), INF),
    (Ops.EXP2, f32, (128.0,), INF),
    (Ops.EXP2, f32, (-149.0,), 2.0**-149),
    (Ops.EXP2, f16, (-24.0,), 2.0**-24),
    (Ops.EXP2, bf16, (0.5,), 1.4140625),
    (Ops.LOG2, f32, (0.0,), -INF),
    (Ops.LOG2, f32, (-0.0,), -INF),
    (Ops.LOG2, f32, (-1.0,), NAN),
    (Ops.LOG2, f32, (8.0,), 3.0),
    (Ops.LOG2, f64, (INF,), INF),
    (Ops.SIN, f32, (-0.0,), -0.0),
    (Ops.SIN, f32, (INF,), NAN),
    (Ops.SIN, f32, (1e22,), -0.734081506729126),
    (Ops.SIN, f64, (1e22,), -0.8522008497671888),
    (Ops.POW, f32, (2.0, 0.5), 1.4142135381698608),
    (Ops.POW, f32, (NAN, 0.0), 1.0),
    (Ops.POW, f32, (1.0, NAN), 1.0),
    (Ops.POW, f32, (-1.0, INF), 1.0),
    (Ops.POW, f32, (-2.0, 3.0), -8.0),
    (Ops.POW, f32, (-8.0, 0.5), NAN),
    (Ops.POW, f32, (-0.0, -3.0), -INF),
    (Ops.POW, f32, (-0.0, -2.0), INF),
    (Ops.POW, f32, (-0.0, 3.0), -0.0),
    (Ops.POW, f32, (0.5, -INF), INF),
    (Ops.POW, f32, (-INF, 3.0), -INF),
    (Ops.POW, f32, (-INF, -3.0), -0.0),
    (Ops.POW, f64, (-1.0, -INF), 1.0),
    (Ops.POW, f64, (-0.0, -3.0), -INF),
    (Ops.POW, f16, (300.0, 2.0), INF),
    (Ops.TRUNC, f32, (-1.7,), -1.0),
    (Ops.TRUNC, bf16, (-0.5,), -0.0),
    (Ops.MAX, i32, (-3, 2), 2),
    (Ops.MAX, truth, (False, True), True),
    (Ops.MAX, f32, (-INF, 2.0), 2.0),
    (Ops.AND, i8, (-4, 7), 4),
    (Ops.OR, u8, (5, 10), 15),
    (Ops.XOR, truth, (True, True), False),
    (Ops.XOR, i32, (-1, 5), -6),
    (Ops.SHL, i32, (1, 31), -(2**31)),
    (Ops.SHL, u8, (255, 4), 240),
    (Ops.SHL, i32, (1, 32), 0),
    (Ops.SHR, i8, (-5, 1), -3),
    (Ops.SHR, u8, (200, 3), 25),
    (Ops.SHR, i8, (-5, 100), -1),
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


COMPARISONS = [
    (Ops.CMPLT, i32, (-1, 0), True),
    (Ops.CMPLT, u32, (2**32 - 1, 0), False),
    (Ops.CMPLT, f32, (NAN, 1.0), False),
    (Ops.CMPLT, f32, (1.0, NAN), False),
    (Ops.CMPLT, f32, (-0.0, 0.0), False),
    (Ops.CMPLT, bf16, (1.0, 1.0078125), True),
    (Ops.CMPLT, truth, (False, True), True),
    (Ops.CMPNE, f32, (NAN, NAN), True),
    (Ops.CMPNE, f16, (-0.0, 0.0), False),
    (Ops.CMPNE, i8, (3, 3), False),
]


@pytest.mark.table
@pytest.mark.parametrize(("op", "source", "values", "gives"), COMPARISONS)
def test_comparison(op, source, values, gives):
    assert fold(op, truth, values, (source, source)) is gives


CASTS = [
    (i32, i8, 200, -56),
    (i8, u32, -1, 2**32 - 1),
    (index, i32, 2**31, -(2**31)),
    (f32, i32, 2.7, 2),
    (f32, i32, -2.7, -2),
    (f32, u8, -0.5, 0),
    (f32, i32, NAN, 0),
    (f32, i8, 1000.0, 127),
    (f64, u64, 2.0**63, 2**63),
    (f64, i64, INF, 2**63 - 1),
    (f64, i64, -INF, -(2**63)),
    (f32, truth, NAN, True),
    (f32, truth, -0.0, False),
    (e5m2, truth, 0.25, True),
    (i32, truth, -3, True),
    (truth, f16, True, 1.0),
    (truth, i64, True, 1),
    (i32, f16, 2049, 2048.0),
    (i32, f16, 2051, 2052.0),
    (i32, f16, 65519, 65504.0),
    (i32, f16, 65520, INF),
    (i64, f16, -(2**63), -INF),
    (i64, bf16, -1, -1.0),
    # Through float64 the last one would be lost, and what is left is a tie.
    (i64, bf16, 2**60 + 2**52 + 1, float(2**60 + 2**53)),
    (i64, bf16, -(2**60) - 2**52 - 1, -float(2**60 + 2**53)),
    (i64, bf16, 2**60 + 2**52, float(2**60)),
    (u64, bf16, 2**63 + 2**55 + 1, float(2**63 + 2**56)),
    (i64, f32, 2**60 + 2**36 + 1, float(2**60 + 2**37)),
    (u64, f32, 2**63 + 2**39 + 1, float(2**63 + 2**40)),
    (i64, f64, 2**53 + 1, float(2**53)),
    (u64, e5m2, 2**64 - 1, INF),
    (u64, bf16, 2**64 - 1, float(2**64)),
    (f64, f32, 1 + 2.0**-24 + 2.0**-50, 1 + 2.0**-23),
    (f64, f16, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-10),
    (f64, bf16, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7),
    (f64, bf16, 1 + 2.0**-8, 1.0),
    (f64, e4m3, 1 + 2.0**-4 + 2.0**-40, 1.125),
    (f32, e4m3, 464.0, 448.0),
    (f32, e4m3, 465.0, NAN),
    (f32, e5m2, 1e9, INF),
    (f16, e5m2, 61440.0, INF),
    (e4m3, e5m2, 448.0, 448.0),
    (f32, f16, 65520.0, INF),
    (f32, bf16, -0.0, -0.0),
    (bf16, f16, 1e9, INF),
    (f64, f32, NAN, NAN),
    (f64, f32, 1e300, INF),
]


@pytest.mark.table
@pytest.mark.parametrize(("source", "target", "value", "gives"), CASTS)
def test_cast(source, target, value, gives):
    value = float(np.array(value, numpy_dtype(source))) if source.is_float else value
    assert same(fold(Ops.CAST, target, (value,), (source,)), gives)


def test_bitcast():
    assert fold(Ops.BITCAST, u32, (1.0,), (f32,)) == 0x3F800000
    assert fold(Ops.BITCAST, f32, (0x7F800000,), (u32,)) == INF
    assert fold(Ops.BITCAST, bf16, (0x3F81,), (u16,)) == 1.0078125
    assert fold(Ops.BITCAST, i8, (255,), (u8,)) == -1
    assert fold(Ops.BITCAST, u8, (1.0,), (e4m3,)) == 0x38


def test_where_and_shift_by_another_type():
    assert fold(Ops.WHERE, i32, (True, 1, 2), (truth, i32, i32)) == 1
    assert fold(Ops.WHERE, f32, (False, 1.0, -0.0), (truth, f32, f32)) == 0
    assert fold(Ops.SHL, i32, (3, 4), (i32, u32)) == 48
    assert fold(Ops.SHR, i8, (-128, 3), (i8, u64)) == -16


AWKWARD = {
    # Small numbers, and both ends of three types.
    "int": sorted(
        {*range(-2, 4), 7, 100, *(s * 2**k - (s > 0) for k in (7, 31, 63) for s in (-1, 1))}
    ),
    "float": [0.0, -0.0, 1.0, -1.5, 3.0, 1e-45, 1e-300, 1e30, -1e300, INF, -INF, NAN],
}


def awkward(dtype):
    """Values that overflow, divide by zero, or are not numbers, all pairs of them as two arrays."""
    with np.errstate(all="ignore"):
        values = np.array(AWKWARD["float" if dtype.is_float else "int"]).astype(numpy_dtype(dtype))
    return np.repeat(values, len(values)), np.tile(values, len(values))


@pytest.mark.table
@pytest.mark.parametrize("dtype", [*dtypes.ints, *dtypes.floats, index], ids=lambda each: each.name)
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
    found = apply(Ops.THREEFRY, u64, [counters, np.array(0, np.uint64)])
    assert found.shape == (2, 3)
    assert int(found[0, 0]) == 0x99BA4EFE_6B200159
    assert len(np.unique(found)) == 6


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
