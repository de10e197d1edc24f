"""Laws of simplification on random integer and bool expressions of every width."""

import random

import numpy as np
import pytest
from expressions import text_of
from hypothesis import settings

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.simplify import simplify, simplify_with
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops

index, truth, i8, u8 = dtypes.index, dtypes.bool, dtypes.int8, dtypes.uint8
SETTINGS = settings(max_examples=120)
# The types that meet in one expression: wrapping ones, and index next to them.
FAMILIES = (
    (index, truth),
    (i8, truth),
    (u8, truth),
    (i8, u8, dtypes.int16, index, truth),
    (dtypes.int32, dtypes.uint32, truth),
    (dtypes.int64, dtypes.uint64, i8, truth),
)
SPANS = ((0, 1), (0, 5), (0, 11), (-4, 4), (0, 20), (1, 6), (-12, -1))
ARITHMETIC = (
    *(Ops.ADD,) * 5,
    *(Ops.MUL, Ops.IDIV, Ops.MOD) * 4,
    Ops.SUB,
    Ops.SUB,
    Ops.MAX,
    Ops.AND,
    Ops.OR,
    Ops.XOR,
    Ops.SHL,
    Ops.SHR,
    Ops.NEG,
)
CONSTANTS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 24, 100, 127, -1, -2, -3, -7, -128)


class Writer:
    """Writes expressions with the choices of `choose`, a function from a sequence to an item."""

    def __init__(self, choose):
        self.choose = choose
        self.types = choose(FAMILIES)
        self.variables = [self.variable(name) for name in "xyz"]

    def variable(self, name):
        dtype = self.choose(self.types)
        low, high = (0, 1) if dtype.is_bool else self.choose(SPANS)
        if dtype.bits == 8 and not dtype.is_bool and self.choose((True, False, False)):
            low, high = int(dtype.minimum), int(dtype.maximum)
        if dtype.is_unsigned and low < 0:
            low, high = 0, 9
        return build.variable(name, low, high, dtype)

    def leaf(self, dtype):
        known = [node for node in self.variables if node.dtype is dtype]
        if known and self.choose((True, True, False)):
            return self.choose(known)
        return build.const(dtype, self.choose((0, 1) if dtype.is_bool else CONSTANTS))

    def expression(self, dtype, depth):
        if depth == 0 or self.choose(range(8)) == 0:
            return self.leaf(dtype)
        kind = self.choose(range(10))
        if kind == 0:
            return build.cast(self.expression(self.choose(self.types), depth - 1), dtype)
        if kind == 1:
            sides = [self.expression(dtype, depth - 1) for _ in range(2)]
            return build.where(self.expression(truth, depth - 1), *sides)
        return self.truth(depth) if dtype.is_bool else self.number(dtype, depth)

    def truth(self, depth):
        if self.choose((True, True, False)):
            operand = self.choose(self.types)
            op = self.choose((Ops.CMPLT, Ops.CMPLT, Ops.CMPNE))
        else:
            operand = truth
            op = self.choose((Ops.AND, Ops.AND, Ops.OR, Ops.OR, Ops.XOR, Ops.MAX, Ops.CMPNE))
        left, right = (self.expression(operand, depth - 1) for _ in range(2))
        node = UOp(op, truth, (left, right))
        return build.logical_not(node) if self.choose((True, False, False)) else node

    def number(self, dtype, depth):
        op = self.choose(ARITHMETIC)
        left = self.expression(dtype, depth - 1)
        if op is Ops.NEG:
            return UOp(op, dtype, (left,))
        if op in (Ops.SHL, Ops.SHR) and self.choose((True, True, False)):
            return UOp(op, dtype, (left, build.const(dtype, self.choose(range(8)))))
        if op in (Ops.IDIV, Ops.MOD) and self.choose((True, True, False)):
            return UOp(op, dtype, (left, build.const(dtype, self.choose(CONSTANTS))))
        return UOp(op, dtype, (left, self.expression(dtype, depth - 1)))


def samples(node):
    """Values of an integer or bool variable: all of few, of many the ends and some between."""
    low, high = bounds(node)
    values = range(low, high + 1)
    if len(values) > 24:
        values = sorted({*values[:7], *values[-7:], *values[:: len(values) // 8]})
    return np.array(values).astype(numpy_dtype(node.dtype))


def grid(variables):
    axes = np.meshgrid(*(samples(node) for node in variables), indexing="ij")
    return {node: axis.ravel() for node, axis in zip(variables, axes, strict=True)}


def overflows(*nodes):
    """An index stands for an unbounded integer, but is evaluated as one of 64 bits."""
    return any(
        node.dtype is index and max(abs(end) for end in bounds(node)) >= 2**63
        for node in toposort(nodes)
    )


def check_value(node, found, values):
    if overflows(node, found):
        return
    shape = next(iter(values.values())).shape
    wanted = np.broadcast_to(evaluate_expression(node, values), shape)
    given_ = np.broadcast_to(evaluate_expression(found, values), shape)
    assert np.array_equal(wanted, given_), f"{text_of(node)} -> {text_of(found)}"
    low, high = bounds(node)
    assert low <= wanted.min(), text_of(node)
    assert wanted.max() <= high, text_of(node)


def check_laws(choose):
    writer = Writer(choose)
    node = writer.expression(choose(writer.types), choose((1, 2, 3, 4, 5)))
    found = simplify(node)
    assert found.dtype is node.dtype
    check_value(node, found, grid(writer.variables))
    assert simplify(found) is found, text_of(node)
    problems = [OP_TABLE[part.op].check(part) for part in toposort([found]) if part.src]
    assert not any(problems), f"{text_of(found)}: {problems}"
    core = {part.op for part in toposort([node])} | {*CORE}
    assert {part.op for part in toposort([found])} <= core, text_of(found)


# The ops that every device has; rules may bring them in, and no others.
CORE = (
    Ops.ADD,
    Ops.MUL,
    Ops.IDIV,
    Ops.MOD,
    Ops.MAX,
    Ops.CMPLT,
    Ops.CMPNE,
    Ops.AND,
    Ops.OR,
    Ops.XOR,
    Ops.SHL,
    Ops.SHR,
    Ops.WHERE,
    Ops.CAST,
    Ops.BITCAST,
    Ops.CONST,
)


def check_conditions(choose):
    writer = Writer(choose)
    node = writer.expression(choose(writer.types), choose((1, 2, 3, 4)))
    conditions = [writer.expression(truth, choose((1, 2))) for _ in range(choose((1, 2)))]
    found = simplify_with(node, conditions)
    if overflows(node, found, *conditions):
        return
    values = grid(writer.variables)
    shape = next(iter(values.values())).shape
    holds = np.ones(shape, bool)
    for condition in conditions:
        holds &= evaluate_expression(condition, values)
    wanted = np.broadcast_to(evaluate_expression(node, values), shape)
    given_ = np.broadcast_to(evaluate_expression(found, values), shape)
    names = " and ".join(text_of(condition) for condition in conditions)
    assert np.array_equal(wanted[holds], given_[holds]), (
        f"{text_of(node)} -> {text_of(found)} if {names}"
    )


@pytest.mark.parametrize("check", [check_laws, check_conditions])
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(400), id="many", marks=pytest.mark.long),
        pytest.param(range(1_000, 25_000), id="more", marks=pytest.mark.slow),
    ],
)
def test_laws_and_conditions_on_many_seeds(check, seeds):
    for seed in seeds:
        check(random.Random(seed).choice)
