"""Test integers as sums of multiples: the sums that are parsed, and the sums rebuilt."""

from __future__ import annotations

import pytest

from tinyref.algebra.linear import MAX_TERMS, LinearForm, constant_of, exact, modular, to_node
from tinyref.algebra.sizes import Constraint, accepted_values, limits
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import add, const, mul, sub
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops

i8, u8, index = dtypes.int8, dtypes.uint8, dtypes.index
x = build.variable("x", 0, 10)
y = build.variable("y", -3, 4)
# 100 + 27 is the largest int8, -100 - 28 the smallest.
a = build.variable("a", -100, 100, i8)
b = build.variable("b", 0, 42, i8)
c = build.variable("c", 0, 43, i8)
w = build.variable("w", 0, 100, u8)


def neg(node: UOp) -> UOp:
    return build.unary(Ops.NEG, node)


@pytest.mark.table
@pytest.mark.parametrize(
    ("node", "terms", "constant"),
    [
        (const(i8, -5), {}, -5),
        (x, {x: 1}, 0),
        (add(mul(x, 3), 4), {x: 3}, 4),
        (sub(x, y), {x: 1, y: -1}, 0),
        (neg(sub(x, 7)), {x: -1}, 7),
        (add(sub(x, y), y), {x: 1}, 0),
        (mul(add(x, 2), -3), {x: -3}, -6),
        # Both ends of the type, and the numbers beyond them.
        (add(a, 27), {a: 1}, 27),
        (add(a, 28), {add(a, 28): 1}, 0),
        (sub(a, 28), {a: 1}, -28),
        (sub(a, 29), {sub(a, 29): 1}, 0),
        (neg(a), {a: -1}, 0),
        (neg(build.variable("m", -128, 0, i8)), {neg(build.variable("m", -128, 0, i8)): 1}, 0),
        (mul(b, 3), {b: 3}, 0),
        (mul(c, 3), {mul(c, 3): 1}, 0),
        (mul(b, -3), {b: -3}, 0),
        (mul(c, -3), {mul(c, -3): 1}, 0),
        (sub(w, 1), {sub(w, 1): 1}, 0),
        (add(w, 155), {w: 1}, 155),
        (add(w, 156), {add(w, 156): 1}, 0),
        # A product of two variables is a term of its own.
        (mul(x, y), {mul(x, y): 1}, 0),
    ],
)
def test_exact_sums(node: UOp, terms: dict[UOp, int], constant: int) -> None:
    assert exact(node) == LinearForm(terms, constant)


def test_sums_that_wrap_are_read_in_the_ring_of_their_type() -> None:
    assert modular(add(a, 28)) == LinearForm({a: 1}, 28)
    assert modular(mul(c, 3)) == LinearForm({c: 3}, 0)
    # Over a sum only a factor of an index is spread.
    spread = mul(add(a, 1), 3)
    assert modular(spread) == LinearForm({spread: 1}, 0)
    assert modular(mul(add(x, 1), 3)) == LinearForm({x: 3}, 3)
    assert modular(mul(mul(a, 5), 3)) == LinearForm({a: 15}, 0)


def test_a_sum_that_is_too_long_is_a_term_of_its_own() -> None:
    parts = [build.variable(f"v{number}", 0, 9) for number in range(MAX_TERMS + 1)]
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    assert exact(total.src[0]) == LinearForm(dict.fromkeys(parts[:-1], 1), 0)
    for form in (exact, modular):
        assert form(total) == LinearForm({total: 1}, 0)
        assert form(add(mul(total, 3), 1)) == LinearForm({total: 3}, 1)


def test_sums_of_sums() -> None:
    total = LinearForm({x: 6, y: 4}, 17)
    assert total.range == (5, 93)
    assert LinearForm({x: -6}, 1).range == (-59, 1)
    assert total.split(3) == (LinearForm({x: 2}, 5), LinearForm({y: 4}, 2))
    assert LinearForm({}, -1).split(3) == (LinearForm({}, -1), LinearForm({}, 2))
    assert total.plus(LinearForm({x: 3, y: 1}, 1), -2) == LinearForm({y: 2}, 15)
    assert LinearForm({x: 12}, 7).fits(i8)
    assert not LinearForm({x: 12}, 8).fits(i8)
    assert LinearForm({x: -12}, -8).fits(i8)
    assert not LinearForm({x: -12}, -9).fits(i8)
    assert not LinearForm({x: -1}, 9).fits(u8)
    assert LinearForm({x: 1 << 62}, 0).fits(index)


def test_a_sum_as_a_node() -> None:
    assert to_node(index, LinearForm({}, 0)) is const(index, 0)
    assert to_node(index, LinearForm({x: 1}, 0)) is x
    assert to_node(index, LinearForm({x: 3}, -2)) is add(mul(x, 3), -2)
    # Coefficients wrap: 256 is 0, 255 is -1.
    assert to_node(i8, LinearForm({a: 256}, 257)) is const(i8, 1)
    assert to_node(i8, LinearForm({a: 255}, 256)) is mul(a, -1)


def test_constants() -> None:
    assert constant_of(const(i8, -5)) == -5
    assert constant_of(const(dtypes.bool, True)) == 1
    assert constant_of(const(dtypes.float32, 1.0)) is None
    assert constant_of(x) is None


@pytest.mark.table
@pytest.mark.parametrize(
    ("low", "high", "accepted"),
    [
        (x, 8, ("x", 0, 8)),
        (2, x, ("x", 2, 10)),
        (mul(x, 3), 10, ("x", 0, 3)),
        (10, mul(x, 3), ("x", 4, 10)),
        (add(x, 5), 4, ("x", 0, -1)),
        (mul(x, y), 3, None),
        (add(x, y), 3, None),
        (3, 4, None),
    ],
)
def test_the_values_that_a_constraint_accepts(
    low: sint, high: sint, accepted: tuple[str, int, int] | None
) -> None:
    assert accepted_values(Constraint(low, high, "here")) == accepted


def test_a_broken_constraint_says_what_is_accepted() -> None:
    for high, words in (
        (4, "x is 7: accepted is x from 0 to 4"),
        (-1, "x is 7: no value of x is accepted"),
    ):
        assert Constraint(x, high, "here").describe({"x": 7}) == words
    both = Constraint(add(x, y), 3, "here").describe({"x": 7})
    assert both == "x is 7 and y has no value: accepted is x+y <= 3"


def test_where_a_multiple_is_not_negative() -> None:
    assert limits(3, -10) == (4, None)
    assert limits(3, 10) == (-3, None)
    assert limits(-3, 10) == (None, 3)
    assert limits(-3, -1) == (None, -1)
