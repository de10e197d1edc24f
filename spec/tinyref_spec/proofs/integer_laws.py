"""Laws of the integer and bit rules."""

from __future__ import annotations

from tinyref.algebra.linear import constant_of
from tinyref.uops import build
from tinyref.uops.build import add, at_least, both, equal, maximum, mod, mul
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs.law import INDEX, INTS, VALUES, Equation, Proof, law


def raw(op: Ops, *src: UOp) -> UOp:
    """A node of `op` with the type of its first source, in the order given."""
    return UOp(op, src[0].dtype, src)


def constant(like: UOp, value: int) -> UOp:
    """The constant `value` in the type of `like`; below 0 it wraps for unsigned types."""
    return build.const(like.dtype, value)


def within(low: UOp | int, x: UOp, high: UOp | int) -> UOp:
    """low <= x <= high."""
    return both(at_least(x, low), at_least(high, x))


@law("fold-range", over=VALUES, constants="c")
def range_of_one(x: UOp, c: UOp) -> Equation:
    """x == c where c <= x <= c; `ranges` proves the ranges themselves."""
    return Equation(x, c, given=(equal(x, c),))


@law("int-add-zero")
def add_zero(x: UOp) -> Equation:
    """x + 0 == x."""
    return Equation(add(x, 0), x)


@law("int-mul-one")
def mul_one(x: UOp) -> Equation:
    """x * 1 == x."""
    return Equation(mul(x, 1), x)


@law("int-mul-zero")
def mul_zero(x: UOp) -> Equation:
    """x * 0 == 0."""
    return Equation(mul(x, 0), constant(x, 0))


@law("int-sub")
def subtract(x: UOp, y: UOp) -> Equation:
    """x - y == x + y * -1."""
    return Equation(build.sub(x, y), add(x, mul(y, -1)))


@law("int-neg")
def negate(x: UOp) -> Equation:
    """-x == x * -1."""
    return Equation(raw(Ops.NEG, x), mul(x, -1))


@law("int-sum")
def sum_order(x: UOp, y: UOp) -> Equation:
    """x + y == y + x."""
    return Equation(add(x, y), add(y, x))


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


@law("int-mul-order")
def mul_order(x: UOp, y: UOp) -> Equation:
    """x * y == y * x."""
    return Equation(raw(Ops.MUL, x, y), raw(Ops.MUL, y, x))


@law("int-mul-regroup", constants="c")
def mul_regroup(x: UOp, c: UOp, y: UOp) -> Equation:
    """(x * c) * y == (x * y) * c."""
    return Equation(raw(Ops.MUL, mul(x, c), y), mul(mul(x, y), c))


@law("int-mul-regroup-right", constants="c")
def mul_regroup_right(x: UOp, y: UOp, c: UOp) -> Equation:
    """x * (y * c) == (x * y) * c."""
    return Equation(mul(x, mul(y, c)), mul(mul(x, y), c))


@law("int-distribute", over=INTS, constants="c")
def distribute(x: UOp, y: UOp, c: UOp) -> Equation:
    """(x + y) * c == x * c + y * c."""
    return Equation(mul(add(x, y), c), add(mul(x, c), mul(y, c)))


@law("int-mulacc", over=INTS)
def mulacc(x: UOp, y: UOp, z: UOp) -> Equation:
    """MULACC(x, y, z) == x * y + z."""
    return Equation(raw(Ops.MULACC, x, y, z), add(mul(x, y), z))


@law("bit-same", over=VALUES)
def and_same(x: UOp) -> Equation:
    """x & x == x."""
    return Equation(raw(Ops.AND, x, x), x)


@law("bit-same", over=VALUES)
def or_same(x: UOp) -> Equation:
    """x | x == x."""
    return Equation(raw(Ops.OR, x, x), x)


@law("bit-xor-same", over=VALUES)
def xor_same(x: UOp) -> Equation:
    """x ^ x == 0."""
    return Equation(raw(Ops.XOR, x, x), constant(x, 0))


@law("bit-zero")
def or_zero(x: UOp) -> Equation:
    """x | 0 == x."""
    return Equation(raw(Ops.OR, x, constant(x, 0)), x)


@law("bit-zero")
def xor_zero(x: UOp) -> Equation:
    """x ^ 0 == x."""
    return Equation(raw(Ops.XOR, x, constant(x, 0)), x)


@law("bit-ones")
def and_ones(x: UOp) -> Equation:
    """x & ~0 == x."""
    return Equation(raw(Ops.AND, x, constant(x, -1)), x)


@law("bit-ones")
def or_ones(x: UOp) -> Equation:
    """x | ~0 == ~0."""
    return Equation(raw(Ops.OR, x, constant(x, -1)), constant(x, -1))


@law("bit-and-zero")
def and_zero(x: UOp) -> Equation:
    """x & 0 == 0."""
    return Equation(raw(Ops.AND, x, constant(x, 0)), constant(x, 0))


