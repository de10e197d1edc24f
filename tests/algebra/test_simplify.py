"""Test results of simplification by literals; most expressions are typical of views."""

import pytest

from tinyref.algebra.simplify import simplify, simplify_with
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import (
    add,
    at_least,
    both,
    cast,
    const,
    equal,
    idiv,
    less,
    logical_not,
    maximum,
    mod,
    mul,
    sub,
    where,
)
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, BufferArg

index, truth, i8, i32, f32 = dtypes.index, dtypes.bool, dtypes.int8, dtypes.int32, dtypes.float32


def counter(number, bound):
    return build.counter(bound, number, AxisKind.LOOP)


a, b, c = counter(0, 10), counter(1, 7), counter(2, 3)
x = build.variable("x", 0, 100)
z = build.variable("z", -50, 50)
k = build.variable("k", -(2**31), 2**31 - 1, i32)
s = build.variable("s", -128, 127, i8)
four = i32.vec(4)
lanes = UOp(Ops.BUFFER, four, (), BufferArg("CPU", 4, 2))
f = UOp(Ops.BUFFER, f32, (), BufferArg("CPU", 4, 1))
p = UOp(Ops.BUFFER, truth, (), BufferArg("CPU", 4, 3))
q = UOp(Ops.BUFFER, truth, (), BufferArg("CPU", 4, 4))
true, false = const(truth, True), const(truth, False)


def number(value):
    return const(index, value)


def total(*terms):
    """Return a left-deep sum of nodes and, last, a number."""
    first, *rest = terms
    for term in rest:
        first = add(first, term)
    return first


def raw(op, *src):
    return UOp(op, src[0].dtype, src)


# Positions in tensors, read as rows and columns of other shapes.
flat = total(mul(a, 21), mul(b, 3), c)
nested = add(mul(add(mul(a, 7), b), 3), c)

TABLE = {
    # Sums
    "order_of_terms": (total(x, b, a), total(a, b, x)),
    "terms_vanish": (sub(total(a, b), a), b),
    "distribute_twice": (nested, flat),
    "negate_difference": (raw(Ops.NEG, sub(a, b)), add(mul(a, -1), b)),
    "int8_wraps": (add(add(s, 100), 100), add(s, -56)),
    "int8_product_wraps": (mul(mul(s, 16), 16), const(i8, 0)),
    # Division and remainder
    "row": (idiv(flat, 21), a),
    "column_and_rest": (mod(flat, 21), add(mul(b, 3), c)),
    "middle": (mod(idiv(flat, 3), 7), b),
    "last": (mod(flat, 3), c),
    "outer_modulo": (mod(idiv(add(mul(a, 7), b), 7), 3), mod(a, 3)),
    "whole_multiple": (idiv(mul(x, 12), 4), mul(x, 3)),
    "no_remainder": (mod(mul(x, 12), 4), number(0)),
    "common_factor": (idiv(mul(x, 4), 6), idiv(mul(x, 2), 3)),
    "common_factor_of_modulo": (mod(mul(x, 4), 6), mul(mod(mul(x, 2), 3), 2)),
    "small_rest": (idiv(add(mul(x, 4), c), 8), idiv(x, 2)),
    "offset_row": (idiv(total(mul(a, 7), b, 14), 7), add(a, 2)),
    "offset_column": (mod(total(mul(a, 7), b, 14), 7), b),
    "put_three_together": (
        total(mul(idiv(x, 12), 12), mul(mod(idiv(x, 4), 3), 4), mod(x, 4)),
        x,
    ),
    "what_is_left": (sub(x, mul(idiv(x, 7), 7)), mod(x, 7)),
    "same_row_again": (idiv(add(mul(idiv(flat, 21), 21), c), 21), a),
    "large_coefficient": (mod(add(mul(a, 22), c), 7), mod(add(a, c), 7)),
    "negative_stays": (idiv(add(mul(z, 7), b), 7), idiv(add(b, mul(z, 7)), 7)),
    "flip": (mod(total(mul(a, -1), 9), 10), total(mul(a, -1), 9)),
    "flip_row": (idiv(total(mul(a, 7), mul(b, -1), 6), 7), a),
    "int32_row": (
        idiv(cast(add(mul(a, 7), b), i32), 7),
        idiv(cast(add(mul(a, 7), b), i32), 7),
    ),
    # Comparisons
    "scaled_row": (less(add(mul(x, 7), b), 21), less(x, 3)),
    "negative_term": (less(sub(5, x), 0), logical_not(less(x, 6))),
    "two_sums": (less(add(a, 3), add(a, 4)), true),
    "two_terms": (less(sub(a, b), 0), less(a, b)),
    "equal_out_of_range": (equal(b, 7), false),
    # Choices
    "where_true": (where(less(b, 7), f, mul(f, f)), f),
    "where_bool_negated": (where(p, false, true), logical_not(p)),
    "where_inside": (where(p, where(p, f, mul(f, f)), f), f),
    "maximum_itself": (maximum(add(x, 1), x), add(x, 1)),
    # Casts
    "cast_back": (cast(cast(s, i32), i8), s),
    "cast_in_range": (cast(cast(x, i8), index), x),
    "cast_bool": (cast(cast(p, f32), truth), p),
    # Vectors
    "vector_sum": (sub(add(lanes, 3), 3), lanes),
    "vector_constants": (mul(const(four, 3), const(four, 5)), const(four, 15)),
    "vector_comparison": (
        less(add(mul(lanes, 0), 1), 2),
        const(truth.vec(4), True),
    ),
    "vector_lane": (build.gep(build.vectorize(x, add(x, 0)), 1), x),
    "float_sum_keeps_its_order": (add(add(f, 1.0), 1.0), add(add(f, 1.0), 1.0)),
}


