"""What needs no kernel runs none, and what is chosen by an index is one kernel without a loop."""

import itertools

import numpy as np
import pytest
from kernel_runs import count_kernels

from tinyref import Tensor
from tinyref.algebra import semantics
from tinyref.dtype import dtypes
from tinyref.engine.accounting import estimate
from tinyref.lazy.folding import absorbing_value
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.schedule import schedule
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg

INTEGERS = np.array([3, -4, 0], np.int32)
FLOATS = np.array([3.0, np.nan, -0.0], np.float32)
BOOLS = np.array([True, False, True])


# What is computed, from which elements, and what it gives.
FOLDS = {
    "i // 1": (lambda x: x // 1, INTEGERS, [3, -4, 0]),
    "i % 1": (lambda x: x % 1, INTEGERS, [0, 0, 0]),
    "i * 0": (lambda x: x * 0, INTEGERS, [0, 0, 0]),
    "0 * i": (lambda x: 0 * x, INTEGERS, [0, 0, 0]),
    "i & 0": (lambda x: x & 0, INTEGERS, [0, 0, 0]),
    "i | -1": (lambda x: x | -1, INTEGERS, [-1, -1, -1]),
    "i - i": (lambda x: x - x, INTEGERS, [0, 0, 0]),
    "i ^ i": (lambda x: x ^ x, INTEGERS, [0, 0, 0]),
    "b & False": (lambda x: x & False, BOOLS, [False] * 3),
    "b | True": (lambda x: x | True, BOOLS, [True] * 3),
    "x ** 0": (lambda x: x**0, FLOATS, [1.0, 1.0, 1.0]),
    "1 ** x": (lambda x: 1**x, FLOATS, [1.0, 1.0, 1.0]),
    "x < x": (lambda x: x < x, FLOATS, [False] * 3),
    "branch never taken": (lambda x: (x > 0).bitwise_and(False).where(x, 2.0), FLOATS, [2.0] * 3),
    "cast of a padded constant": (
        lambda x: Tensor.ones(2).pad((1, 0)).cast("int32"),
        INTEGERS,
        [0, 1, 1],
    ),
    "inside of a padded constant": (
        lambda x: Tensor.ones(3).pad((2, 2))[2:5],
        INTEGERS,
        [1.0, 1.0, 1.0],
    ),
    "padding alone": (lambda x: Tensor.ones(3).pad((4, 0))[:3], INTEGERS, [0.0, 0.0, 0.0]),
    "view of a constant": (
        lambda x: Tensor.ones(2, 2).T.pad((1, 0))[1],
        INTEGERS,
        [0.0, 1.0, 1.0],
    ),
    "view": (lambda x: x[::-1], INTEGERS, [0, -4, 3]),
    "view of a view": (lambda x: x.reshape(3, 1).expand(3, 2).T[1][1:], INTEGERS, [-4, 0]),
    "bits": (lambda x: x.bitcast("uint32")[:1], INTEGERS, [3]),
}


@pytest.mark.parametrize("name", FOLDS)
def test_an_exact_fold_runs_no_kernel(name):
    compute, elements, expected = FOLDS[name]
    x = Tensor(elements).realize()
    result = compute(x)
    assert count_kernels(result.realize)[1] == 0
    assert result.tolist() == expected


# Where a float could be NaN, infinite or -0 nothing is folded.
NO_FOLDS = {
    "x * 0": (lambda x: x * 0, [0.0, np.nan, -0.0]),
    "x - x": (lambda x: x - x, [0.0, np.nan, 0.0]),
    "x + 0": (lambda x: x + 0, [3.0, np.nan, 0.0]),
    "x != x": (lambda x: x != x, [False, True, False]),
}


@pytest.mark.parametrize("name", NO_FOLDS)
def test_what_is_not_exact_is_computed(name):
    compute, expected = NO_FOLDS[name]
    result = compute(Tensor(FLOATS).realize())
    assert count_kernels(result.realize)[1] == 1
    np.testing.assert_array_equal(np.signbit(result.numpy()), np.signbit(expected))
    np.testing.assert_array_equal(result.numpy(), expected)


def test_absorbing_constants_are_those_of_the_semantics():
    """Combine every 8-bit value with a few constants: the fold equals the op."""
    actual = 0
    ops = (Ops.MUL, Ops.AND, Ops.OR, Ops.MOD, Ops.SUB, Ops.XOR, Ops.CMPNE, Ops.CMPLT)
    for op, dtype in itertools.product(ops, (dtypes.int8, dtypes.uint8)):
        values = range(dtype.minimum, dtype.maximum + 1)
        unknown = UOp(Ops.BUFFER, dtype, (), BufferArg("CPU", 1, -1))
        for constant in (0, 1, 2, dtype.minimum, dtype.maximum, -1 % (dtype.maximum + 1)):
            known = build.const(dtype, constant)
            for pair in ((unknown, known), (known, unknown)):
                if op is Ops.MOD and pair[1] is unknown:
                    continue
                folded = absorbing_value(op, pair)
                if folded is None:
                    continue
                actual += 1
                for value in values:
                    operands = [value if x is unknown else constant for x in pair]
                    result = semantics.fold(op, dtype, operands, [dtype, dtype])
                    assert result % 256 == folded % 256
    assert actual > 8


def test_an_assignment_runs_once():
    x = Tensor([1.0, 2.0]).realize()
    part = x[:1]
    assert count_kernels(lambda: part.assign(Tensor([3.0]) + 1).realize())[1] == 1
    assert count_kernels(lambda: (part.realize(), x.realize(), part.detach().realize()))[1] == 0
    assert x.tolist() == [4.0, 2.0]


# Elements chosen by an index: one kernel, and no loop of its own


def kernels_of(tensor):
    return [item.ast for item in schedule([(tensor.node, tensor.device)]).kernels]


def loops_of(ast):
    return sum(node.op is Ops.REDUCE for node in fold_ranges(ast).toposort())


def rows(table, indices):
    """Written as what a gather is made of."""
    here = Tensor.arange(table.shape[0]) == indices.unsqueeze(-1)
    return here.unsqueeze(-1).where(table, 0).sum(-2)


TABLE = np.arange(35, dtype=np.float32).reshape(7, 5)
PLACES = np.array([[3, 0, 6], [6, 6, 1]], np.int32)


def put(array):
    return Tensor(array).realize()


PROGRAMS = {
    "rows": (rows, lambda t, i: t[i]),
    "indexing": (lambda t, i: t[i], lambda t, i: t[i]),
    "computed table": (lambda t, i: rows(t * 2 + 1, i), lambda t, i: t[i] * 2 + 1),
    "padding": (
        lambda t, i: rows(t, i).pad(((1, 0), (0, 2), (0, 0))),
        lambda t, i: np.pad(t[i], ((1, 0), (0, 2), (0, 0))),
    ),
    "two": (lambda t, i: rows(t, i) + rows(t, 6 - i), lambda t, i: t[i] + t[6 - i]),
    "of a gather": (
        lambda t, i: rows(rows(t, Tensor.arange(7) * 0 + 2), i),
        lambda t, i: t[i * 0 + 2],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gather_is_one_kernel_without_a_loop_of_its_own(name):
    build, reference = PROGRAMS[name]
    result = build(put(TABLE), put(PLACES))
    kernels = kernels_of(result)
    assert len(kernels) == 1
    assert loops_of(kernels[0]) == 0
    np.testing.assert_array_equal(result.numpy(), reference(TABLE, PLACES))


def test_an_embedding_reads_only_its_rows():
    """Plan a lookup in the table of a language model, without any memory for it."""
    table = Tensor.empty(50257, 768)
    (ast,) = kernels_of(rows(table, Tensor.empty(16, dtype=dtypes.int32)))
    assert estimate(ast).nbytes == 4 * (16 + 2 * 16 * 768)


def test_masks_and_ranges_take_no_memory():
    x = put(np.ones((4, 4), np.float32))
    lower = Tensor.arange(4).unsqueeze(-1) >= Tensor.arange(4)
    (ast,) = kernels_of(lower.where(x, 0) * Tensor.arange(4))
    assert sum(node.op is Ops.DEFINE_GLOBAL for node in ast.toposort()) == 2
    assert kernels_of(lower.where(x, 0).sum()) != []


def test_a_product_with_a_one_hot_of_floats_stays_a_product():
    """0 * inf is NaN, which a choice would not see."""
    table = put(np.array([[1.0], [np.inf], [2.0]], np.float32))
    hot = (Tensor.arange(3) == put(np.array([[0], [2]], np.int32))).cast("float32")
    result = hot @ table
    assert [loops_of(ast) for ast in kernels_of(result)] == [1]
    assert np.isnan(result.numpy()).all()
