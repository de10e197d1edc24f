"""Every rule on random instances of its own pattern: both sides evaluated, and proved by z3.

spec/tests/test_proofs.py proves the rules in general; here they meet nodes of every kind.

An instance fills the pattern of a rule with constants, variables of known ranges and small sums,
quotients and remainders of them. Evaluation covers all dtypes and all values of the variables;
the SMT solver proves integer and bool instances for all values at 32 and 64 bits, and for `index`
as mathematical integers.
"""

import random
from collections import Counter

import numpy as np
import pytest
import z3
from expressions import text_of

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.rewrite import any_node, commute, constant, is_const, match
from tinyref.algebra.rewrite.rule import boolean
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, BINARY, CASTS, UNARY, Ops
from tinyref.uops.payload import AxisKind, BufferArg
from tinyref_spec.proofs.prover import Answer, claim
from tinyref_spec.proofs.semantics import Bits, InexpressibleError, Integers

index, truth = dtypes.index, dtypes.bool
SMALL_INTS = (dtypes.int8, dtypes.uint8, index)
FLOATS = dtypes.floats
COMPARISONS = (Ops.CMPLT, Ops.CMPNE)
FLOAT_ONLY = {Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.FDIV, Ops.POW}
INT_ONLY = {Ops.IDIV, Ops.MOD, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR}
# Rules about memory and lanes, whose nodes are no expressions; test_rules.py has their literals.
STRUCTURAL = {
    *("load-gate-true", "load-gate-false", "store-gate-true"),
    *("gep-vectorize", "gep-const", "gep-all"),
}
RULES = [each for each in ALL_RULES.rules if each.name not in STRUCTURAL]
EFFORT = 3_000_000
WIDE_SPANS = ((0, 1), (0, 6), (-3, 4), (0, 2**20), (-(2**20), 2**20), (0, 2**31 - 1))
SPANS = ((0, 1), (0, 2), (0, 6), (1, 5), (0, 13), (-3, 4), (-9, -1))


def accepts(op, dtype):
    """True where the op table types `op` with the operand type `dtype`."""
    if dtype.is_bool:
        return op in {Ops.AND, Ops.OR, Ops.XOR, Ops.MAX, Ops.WHERE, *CASTS, *COMPARISONS}
    if op is Ops.THREEFRY:
        return dtype is dtypes.uint64
    return op not in (INT_ONLY if dtype.is_float else FLOAT_ONLY)


class Instances:
    """Fills patterns at random; the same `seed` gives the same nodes."""

    def __init__(self, seed, ints, proving):
        self.random = random.Random(seed)
        self.ints = ints
        self.proving = proving
        self.leaves = {}

    def constant(self, dtype):
        if dtype.is_bool:
            return build.const(dtype, self.random.random() < 0.5)
        if dtype.is_float:
            return build.const(dtype, self.random.choice((0.0, -0.0, 1.0, 2.0, -4.0, 3.0, 0.125)))
        values = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 15, 21, -1, -2, -3, -7)
        return build.const(dtype, self.random.choice(values))

    def variable(self, dtype, number):
        if dtype.is_float:
            return UOp(Ops.BUFFER, dtype, (), BufferArg("CPU", 1, number))
        if dtype.is_bool:
            return build.variable(f"b{number}", 0, 1, dtype)
        if dtype is index and self.random.random() < 0.3:
            return build.counter(build.variable("n", 1, 9), number, AxisKind.LOOP)
        low, high = self.random.choice(WIDE_SPANS if self.proving else SPANS)
        low = max(low, 0) if dtype.is_unsigned else low
        return build.variable(f"v{number}", low, max(low, high), dtype)

    def leaf(self, dtype):
        key = (dtype, self.random.randrange(2))
        if key not in self.leaves:
            self.leaves[key] = self.variable(dtype, len(self.leaves))
        return self.leaves[key]

    def small(self, dtype):
        """A leaf, or a little expression of the kind that index arithmetic has."""
        shape = self.random.random()
        leaf = self.leaf(dtype)
        if not dtype.is_int or shape < 0.4:
            return leaf if shape < 0.9 else self.constant(dtype)
        factor = build.const(dtype, self.random.choice((2, 3, 4, 6, 7, 8, 12, 14)))
        if shape < 0.75:
            rest = self.random.choice((self.leaf(dtype), self.constant(dtype)))
            return build.add(build.mul(leaf, factor), rest)
        if shape < 0.85:
            return build.add(leaf, self.constant(dtype))
        return build.binary(self.random.choice((Ops.IDIV, Ops.MOD)), leaf, factor)

    def operand_dtype(self, op, dtype, position):
        if op in COMPARISONS:
            return self.random.choice((*self.ints, truth, *(() if self.proving else FLOATS)))
        if op is Ops.WHERE:
            return truth if position == 0 else dtype
        if op is Ops.CAST:
            return self.random.choice((*self.ints, truth, *(() if self.proving else FLOATS)))
        return dtype

    def instance(self, pattern, dtype, captures):
        if pattern.name in captures:
            return captures[pattern.name]
        if pattern.value is not None:
            node = build.const(dtype, pattern.value)
        elif pattern.ops is None:
            node = self.small(dtype)
        elif pattern.ops == {Ops.CONST}:
            node = self.constant(dtype)
        else:
            node = self.operation(pattern, dtype, captures)
        if pattern.when is not None and not pattern.when(node.dtype):
            raise UserError("the type does not fit")
        if pattern.name is not None:
            captures[pattern.name] = node
        return node

    def operation(self, pattern, dtype, captures):
        op = self.random.choice(sorted(pattern.ops, key=lambda each: each.name))
        if op in COMPARISONS and not dtype.is_bool:
            raise UserError("a comparison gives bool")
        first = self.operand_dtype(op, dtype, 0)
        if op is Ops.BITCAST:
            first = self.random.choice([each for each in dtypes.all if each.bits == dtype.bits])
        if not accepts(op, first if op in COMPARISONS or op in CASTS else dtype):
            raise UserError("the op has no such type")
        count = 1 if op in UNARY | CASTS else 2 if op in BINARY else 3
        wanted = pattern.sources
        found = []
        for position in range(count):
            operand = first
            if op is Ops.WHERE:
                operand = self.operand_dtype(op, dtype, position)
            if wanted is None:
                choose = self.constant if self.random.random() < 0.5 else self.small
                found.append(choose(operand))
            else:
                found.append(self.instance(wanted[position], operand, captures))
        if op in COMPARISONS and found[0].dtype is not found[1].dtype:
            raise UserError("one type")
        if pattern.any_order and self.random.random() < 0.5:
            found.reverse()
        return UOp(op, dtype, tuple(found))


