"""What needs no kernel runs none: exact folds, views, and assignments that nobody reads."""

import itertools

import numpy as np
import pytest
from kernel_runs import count_kernels

from tinyref import Tensor
from tinyref.algebra import semantics
from tinyref.dtype import dtypes
from tinyref.lazy.folding import absorbing_value
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
    compute, elements, wanted = FOLDS[name]
    x = Tensor(elements).realize()
    result = compute(x)
    assert count_kernels(result.realize)[1] == 0
    assert result.tolist() == wanted


# Where a float could be NaN, infinite or -0 nothing is folded.
NO_FOLDS = {
    "x * 0": (lambda x: x * 0, [0.0, np.nan, -0.0]),
    "x - x": (lambda x: x - x, [0.0, np.nan, 0.0]),
    "x + 0": (lambda x: x + 0, [3.0, np.nan, 0.0]),
    "x != x": (lambda x: x != x, [False, True, False]),
}


@pytest.mark.parametrize("name", NO_FOLDS)
def test_what_is_not_exact_is_computed(name):
    compute, wanted = NO_FOLDS[name]
    result = compute(Tensor(FLOATS).realize())
    assert count_kernels(result.realize)[1] == 1
    np.testing.assert_array_equal(np.signbit(result.numpy()), np.signbit(wanted))
    np.testing.assert_array_equal(result.numpy(), wanted)


def test_absorbing_constants_are_those_of_the_semantics():
    """Every 8-bit value beside every constant of a few: the fold is what the op gives."""
    found = 0
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
                found += 1
                for value in values:
                    given = [value if x is unknown else constant for x in pair]
                    result = semantics.fold(op, dtype, given, [dtype, dtype])
                    assert result % 256 == folded % 256
    assert found > 8


def test_an_assignment_runs_once():
    x = Tensor([1.0, 2.0]).realize()
    part = x[:1]
    assert count_kernels(lambda: part.assign(Tensor([3.0]) + 1).realize())[1] == 1
    assert count_kernels(lambda: (part.realize(), x.realize(), part.detach().realize()))[1] == 0
    assert x.tolist() == [4.0, 2.0]


def test_an_assignment_that_is_overwritten_unread_does_not_run():
    x, other = Tensor([1.0, 2.0]).realize(), Tensor([5.0, 6.0]).realize()
    memory = x.node

    def overwrite():
        x.assign(other * 2)
        x.assign(other * 3)
        x.assign(other * 4)
        x.realize()

    assert count_kernels(overwrite)[1] == 1
    assert x.tolist() == [20.0, 24.0]
    assert x.node is memory


def test_an_assignment_that_is_read_before_it_is_overwritten_runs():
    x, other = Tensor([1.0, 2.0]).realize(), Tensor([5.0, 6.0]).realize()
    x.assign(other * 2)
    between = x + 1
    x.assign(other * 3)
    x.assign(x + 100)
    assert x.tolist() == [115.0, 118.0]
    assert between.tolist() == [11.0, 13.0]
