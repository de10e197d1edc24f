"""Laws of division and remainder by constants.

The sums that rules read are written with two leaves only, d * q + r. Both q and r may be sums of
any number of terms, so each law holds for all of them.
"""

from __future__ import annotations

from tinyref.uops.build import add, at_least, equal, idiv, less, mod, mul, not_equal, sub
from tinyref.uops.node import UOp
from tinyref_spec.proofs.integer_laws import constant, within
from tinyref_spec.proofs.law import INDEX, Equation, Proof, law


def positive(x: UOp) -> UOp:
    """Return 0 < x."""
    return less(0, x)


def natural(x: UOp) -> UOp:
    """Return 0 <= x."""
    return at_least(x, 0)


@law("div-same", Proof.INTEGERS)
def div_same(x: UOp) -> Equation:
    """x // x == 1 where x != 0."""
    return Equation(idiv(x, x), constant(x, 1), where=(not_equal(x, 0),))


@law("mod-same", Proof.INTEGERS)
def mod_same(x: UOp) -> Equation:
    """x % x == 0, for x == 0 too."""
    return Equation(mod(x, x), constant(x, 0))


@law("mod-bounds", Proof.INTEGERS, constants="c q")
def mod_bounds(x: UOp, low: UOp, high: UOp, c: UOp, q: UOp) -> Equation:
    """x % c == x - c * q where low // c == high // c == q and low <= x <= high."""
    conditions = (
        not_equal(c, 0),
        within(low, x, high),
        equal(idiv(low, c), q),
        equal(idiv(high, c), q),
    )
    steps = (at_least(idiv(x, c), q), at_least(q, idiv(x, c)))
    return Equation(mod(x, c), sub(x, mul(q, c)), conditions, steps, wraps=True)


@law("mod-variable", Proof.INTEGERS)
def mod_variable(x: UOp, y: UOp) -> Equation:
    """x % y == x where 0 <= x < y."""
    return Equation(mod(x, y), x, where=(natural(x), less(x, y)))


@law("div-variable", Proof.INTEGERS)
def div_variable(x: UOp, y: UOp) -> Equation:
    """x // y == 0 where 0 <= x < y."""
    return Equation(idiv(x, y), constant(x, 0), where=(natural(x), less(x, y)))


@law("div-nested", Proof.INTEGERS, constants="c d p")
def div_nested(x: UOp, c: UOp, d: UOp, p: UOp) -> Equation:
    """(x // c) // d == x // p for c, d > 0 and p == c * d."""
    conditions = (positive(c), positive(d))
    return Equation(idiv(idiv(x, c), d), idiv(x, p), conditions, reads=((p, mul(c, d)),))


@law("div-nested-sum", Proof.INTEGERS, constants="c d e p")
def div_nested_sum(x: UOp, y: UOp, c: UOp, d: UOp, e: UOp, p: UOp) -> Equation:
    """(x // c + e) // d == y // p where y == x + e * c, p == c * d, 0 <= x, e and c, d > 0."""
    conditions = (natural(x), natural(e), positive(c), positive(d))
    inner = add(idiv(x, c), e)
    steps = (
        positive(p),
        natural(y),
        equal(idiv(y, c), inner),
        equal(idiv(y, p), idiv(idiv(y, c), d)),
    )
    reads = ((y, add(x, mul(e, c))), (p, mul(c, d)))
    return Equation(idiv(inner, d), idiv(y, p), conditions, steps, reads)


@law("div-of-mod", Proof.INTEGERS, constants="a d m")
def div_of_mod(x: UOp, a: UOp, d: UOp, m: UOp) -> Equation:
    """(x % m) // d == (x // d) % a for a, d > 0 and m == a * d."""
    conditions = (positive(a), positive(d))
    steps = (positive(m), equal(idiv(x, m), idiv(idiv(x, d), a)))
    return Equation(
        idiv(mod(x, m), d), mod(idiv(x, d), a), conditions, steps, reads=((m, mul(a, d)),)
    )


