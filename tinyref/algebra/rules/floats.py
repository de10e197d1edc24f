"""Float rules. Every rule preserves NaN, infinities, the sign of zero and each rounding.

A NaN stays a NaN; its sign and payload may change, because only BITCAST can read them.
"""

from __future__ import annotations

import math

from tinyref.algebra.named_rules import any_node, commute, constant, floating, is_const, match, rule
from tinyref.dtype import round_float
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg

x = any_node("x")
y = any_node("y")
c = is_const("c")


@rule("float-mul-one", commute(Ops.MUL, x, constant(1.0)), when=floating)
def mul_one(x: UOp) -> UOp:
    """x * 1.0 == x."""
    return x


@rule("float-div-one", match(Ops.FDIV, x, constant(1.0)), when=floating)
def div_one(x: UOp) -> UOp:
    """x / 1.0 == x."""
    return x


@rule("float-add-minus-zero", commute(Ops.ADD, x, constant(-0.0)), when=floating)
def add_minus_zero(x: UOp) -> UOp:
    """x + -0.0 == x. It does not hold for +0.0: -0.0 + 0.0 is 0.0."""
    return x


@rule("float-sub-zero", match(Ops.SUB, x, constant(0.0)), when=floating)
def sub_zero(x: UOp) -> UOp:
    """x - 0.0 == x. It does not hold for -0.0: -0.0 - -0.0 is 0.0."""
    return x


@rule("float-neg-neg", match(Ops.NEG, match(Ops.NEG, x)), when=floating)
def neg_neg(x: UOp) -> UOp:
    """-(-x) == x: the sign bit flips twice."""
    return x


@rule("float-sub-neg", match(Ops.SUB, x, match(Ops.NEG, y)), when=floating)
def sub_neg(x: UOp, y: UOp) -> UOp:
    """x - (-y) == x + y."""
    return build.add(x, y)


@rule("float-mul-neg-neg", match(Ops.MUL, match(Ops.NEG, x), match(Ops.NEG, y)), when=floating)
def mul_neg_neg(x: UOp, y: UOp) -> UOp:
    """(-x) * (-y) == x * y: rounding to nearest is symmetric."""
    return build.mul(x, y)


@rule("float-trunc-trunc", match(Ops.TRUNC, match(Ops.TRUNC, x)), when=floating)
def trunc_trunc(node: UOp, x: UOp) -> UOp:
    """TRUNC(TRUNC(x)) == TRUNC(x)."""
    return node.src[0]


@rule("float-const-last", match({Ops.ADD, Ops.MUL}, c, x), when=floating)
def const_last(node: UOp, c: UOp, x: UOp) -> UOp | None:
    """c + x == x + c and c * x == x * c: a constant comes last."""
    return None if x.op is Ops.CONST else UOp(node.op, node.dtype, (x, c))


@rule("float-div-power", match(Ops.FDIV, x, c), when=floating)
def div_power(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """x / 2**n == x * 2**-n: both round the same number once. The type must have 2**-n."""
    if not isinstance(c.arg, ConstArg):
        return None
    # The fraction of an infinity, a NaN or a zero is itself, so the next line excludes them.
    fraction, _ = math.frexp(c.arg.value)
    if abs(fraction) != 0.5 or abs(c.arg.value) == 1:
        return None
    reciprocal = 1.0 / c.arg.value
    smallest_normal = 2.0 ** (2 - (1 << (node.dtype.exponent_bits - 1)))
    is_normal = smallest_normal <= abs(reciprocal) < math.inf
    if not is_normal or round_float(reciprocal, node.dtype) != reciprocal:
        return None
    return build.mul(x, reciprocal)
