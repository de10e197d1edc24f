"""Test value ranges: literals, and every op against all values of small types."""

import itertools

import numpy as np
import pytest
from expressions import INTEGER_BINARY

from tinyref.algebra.bounds import bounds, value_range, wrap_range
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.semantics import apply
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, BufferArg, LocalArg, ReduceArg, ShapeArg
from tinyref.views.shape_tracker import ShapeTracker

i8, u8, i32, index, truth = dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.index, dtypes.bool
x = build.variable("x", 0, 10)
y = build.variable("y", -3, 4)
small = build.variable("s", -100, 100, i8)
unknown = UOp(Ops.BUFFER, i8, (), BufferArg("CPU", 4, 1))
number = UOp(Ops.BUFFER, dtypes.float32, (), BufferArg("CPU", 4, 2))
flag = UOp(Ops.BUFFER, truth, (), BufferArg("CPU", 4, 3))

wide = build.variable("w", -(2**40), 2**40, dtypes.int64)
x_of_i8 = build.cast(build.variable("x", 0, 10), i8)
IN_NINE = build.both(build.at_least(wide, 0), build.less(wide, 9))

LITERALS = [
    (build.const(i8, -5), (-5, -5)),
    (build.const(truth, True), (1, 1)),
    (x, (0, 10)),
    (build.counter(7, 0, AxisKind.LOOP), (0, 6)),
    (build.counter(0, 0, AxisKind.LOOP), (0, 0)),
    (build.counter(build.variable("n", 1, 9), 0, AxisKind.LOOP), (0, 8)),
    (build.special("item", 0, 32), (0, 31)),
    (UOp(Ops.BIND, index, (x, build.const(index, 3))), (0, 10)),
    (build.add(x, y), (-3, 14)),
    (build.sub(x, y), (-4, 13)),
    (build.mul(x, y), (-30, 40)),
    (build.mul(build.const(index, 2**62), 4), (2**64, 2**64)),
    (build.unary(Ops.NEG, x), (-10, 0)),
    (build.idiv(x, 3), (0, 3)),
    (build.idiv(y, 2), (-1, 2)),
    (build.idiv(x, y), (-10, 10)),
    (build.mod(x, 3), (0, 2)),
    (build.mod(y, 3), (-2, 2)),
    (build.mod(build.add(x, 20), 100), (20, 30)),
    (build.mod(build.add(x, 20), -100), (20, 30)),
    (build.mod(build.add(x, 20), 20), (0, 10)),
    (build.maximum(x, y), (0, 10)),
    (build.less(x, 11), (1, 1)),
    (build.less(x, 0), (0, 0)),
    (build.less(x, 5), (0, 1)),
    (build.less(number, 5.0), (0, 1)),
    (build.where(build.both(build.at_least(small, 0), build.less(small, 5)), small, 0), (0, 4)),
    (build.where(build.less(small, 5), small, 7), (-100, 7)),
    (build.where(build.less(build.const(i8, 5), small), small, 0), (0, 100)),
    (build.where(build.at_least(small, 5), build.cast(small, index), 9), (5, 100)),
    (build.where(IN_NINE, build.cast(build.cast(wide, i8), index), 0), (0, 8)),
    # Too large for int8, so the cast may wrap.
    (build.where(build.less(wide, 900), build.cast(build.cast(wide, i8), index), 0), (-128, 127)),
    (build.where(build.less(small, x_of_i8), small, 0), (-100, 9)),
    # Tensor graphs have no ranges.
    (UOp(Ops.IOTA, i8, (), ShapeArg((7,))), (-128, 127)),
    (build.iota(ShapeTracker.from_shape((9,)).shrink(((3, 7),))), (0, 6)),
    (build.not_equal(x, 11), (1, 1)),
    (build.not_equal(x, 3), (0, 1)),
    (build.not_equal(build.const(i8, 3), build.const(i8, 3)), (0, 0)),
    (build.both(flag, build.const(truth, False)), (0, 0)),
    (build.either(flag, build.const(truth, True)), (1, 1)),
    (build.binary(Ops.AND, x, 3), (0, 3)),
    (build.binary(Ops.AND, y, 255), (0, 255)),
    (build.binary(Ops.OR, x, 16), (16, 31)),
    (build.binary(Ops.XOR, x, 3), (0, 15)),
    (build.binary(Ops.SHL, x, 2), (0, 40)),
    (build.binary(Ops.SHR, y, 1), (-2, 2)),
    (build.where(flag, x, y), (-3, 10)),
    (build.where(build.const(truth, True), x, y), (0, 10)),
    (build.where(build.const(truth, False), x, y), (-3, 4)),
    (build.add(small, 27), (-73, 127)),
    (build.add(small, 28), (-128, 127)),
    (build.add(build.variable("t", 120, 127, i8), 8), (-128, -121)),
    (build.mul(small, 2), (-128, 127)),
    (UOp(Ops.MULACC, index, (x, y, y)), (-33, 44)),
    (build.cast(y, u8), (0, 255)),
    (build.cast(x, u8), (0, 10)),
    (build.cast(build.variable("t", 300, 310), u8), (44, 54)),
    (build.cast(x, truth), (0, 1)),
    (build.cast(build.add(x, 1), truth), (1, 1)),
    (build.cast(number, i8), (-128, 127)),
    (build.cast(flag, i32), (0, 1)),
    (build.bitcast(build.variable("t", -1, -1, i8), u8), (255, 255)),
    (build.bitcast(number, i32), (-(2**31), 2**31 - 1)),
    (unknown, (-128, 127)),
    (build.vectorize(build.const(i8, 3), build.const(i8, 9)), (3, 9)),
    (build.gep(build.vectorize(build.const(i8, 3), build.const(i8, 9)), 0), (3, 9)),
    (UOp(Ops.AFTER, index, (x, flag)), (0, 10)),
    (UOp(Ops.PAD, u8, (build.const(u8, 4),)), (0, 255)),
    (UOp(Ops.REDUCE, i8, (build.const(i8, 4),), ReduceArg(Ops.MAX, (0,))), (-128, 127)),
    (UOp(Ops.DEFINE_ACC, i8, (build.const(i8, 4),), LocalArg("a")), (-128, 127)),
]