@law("mod-of-mod", Proof.INTEGERS, constants="a d m")
def mod_of_mod(x: UOp, a: UOp, d: UOp, m: UOp) -> Equation:
    """(x % m) % d == x % d for a, d > 0 and m == a * d."""
    conditions = (positive(a), positive(d))
    return Equation(
        mod(mod(x, m), d), mod(x, d), conditions, (positive(m),), reads=((m, mul(a, d)),)
    )


@law("div-factor", Proof.INTEGERS, constants="f k c")
def div_factor(x: UOp, q: UOp, r: UOp, f: UOp, k: UOp, c: UOp) -> Equation:
    """(f * q + r) // c == q // k where 0 <= r < f, c == f * k > 0 and the dividend is natural."""
    conditions = (positive(f), positive(k), natural(x), natural(r), less(r, f))
    reads = ((x, add(mul(q, f), r)), (c, mul(f, k)))
    return Equation(idiv(x, c), idiv(q, k), conditions, (positive(c),), reads)


@law("div-factor", Proof.INTEGERS, constants="c")
@law("div-reduce", Proof.INTEGERS, constants="c")
def div_whole_factor(x: UOp, q: UOp, r: UOp, c: UOp) -> Equation:
    """(c * q + r) // c == q where 0 <= r < c and the dividend is natural."""
    conditions = (positive(c), natural(x), natural(r), less(r, c))
    return Equation(idiv(x, c), q, conditions, reads=((x, add(mul(q, c), r)),))


@law("div-split", Proof.INTEGERS, constants="c")
def div_split(x: UOp, q: UOp, r: UOp, c: UOp) -> Equation:
    """(c * q + r) // c == q + r // c where neither the dividend nor r is negative."""
    conditions = (positive(c), natural(x), natural(r))
    return Equation(idiv(x, c), add(q, idiv(r, c)), conditions, reads=((x, add(mul(q, c), r)),))


@law("mod-terms", Proof.INTEGERS, constants="c")
@law("mod-inner-mod", Proof.INTEGERS, constants="c")
def mod_terms(x: UOp, y: UOp, k: UOp, c: UOp) -> Equation:
    """(y + c * k) % c == y % c where neither dividend is negative; k need not fit the type."""
    conditions = (positive(c), natural(x), natural(y))
    return Equation(mod(x, c), mod(y, c), conditions, reads=((x, add(y, mul(k, c))),))


@law("mod-terms", Proof.INTEGERS, constants="c")
def mod_small_terms(x: UOp, y: UOp, k: UOp, c: UOp) -> Equation:
    """(y + c * k) % c == y where 0 <= y < c and the dividend is natural."""
    conditions = (positive(c), natural(x), natural(y), less(y, c))
    return Equation(mod(x, c), y, conditions, reads=((x, add(y, mul(k, c))),))


@law("mod-factor", Proof.INTEGERS, constants="f k c")
def mod_factor(x: UOp, q: UOp, r: UOp, f: UOp, k: UOp, c: UOp) -> Equation:
    """(f * q + r) % c == f * (q % k) + r where 0 <= r < f, c == f * k, the dividend natural."""
    conditions = (positive(f), positive(k), natural(x), natural(r), less(r, f))
    reads = ((x, add(mul(q, f), r)), (c, mul(f, k)))
    steps = (positive(c), equal(idiv(x, c), idiv(q, k)))
    return Equation(mod(x, c), add(mul(mod(q, k), f), r), conditions, steps, reads)


@law("mod-inner-mod", Proof.INTEGERS, over=INDEX, constants="a m n c")
def mod_inner_mod(x: UOp, y: UOp, u: UOp, r: UOp, a: UOp, m: UOp, n: UOp, c: UOp) -> Equation:
    """(a * (u % m) + r) % c == (a * u + r) % c where a * m == c * n and no side is negative."""
    conditions = (positive(c), not_equal(m, 0), equal(mul(a, m), mul(c, n)), natural(x), natural(y))
    whole = idiv(u, m)
    steps = (
        equal(mul(a, u), add(mul(mul(a, m), whole), mul(a, mod(u, m)))),
        equal(y, add(x, mul(c, mul(n, whole)))),
    )
    reads = ((x, add(mul(mod(u, m), a), r)), (y, add(mul(u, a), r)))
    return Equation(mod(x, c), mod(y, c), conditions, steps, reads)


