"""Comparisons of integers, and comparisons with the same result for every type.

The normal form of x < y has sums with positive coefficients on both sides and the constant on the
right; x > c is written not x < c + 1. Fixed-width sides are read as sums of mathematical integers
(`linear.exact`), and a form is used only if its sides do not wrap.
"""

from __future__ import annotations

import math

from tinyref.algebra import linear
from tinyref.algebra.bounds import bounds
from tinyref.algebra.linear import LinearForm, constant_of
from tinyref.algebra.named_rules import (
    any_node,
    boolean,
    constant,
    integer,
    integer_or_bool,
    is_const,
    match,
    rule,
)
from tinyref.algebra.rules.division import holds, positive, small_rest
from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp, order_key
from tinyref.uops.ops import Ops

x = any_node("x")
y = any_node("y")
number = any_node("x", when=integer)
flag = any_node("x", when=boolean)
c = is_const("c")
d = is_const("d")


@rule("lt-same", match(Ops.CMPLT, x, x))
def lt_same(node: UOp, x: UOp) -> UOp:
    """(x < x) == False, for floats too: a NaN is not below itself."""
    return build.const(node.dtype, False)


@rule("ne-same", match(Ops.CMPNE, any_node("x", when=integer_or_bool), x))
def ne_same(node: UOp, x: UOp) -> UOp:
    """(x != x) == False. Not for floats, where it is the test for NaN."""
    return build.const(node.dtype, False)


