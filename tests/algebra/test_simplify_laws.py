"""Test laws of simplification: random expressions and kernels, rules in any order.

`TINYREF_SHUFFLE_RULES=seed` runs any part of the suite with another order of the rules.
`nox -s shuffled` runs the quick tests in this way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from expressions import text_of
from hypothesis import HealthCheck, given, settings
from kernel_cases import DEVICES

from tinyref.algebra import simplify as simplifying
from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.rewrite import RuleSet, rewrite
from tinyref.algebra.shapes import Shape, kernel_shape
from tinyref.algebra.simplify import simplify, simplify_with
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import SlotArg
from tinyref.views import shape_tracker
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.strategies import kernels
from tinyref_spec.case import Case
from tinyref_spec.kernels.notation import store

index, truth, i8, u8 = dtypes.index, dtypes.bool, dtypes.int8, dtypes.uint8
# The types that occur together in one expression: wrapping types, and index.
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
    """Writer of expressions with the choices of `choose`, a function from a sequence to an item."""

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
    """Return values of an integer or bool variable: all of few, or the ends and some between."""
    low, high = bounds(node)
    values = range(low, high + 1)
    if len(values) > 24:
        values = sorted({*values[:7], *values[-7:], *values[:: len(values) // 8]})
    return np.array(values).astype(numpy_dtype(node.dtype))


def grid(variables):
    axes = np.meshgrid(*(samples(node) for node in variables), indexing="ij")
    return {node: axis.ravel() for node, axis in zip(variables, axes, strict=True)}


def overflows(*nodes):
    """Return True if an index overflows: it is unbounded, but evaluated with 64 bits."""
    return any(
        node.dtype is index and max(abs(end) for end in bounds(node)) >= 2**63
        for node in toposort(nodes)
    )


def check_value(node, simplified, values):
    if overflows(node, simplified):
        return
    shape = next(iter(values.values())).shape
    expected = np.broadcast_to(evaluate_expression(node, values), shape)
    actual = np.broadcast_to(evaluate_expression(simplified, values), shape)
    assert np.array_equal(expected, actual), f"{text_of(node)} -> {text_of(simplified)}"
    low, high = bounds(node)
    assert low <= expected.min(), text_of(node)
    assert expected.max() <= high, text_of(node)


def check_laws(choose):
    writer = Writer(choose)
    node = writer.expression(choose(writer.types), choose((1, 2, 3, 4, 5)))
    simplified = simplify(node)
    assert simplified.dtype is node.dtype
    check_value(node, simplified, grid(writer.variables))
    assert simplify(simplified) is simplified, text_of(node)
    problems = [OP_TABLE[part.op].check(part) for part in toposort([simplified]) if part.src]
    assert not any(problems), f"{text_of(simplified)}: {problems}"
    core = {part.op for part in toposort([node])} | {*CORE}
    assert {part.op for part in toposort([simplified])} <= core, text_of(simplified)


# The ops of every device; rules may add only these.
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
    simplified = simplify_with(node, conditions)
    if overflows(node, simplified, *conditions):
        return
    values = grid(writer.variables)
    shape = next(iter(values.values())).shape
    holds = np.ones(shape, bool)
    for condition in conditions:
        holds &= evaluate_expression(condition, values)
    expected = np.broadcast_to(evaluate_expression(node, values), shape)
    actual = np.broadcast_to(evaluate_expression(simplified, values), shape)
    names = " and ".join(text_of(condition) for condition in conditions)
    assert np.array_equal(expected[holds], actual[holds]), (
        f"{text_of(node)} -> {text_of(simplified)} if {names}"
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


# Exact data: every order of evaluation gives the same values.
KERNELS = kernels("PYTHON", "integers")
RANDOM = settings(
    max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


# The normal order of sums and products may cost an operation.
SLACK = 1


def operations(root: UOp) -> int:
    """Return the number of operations of an expression, as often as it needs each.

    A difference counts as a sum and a product. A negation (x != True) does not count, because a
    comparison may become the opposite one.
    """
    counts: dict[UOp, int] = {}
    for node in root.toposort():
        own = 2 if node.op is Ops.SUB else int(node.op in ALU)
        if node.op is Ops.CMPNE and node.src[1].dtype.is_bool and node.src[1].op is Ops.CONST:
            own = 0
        counts[node] = own + sum(counts[source] for source in node.src)
    return counts[root]


def expressions(case: Case) -> Iterator[tuple[UOp, Callable[[UOp], np.ndarray]]]:
    """Yield each operation of a kernel on integers or bools, without reduces, and its evaluator."""
    nodes = case.ast.toposort()
    slot = 1 + max((node.arg.slot for node in nodes if isinstance(node.arg, SlotArg)), default=0)
    for node in nodes:
        shape = kernel_shape(node)
        is_plain = all(source.op is not Ops.REDUCE for source in node.toposort())
        is_exact = node.op in ALU and (node.dtype.is_int or node.dtype.is_bool)
        if not is_plain or not is_exact or not all(isinstance(size, int) for size in shape):
            continue

        def values(root: UOp, dtype: DType = node.dtype, shape: Shape = shape) -> np.ndarray:
            out = np.zeros(int(np.prod(shape, dtype=int)), numpy_dtype(dtype))
            buffers = {**dict(enumerate(case.buffers)), slot: out}
            return evaluate(build.sink(store(slot, root, shape)), buffers, case.bindings)[slot]

        yield node, values


def check_simplification(case: Case) -> None:
    """Assert that a simplified expression has the same values, and no more operations."""
    for node, values in expressions(case):
        simple = simplify(node)
        assert simplify(simple) is simple
        assert operations(simple) <= operations(node) + SLACK
        assert np.array_equal(values(simple), values(node))


def check_ranges(case: Case) -> None:
    """Assert that every value is within its known range."""
    for node, values in expressions(case):
        actual, (low, high) = values(node), bounds(node)
        assert actual.size == 0 or (low <= actual.min() and actual.max() <= high)


@pytest.mark.long
@RANDOM
@given(KERNELS)
def test_a_simplified_kernel_keeps_its_values_and_costs_no_more(case: Case) -> None:
    check_simplification(case)


@pytest.mark.long
@RANDOM
@given(KERNELS)
def test_the_known_range_of_a_value_holds_it(case: Case) -> None:
    check_ranges(case)


SEEDS = (1, 2, 3)


def shuffled(seed):
    with Context(SHUFFLE_RULES=seed):
        return RuleSet(simplifying.ALL_RULES.rules, f"shuffled {seed}")


@pytest.fixture(params=SEEDS)
def order(request, monkeypatch):
    """Simplify with the rules in another order, and with empty caches."""
    rules = shuffled(request.param)
    monkeypatch.setattr(simplifying, "ALL_RULES", rules)
    caches = [value for value in vars(shape_tracker).values() if hasattr(value, "cache_clear")]
    assert caches
    for cache in caches:
        cache.cache_clear()
    yield rules
    for cache in caches:
        cache.cache_clear()


def results(ast, buffers, capabilities, bindings=None):
    program = compile_kernel(ast, capabilities)
    copies = [buffer.copy() for buffer in buffers]
    run_program(program, copies, bindings or {})
    return copies[0]


@pytest.mark.long
def test_random_kernels_compute_the_same_in_any_order(order):
    for seed in range(25):
        case = generate(Tape(seed), DEVICES["loops"], POLICIES["small"])
        expected = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)[0]
        actual = results(case.ast, case.buffers, DEVICES["loops"], case.bindings)
        assert actual.tobytes() == expected.tobytes(), f"seed {seed}"


@pytest.mark.long
def test_most_nodes_are_identical_in_any_order():
    # Values are equal in any order. Nodes are nearly always equal, so the rules agree.
    orders = [shuffled(seed) for seed in SEEDS]
    same = []
    for seed in range(300):
        writer = Writer(random.Random(seed).choice)
        node = writer.expression(writer.types[0], 4)
        for rules in orders:
            simplified = rewrite(node, rules)
            check_value(node, simplified, grid(writer.variables))
            same.append(simplified is simplify(node))
    assert sum(same) / len(same) > 0.95


def test_a_seed_is_another_order():
    # The shuffle works: the orders of a root with many rules differ between seeds.
    node = build.idiv(build.variable("n", 0, 9), 2)
    usual = [rule.name for rule in simplifying.ALL_RULES.candidates(node)]
    others = [[rule.name for rule in shuffled(seed).candidates(node)] for seed in SEEDS]
    assert all(sorted(other) == sorted(usual) for other in others)
    assert len({tuple(names) for names in [usual, *others]}) == 1 + len(SEEDS)
