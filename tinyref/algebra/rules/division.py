"""Division and remainder by constants. Both truncate, so most rules depend on the signs.

If the dividend and the parts of it that a rule divides are not negative, truncation is floor
division, and floor((d * q + r) / d) == q for 0 <= r < d. Fixed-width dividends are read as sums of
mathematical integers (`linear.exact`), so no rule here depends on wrapping.
"""

from __future__ import annotations

import math

from tinyref.algebra import linear
from tinyref.algebra.bounds import bounds, dtype_range
from tinyref.algebra.linear import LinearForm, constant_of
from tinyref.algebra.named_rules import any_node, constant, index, integer, is_const, match, rule
from tinyref.algebra.semantics import truncating_division
from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

x = any_node("x")
y = any_node("y")
c = is_const("c")
d = is_const("d")
e = is_const("e")


def positive(node: UOp) -> int | None:
    """Return the value of a CONST above 0; None for any other node."""
    value = constant_of(node)
    return value if value is not None and value > 0 else None


def sides(x: UOp, c: UOp) -> tuple[LinearForm, int] | None:
    """Return the dividend as an exact sum and the divisor; None unless x >= 0 and c > 0."""
    divisor = positive(c)
    return None if divisor is None or bounds(x)[0] < 0 else (linear.exact(x), divisor)


def holds(dtype: DType, value: int) -> bool:
    """Return True if the integer type has `value`; `index` has every value of a CONST."""
    low, high = dtype_range(dtype)
    return low <= value <= high


@rule("div-one", match(Ops.IDIV, x, constant(1)))
def div_one(x: UOp) -> UOp:
    """x // 1 == x."""
    return x


@rule("mod-one", match(Ops.MOD, x, constant(1)))
def mod_one(node: UOp, x: UOp) -> UOp:
    """x % 1 == 0."""
    return build.const(node.dtype, 0)


@rule("div-minus-one", match(Ops.IDIV, x, constant(-1)))
def div_minus_one(x: UOp) -> UOp:
    """x // -1 == x * -1, wrapping for MIN as IDIV does."""
    return build.mul(x, -1)


@rule("div-same", match(Ops.IDIV, x, x), needs_bounds=True)
def div_same(node: UOp, x: UOp) -> UOp | None:
    """x // x == 1 where x is never 0."""
    low, high = bounds(x)
    return build.const(node.dtype, 1) if low > 0 or high < 0 else None


@rule("mod-same", match(Ops.MOD, x, x))
def mod_same(node: UOp, x: UOp) -> UOp:
    """x % x == 0; 0 % 0 is 0 as well."""
    return build.const(node.dtype, 0)