x, y, c, d = any_node("x"), any_node("y"), is_const("c"), is_const("d")
QUOTIENT = match(Ops.IDIV, x, c)
# Closer patterns for rules that fire on few instances of their own.
GUIDES = {
    "bool-absorb-and": commute(Ops.AND, x, commute(Ops.OR, x, y)),
    "bool-absorb-or": commute(Ops.OR, x, commute(Ops.AND, x, y)),
    "div-mod-sum": commute(Ops.ADD, match(Ops.MUL, QUOTIENT, c), match(Ops.MOD, x, c)),
    "mod-from-div": commute(Ops.ADD, x, match(Ops.MUL, match(Ops.MUL, QUOTIENT, c), constant(-1))),
    "where-not": match(Ops.WHERE, match(Ops.CMPNE, any_node("b", boolean), constant(True)), x, y),
    "mod-inner-mod": match(Ops.MOD, commute(Ops.ADD, match(Ops.MOD, x, c), y), c),
    "lt-factor-sum": match(
        Ops.CMPLT, commute(Ops.ADD, match(Ops.MUL, x, c), y), match(Ops.MUL, any_node("z"), c)
    ),
    "mod-join": commute(
        Ops.ADD, match(Ops.MUL, match(Ops.MOD, QUOTIENT, d), c), match(Ops.MOD, x, c)
    ),
    "lt-factor": match(Ops.CMPLT, commute(Ops.ADD, match(Ops.MUL, x, c), y), d),
}


SIZE = build.variable("n", 1, 9)
WHOLE = build.add(build.mul(build.variable("v", 0, 6), SIZE), build.counter(SIZE, 0, AxisKind.LOOP))
# Nodes that no random choice makes: sizes that are no constants.
EXTRA = {
    "div-symbolic": [build.idiv(WHOLE, SIZE), build.idiv(build.add(WHOLE, SIZE), SIZE)],
    "mod-symbolic": [build.mod(WHOLE, SIZE), build.mod(build.add(WHOLE, SIZE), SIZE)],
}


def instances(each, seed, count, ints, types, proving=False):
    """Up to `count` nodes on which the rule fires, with what it makes of them."""
    maker = Instances(seed, ints, proving)
    pattern = GUIDES.get(each.name, each.pattern)
    extra = EXTRA.get(each.name, ()) if index in types else ()
    found = {node: each(node) for node in extra}
    for _ in range(count * 60):
        if len(found) == count:
            break
        if maker.random.random() < 0.5:
            maker.leaves = {}
        try:
            node = maker.instance(pattern, maker.random.choice(types), {})
        except UserError:
            continue
        result = each(node)
        if result is not None:
            found[node] = result
    return found


def leaves_of(*nodes):
    """The variables, counters and buffers of expressions, extents before the counters to them."""
    return [part for part in toposort(nodes) if part.op not in ALU | {Ops.CONST}]


def all_values(leaves):
    """Arrays of one length that hold every combination of values of the leaves."""
    values = []
    for leaf in leaves:
        if leaf.dtype.is_float:
            special = [0.0, -0.0, 1.0, -2.5, 1e-40, 3e38, np.inf, -np.inf, np.nan]
            with np.errstate(all="ignore"):
                values.append(np.array(special).astype(numpy_dtype(leaf.dtype)))
        else:
            low, high = bounds(leaf)
            values.append(np.arange(low, high + 1).astype(numpy_dtype(leaf.dtype)))
    arrays = [grid.ravel() for grid in np.meshgrid(*values, indexing="ij")]
    found = dict(zip(leaves, arrays, strict=True))
    for leaf in leaves:
        # A counter stays below its extent.
        if leaf.op is Ops.RANGE and leaf.src[0] in found:
            inside = found[leaf] < found[leaf.src[0]]
            found = {key: array[inside] for key, array in found.items()}
    return found


