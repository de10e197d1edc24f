"""Test values of sizes and positions against literals, and against numpy where a type wraps."""

from __future__ import annotations

import numpy as np
import pytest
from expressions import INTEGER_BINARY

from tinyref.algebra.evaluate import bound_value, evaluate_expression, launch_grid, value_of
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref.uops.program import Program

i8, u8, i32, index = dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.index
N = build.variable("n", -100, 100)
SMALL = build.variable("n", -100, 100, i8)


def size(value: int) -> UOp:
    return build.const(index, value)


@pytest.mark.table
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (build.idiv(N, 4), -1),
        (build.mod(N, 4), -3),
        (build.idiv(N, 0), 0),
        (build.mod(N, 0), 0),
        (build.idiv(N, -2), 3),
        (build.mod(N, -2), -1),
        (build.maximum(build.mul(N, N), 3), 49),
        (build.where(build.less(N, 0), build.sub(1, N), N), 8),
        (build.where(build.less(0, N), build.sub(1, N), N), -7),
        (build.cast(build.not_equal(N, 3), index), 1),
        (build.cast(build.less(3, N), index), 0),
        (build.cast(build.both(build.less(N, 0), build.less(-9, N)), index), 1),
        (build.both(size(6), size(3)), 2),
        (build.either(size(6), size(3)), 7),
        (UOp(Ops.XOR, index, (size(6), size(3))), 5),
        (UOp(Ops.SHL, index, (N, size(3))), -56),
        (UOp(Ops.SHR, index, (N, size(1))), -4),
        (UOp(Ops.SHL, index, (N, size(1 << 40))), 0),
        (UOp(Ops.SHL, index, (N, size(-1))), 0),
        (UOp(Ops.SHR, index, (N, size(-1))), 0),
        (UOp(Ops.MULACC, index, (N, N, size(1))), 50),
        (build.mul(size(2**62), 2**10), 2**72),
        (UOp(Ops.NEG, index, (N,)), 7),
        (UOp(Ops.BIND, index, (N, size(5))), 5),
    ],
)
def test_index_expressions(expression: UOp, value: int) -> None:
    assert value_of(expression, {"n": -7}) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (build.mul(SMALL, 20), 116),
        (build.cast(SMALL, u8), 249),
        (build.cast(build.cast(SMALL, u8), i32), 249),
        (build.cast(SMALL, dtypes.bool), 1),
        (build.cast(build.cast(SMALL, dtypes.bool), i32), 1),
        (UOp(Ops.IDIV, i8, (build.const(i8, -128), build.const(i8, -1))), -128),
    ],
)
def test_integers_of_a_type_wrap(expression: UOp, value: int) -> None:
    assert value_of(expression, {"n": -7}) == value


@pytest.mark.parametrize("dtype", [i8, u8], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", INTEGER_BINARY, ids=lambda op: op.name)
def test_integers_and_arrays_agree(op: Ops, dtype: DType) -> None:
    """Compute each op in both ways; shift counts are less than the width."""
    edge = (dtype.minimum, dtype.minimum + 1, -7, -1, 0, 1, 2, 5, 7, dtype.maximum)
    values = sorted({int(value) for value in edge if dtype.minimum <= value <= dtype.maximum})
    counts = [value for value in values if 0 <= value < 8]
    result = dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else dtype
    for x in values:
        for y in counts if op in (Ops.SHL, Ops.SHR) else values:
            node = UOp(op, result, (build.const(dtype, x), build.const(dtype, y)))
            assert value_of(node, {}) == evaluate_expression(node, {}), (x, y)


def test_index_expressions_of_any_depth() -> None:
    deep = N
    for _ in range(5000):
        deep = build.add(deep, 1)
    assert value_of(deep, {"n": 0}) == 5000
    assert value_of(12, {}) == 12


def test_refuses() -> None:
    with pytest.raises(UserError, match="variable n has no value: give one from -100 to 100"):
        value_of(N, {})
    with pytest.raises(UserError, match="variable n is 101, accepted is -100 to 100"):
        value_of(build.add(N, 1), {"n": 101})
    with pytest.raises(UserError, match=r"variable n is 2\.5, accepted are integers from -100"):
        value_of(N, {"n": 2.5})  # type: ignore[dict-item]
    with pytest.raises(UserError, match="SPECIAL of index is no integer arithmetic"):
        value_of(build.special("group", 0, 4), {})
    with pytest.raises(UserError, match="ADD of float32 is no integer arithmetic"):
        value_of(UOp(Ops.ADD, dtypes.float32, (N, N)), {"n": 1})
    with pytest.raises(UserError, match="has no value: give it among the leaves"):
        evaluate_expression(build.add(N, 1), {})


def test_the_bounds_of_a_variable_are_inclusive() -> None:
    variable = VarArg("k", 2, 4)
    assert [bound_value(variable, {"k": value}) for value in (2, 4)] == [2, 4]
    for value in (1, 5):
        with pytest.raises(UserError, match="variable k is "):
            bound_value(variable, {"k": value})


def test_the_grid_of_a_launch() -> None:
    program = Program("kernel", (), (), (N,), (build.add(N, 2), 3, 1))
    assert launch_grid(program, {"n": 5}) == (7, 3, 1)


def test_arrays() -> None:
    flag = UOp(Ops.CONST, dtypes.bool, (), ConstArg(True))
    values = np.array([-7, 0, 7], np.int8)
    node = build.where(flag, build.idiv(SMALL, 2), SMALL)
    assert evaluate_expression(node, {SMALL: values}).tolist() == [-3, 0, 3]
