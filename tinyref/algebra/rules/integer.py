"""Integer identities and the normal form of sums. All hold under wrapping."""

from __future__ import annotations

from tinyref.algebra import linear
from tinyref.algebra.bounds import bounds
from tinyref.algebra.linear import constant_of
from tinyref.algebra.named_rules import (
    any_node,
    commute,
    constant,
    index,
    integer,
    integer_or_bool,
    is_const,
    match,
    rule,
)
from tinyref.dtype import as_const
from tinyref.uops import build
from tinyref.uops.node import UOp, order_key
from tinyref.uops.ops import Ops

x = any_node("x")
y = any_node("y")
z = any_node("z")
c = is_const("c")
d = is_const("d")


@rule("int-add-zero", commute(Ops.ADD, x, constant(0)), when=integer)
def add_zero(x: UOp) -> UOp:
    """x + 0 == x."""
    return x


@rule("int-mul-one", commute(Ops.MUL, x, constant(1)), when=integer)
def mul_one(x: UOp) -> UOp:
    """x * 1 == x."""
    return x


@rule("int-mul-zero", commute(Ops.MUL, x, constant(0)), when=integer)
def mul_zero(node: UOp, x: UOp) -> UOp:
    """x * 0 == 0. Integers only: NaN * 0 is NaN."""
    return build.const(node.dtype, 0)


@rule("int-sub", match(Ops.SUB, x, y), when=integer)
def sub(node: UOp, x: UOp, y: UOp) -> UOp:
    """x - y == x + y * -1. The normal form of a sum has no subtraction."""
    return build.add(x, build.mul(y, -1))


@rule("int-neg", match(Ops.NEG, x), when=integer)
def neg(node: UOp, x: UOp) -> UOp:
    """-x == x * -1."""
    return build.mul(x, -1)


@rule("int-sum", match(Ops.ADD, x, y), when=integer)
def normal_sum(node: UOp, x: UOp, y: UOp) -> UOp:
    """A sum == its terms in order, equal terms as one multiple, and one constant at the end.

    So x + y == y + x, (x + c) + d == x + (c + d), x + x == x * 2 and x + x * -1 == 0.
    """
    return linear.to_node(node.dtype, linear.modular(node))