@pytest.mark.table
@pytest.mark.parametrize(("node", "span"), LITERALS, ids=[str(n) for n in range(len(LITERALS))])
def test_literal(node, span):
    assert bounds(node) == span


def test_other_types_have_no_range():
    assert value_range(number) is None
    with pytest.raises(UserError, match="bounds: BUFFER of float32 has no integer range"):
        bounds(number)


def test_wrap_range():
    assert wrap_range(u8, 250, 255) == (250, 255)
    assert wrap_range(u8, 250, 256) == (0, 255)
    assert wrap_range(u8, 256, 260) == (0, 4)
    assert wrap_range(i8, -130, -129) == (126, 127)
    assert wrap_range(index, -(2**70), 2**70) == (-(2**70), 2**70)


ENDS = {
    i8: (-128, -127, -9, -2, -1, 0, 1, 3, 8, 126, 127),
    u8: (0, 1, 2, 7, 8, 127, 200, 254, 255),
    index: (-9, -2, -1, 0, 1, 3, 8),
}


def spans(dtype):
    return [(low, high) for low in ENDS[dtype] for high in ENDS[dtype] if low <= high]


@pytest.mark.table
@pytest.mark.parametrize("dtype", [i8, u8, index], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", INTEGER_BINARY, ids=lambda op: op.name)
def test_binary_ranges_hold_every_value(op, dtype):
    """Compare all pairs of intervals between chosen ends with all values of the op in them."""
    low_end, high_end = min(ENDS[dtype]), max(ENDS[dtype])
    every = np.arange(low_end, high_end + 1).astype(numpy_dtype(dtype))
    table = apply(op, dtype, [every[:, None], every[None, :]]).astype(np.int64)
    tight = 0
    pairs = list(itertools.product(spans(dtype), spans(dtype)))
    for left, right in pairs[:: 1 if len(pairs) < 900 else 3]:
        first = build.variable("l", *left, dtype)
        second = build.variable("r", *right, dtype)
        low, high = bounds(build.binary(op, first, second))
        rows = slice(left[0] - low_end, left[1] - low_end + 1)
        columns = slice(right[0] - low_end, right[1] - low_end + 1)
        least, most = int(table[rows, columns].min()), int(table[rows, columns].max())
        assert low <= least, (op, left, right)
        assert most <= high, (op, left, right)
        tight += (low, high) == (least, most)
    # Ranges are useful only if many of them are exact.
    assert tight > len(pairs) // 30


@pytest.mark.parametrize(
    "target", [i8, u8, dtypes.int16, truth, index], ids=lambda dtype: dtype.name
)
@pytest.mark.parametrize("source", [i8, u8, index], ids=lambda dtype: dtype.name)
def test_casts_hold_every_value(source, target):
    for low, high in spans(source):
        values = np.arange(low, high + 1).astype(numpy_dtype(source))
        results = apply(Ops.CAST, target, [values], [source]).astype(np.int64)
        span = bounds(build.cast(build.variable("v", low, high, source), target))
        assert span[0] <= results.min()
        assert results.max() <= span[1]


def test_unary_and_ternary_hold_every_value():
    every = np.arange(-128, 128).astype(np.int8)
    for low, high in spans(i8):
        values = every[low + 128 : high + 129]
        node = build.variable("v", low, high, i8)
        negated = apply(Ops.NEG, i8, [values])
        span = bounds(build.unary(Ops.NEG, node))
        assert span[0] <= negated.min()
        assert negated.max() <= span[1]
        total = apply(Ops.MULACC, i8, [values[:, None], values[None, :], values[:, None]])
        span = bounds(UOp(Ops.MULACC, i8, (node, node, node)))
        assert span[0] <= total.min()
        assert total.max() <= span[1]


@pytest.mark.long
@pytest.mark.parametrize("depth", [5000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_deep_graphs(depth):
    node = x
    for _ in range(depth):
        node = UOp(Ops.ADD, index, (node, build.const(index, 1)))
    assert bounds(node) == (depth, depth + 10)


def test_a_choice_after_comparisons_holds_every_value():
    """Test x where it is compared with constants and with other values, in all pairs."""
    value = build.variable("v", -128, 127, i8)
    other = build.variable("o", -3, 5, i8)
    every = np.arange(-128, 128, dtype=np.int8)
    limits = [build.const(i8, -100), build.const(i8, 0), build.const(i8, 6), other]
    comparisons = [build.less(value, limit) for limit in limits]
    comparisons += [build.less(limit, value) for limit in limits]
    comparisons += [build.logical_not(comparison) for comparison in comparisons]
    choices = [value, build.cast(value, i32), build.cast(build.cast(value, u8), i32)]
    for first, second in itertools.combinations(comparisons, 2):
        for chosen in choices:
            node = build.where(build.both(first, second), chosen, 0)
            low, high = bounds(node)
            for number in (-3, 0, 5):
                leaves = {value: every, other: np.full(256, number, np.int8)}
                results = evaluate_expression(node, leaves)
                assert low <= results.min()
                assert results.max() <= high