@rule("mod-bounds", match(Ops.MOD, x, c), needs_bounds=True)
def mod_bounds(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """x % c == x - c * q where x // c is q for every x; so x % c == x where 0 <= x < c."""
    divisor = constant_of(c)
    if not divisor:
        return None
    low, high = bounds(x)
    quotient = truncating_division(low, divisor)
    if quotient != truncating_division(high, divisor):
        return None
    return build.add(x, build.const(node.dtype, -quotient * divisor)) if quotient else x


@rule("mod-variable", match(Ops.MOD, x, y), needs_bounds=True)
def mod_variable(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """x % y == x where 0 <= x < y always, also for a y that is not constant."""
    return x if below(x, y) else None


@rule("div-variable", match(Ops.IDIV, x, y), needs_bounds=True)
def div_variable(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """x // y == 0 where 0 <= x < y always, also for a y that is not constant."""
    return build.const(node.dtype, 0) if below(x, y) else None


def below(x: UOp, y: UOp) -> bool:
    """Return True if 0 <= x < y is known from ranges, or because x counts to y."""
    if bounds(x)[0] < 0:
        return False
    counts = x.op in (Ops.RANGE, Ops.SPECIAL) and x.src[0] is y
    return bounds(x)[1] < bounds(y)[0] or (counts and bounds(y)[0] > 0)


@rule("div-nested", match(Ops.IDIV, match(Ops.IDIV, x, c), d))
def div_nested(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x // c) // d == x // (c * d) for c, d > 0 whose product fits the type."""
    first, second = positive(c), positive(d)
    if first is None or second is None or not holds(node.dtype, first * second):
        return None
    return build.idiv(x, first * second)


@rule(
    "div-nested-sum",
    match(Ops.IDIV, match(Ops.ADD, match(Ops.IDIV, x, c), e), d),
    needs_bounds=True,
)
def div_nested_sum(node: UOp, x: UOp, c: UOp, e: UOp, d: UOp) -> UOp | None:
    """(x // c + e) // d == (x + e * c) // (c * d) where 0 <= x, for e >= 0 and c, d > 0."""
    first, second, added = positive(c), positive(d), positive(e)
    if first is None or second is None or added is None or bounds(x)[0] < 0:
        return None
    if not holds(node.dtype, first * second):
        return None
    total = LinearForm({x: 1}, added * first)
    if not total.fits(node.dtype) or not holds(node.dtype, total.constant):
        return None
    return build.idiv(linear.to_node(node.dtype, total), first * second)


@rule("div-of-mod", match(Ops.IDIV, match(Ops.MOD, x, c), d))
def div_of_mod(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x % (a * d)) // d == (x // d) % a for a, d > 0; truncation treats both signs of x alike."""
    modulus, divisor = positive(c), positive(d)
    if modulus is None or divisor is None or modulus % divisor:
        return None
    return build.mod(build.idiv(x, divisor), modulus // divisor)


@rule("mod-of-mod", match(Ops.MOD, match(Ops.MOD, x, c), d))
def mod_of_mod(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x % (a * d)) % d == x % d for a, d > 0; both sides have the sign of x."""
    modulus, divisor = positive(c), positive(d)
    if modulus is None or divisor is None or modulus % divisor:
        return None
    return build.mod(x, d)


def factors_of(total: LinearForm, divisor: int) -> list[int]:
    """Return the common factors of `divisor` with coefficients of `total`, largest first, not 1."""
    factors = {math.gcd(coefficient, divisor) for coefficient in total.terms.values()}
    return sorted(factors - {1}, reverse=True)


def small_rest(total: LinearForm, factor: int) -> tuple[LinearForm, LinearForm] | None:
    """Return (quotient, rest) with total == factor * quotient + rest and 0 <= rest < factor.

    Return None if the rest may be outside these bounds.
    """
    quotient, rest = total.split(factor)
    low, high = rest.range
    return (quotient, rest) if low >= 0 and high < factor else None


@rule("div-factor", match(Ops.IDIV, x, c), needs_bounds=True)
def div_factor(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """(f * q + r) // (f * k) == q // k where 0 <= r < f and the dividend is not negative.

    So (x * 6 + y) // 3 == x * 2 for 0 <= y < 3, and (x * 6 + y) // 12 == x // 2 for 0 <= y < 6.
    """
    known = sides(x, c)
    if known is None:
        return None
    total, divisor = known
    for factor in factors_of(total, divisor):
        parts = small_rest(total, factor)
        if parts is None or not parts[0].fits(node.dtype):
            continue
        quotient = linear.to_node(node.dtype, parts[0])
        return quotient if factor == divisor else build.idiv(quotient, divisor // factor)
    return None


@rule("div-split", match(Ops.IDIV, x, c), needs_bounds=True)
def div_split(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """(c * q + r) // c == q + r // c where neither the dividend nor r is negative."""
    known = sides(x, c)
    if known is None:
        return None
    total, divisor = known
    quotient, rest = total.split(divisor)
    is_trivial = not quotient.terms and quotient.constant == 0
    if is_trivial or rest.range[0] < 0 or not (quotient.fits(node.dtype) and rest.fits(node.dtype)):
        return None
    outside = linear.to_node(node.dtype, quotient)
    inside = linear.to_node(node.dtype, rest)
    return build.add(outside, build.idiv(inside, divisor))


@rule("div-reduce", match(Ops.IDIV, x, c), needs_bounds=True)
def div_reduce(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """(a * x + r) // c == (a // c) * x + ((a % c) * x + r) // c, where the last quotient is 0.

    So (x * 8 + y) // 7 == x for x + y < 7. Neither side is negative.
    """
    known = sides(x, c)
    if known is None:
        return None
    total, divisor = known
    quotient = LinearForm(
        {term: k // divisor for term, k in total.terms.items() if k // divisor},
        total.constant // divisor,
    )
    rest = total.plus(quotient, -divisor)
    low, high = rest.range
    if low < 0 or high >= divisor or not quotient.fits(node.dtype):
        return None
    return linear.to_node(node.dtype, quotient)


@rule("mod-terms", match(Ops.MOD, x, c), needs_bounds=True)
def mod_terms(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """(a * x + r) % c == ((a % c) * x + r) % c where neither dividend is negative.

    Coefficients are reduced to 0..c-1, or to -c/2..c/2 if the result is then below c.
    """
    known = sides(x, c)
    if known is None:
        return None
    total, divisor = known
    for centre in (0, divisor // 2):
        reduced = _coefficients_near(total, divisor, centre)
        low, high = reduced.range
        if low < 0 or not reduced.fits(node.dtype):
            continue
        if high < divisor:
            return linear.to_node(node.dtype, reduced)
        if centre == 0 and reduced != total:
            return build.mod(linear.to_node(node.dtype, reduced), divisor)
    return None


def _coefficients_near(total: LinearForm, divisor: int, centre: int) -> LinearForm:
    """Reduce every coefficient of `total` modulo `divisor` to -centre..divisor-1-centre."""
    terms = {term: (k + centre) % divisor - centre for term, k in total.terms.items()}
    return LinearForm({term: k for term, k in terms.items() if k}, total.constant % divisor)


@rule("mod-factor", match(Ops.MOD, x, c), needs_bounds=True)
def mod_factor(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """(f * q + r) % (f * k) == f * (q % k) + r where 0 <= r < f and the dividend is >= 0."""
    known = sides(x, c)
    if known is None:
        return None
    total, divisor = known
    for factor in factors_of(total, divisor):
        parts = small_rest(total, factor)
        if parts is None or factor == divisor or not parts[0].fits(node.dtype):
            continue
        quotient, rest = (linear.to_node(node.dtype, part) for part in parts)
        return build.add(build.mul(build.mod(quotient, divisor // factor), factor), rest)
    return None


@rule("mod-inner-mod", match(Ops.MOD, x, c), needs_bounds=True)
def mod_inner_mod(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """(a * (x % m) + r) % c == (a * x + r) % c where c divides a * m and no side is negative."""
    known = sides(x, c)
    if known is None:
        return None
    total, divisor = known
    opened = LinearForm({}, total.constant)
    for term, coefficient in total.terms.items():
        inner = LinearForm({term: 1}, 0)
        if term.op is Ops.MOD:
            modulus = constant_of(term.src[1])
            if modulus and coefficient * modulus % divisor == 0:
                inner = linear.exact(term.src[0])
        opened = opened.plus(inner, coefficient)
    if opened == total or opened.range[0] < 0 or not opened.fits(node.dtype):
        return None
    return build.mod(linear.to_node(node.dtype, opened), divisor)


@rule("div-mod-sum", match(Ops.ADD, x, y), when=integer)
def div_mod_sum(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """(x // c) * c + x % c == x, also as parts of a sum and times a common factor.

    If x is a // b, the rule looks for (a // b) // c as a // (b * c).
    """
    total = linear.modular(node)
    for term, times in total.terms.items():
        modulus = positive(term.src[1]) if term.op is Ops.MOD else None
        if modulus is None:
            continue
        whole = _quotient(term.src[0], modulus)
        if total.terms.get(whole) != times * modulus:
            continue
        rest = total.plus(LinearForm({term: times, whole: times * modulus}, 0), -1)
        return linear.to_node(node.dtype, rest.plus(LinearForm({term.src[0]: 1}, 0), times))
    return None


@rule("mod-join", match(Ops.ADD, x, y), when=integer)
def mod_join(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """((x // c) % d) * c + x % c == x % (c * d) for c, d > 0, also as parts of a sum."""
    total = linear.modular(node)
    for term, times in total.terms.items():
        inner = positive(term.src[1]) if term.op is Ops.MOD else None
        if inner is None:
            continue
        whole = _quotient(term.src[0], inner)
        for other, factor in total.terms.items():
            outer = positive(other.src[1]) if other.op is Ops.MOD else None
            if outer is None or factor != times * inner or other.src[0] is not whole:
                continue
            if not holds(node.dtype, inner * outer):
                continue
            rest = total.plus(LinearForm({term: times, other: factor}, 0), -1)
            joined = build.mod(term.src[0], inner * outer)
            return linear.to_node(node.dtype, rest.plus(LinearForm({joined: 1}, 0), times))
    return None


def _quotient(x: UOp, divisor: int) -> UOp:
    """Return the normal form of x // divisor: (a // b) // divisor is a // (b * divisor)."""
    if x.op is Ops.IDIV:
        inner = positive(x.src[1])
        if inner is not None and holds(x.dtype, inner * divisor):
            return build.idiv(x.src[0], inner * divisor)
    return build.idiv(x, divisor)


@rule("mod-from-div", match(Ops.ADD, x, y), when=integer)
def mod_from_div(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """x - (x // c) * c == x % c, also as parts of a sum and times a common factor."""
    total = linear.modular(node)
    for term, coefficient in total.terms.items():
        divisor = positive(term.src[1]) if term.op is Ops.IDIV else None
        if divisor is None or coefficient % divisor:
            continue
        times = -(coefficient // divisor)
        inner = linear.modular(term.src[0])
        if not _has(total, inner, times):
            continue
        remainder = build.mod(term.src[0], divisor)
        rest = total.plus(LinearForm({term: coefficient}, 0), -1).plus(inner, -times)
        return linear.to_node(node.dtype, rest.plus(LinearForm({remainder: 1}, 0), times))
    return None


def _has(total: LinearForm, part: LinearForm, times: int) -> bool:
    """Return True if `part` has terms and `total` has all of them, multiplied by `times`."""
    return bool(part.terms) and all(
        total.terms.get(term) == times * k for term, k in part.terms.items()
    )


def _multiple_of(term: UOp, factor: UOp) -> UOp | None:
    """Return q if `term` is q * factor, and 1 if it is `factor` itself; else None."""
    if term is factor:
        return build.const(term.dtype, 1)
    if term.op is not Ops.MUL:
        return None
    left, right = term.src
    if right is factor:
        return left
    return right if left is factor else None


def _split_by_node(x: UOp, divisor: UOp) -> tuple[UOp, UOp] | None:
    """Return (q, r) with x == divisor * q + r and 0 <= r < divisor; None if no term has a divisor.

    A term counts if it is a product with the node `divisor`.
    """
    total = linear.exact(x)
    if bounds(divisor)[0] <= 0 or bounds(x)[0] < 0:
        return None
    quotient: list[UOp] = []
    rest = LinearForm({}, total.constant)
    for term, times in total.terms.items():
        multiple = _multiple_of(term, divisor)
        if multiple is None:
            rest = rest.plus(LinearForm({term: times}, 0))
        else:
            quotient.append(build.mul(multiple, times))
    if not quotient:
        return None
    remainder = linear.to_node(x.dtype, rest)
    if not below(remainder, divisor):
        return None
    whole = quotient[0]
    for part in quotient[1:]:
        whole = build.add(whole, part)
    return whole, remainder


@rule("div-symbolic", match(Ops.IDIV, x, y), when=index, needs_bounds=True)
def div_symbolic(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """(q * y + r) // y == q where 0 <= r < y and no side is negative. For index: q * y must fit."""
    parts = _split_by_node(x, y)
    return None if parts is None else parts[0]


@rule("mod-symbolic", match(Ops.MOD, x, y), when=index, needs_bounds=True)
def mod_symbolic(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """(q * y + r) % y == r where 0 <= r < y and no side is negative. For index: q * y must fit."""
    parts = _split_by_node(x, y)
    return None if parts is None else parts[1]
