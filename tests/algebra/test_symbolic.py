"""Test symbolic sizes: one normal form, bounds, comparison, division, wording."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.sizes import arithmetic
from tinyref.algebra.symbolic import (
    Extent,
    Undecided,
    as_node,
    as_size,
    at_most,
    describe,
    describe_shape,
    highest,
    is_known,
    largest,
    lift,
    lower,
    lowest,
    normalise,
    product,
    smallest,
    split,
    variables_of,
)
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops import build as b
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops

LAW = settings(max_examples=150)
N = b.variable("n", 1, 10)
M = b.variable("m", 2, 5)
Z = b.variable("z", -3, 4)


def test_one_value_has_one_node() -> None:
    assert normalise(b.mul(4, N)) is normalise(b.mul(N, 4))
    assert normalise(b.add(b.mul(N, 3), N)) is normalise(b.mul(4, N))
    assert normalise(b.sub(b.add(N, M), M)) is N
    assert normalise(b.mul(b.add(N, 1), M)) is normalise(b.add(b.mul(M, N), M))
    assert normalise(UOp(Ops.NEG, dtypes.index, (b.sub(M, N),))) is normalise(b.sub(N, M))
    assert normalise(b.sub(N, N)) == 0
    assert normalise(b.const(dtypes.index, 7)) == 7
    quotient = b.idiv(b.mul(2, N), 3)
    assert normalise(quotient) is normalise(b.idiv(b.mul(N, 2), 3))


def test_the_order_of_terms_does_not_depend_on_the_order_of_building() -> None:
    names = [b.variable(name, 1, 3) for name in "cab"]
    one = normalise(b.add(b.add(names[0], names[1]), names[2]))
    other = normalise(b.add(b.add(names[2], names[0]), names[1]))
    assert one is other
    assert describe(one) == "a+b+c"


def test_bounds_are_exact_for_sums_and_for_products_of_one_sign() -> None:
    assert lowest(lift(b.add(b.mul(N, 3), 1))) == 4
    assert highest(lift(b.add(b.mul(N, 3), 1))) == 31
    assert lowest(lift(b.sub(b.mul(N, M), M))) == 0
    assert lowest(lift(b.sub(b.mul(M, 10), b.mul(N, M)))) == 0
    assert highest(lift(b.mul(N, M))) == 50
    assert lowest(lift(b.mul(Z, 2))) == -6


def test_comparison() -> None:
    assert at_most(lift(N), 10)
    assert not at_most(lift(N), 9)
    assert is_known(0, lift(N)) is True
    assert is_known(11, lift(N)) is False
    assert is_known(5, lift(N)) is None
    assert is_known(lift(b.add(N, 1)), lift(N)) is False
    assert largest(lift(N), lift(b.add(N, 1))) == lift(b.add(N, 1))
    assert smallest(lift(N), 11) == lift(N)
    assert describe(lower(largest(lift(N), lift(M)))) == "max(m, n)"


def test_division() -> None:
    assert split(7, 3) == (2, 1)
    assert split(-7, 3) == (-3, 2)
    assert split(lift(N), 1) == (lift(N), 0)
    assert split(lift(b.mul(N, 6)), 3) == (lift(b.mul(N, 2)), 0)
    assert split(lift(b.mul(N, M)), lift(M)) == (lift(N), 0)
    assert split(lift(b.add(b.mul(N, M), 1)), lift(M)) == (lift(N), 1)
    total = lift(b.mul(b.add(N, 1), b.add(M, 2)))
    assert split(total, lift(b.add(N, 1))) == (lift(b.add(M, 2)), 0)
    quotient, rest = split(lift(N), 3)
    assert describe(lower(quotient)) == "n//3"
    assert describe(lower(rest)) == "n%3"
    with pytest.raises(Undecided):
        split(lift(Z), 3)


def bound(variable: UOp, value: int) -> UOp:
    return UOp(Ops.BIND, dtypes.index, (variable, b.const(dtypes.index, value)))


@pytest.mark.table
@pytest.mark.parametrize(
    ("left", "sign", "right", "expected"),
    [
        (N, "+", M, "m+n"),
        (N, "-", 1, "n+-1"),
        (N, "*", M, "m*n"),
        (b.mul(N, 6), "//", 3, "n*2"),
        (b.mul(N, 6), "%", 3, "0"),
        (20, "//", N, "20//n"),
        (20, "%", N, "20%n"),
        # The largest value is the divisor, and one less.
        (N, "//", 10, "n//10"),
        (N, "%", 10, "n%10"),
        (N, "//", 11, "0"),
        (N, "%", 11, "n"),
        (-3, "//", 2, "-2"),
        (-3, "%", 2, "1"),
        (b.sub(N, 20), "//", 3, "(n+1)//3+-7"),
        (b.mul(Z, 3), "//", 3, "z"),
        (bound(Z, 4), "//", 3, "z=4//3"),
        (7, "//", bound(Z, 2), "7//z=2"),
    ],
)
def test_arithmetic_of_sizes(left: sint, sign: str, right: sint, expected: str) -> None:
    assert describe(arithmetic(sign, left, right)) == expected


@pytest.mark.table
@pytest.mark.parametrize(
    ("left", "sign", "right", "refused"),
    [
        (N, "//", Z, "size: n//z: z has no value: accepted is z from 1 to 4"),
        (Z, "//", 3, "size: z//3: z has no value: accepted is z from 0 to 4"),
        (bound(Z, -1), "%", 3, "size: z=-1%3: z is -1: accepted is z from 0 to 4"),
        (7, "//", bound(Z, 0), "size: 7//z=0: z is 0: accepted is z from 1 to 4"),
        (-3, "//", N, "size: -3//n: accepted is 0 <= -3"),
        (-3, "%", N, "size: -3%n: accepted is 0 <= -3"),
    ],
)
def test_divisions_of_sizes_that_are_refused(
    left: sint, sign: str, right: sint, refused: str
) -> None:
    with pytest.raises(UserError) as error:
        arithmetic(sign, left, right)
    assert str(error.value) == refused


expressions: st.SearchStrategy[sint] = st.recursive(
    st.one_of(st.integers(-5, 9), st.sampled_from([N, M, Z])),
    lambda inner: st.builds(
        lambda make, x, y: make(as_node(x), as_node(y)),
        st.sampled_from([b.add, b.sub, b.mul, b.maximum]),
        inner,
        inner,
    ),
    max_leaves=6,
)
bindings = st.fixed_dictionaries(
    {"n": st.integers(1, 10), "m": st.integers(2, 5), "z": st.integers(-3, 4)}
)


@pytest.mark.long
@LAW
@given(expressions, expressions, bindings)
def test_arithmetic_keeps_the_value(x: sint, y: sint, values: dict[str, int]) -> None:
    operations: list[tuple[Callable[[Extent, Extent], Extent], Callable[[int, int], int]]] = [
        (lambda p, q: p + q, lambda p, q: p + q),
        (lambda p, q: p - q, lambda p, q: p - q),
        (lambda p, q: p * q, lambda p, q: p * q),
        (largest, max),
        (smallest, min),
    ]
    first, second = value_of(x, values), value_of(y, values)
    for symbolic, concrete in operations:
        result = lower(symbolic(lift(x), lift(y)))
        assert value_of(result, values) == concrete(first, second)
        assert normalise(result) is result or isinstance(result, int)
    low, high = lowest(lift(x)), highest(lift(x))
    assert low <= first <= high
    assert is_known(lift(x), lift(y)) in (None, first <= second)


@pytest.mark.slow
@LAW
@given(expressions, expressions, bindings)
def test_division_keeps_its_law(x: sint, y: sint, values: dict[str, int]) -> None:
    divisor = lift(y)
    if lowest(divisor) < 1:
        return
    try:
        quotient, rest = split(lift(x), divisor)
    except Undecided:
        return
    want = divmod(value_of(x, values), value_of(y, values))
    assert (value_of(lower(quotient), values), value_of(lower(rest), values)) == want


def test_products_and_variables() -> None:
    assert product(()) == 1
    assert product((2, 3)) == 6
    assert product((2, N, 0)) == 0
    assert list(variables_of((3, b.add(N, M), N))) == [N, M]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (4, "4"),
        (N, "n"),
        (b.add(b.mul(N, 4), 1), "n*4+1"),
        (b.mul(b.add(N, 1), M), "(n+1)*m"),
        (b.idiv(b.add(N, 1), 2), "(n+1)//2"),
        (b.maximum(N, 3), "max(n, 3)"),
        (UOp(Ops.BIND, dtypes.index, (N, b.const(dtypes.index, 4))), "n=4"),
    ],
)
def test_wording(size: sint, text: str) -> None:
    assert describe(size) == text


def test_wording_of_shapes() -> None:
    assert describe_shape(()) == "()"
    assert describe_shape((3,)) == "(3,)"
    assert describe_shape((3, N)) == "(3, n)"
    deep: UOp = N
    for _ in range(2000):
        deep = b.mod(b.add(deep, deep), 7)
    assert "..." in describe(deep)


@pytest.mark.parametrize("value", [1.0, "3", None, True, b.const(dtypes.int32, 3)])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(UserError, match="shape: a"):
        as_size(value, "shape")


def test_sizes_beyond_64_bits_are_refused() -> None:
    size: UOp = b.mul(N, 1 << 40)
    with pytest.raises(UserError, match=r"beyond 2\*\*63"):
        normalise(UOp(Ops.MUL, dtypes.index, (size, size)))
    sizes = lift(b.mul(N, (1 << 62) - 1))
    with pytest.raises(UserError, match=r"beyond 2\*\*63"):
        lower(sizes * 4)


def test_a_maximum_is_at_least_its_operands():
    v, w = b.variable("v", 0, 10), b.variable("w", 2, 12)
    larger, smaller = largest(lift(v), lift(w)), smallest(lift(v), lift(w))
    assert lowest(larger - lift(v)) == 0
    assert lowest(lift(v) - smaller) == 0
    assert (lowest(larger), highest(larger), lowest(smaller), highest(smaller)) == (2, 12, 0, 10)
    # All values of both variables, against bounds that no rule knows exactly.
    for first in range(11):
        for second in range(2, 13):
            value = 3 * max(first, second) - 2 * first - min(first, second)
            assert lowest(larger * 3 - lift(v) * 2 - smaller) <= value


def test_maxima_within_maxima_are_not_all_looked_into():
    total = lift(0)
    for number in range(40):
        total = largest(total, lift(b.variable(f"v{number}", 0, 10)) - number) + 1
    assert lowest(total) <= 40 <= highest(total)