@rule("int-mul-mul", match(Ops.MUL, match(Ops.MUL, x, c), d), when=integer)
def mul_mul(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x * c) * d == x * (c * d), modulo the width."""
    first, second = constant_of(c), constant_of(d)
    if first is None or second is None:
        return None
    return build.mul(x, build.const(node.dtype, as_const(first * second, node.dtype)))


@rule("int-mul-order", match(Ops.MUL, x, y), when=integer)
def mul_order(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """x * y == y * x: the factors are in the order of normal forms, a constant last."""
    return UOp(Ops.MUL, node.dtype, (y, x)) if order_key(y) < order_key(x) else None


@rule("int-mul-regroup", match(Ops.MUL, match(Ops.MUL, x, c), y), when=integer)
def mul_regroup(node: UOp, x: UOp, c: UOp, y: UOp) -> UOp | None:
    """(x * c) * y == (x * y) * c: a constant factor moves out."""
    return None if y.op is Ops.CONST else build.mul(build.mul(x, y), c)


@rule("int-mul-regroup-right", match(Ops.MUL, x, match(Ops.MUL, y, c)), when=integer)
def mul_regroup_right(node: UOp, x: UOp, y: UOp, c: UOp) -> UOp:
    """x * (y * c) == (x * y) * c: a constant factor moves out."""
    return build.mul(build.mul(x, y), c)


@rule("int-distribute", match(Ops.MUL, match(Ops.ADD, x, y), c), when=index)
def distribute(node: UOp, x: UOp, y: UOp, c: UOp) -> UOp:
    """(x + y) * c == x * c + y * c. For index, where sums are compared term by term."""
    return build.add(build.mul(x, c), build.mul(y, c))


@rule("int-mulacc", match(Ops.MULACC, x, y, z), when=index)
def mulacc(node: UOp, x: UOp, y: UOp, z: UOp) -> UOp:
    """MULACC(x, y, z) == x * y + z."""
    return build.add(build.mul(x, y), z)


@rule("bit-same", match({Ops.AND, Ops.OR}, x, x), when=integer_or_bool)
def bit_same(x: UOp) -> UOp:
    """x & x == x and x | x == x."""
    return x


@rule("bit-xor-same", match(Ops.XOR, x, x), when=integer_or_bool)
def xor_same(node: UOp, x: UOp) -> UOp:
    """x ^ x == 0."""
    return build.const(node.dtype, 0)


@rule("bit-zero", commute({Ops.OR, Ops.XOR}, x, constant(0)), when=integer)
def bit_zero(x: UOp) -> UOp:
    """x | 0 == x and x ^ 0 == x."""
    return x


@rule("bit-ones", commute({Ops.AND, Ops.OR}, x, c), when=integer)
def bit_ones(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """x & ~0 == x and x | ~0 == ~0."""
    if constant_of(c) != as_const(-1, node.dtype):
        return None
    return x if node.op is Ops.AND else c


@rule("bit-and-zero", commute(Ops.AND, x, constant(0)), when=integer)
def and_zero(node: UOp, x: UOp) -> UOp:
    """x & 0 == 0."""
    return build.const(node.dtype, 0)


@rule("bit-const-last", match({Ops.AND, Ops.OR, Ops.XOR, Ops.MAX}, c, x), when=integer_or_bool)
def bit_const_last(node: UOp, c: UOp, x: UOp) -> UOp | None:
    """c & x == x & c, and the same for OR, XOR and MAX: a constant comes last."""
    return None if x.op is Ops.CONST else UOp(node.op, node.dtype, (x, c))


def _gather(op: Ops, node: UOp, x: UOp, c: UOp, d: UOp) -> UOp:
    return UOp(op, node.dtype, (x, UOp(op, node.dtype, (c, d))))


@rule("bit-and-and", match(Ops.AND, match(Ops.AND, x, c), d), when=integer_or_bool)
def and_and(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp:
    """(x & c) & d == x & (c & d)."""
    return _gather(Ops.AND, node, x, c, d)


@rule("bit-or-or", match(Ops.OR, match(Ops.OR, x, c), d), when=integer_or_bool)
def or_or(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp:
    """(x | c) | d == x | (c | d)."""
    return _gather(Ops.OR, node, x, c, d)


@rule("bit-xor-xor", match(Ops.XOR, match(Ops.XOR, x, c), d), when=integer_or_bool)
def xor_xor(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp:
    """(x ^ c) ^ d == x ^ (c ^ d)."""
    return _gather(Ops.XOR, node, x, c, d)


@rule("bit-mask", match(Ops.AND, x, c), when=integer, needs_bounds=True)
def mask(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """x & (2**n - 1) == x where 0 <= x < 2**n."""
    ones = constant_of(c)
    low, high = bounds(x)
    if ones is None or ones < 0 or ones & (ones + 1) != 0:
        return None
    return x if low >= 0 and high <= ones else None


@rule("bit-disjoint", match(Ops.AND, x, c), when=integer, needs_bounds=True)
def disjoint(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """x & c == 0 where 0 <= x < 2**n and c is a multiple of 2**n."""
    bits = constant_of(c)
    low, high = bounds(x)
    if bits is None or low < 0 or bits & ((1 << high.bit_length()) - 1) != 0:
        return None
    return build.const(node.dtype, 0)


@rule("shift-zero", match({Ops.SHL, Ops.SHR}, x, constant(0)))
def shift_zero(x: UOp) -> UOp:
    """x << 0 == x and x >> 0 == x."""
    return x


@rule("shift-left-index", match(Ops.SHL, x, c), when=index)
def shift_left_index(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """x << c == x * 2**c for 0 <= c < 63. For index, whose normal form has no shifts."""
    count = constant_of(c)
    return build.mul(x, 1 << count) if count is not None and 0 <= count < 63 else None


@rule("shift-right-index", match(Ops.SHR, x, c), when=index, needs_bounds=True)
def shift_right_index(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """x >> c == x // 2**c where 0 <= x, for 0 <= c < 63."""
    count = constant_of(c)
    if count is None or not 0 <= count < 63 or bounds(x)[0] < 0:
        return None
    return build.idiv(x, 1 << count)


@rule("mask-index", match(Ops.AND, x, c), when=index, needs_bounds=True)
def mask_index(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """x & (2**n - 1) == x % 2**n where 0 <= x."""
    ones = constant_of(c)
    if ones is None or ones < 0 or ones & (ones + 1) != 0 or bounds(x)[0] < 0:
        return None
    return build.mod(x, ones + 1)


@rule("max-same", match(Ops.MAX, x, x))
def max_same(x: UOp) -> UOp:
    """max(x, x) == x, for floats too: NaN and the sign of zero stay."""
    return x


@rule("max-bounds", match(Ops.MAX, x, y), when=integer_or_bool, needs_bounds=True)
def max_bounds(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """max(x, y) == x where y <= x always, and y where x <= y always."""
    left, right = bounds(x), bounds(y)
    if left[0] >= right[1]:
        return x
    return y if right[0] >= left[1] else None


@rule("max-max", match(Ops.MAX, match(Ops.MAX, x, c), d), when=integer)
def max_max(node: UOp, x: UOp, c: UOp, d: UOp) -> UOp:
    """max(max(x, c), d) == max(x, max(c, d))."""
    return _gather(Ops.MAX, node, x, c, d)


@rule("max-order", match(Ops.MAX, x, y), when=integer)
def max_order(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """max(x, y) == max(y, x): the operands are in the order of normal forms."""
    return UOp(Ops.MAX, node.dtype, (y, x)) if order_key(y) < order_key(x) else None


@rule("max-again", commute(Ops.MAX, match(Ops.MAX, x, y), z), when=integer)
def max_again(node: UOp, x: UOp, y: UOp, z: UOp) -> UOp | None:
    """max(max(x, y), x) == max(x, y), and the same for y."""
    return UOp(Ops.MAX, node.dtype, (x, y)) if z is x or z is y else None


@rule("max-offset", match(Ops.MAX, x, y), when=integer, needs_bounds=True)
def max_offset(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """max(x, x + c) == x + c for c >= 0, and x for c < 0, where nothing wraps."""
    left, right = linear.exact(x), linear.exact(y)
    if left.terms != right.terms:
        return None
    return x if left.constant >= right.constant else y