@pytest.mark.table
@pytest.mark.parametrize(("node", "gives"), TABLE.values(), ids=TABLE)
def test_simplifies_to(node, gives):
    assert simplify(node) is gives


position = total(a, c, -1)
inside = both(at_least(position, 0), less(position, 10))
window = both(at_least(total(x, z, -3), 0), less(total(x, z), 11))

UNDER_CONDITIONS = {
    "the_condition": (both(p, q), [p], q),
    "the_negation": (where(p, a, b), [logical_not(p)], b),
    "a_weaker_limit": (less(x, 9), [less(x, 5)], true),
    "a_contradiction": (less(x, 5), [at_least(x, 7)], false),
    "modulo": (mod(x, 8), [less(x, 8)], x),
    "row": (idiv(x, 8), [less(x, 8)], number(0)),
    "later_row": (idiv(x, 8), [both(less(x, 16), at_least(x, 8))], number(1)),
    "two_limits": (less(add(a, b), 9), [both(less(a, 5), less(b, 5))], true),
    "sum_in_window": (mod(position, 10), [inside], position),
    "row_of_window": (idiv(position, 10), [inside], number(0)),
    "gate_of_window": (inside, [inside], true),
    "signed_window": (mod(total(x, z, -3), 8), [window], total(x, z, -3)),
    "sign_known": (maximum(z, 0), [at_least(z, 0)], z),
    "value_known": (add(x, a), [equal(x, 3)], add(a, 3)),
    "limit_by_another": (less(x, 10), [less(x, a)], true),
    "nothing_known": (mod(x, 8), [less(a, 3)], mod(x, 8)),
    "contradicting_conditions": (mod(x, 8), [less(x, 3), at_least(x, 5)], mod(x, 8)),
    "a_false_condition": (mod(x, 8), [false], mod(x, 8)),
    "no_condition": (add(x, 0), [], x),
    "scaled_condition": (mod(x, 5), [less(mul(x, 4), 20)], x),
    "int32": (mod(k, 8), [both(at_least(k, 0), less(k, 8))], k),
}


@pytest.mark.table
@pytest.mark.parametrize(
    ("node", "conditions", "gives"), UNDER_CONDITIONS.values(), ids=UNDER_CONDITIONS
)
def test_simplifies_with(node, conditions, gives):
    assert simplify_with(node, conditions) is gives


def test_results_hold_no_stand_ins():
    for node, conditions, _ in UNDER_CONDITIONS.values():
        result = simplify_with(node, conditions)
        names = {part.arg.name for part in result.toposort() if part.op is Ops.DEFINE_VAR}
        assert not any(name.startswith("~") for name in names)


def test_simplified_once():
    node = add(mul(a, 7), add(b, 0))
    assert simplify(node) is simplify(node)
    assert simplify(simplify(node)) is simplify(node)


def test_long_sums_end():
    # Sums beyond the limit of normal forms do not change, and cost no square of their length.
    terms = [build.variable(f"t{number:04}", 0, 9) for number in range(2_000)]
    node = total(*terms)
    assert len(simplify(node).toposort()) >= len(terms)


@pytest.mark.slow
def test_deep_expressions_end():
    node = x
    for _ in range(4_000):
        node = maximum(add(node, 1), 0)
    assert simplify(node) is add(x, 4_000)


def test_kernel_nodes_pass_through():
    address = build.index(build.define_global(0, f32, 64), mod(add(mul(a, 7), b), 7))
    store = build.store(address, build.load(address, less(b, 7)))
    result = simplify(build.sink(store))
    plain = substitute(address, {address.src[1]: b})
    assert result is build.sink(build.store(plain, build.load(plain)))
