"""Laws of the comparisons.

A rule reads a difference as g * (l - s) + k: g is the common factor, l are the positive terms, s
the negative ones, and k is the constant. Each of them is a sum of any number of terms.
"""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import (
    add,
    at_least,
    idiv,
    less,
    logical_not,
    maximum,
    mod,
    mul,
    not_equal,
    sub,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs.boolean_laws import TRUE
from tinyref_spec.proofs.division_laws import natural, positive
from tinyref_spec.proofs.law import Equation, Proof, law


def unequal(x: UOp, y: UOp) -> UOp:
    """Return x != y with its sides in this order."""
    return UOp(Ops.CMPNE, dtypes.bool, (x, y))


@law("lt-sum", Proof.INTEGERS, constants="c d")
def lt_constants(x: UOp, y: UOp, t: UOp, c: UOp, d: UOp) -> Equation:
    """(t + c < t + d) == (c < d)."""
    return Equation(less(x, y), less(c, d), reads=((x, add(t, c)), (y, add(t, d))))


@law("lt-sum", Proof.INTEGERS, constants="g k f")
def lt_sum(x: UOp, y: UOp, left: UOp, s: UOp, right: UOp, g: UOp, k: UOp, f: UOp) -> Equation:
    """(x < y) == (l < s - f) where x - y == g * (l - s) + k and f is k // g, rounded down."""
    difference = add(mul(sub(left, s), g), k)
    reads = ((x, add(y, difference)), (right, sub(s, f)))
    conditions = (positive(g), at_least(k, mul(f, g)), less(k, add(mul(f, g), g)))
    return Equation(less(x, y), less(left, right), conditions, reads=reads)


@law("lt-sum", Proof.INTEGERS, constants="g k f")
def lt_negative_sum(
    x: UOp, y: UOp, left: UOp, s: UOp, right: UOp, g: UOp, k: UOp, f: UOp
) -> Equation:
    """(x < y) == not (l < s + 1 + f) where x - y == g * (s - l) + k and f is k // g."""
    difference = add(mul(sub(s, left), g), k)
    reads = ((x, add(y, difference)), (right, add(add(s, f), 1)))
    conditions = (positive(g), at_least(k, mul(f, g)), less(k, add(mul(f, g), g)))
    return Equation(less(x, y), logical_not(less(left, right)), conditions, reads=reads)


@law("lt-factor", Proof.INTEGERS, constants="f k c")
def lt_factor(x: UOp, q: UOp, r: UOp, f: UOp, k: UOp, c: UOp) -> Equation:
    """(f * q + r < c) == (q < k) where 0 <= r < f and c == f * k."""
    conditions = (natural(r), less(r, f))
    return Equation(
        less(x, c), less(q, k), conditions, reads=((x, add(mul(q, f), r)), (c, mul(f, k)))
    )


@law("lt-factor", Proof.INTEGERS, constants="f k s c j")
def lt_factor_and_part(x: UOp, q: UOp, r: UOp, f: UOp, k: UOp, s: UOp, c: UOp, j: UOp) -> Equation:
    """(f * q + r < c) == (q < k + 1) where 0 <= r < s < f and c == f * k + s."""
    conditions = (natural(r), less(r, s), less(s, f))
    reads = ((x, add(mul(q, f), r)), (c, add(mul(f, k), s)), (j, add(k, 1)))
    return Equation(less(x, c), less(q, j), conditions, reads=reads)


@law("lt-factor-sum", Proof.INTEGERS, constants="f")
def lt_factor_sum(x: UOp, y: UOp, left: UOp, s: UOp, r: UOp, f: UOp) -> Equation:
    """(x < y) == (l < s) where x - y == f * (l - s) + r and 0 <= r < f."""
    conditions = (natural(r), less(r, f))
    reads = ((x, add(y, add(mul(sub(left, s), f), r))),)
    return Equation(less(x, y), less(left, s), conditions, reads=reads)


@law("lt-max", constants="c d")
def lt_max(x: UOp, c: UOp, d: UOp) -> Equation:
    """(max(x, c) < d) == (x < d) for c < d."""
    return Equation(less(maximum(x, c), d), less(x, d), where=(less(c, d),))


@law("lt-div", Proof.INTEGERS, constants="c d e")
def lt_div(x: UOp, c: UOp, d: UOp, e: UOp) -> Equation:
    """(x // c < d) == (x < e) for c, d > 0 and e == c * d."""
    conditions = (positive(c), positive(d))
    return Equation(less(idiv(x, c), d), less(x, e), conditions, reads=((e, mul(c, d)),))


@law("lt-div", Proof.INTEGERS, constants="c d e")
def lt_div_negative(x: UOp, c: UOp, d: UOp, e: UOp) -> Equation:
    """(x // c < d) == (x < e) for c > 0, d <= 0 and e == c * (d - 1) + 1."""
    conditions = (positive(c), at_least(0, d))
    reads = ((e, add(mul(c, sub(d, 1)), 1)),)
    return Equation(less(idiv(x, c), d), less(x, e), conditions, reads=reads)


@law("lt-first", Proof.INTEGERS, constants="c")
def lt_first(x: UOp, y: UOp, c: UOp) -> Equation:
    """(x < 1) == not (x != 0) where 0 <= x, for an x that is y % c."""
    right = logical_not(not_equal(x, 0))
    return Equation(less(x, 1), right, where=(natural(x),), reads=((x, mod(y, c)),))


@law("ne-sum", Proof.INTEGERS, constants="c d")
def ne_constants(x: UOp, y: UOp, t: UOp, c: UOp, d: UOp) -> Equation:
    """(t + c != t + d) == (c != d)."""
    return Equation(unequal(x, y), unequal(c, d), reads=((x, add(t, c)), (y, add(t, d))))


@law("ne-sum", Proof.INTEGERS)
def ne_above(x: UOp, y: UOp) -> Equation:
    """(x != y) == True where x - y is never 0, being above or below it."""
    return Equation(unequal(x, y), TRUE, where=(less(y, x),))


@law("ne-sum", Proof.INTEGERS)
def ne_below(x: UOp, y: UOp) -> Equation:
    """(x != y) == True where x - y < 0."""
    return Equation(unequal(x, y), TRUE, where=(less(x, y),))


@law("ne-sum", Proof.INTEGERS, constants="g k f")
def ne_no_multiple(x: UOp, y: UOp, t: UOp, g: UOp, k: UOp, f: UOp) -> Equation:
    """(x != y) == True where x - y == g * t + k and k is no multiple of g."""
    conditions = (positive(g), less(mul(f, g), k), less(k, add(mul(f, g), g)))
    return Equation(unequal(x, y), TRUE, conditions, reads=((x, add(y, add(mul(t, g), k))),))


@law("ne-sum", Proof.INTEGERS, constants="g f")
def ne_sum(x: UOp, y: UOp, left: UOp, s: UOp, right: UOp, g: UOp, f: UOp) -> Equation:
    """(x != y) == (l != s - f) where x - y == g * (l - s + f) and g > 0; either sign of l - s."""
    difference = mul(add(sub(left, s), f), g)
    reads = ((x, add(y, difference)), (right, sub(s, f)))
    return Equation(unequal(x, y), unequal(left, right), (positive(g),), reads=reads)


@law("ne-add", constants="c d")
def ne_add(x: UOp, c: UOp, d: UOp) -> Equation:
    """(x + c != d) == (x != d - c)."""
    return Equation(unequal(add(x, c), d), unequal(x, sub(d, c)))


@law("ne-div", Proof.INTEGERS, constants="c")
def ne_div(x: UOp, c: UOp) -> Equation:
    """(x // c != 0) == not (x < c) where 0 <= x, for c > 0."""
    conditions = (natural(x), positive(c))
    zero = build.const(x.dtype, 0)
    return Equation(unequal(idiv(x, c), zero), logical_not(less(x, c)), conditions)