def _binary_laws(op: Ops, nested: str) -> None:
    """The order of a constant, and constants that meet, for one op."""

    @law("bit-const-last", over=VALUES, constants="c")
    def const_last(x: UOp, c: UOp) -> Equation:
        """c op x == x op c, for AND, OR, XOR and MAX."""
        return Equation(raw(op, c, x), raw(op, x, c))

    @law(nested, over=VALUES, constants="c d")
    def gather(x: UOp, c: UOp, d: UOp) -> Equation:
        """(x op c) op d == x op (c op d)."""
        return Equation(raw(op, raw(op, x, c), d), raw(op, x, raw(op, c, d)))


_binary_laws(Ops.AND, "bit-and-and")
_binary_laws(Ops.OR, "bit-or-or")
_binary_laws(Ops.XOR, "bit-xor-xor")
_binary_laws(Ops.MAX, "max-max")


def _is_mask(c: UOp) -> UOp:
    """c is 2**n - 1 for some n: no bit of it is one of c + 1."""
    return equal(raw(Ops.AND, c, add(c, 1)), 0)


@law("bit-mask", constants="c")
def mask(x: UOp, c: UOp) -> Equation:
    """x & c == x where 0 <= x <= c and c is 2**n - 1."""
    return Equation(raw(Ops.AND, x, c), x, given=(_is_mask(c), within(0, x, c)))


@law("bit-disjoint", constants="c m")
def disjoint(x: UOp, c: UOp, m: UOp) -> Equation:
    """x & c == 0 where 0 <= x <= m, m is 2**n - 1 and c & m == 0."""
    given = (_is_mask(m), within(0, x, m), equal(raw(Ops.AND, c, m), 0))
    return Equation(raw(Ops.AND, x, c), constant(x, 0), given=given)


@law("shift-zero")
def shift_left_zero(x: UOp) -> Equation:
    """x << 0 == x."""
    return Equation(raw(Ops.SHL, x, constant(x, 0)), x)


@law("shift-zero")
def shift_right_zero(x: UOp) -> Equation:
    """x >> 0 == x."""
    return Equation(raw(Ops.SHR, x, constant(x, 0)), x)


@law("shift-left-index", over=INDEX, choices={"n": range(63)})
def shift_left_index(x: UOp, n: UOp) -> Equation:
    """x << n == x * 2**n."""
    return Equation(raw(Ops.SHL, x, n), mul(x, power(n)))


@law("shift-right-index", over=INDEX, choices={"n": range(63)})
def shift_right_index(x: UOp, n: UOp) -> Equation:
    """x >> n == x // 2**n where 0 <= x."""
    return Equation(raw(Ops.SHR, x, n), build.idiv(x, power(n)), given=(at_least(x, 0),))


@law("mask-index", over=INDEX, choices={"n": range(63)})
def mask_index(x: UOp, n: UOp) -> Equation:
    """x & (2**n - 1) == x % 2**n where 0 <= x."""
    ones = constant(x, power(n) - 1)
    return Equation(raw(Ops.AND, x, ones), mod(x, power(n)), given=(at_least(x, 0),))


def power(n: UOp) -> int:
    """2**n of a constant n; 1 for a variable, which stands for a constant that is yet to come."""
    return 1 << (constant_of(n) or 0)


@law("max-same", over=VALUES)
def max_same(x: UOp) -> Equation:
    """max(x, x) == x."""
    return Equation(maximum(x, x), x)


@law("max-bounds", over=VALUES)
def max_left(x: UOp, y: UOp) -> Equation:
    """max(x, y) == x where y <= x."""
    return Equation(maximum(x, y), x, given=(at_least(x, y),))


@law("max-bounds", over=VALUES)
def max_right(x: UOp, y: UOp) -> Equation:
    """max(x, y) == y where x <= y."""
    return Equation(maximum(x, y), y, given=(at_least(y, x),))


@law("max-order")
def max_order(x: UOp, y: UOp) -> Equation:
    """max(x, y) == max(y, x)."""
    return Equation(maximum(x, y), maximum(y, x))


@law("max-again")
def max_again_left(x: UOp, y: UOp) -> Equation:
    """max(max(x, y), x) == max(x, y)."""
    return Equation(maximum(maximum(x, y), x), maximum(x, y))


@law("max-again")
def max_again_right(x: UOp, y: UOp) -> Equation:
    """max(max(x, y), y) == max(x, y)."""
    return Equation(maximum(maximum(x, y), y), maximum(x, y))


@law("max-again")
def max_again_before(x: UOp, y: UOp) -> Equation:
    """max(x, max(x, y)) == max(x, y)."""
    return Equation(maximum(x, maximum(x, y)), maximum(x, y))


@law("max-offset", Proof.INTEGERS, constants="c d")
def max_offset(x: UOp, y: UOp, t: UOp, c: UOp, d: UOp) -> Equation:
    """max(t + c, t + d) == t + d for d >= c, where neither sum wraps."""
    given = (at_least(d, c),)
    return Equation(maximum(x, y), y, given, reads=((x, add(t, c)), (y, add(t, d))))


@law("max-offset", Proof.INTEGERS, constants="c d")
def max_offset_left(x: UOp, y: UOp, t: UOp, c: UOp, d: UOp) -> Equation:
    """max(t + c, t + d) == t + c for c >= d, where neither sum wraps."""
    given = (at_least(c, d),)
    return Equation(maximum(x, y), x, given, reads=((x, add(t, c)), (y, add(t, d))))