@rule("ne-order", match(Ops.CMPNE, x, y))
def ne_order(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """(x != y) == (y != x): the sides are in the order of normal forms, a constant last."""
    return UOp(Ops.CMPNE, node.dtype, (y, x)) if order_key(y) < order_key(x) else None


def difference(x: UOp, y: UOp) -> LinearForm:
    """Return x - y as an exact sum."""
    return linear.exact(x).plus(linear.exact(y), -1)


def sides(dtype: DType, terms: dict[UOp, int], limit: int) -> tuple[UOp, UOp] | None:
    """Return nodes l, r with (l < r) == (sum of terms < limit) and only positive coefficients.

    Return None if a side does not fit `dtype`.
    """
    left = LinearForm({term: k for term, k in terms.items() if k > 0}, 0)
    right = LinearForm({term: -k for term, k in terms.items() if k < 0}, limit)
    if not left.fits(dtype) or not right.fits(dtype) or not holds(dtype, limit):
        return None
    return linear.to_node(dtype, left), linear.to_node(dtype, right)


def _begins_negative(total: LinearForm) -> bool:
    """Return True if the first term has a negative factor: then the negated form is used."""
    return total.terms[min(total.terms, key=order_key)] < 0


@rule("lt-sum", match(Ops.CMPLT, number, y), needs_bounds=True)
def lt_sum(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """(x + c < y + d) == (x - y < d - c), with the positive terms left and the others right.

    A common factor divides out: (x * 4 < 7) == (x < 2). Where the first term would be negative,
    (x < y) == not (y < x + 1).
    """
    total = difference(x, y)
    if not total.terms:
        return build.const(node.dtype, total.constant < 0)
    factor = math.gcd(*total.terms.values())
    limit = -(total.constant // factor)
    is_negated = _begins_negative(total)
    if is_negated:
        factor, limit = -factor, 1 - limit
    terms = {term: k // factor for term, k in total.terms.items()}
    operands = sides(x.dtype, terms, limit)
    if operands is None:
        return None
    result = UOp(Ops.CMPLT, node.dtype, operands)
    return build.logical_not(result) if is_negated else result


@rule("lt-factor", match(Ops.CMPLT, number, c), needs_bounds=True)
def lt_factor(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """(f * q + r < f * k) == (q < k) where 0 <= r < f.

    With r < s < f always, (f * q + r < f * k + s) == (q < k + 1).
    """
    total = linear.exact(x)
    limit = constant_of(c)
    if limit is None:
        return None
    for factor in sorted({abs(k) for k in total.terms.values()} - {1}, reverse=True):
        parts = small_rest(total, factor)
        if parts is None or not parts[1].terms or not parts[0].fits(x.dtype):
            continue
        whole, part = divmod(limit, factor)
        if part and parts[1].range[1] >= part:
            continue
        return build.less(linear.to_node(x.dtype, parts[0]), whole + (part > 0))
    return None


@rule("lt-factor-sum", match(Ops.CMPLT, number, y), needs_bounds=True)
def lt_factor_sum(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """(f * l + r < f * s) == (l < s) where 0 <= r < f always, for an s that is not constant.

    So (a * 4 + b < n * 4) == (a < n) for 0 <= b < 4.
    """
    if y.op is Ops.CONST:
        return None
    total = difference(x, y)
    for factor in sorted({abs(k) for k in total.terms.values()} - {1}, reverse=True):
        parts = small_rest(total, factor)
        if parts is None or not parts[0].terms or not parts[1].terms:
            continue
        quotient = parts[0]
        both = sides(x.dtype, quotient.terms, -quotient.constant)
        if both is not None:
            return UOp(Ops.CMPLT, node.dtype, both)
    return None


@rule("lt-max", match(Ops.CMPLT, match(Ops.MAX, number, c), d))
def lt_max(x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(max(x, c) < d) == (x < d) for c < d."""
    first, second = constant_of(c), constant_of(d)
    return None if first is None or second is None or first >= second else build.less(x, d)


@rule("lt-div", match(Ops.CMPLT, match(Ops.IDIV, number, c), d))
def lt_div(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x // c < d) == (x < c * d) for c, d > 0; (x // c < d) == (x < c * (d - 1) + 1) for d <= 0.

    Truncation makes the quotients around 0 one number wider. The limit must fit the type.
    """
    divisor, limit = positive(c), constant_of(d)
    if divisor is None or limit is None:
        return None
    bound = divisor * limit if limit > 0 else divisor * (limit - 1) + 1
    return build.less(x, bound) if holds(x.dtype, bound) else None


@rule("lt-first", match(Ops.CMPLT, number, constant(1)), needs_bounds=True)
def lt_first(node: UOp, x: UOp) -> UOp | None:
    """(x < 1) == not (x != 0) where 0 <= x, for an x that is a remainder."""
    if bounds(x)[0] < 0 or x.op is not Ops.MOD:
        return None
    return build.logical_not(build.not_equal(x, 0))


@rule("ne-sum", match(Ops.CMPNE, number, y), needs_bounds=True)
def ne_sum(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """(x + c != y + d) == (x - y != d - c), with the positive terms left and the others right.

    A common factor divides out: (x * 4 != 8) == (x != 2) and (x * 4 != 7) == True.
    """
    total = difference(x, y)
    if not total.terms:
        return build.const(node.dtype, total.constant != 0)
    low, high = total.range
    if low > 0 or high < 0:
        return build.const(node.dtype, True)
    factor = math.gcd(*total.terms.values())
    if total.constant % factor:
        return build.const(node.dtype, True)
    if _begins_negative(total):
        factor = -factor
    terms = {term: k // factor for term, k in total.terms.items()}
    operands = sides(x.dtype, terms, -(total.constant // factor))
    if operands is None:
        return None
    left, right = sorted(operands, key=order_key)
    return UOp(Ops.CMPNE, node.dtype, (left, right))


@rule("ne-add", match(Ops.CMPNE, match(Ops.ADD, number, c), d))
def ne_add(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x + c != d) == (x != d - c), modulo the width."""
    first, second = constant_of(c), constant_of(d)
    return None if first is None or second is None else build.not_equal(x, second - first)


@rule("ne-div", match(Ops.CMPNE, match(Ops.IDIV, number, c), constant(0)), needs_bounds=True)
def ne_div(x: UOp, c: UOp) -> UOp | None:
    """(x // c != 0) == not (x < c) where 0 <= x, for c > 0."""
    if positive(c) is None or bounds(x)[0] < 0:
        return None
    return build.logical_not(build.less(x, c))


@rule("ne-cast-bool", match(Ops.CMPNE, match(Ops.CAST, flag), constant(0)))
def ne_cast_bool(x: UOp) -> UOp:
    """(CAST(b) != 0) == b for a bool b cast to an integer."""
    return x


@rule("ne-cast-bool-one", match(Ops.CMPNE, match(Ops.CAST, flag), constant(1)))
def ne_cast_bool_one(x: UOp) -> UOp:
    """(CAST(b) != 1) == not b for a bool b cast to an integer."""
    return build.logical_not(x)


@rule("lt-cast-bool", match(Ops.CMPLT, match(Ops.CAST, flag), constant(1)))
def lt_cast_bool(x: UOp) -> UOp:
    """(CAST(b) < 1) == not b for a bool b cast to an integer."""
    return build.logical_not(x)
