"""The oracle of a kernel: specified and unspecified values, by literals; injected faults."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinyref.dtype import DType, dtypes, from_numpy_dtype, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.data import Content
from tinyref_fuzz.judge.oracles import Oracle, oracle_for
from tinyref_spec.kernel_case import KernelCase, Mode
from tinyref_spec.kernels.notation import load, shaped, store

NAN, INF = math.nan, math.inf
F32, F64, F16, BF16 = dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16
I8, I32, U8, BOOL = dtypes.int8, dtypes.int32, dtypes.uint8, dtypes.bool


def loads(*arrays) -> list[UOp]:
    """Return a load of each array, from slot 1 on."""
    return [
        load(slot, from_numpy_dtype(array.dtype), array.shape, max(1, array.size))
        for slot, array in enumerate(arrays, 1)
    ]


def case_of(value: UOp, arrays, shape=None, mode: Mode = Mode.EDGE, before=None) -> KernelCase:
    """Return the kernel that stores `value`, a node over the loads of `arrays`."""
    shape = arrays[0].shape if shape is None else shape
    size = max(1, math.prod(shape))
    ast = build.sink(store(0, value, shape, size))
    output = np.zeros(size, numpy_dtype(value.dtype))
    return KernelCase(ast, (output, *(array.reshape(-1) for array in arrays)), mode=mode)


def oracle_of(op: Ops, dtype: DType, *columns, out: DType | None = None) -> Oracle:
    """Return the oracle of one op on columns of numbers of `dtype`."""
    with np.errstate(all="ignore"):
        arrays = [np.array(column).astype(numpy_dtype(dtype)) for column in columns]
    return oracle_for(case_of(UOp(op, out or dtype, tuple(loads(*arrays))), arrays))


def accepts(oracle: Oracle, *values) -> bool:
    """Return True if slot 0 may hold `values`."""
    low = oracle.allowed[0].low
    with np.errstate(all="ignore"):
        return oracle.difference(0, np.array(values).astype(low.dtype)) == ""


def unknown(oracle: Oracle) -> list[bool]:
    mask = oracle.allowed[0].unknown
    return [False] * oracle.allowed[0].low.size if mask is None else mask.tolist()


# Unspecified values


@pytest.mark.parametrize("op", [Ops.IDIV, Ops.MOD], ids=lambda op: op.name)
def test_division_by_zero_and_of_min_by_minus_one_is_unspecified(op):
    oracle = oracle_of(op, I8, [7, 0, -128, -128, -128, 7], [0, 0, -1, 1, 0, -1])
    assert unknown(oracle) == [True, True, True, False, True, False]
    oracle = oracle_of(op, U8, [7, 128, 128], [0, 255, 1])
    assert unknown(oracle) == [True, False, False]


@pytest.mark.parametrize("op", [Ops.SHL, Ops.SHR], ids=lambda op: op.name)
def test_a_shift_by_the_width_or_a_negative_count_is_unspecified(op):
    oracle = oracle_of(op, I8, [1, 1, 1, 1, -1], [0, 7, 8, -1, 127])
    assert unknown(oracle) == [False, False, True, True, True]
    oracle = oracle_of(op, dtypes.uint64, [1, 1, 1], [63, 64, 2**63])
    assert unknown(oracle) == [False, True, True]


def test_a_cast_to_an_integer_that_does_not_hold_it_is_unspecified():
    values = [127.9, 128.0, -128.9, -129.0, NAN, INF, -0.5]
    oracle = oracle_of(Ops.CAST, F32, values, out=I8)
    assert unknown(oracle) == [False, True, False, True, True, True, False]
    assert accepts(oracle, 127, 0, -128, 1, 2, 3, 0)
    assert not accepts(oracle, 127, 0, -128, 1, 2, 3, -1)
    oracle = oracle_of(Ops.CAST, F64, [2.0**63, -(2.0**63), 2.0**63 - 1024], out=dtypes.int64)
    assert unknown(oracle) == [True, False, False]
    oracle = oracle_of(Ops.CAST, F32, [-0.9, -1.0, 255.5, 256.0], out=U8)
    assert unknown(oracle) == [False, True, False, True]
    assert unknown(oracle_of(Ops.CAST, F32, [NAN, INF, 0.0], out=BOOL)) == [False] * 3
    assert accepts(oracle_of(Ops.CAST, F32, [NAN, INF, -0.0], out=BOOL), True, True, False)


def test_the_maximum_of_a_nan_and_a_number_is_unspecified_and_of_zeros_the_sign():
    columns = [1.0, NAN, NAN, 0.0, -0.0], [NAN, 1.0, NAN, -0.0, -0.0]
    oracle = oracle_of(Ops.MAX, F32, *columns)
    assert unknown(oracle) == [True, True, False, False, False]
    assert accepts(oracle, NAN, 1, NAN, 0, 0)
    assert not accepts(oracle, NAN, 1, 2, 0, 0)
    x, y = loads(*(arrays := [np.array(column, np.float32) for column in columns]))
    bits = build.bitcast(build.maximum(x, y), I32)
    assert unknown(oracle_for(case_of(bits, arrays))) == [True, True, True, True, False]


def test_where_ignores_the_side_that_is_not_chosen():
    condition = np.array([True, False, True])
    x, y = np.array([5, 5, 5], np.int8), np.array([0, 0, 1], np.int8)
    chosen, left, right = loads(condition, x, y)
    divided = build.idiv(left, right)
    oracle = oracle_for(case_of(build.where(chosen, left, divided), [condition, x, y]))
    assert unknown(oracle) == [False, True, False]
    oracle = oracle_for(case_of(build.where(chosen, divided, left), [condition, x, y]))
    assert unknown(oracle) == [True, False, False]


def test_some_operands_absorb_an_unspecified_value():
    zero, ones = np.zeros(1, np.int8), np.full(1, -1, np.int8)
    left, right = loads(zero, ones)
    bad = build.idiv(right, left)
    for value, is_unknown in (
        (build.mul(bad, left), False),
        (build.both(bad, left), False),
        (build.either(bad, right), False),
        (build.either(bad, left), True),
        (build.both(bad, right), True),
        (build.add(bad, left), True),
        (build.both(build.less(bad, 0), build.less(left, 0)), False),
        (build.either(build.less(bad, 0), build.less(right, 0)), False),
        (build.not_equal(bad, bad), True),
    ):
        assert unknown(oracle_for(case_of(value, [zero, ones]))) == [is_unknown], value
    # For floats the product is not zero: an unspecified operand may be infinite.
    value = build.mul(build.cast(bad, F32), 0.0)
    assert unknown(oracle_for(case_of(value, [zero, ones]))) == [True]
    nan = build.maximum(build.bitcast(build.cast(left, I32), F32), math.nan)
    assert unknown(oracle_for(case_of(build.mul(nan, 0.0), [zero, ones]))) == [True]
    assert unknown(oracle_for(case_of(build.add(nan, math.nan), [zero, ones]))) == [False]


def test_a_gather_at_an_unspecified_position():
    table = np.array([10, 20, 30], np.int32)
    index, divisor = np.array([0, 2, 5], np.int32), np.array([1, 1, 0], np.int32)
    memory = build.define_global(1, I32, 3)
    at = build.idiv(*loads(table, index, divisor)[1:])
    tracker = ShapeTracker.from_shape((1, 3)).expand((3, 3))
    gathered = build.load(build.view(memory, tracker, at))
    case = case_of(gathered, [table, index, divisor], (3,))
    oracle = oracle_for(case)
    assert unknown(oracle) == [False, False, True]
    assert accepts(oracle, 10, 30, 99)
    assert not accepts(oracle, 10, 20, 99)


def contents(mode: Mode, dtype: DType, size: int, seed: int) -> np.ndarray:
    """Return moderate floats of both signs, or integers from -3 to 3."""
    largest = 3 if mode is Mode.EXACT else 16.0
    return Content(dtype, size, -largest, largest, seed).array(mode)


# Exact values


def test_correctly_rounded_ops_are_exact_to_the_bit():
    x, y = (contents(Mode.FLOAT, F32, 64, seed) for seed in (1, 2))
    left, right = loads(x, y)
    value = build.binary(Ops.FDIV, build.mul(build.add(left, right), left), right)
    value = build.add(build.unary(Ops.SQRT, build.mul(value, value)), build.unary(Ops.TRUNC, left))
    oracle = oracle_for(case_of(value, [x, y], mode=Mode.FLOAT))
    expected = np.sqrt(((x + y) * x / y) ** 2) + np.trunc(x)
    assert oracle.allowed[0].is_exact
    assert oracle.difference(0, expected) == ""
    wrong = expected.copy()
    wrong[7] = np.nextafter(wrong[7], np.float32(0))
    assert oracle.difference(0, wrong) == (
        f"element 7 of 64 is {wrong[7]!s}, the reference gives {expected[7]!s}"
    )


def test_elementary_functions_lie_within_their_units_in_the_last_place():
    for op, limit in ((Ops.EXP2, 3), (Ops.LOG2, 3), (Ops.SIN, 4)):
        oracle = oracle_of(op, F32, [3.3])
        exact = {Ops.EXP2: 2**3.3, Ops.LOG2: math.log2(3.3), Ops.SIN: math.sin(3.3)}
        wide = {Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin}[op]
        value = np.float32(wide(np.float64(np.float32(3.3))))
        assert abs(value - exact[op]) < 1e-5
        unit = np.spacing(abs(value))
        assert accepts(oracle, value + limit * unit)
        assert accepts(oracle, value - limit * unit)
        assert not accepts(oracle, value + 2 * (limit + 1) * unit)
        assert not accepts(oracle, value - 2 * (limit + 1) * unit)


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=lambda dtype: dtype.name)
def test_sums_and_products_of_small_integers_are_exact_in_any_order(dtype):
    x = contents(Mode.EXACT, dtype, 40, 3).reshape(4, 10)
    oracle = oracle_for(case_of(build.reduce(Ops.ADD, loads(x)[0], (1,)), [x], (4, 1)))
    expected = x.astype(np.float64).sum(axis=1)
    assert accepts(oracle, *expected)
    assert not accepts(oracle, *expected[:3], expected[3] + 1)
    y = np.array([[2, 4, -0.5, 3]], x.dtype)
    oracle = oracle_for(case_of(build.reduce(Ops.MUL, loads(y)[0], (1,)), [y], (1, 1)))
    assert accepts(oracle, -12)
    assert np.array_equal(oracle.allowed[0].low, oracle.allowed[0].high)


# Sums in any order


def dot(dtype: DType, rows: int, length: int, seed: int = 1):
    """Return row sums of products, and their factors."""
    x, y = (
        contents(Mode.FLOAT, dtype, rows * length, seed + number).reshape(rows, length)
        for number in (0, 1)
    )
    left, right = loads(x, y)
    return build.reduce(Ops.ADD, build.mul(left, right), (1,)), x, y


def test_a_sum_is_bounded_by_its_terms_in_any_order():
    value, x, y = dot(F32, 50, 64)
    oracle = oracle_for(case_of(value, [x, y], (50, 1), Mode.FLOAT))
    terms = x * y
    forward = np.zeros(50, np.float32)
    backward = np.zeros(50, np.float32)
    for column in range(64):
        forward = forward + terms[:, column]
        backward = backward + terms[:, 63 - column]
    assert (forward != backward).any()
    assert oracle.difference(0, forward) == ""
    assert oracle.difference(0, backward, forward) == ""
    allowed = oracle.allowed[0]
    error = 63 * 2.0**-24 * np.abs(terms.astype(np.float64)).sum(axis=1)
    width = allowed.high.astype(np.float64) - allowed.low
    assert (width <= 2.1 * error + 2 * np.spacing(np.abs(forward))).all()


def faults(x, y):
    """Yield faults of a sum of products of float32, by name."""
    exact = (x.astype(np.float64) * y).sum(axis=1)
    cut = [(array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for array in (x, y)]
    half = np.zeros(len(x), np.float16)
    for column in range(x.shape[1]):
        half = half + (x[:, column] * y[:, column]).astype(np.float16)
    yield "TF32", (cut[0].astype(np.float64) * cut[1]).sum(axis=1)
    yield "dropped element", exact - x[:, 3].astype(np.float64) * y[:, 3]
    yield "element twice", exact + x[:, 2].astype(np.float64) * y[:, 2]
    yield "f16 accumulation", half.astype(np.float64)
    yield "bf16 result", exact.astype(numpy_dtype(BF16)).astype(np.float64)
    yield "zero", np.zeros_like(exact)
    yield "NaN", np.full_like(exact, np.nan)
    yield "rows rotated", np.roll(exact, 1)


@pytest.mark.parametrize("length", [4, 64, 1000])
def test_injected_faults_of_a_sum_are_found(length):
    value, x, y = dot(F32, 40, length)
    oracle = oracle_for(case_of(value, [x, y], (40, 1), Mode.FLOAT))
    exact = (x.astype(np.float64) * y).sum(axis=1).astype(np.float32)
    assert oracle.difference(0, exact) == ""
    for name, wrong in faults(x, y):
        assert oracle.difference(0, wrong.astype(np.float32)), (name, length)
    allowed = oracle.allowed[0]
    off = exact.copy()
    off[11] += 3 * (allowed.high[11] - exact[11])
    sentence = oracle.difference(0, off)
    allowed_values = f"a value from {allowed.low[11]!s} to {allowed.high[11]!s}"
    assert sentence == f"element 11 of 40 is {off[11]!s}, the reference gives {allowed_values}"


def test_uncertain_values_pass_through_all_kinds_of_ops():
    """Check operations on sin(x) near 0.5: results are certain, uncertain, or unknown."""
    x = np.full(1, math.pi / 6, np.float32)
    near = build.unary(Ops.SIN, loads(x)[0])
    for value, is_unknown in (
        (build.less(near, 0.5), True),
        (build.less(near, 0.6), False),
        (build.cast(build.mul(near, 10.0), I32), True),
        (build.cast(build.mul(near, 11.0), I32), False),
        (build.bitcast(near, I32), True),
        (build.binary(Ops.FDIV, near, build.sub(near, 0.5)), True),
        (build.binary(Ops.FDIV, near, build.sub(near, 0.7)), False),
        (build.maximum(near, 0.4), False),
        (build.mul(build.sub(near, 0.5), math.inf), True),
        (build.add(near, math.nan), False),
    ):
        case = case_of(value, [x], mode=Mode.FLOAT)
        assert unknown(oracle_for(case)) == [is_unknown], value


# The oracle itself


def test_a_store_keeps_elements_that_it_does_not_cover():
    x = np.array([5, 6], np.int32)
    target = shaped(5).shrink(((1, 3),))
    ast = build.sink(store(0, build.idiv(loads(x)[0], loads(x)[0]), target, 5))
    for mode in Mode:
        oracle = oracle_for(KernelCase(ast, (np.full(5, 9, np.int32), x), mode=mode))
        assert oracle.slots == (0,)
        assert accepts(oracle, 9, 1, 1, 9, 9)
        assert not accepts(oracle, 9, 1, 1, 9, 0)
    zero = np.array([0, 6], np.int32)
    oracle = oracle_for(KernelCase(ast, (np.full(5, 9, np.int32), zero), mode=Mode.EDGE))
    assert unknown(oracle) == [False, True, False, False, False]


def test_differences_name_slot_element_and_values():
    x = np.array([1, 2], np.int32)
    value = load(2, I32, (2,))
    ast = build.sink(*(store(slot, value, (2,)) for slot in (0, 1)))
    empty = np.zeros(2, np.int32)
    oracle = oracle_for(KernelCase(ast, (empty, empty, x)))
    assert oracle.slots == (0, 1)
    sentence = oracle.difference(1, np.array([7, 8], np.int32))
    assert sentence == "output b1: element 0 of 2 is 7, the reference gives 1 (2 elements differ)"
    assert oracle.difference(1, x, np.array([1, 2], np.int32)) == ""
    assert oracle.difference(0, np.zeros(3, np.int32)) == "3 elements instead of 2"


def test_products_may_be_contracted_where_floats_are_not_strict(monkeypatch):
    x, y, z = (contents(Mode.FLOAT, F32, 64, seed) for seed in (1, 2, 3))
    left, right, added = loads(x, y, z)
    case = case_of(build.add(build.mul(left, right), added), [x, y, z], mode=Mode.FLOAT)
    fused = (x.astype(np.float64) * y + z).astype(np.float32)
    assert (fused != x * y + z).any()
    assert oracle_for(case).difference(0, fused)
    monkeypatch.setenv("TINYREF_STRICT_FLOAT", "0")
    oracle = oracle_for(case)
    assert oracle.difference(0, fused, x * y + z) == ""
    assert oracle.difference(0, fused * np.float32(1 + 2**-19))
    assert accepts(oracle_of(Ops.FDIV, F32, [1.0], [3.0]), np.float32(1 / 3) * (1 + 2**-22))
    assert not accepts(oracle_of(Ops.FDIV, F32, [1.0], [3.0]), np.float32(1 / 3) * (1 + 2**-20))
    assert accepts(oracle_of(Ops.MUL, F32, [0.0], [3.0]), 0)
    assert not accepts(oracle_of(Ops.MUL, F32, [0.0], [3.0]), 1e-45)