def differ(left, right):
    """None where the two expressions have the same bits for all values, else both as text."""
    arrays = all_values(leaves_of(left, right))
    shape = next(iter(arrays.values())).shape if arrays else ()
    values = [np.broadcast_to(evaluate_expression(node, arrays), shape) for node in (left, right)]
    if left.dtype.is_float:
        first, second = (value.astype(np.float64) for value in values)
        same = (first == second) & (np.signbit(first) == np.signbit(second))
        same |= np.isnan(first) & np.isnan(second)
    else:
        same = values[0] == values[1]
    return None if np.all(same) else f"{text_of(left)} -> {text_of(right)}"


@pytest.mark.sampled(9)
@pytest.mark.parametrize("each", RULES, ids=lambda each: each.name)
def test_both_sides_have_the_same_value(each):
    types = [dtype for dtype in (*SMALL_INTS, truth, *FLOATS) if each.domain.dtypes(dtype)]
    found = instances(each, 1, 40, SMALL_INTS, types)
    assert found
    for node, result in found.items():
        assert differ(node, result) is None


def test_the_check_finds_wrong_rules():
    x = build.variable("x", -5, 5)
    assert differ(build.idiv(build.add(x, 4), 4), build.add(build.idiv(x, 4), 1)) is not None
    number = UOp(Ops.BUFFER, dtypes.float32, (), BufferArg("CPU", 1, 9))
    assert differ(build.add(number, 0.0), number) is not None
    assert differ(build.mul(number, 0.0), build.const(dtypes.float32, 0.0)) is not None
    small = build.variable("s", -128, 127, dtypes.int8)
    assert differ(build.less(build.add(small, 1), 5), build.less(small, 4)) is not None


def prove(left, right):
    """The solver's answer to whether both are always equal, with the terms of tinyref_spec.proofs.

    Expressions with an `index` in them are taken as integers that wrap where their types do.
    """
    nodes = toposort((left, right))
    has_index = any(node.dtype is index for node in nodes)
    terms = Integers(wraps=True) if has_index else Bits()
    goal = terms.term(left) == terms.term(right)
    known = []
    for node in nodes:
        if node.op in ALU | {Ops.CONST} or node.dtype.is_bool:
            continue
        low, high = bounds(node)
        value = terms.term(node)
        if node.dtype.is_unsigned and not has_index:
            known += [z3.UGE(value, low), z3.ULE(value, high)]
        else:
            known += [low <= value, value <= high]
        if node.op is Ops.RANGE:
            known.append(value < terms.term(node.src[0]))
    return claim([*known, *terms.definitions], goal, EFFORT)[0]


# A cast of floats is no matter for the solver; it is checked for every float16.
INTEGER_RULES = [
    each for each in RULES if each.domain.family != "floats" and each.name != "cast-float-to-bool"
]


def outcomes(each, ints, wanted):
    """How many instances of a rule the solver proves, gives up on, or cannot express."""
    types = [dtype for dtype in (*ints, truth) if each.domain.dtypes(dtype)]
    found = Counter()
    if not types:
        return found
    for node, result in instances(each, 2, wanted, ints, types, proving=True).items():
        try:
            answer = prove(node, result)
        except InexpressibleError:
            answer = None
        assert answer is not Answer.REFUTED, f"{each.name}: {text_of(node)} -> {text_of(result)}"
        found[answer] += 1
    return found


WIDTHS = ((index,), (dtypes.int32, dtypes.uint32), (dtypes.int64, dtypes.int32))


def check_proofs(each, widths, wanted):
    found = sum((outcomes(each, ints, wanted) for ints in widths), Counter())
    assert found[Answer.PROVED] >= 1
    assert found[Answer.UNKNOWN] <= found[Answer.PROVED]


@pytest.mark.sampled(13)
@pytest.mark.parametrize("each", INTEGER_RULES, ids=lambda each: each.name)
def test_proved(each):
    check_proofs(each, WIDTHS[:2], 2)


@pytest.mark.slow
@pytest.mark.parametrize("each", INTEGER_RULES, ids=lambda each: each.name)
def test_proved_on_more_instances(each):
    check_proofs(each, WIDTHS, 12)


def test_the_prover_finds_wrong_rules():
    number = build.variable("k", -(2**31), 2**31 - 1, dtypes.int32)
    assert prove(build.less(build.add(number, 1), 5), build.less(number, 4)) is Answer.REFUTED
    assert prove(build.add(number, number), build.mul(number, 2)) is Answer.PROVED
    place = build.variable("x", -5, 5)
    moved = build.add(build.idiv(place, 4), 1)
    assert prove(build.idiv(build.add(place, 4), 4), moved) is Answer.REFUTED
    place = build.variable("x", 0, 5)
    moved = build.add(build.idiv(place, 4), 1)
    assert prove(build.idiv(build.add(place, 4), 4), moved) is Answer.PROVED