@law("div-mod-sum", Proof.INTEGERS, constants="c t")
def div_mod_sum(x: UOp, c: UOp, t: UOp) -> Equation:
    """(x // c) * (c * t) + (x % c) * t == x * t for c > 0."""
    left = add(mul(idiv(x, c), mul(c, t)), mul(mod(x, c), t))
    return Equation(left, mul(x, t), where=(positive(c),), wraps=True)


@law("div-mod-sum", Proof.INTEGERS, constants="b c p t")
def div_div_mod_sum(x: UOp, b: UOp, c: UOp, p: UOp, t: UOp) -> Equation:
    """(x // p) * (c * t) + ((x // b) % c) * t == (x // b) * t for b, c > 0 and p == b * c."""
    inner = idiv(x, b)
    left = add(mul(idiv(x, p), mul(c, t)), mul(mod(inner, c), t))
    steps = (positive(p), equal(idiv(x, p), idiv(inner, c)))
    return Equation(
        left, mul(inner, t), (positive(b), positive(c)), steps, ((p, mul(b, c)),), wraps=True
    )


@law("mod-join", Proof.INTEGERS, constants="c d p t")
def mod_join(x: UOp, c: UOp, d: UOp, p: UOp, t: UOp) -> Equation:
    """((x // c) % d) * (c * t) + (x % c) * t == (x % p) * t for c, d > 0 and p == c * d."""
    left = add(mul(mod(idiv(x, c), d), mul(c, t)), mul(mod(x, c), t))
    steps = (positive(p), equal(idiv(x, p), idiv(idiv(x, c), d)))
    conditions = (positive(c), positive(d))
    return Equation(left, mul(mod(x, p), t), conditions, steps, ((p, mul(c, d)),), wraps=True)


@law("mod-join", Proof.INTEGERS, constants="b c d p t")
def mod_join_nested(x: UOp, b: UOp, c: UOp, d: UOp, p: UOp, t: UOp) -> Equation:
    """((x // p) % d) * (c * t) + ((x // b) % c) * t == ((x // b) % (c * d)) * t; p == b * c."""
    inner = idiv(x, b)
    left = add(mul(mod(idiv(x, p), d), mul(c, t)), mul(mod(inner, c), t))
    steps = (positive(p), equal(idiv(x, p), idiv(inner, c)))
    conditions = (positive(b), positive(c), positive(d))
    right = add(mul(mod(idiv(inner, c), d), mul(c, t)), mul(mod(inner, c), t))
    return Equation(left, right, conditions, steps, ((p, mul(b, c)),), wraps=True)


@law("mod-from-div", Proof.INTEGERS, constants="c t")
def mod_from_div(x: UOp, c: UOp, t: UOp) -> Equation:
    """x * t + (x // c) * (c * t * -1) == (x % c) * t for c > 0."""
    left = add(mul(x, t), mul(idiv(x, c), mul(mul(c, t), -1)))
    return Equation(left, mul(mod(x, c), t), where=(positive(c),), wraps=True)


@law("div-symbolic", Proof.INTEGERS, over=INDEX)
def div_symbolic(x: UOp, y: UOp, q: UOp, r: UOp) -> Equation:
    """(q * y + r) // y == q where 0 <= r < y and the dividend is natural."""
    conditions = (natural(r), less(r, y), natural(x))
    steps = (positive(y), equal(idiv(x, y), q))
    return Equation(idiv(x, y), q, conditions, steps, reads=((x, add(mul(q, y), r)),))


@law("mod-symbolic", Proof.INTEGERS, over=INDEX)
def mod_symbolic(x: UOp, y: UOp, q: UOp, r: UOp) -> Equation:
    """(q * y + r) % y == r where 0 <= r < y and the dividend is natural."""
    conditions = (natural(r), less(r, y), natural(x))
    steps = (positive(y), equal(idiv(x, y), q))
    return Equation(mod(x, y), r, conditions, steps, reads=((x, add(mul(q, y), r)),))
