"""Laws of the integer and bit rules."""

from __future__ import annotations

from tinyref.uops import build
from tinyref.uops.build import add, at_least, both, equal, maximum, mod, mul
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs.law import INDEX, VALUES, Equation, Proof, law


def raw(op: Ops, *src: UOp) -> UOp:
    """Return a node of `op` with the type of its first source, in this order."""
    return UOp(op, src[0].dtype, src)


def constant(like: UOp, value: int) -> UOp:
    """Return the constant `value` in the type of `like`; below 0 it wraps for unsigned types."""
    return build.const(like.dtype, value)


def within(low: UOp | int, x: UOp, high: UOp | int) -> UOp:
    """Return low <= x <= high."""
    return both(at_least(x, low), at_least(high, x))


@law("fold-range", over=VALUES, constants="c")
def range_of_one(x: UOp, c: UOp) -> Equation:
    """x == c where c <= x <= c; tests/algebra/test_bounds.py has the ranges themselves."""
    return Equation(x, c, where=(equal(x, c),))


@law("fold-range", constants="c")
def range_of_maximum(x: UOp, c: UOp) -> Equation:
    """max(x, c) == c where x <= c, an x whose range is c alone."""
    return Equation(maximum(x, c), c, where=(at_least(c, x),))


@law("int-sum")
def sum_grouping(x: UOp, y: UOp, z: UOp) -> Equation:
    """(x + y) + z == x + (y + z): with the order, any order and grouping of any sum."""
    return Equation(add(add(x, y), z), add(x, add(y, z)))


@law("int-sum", constants="c d")
def sum_gather(x: UOp, c: UOp, d: UOp) -> Equation:
    """x * c + x * d == x * (c + d); with c or d 1 or -1: x + x * d and x - x * d."""
    return Equation(add(mul(x, c), mul(x, d)), mul(x, add(c, d)))


@law("int-sum", constants="c d")
def sum_scale(x: UOp, y: UOp, c: UOp, d: UOp) -> Equation:
    """(x * c + d) * 1 + -y == x * c + y * -1 + d: a negative part of a sum."""
    left = build.sub(add(mul(x, c), d), y)
    return Equation(left, add(add(mul(x, c), mul(y, -1)), d))


@law("int-sum", over=INDEX, constants="c")
def sum_spread(x: UOp, y: UOp, c: UOp) -> Equation:
    """(x + y) * c == x * c + y * c, where index multiplications are opened."""
    return Equation(mul(add(x, y), c), add(mul(x, c), mul(y, c)))


@law("int-mul-mul", constants="c d")
def mul_mul(x: UOp, c: UOp, d: UOp) -> Equation:
    """(x * c) * d == x * (c * d)."""
    return Equation(mul(mul(x, c), d), mul(x, mul(c, d)))


@law("bit-ones")
def and_ones(x: UOp) -> Equation:
    """x & ~0 == x."""
    return Equation(raw(Ops.AND, x, constant(x, -1)), x)


@law("bit-ones")
def or_ones(x: UOp) -> Equation:
    """x | ~0 == ~0."""
    return Equation(raw(Ops.OR, x, constant(x, -1)), constant(x, -1))


def _is_mask(c: UOp) -> UOp:
    """Return that c is 2**n - 1 for some n: it shares no bit with c + 1."""
    return equal(raw(Ops.AND, c, add(c, 1)), 0)


@law("bit-mask", constants="c")
def mask(x: UOp, c: UOp) -> Equation:
    """x & c == x where 0 <= x <= c and c is 2**n - 1."""
    return Equation(raw(Ops.AND, x, c), x, where=(_is_mask(c), within(0, x, c)))


@law("bit-disjoint", constants="c m")
def disjoint(x: UOp, c: UOp, m: UOp) -> Equation:
    """x & c == 0 where 0 <= x <= m, m is 2**n - 1 and c & m == 0."""
    conditions = (_is_mask(m), within(0, x, m), equal(raw(Ops.AND, c, m), 0))
    return Equation(raw(Ops.AND, x, c), constant(x, 0), where=conditions)


def _power(n: UOp) -> UOp:
    """Return 2**n."""
    return raw(Ops.SHL, constant(n, 1), n)


def _is_count(n: UOp) -> UOp:
    """Return that a shift by n keeps a positive 2**n."""
    return within(0, n, 62)


@law("shift-left-index", over=INDEX, constants="n")
def shift_left_index(x: UOp, n: UOp) -> Equation:
    """x << n == x * 2**n."""
    return Equation(raw(Ops.SHL, x, n), mul(x, _power(n)), where=(_is_count(n),))


def _shift_right_law(count: int) -> None:
    """State the law for one count, as the solver has no answer for all at once."""

    @law("shift-right-index", over=INDEX)
    def shift_right_index(x: UOp) -> Equation:
        """x >> n == x // 2**n where 0 <= x."""
        left = raw(Ops.SHR, x, constant(x, count))
        return Equation(left, build.idiv(x, 1 << count), where=(at_least(x, 0),))


for _count in range(63):
    _shift_right_law(_count)


@law("mask-index", over=INDEX, constants="n")
def mask_index(x: UOp, n: UOp) -> Equation:
    """x & (2**n - 1) == x % 2**n where 0 <= x."""
    conditions = (_is_count(n), at_least(x, 0))
    ones = add(_power(n), -1)
    return Equation(raw(Ops.AND, x, ones), mod(x, _power(n)), where=conditions)


@law("max-bounds", over=VALUES)
def max_left(x: UOp, y: UOp) -> Equation:
    """max(x, y) == x where y <= x."""
    return Equation(maximum(x, y), x, where=(at_least(x, y),))


@law("max-bounds", over=VALUES)
def max_right(x: UOp, y: UOp) -> Equation:
    """max(x, y) == y where x <= y."""
    return Equation(maximum(x, y), y, where=(at_least(y, x),))


@law("max-again")
def max_again_left(x: UOp, y: UOp) -> Equation:
    """max(max(x, y), x) == max(x, y)."""
    return Equation(maximum(maximum(x, y), x), maximum(x, y))


@law("max-again")
def max_again_right(x: UOp, y: UOp) -> Equation:
    """max(max(x, y), y) == max(x, y)."""
    return Equation(maximum(maximum(x, y), y), maximum(x, y))


@law("max-offset", Proof.INTEGERS, constants="c d")
def max_offset(x: UOp, y: UOp, t: UOp, c: UOp, d: UOp) -> Equation:
    """max(t + c, t + d) == t + d for d >= c, where neither sum wraps."""
    conditions = (at_least(d, c),)
    return Equation(maximum(x, y), y, conditions, reads=((x, add(t, c)), (y, add(t, d))))


@law("max-offset", Proof.INTEGERS, constants="c d")
def max_offset_left(x: UOp, y: UOp, t: UOp, c: UOp, d: UOp) -> Equation:
    """max(t + c, t + d) == t + c for c >= d, where neither sum wraps."""
    conditions = (at_least(c, d),)
    return Equation(maximum(x, y), x, conditions, reads=((x, add(t, c)), (y, add(t, d))))
