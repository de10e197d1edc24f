"""Equations of sums, products, quotients and maxima."""

from __future__ import annotations

from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref_fuzz.generate.equivalent.transformation import Domain, Draw, of_node

COMMUTE_EXACTLY = (Ops.ADD, Ops.MUL, Ops.CMPNE, Ops.AND, Ops.OR, Ops.XOR)
ASSOCIATE = (Ops.ADD, Ops.MUL, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR)


def constant(node: UOp) -> int | None:
    """The value of an integer constant."""
    is_constant = isinstance(node.arg, ConstArg) and node.dtype.is_int
    return int(node.arg.value) if is_constant and isinstance(node.arg, ConstArg) else None


def power(number: int | None) -> int | None:
    """The exponent of a power of two from 2 on."""
    if number is None or number < 2 or number & (number - 1):
        return None
    return number.bit_length() - 1


def complement(x: UOp) -> UOp:
    """All bits of `x` inverted; of a bool, its negation."""
    return build.binary(Ops.XOR, x, True if x.dtype.is_bool else -1)


# --- sums and differences -----------------------------------------------------------------------


@of_node("commute", Domain.EVERY, *COMMUTE_EXACTLY)
def commute(node: UOp, draw: Draw) -> UOp | None:
    """x + y = y + x; so *, !=, &, |, ^."""
    return node.replace(src=node.src[::-1])


@of_node("commute-max", Domain.EXACT, Ops.MAX)
def commute_max(node: UOp, draw: Draw) -> UOp | None:
    """max(x, y) = max(y, x)."""
    return node.replace(src=node.src[::-1])


@of_node("reassociate", Domain.BITS, *ASSOCIATE)
def reassociate(node: UOp, draw: Draw) -> UOp | None:
    """(x + y) + z = x + (y + z); so *, max, &, |, ^."""
    left, right = node.src
    if left.op is node.op:
        x, y = left.src
        return node.replace(src=(x, node.replace(src=(y, right))))
    if right.op is node.op:
        y, z = right.src
        return node.replace(src=(node.replace(src=(left, y)), z))
    return None


@of_node("add-by-bits", Domain.INTEGER, Ops.ADD)
def add_by_bits(node: UOp, draw: Draw) -> UOp | None:
    """x + y = (x ^ y) + ((x & y) << 1)."""
    x, y = node.src
    carry = build.binary(Ops.SHL, build.both(x, y), build.const(node.dtype, 1))
    return build.add(build.binary(Ops.XOR, x, y), carry)


# --- products -----------------------------------------------------------------------------------


@of_node("multiply-by-shift", Domain.INTEGER, Ops.MUL)
def multiply_by_shift(node: UOp, draw: Draw) -> UOp | None:
    """x * 2**k = x << k."""
    x, y = node.src
    count = power(constant(y))
    return None if count is None else build.binary(Ops.SHL, x, count)


@of_node("distribute", Domain.INTEGER, Ops.MUL)
def distribute(node: UOp, draw: Draw) -> UOp | None:
    """x * (y + z) = x * y + x * z; so -."""
    for x, total in (node.src, node.src[::-1]):
        if total.op in (Ops.ADD, Ops.SUB):
            y, z = total.src
            return build.binary(total.op, build.mul(x, y), build.mul(x, z))
    return None


@of_node("multiply-accumulate", Domain.EXACT, Ops.ADD)
def multiply_accumulate(node: UOp, draw: Draw) -> UOp | None:
    """x * y + z = mulacc(x, y, z)."""
    for product, z in (node.src, node.src[::-1]):
        if product.op is Ops.MUL:
            return UOp(Ops.MULACC, node.dtype, (*product.src, z))
    return None


@of_node("multiply-then-add", Domain.EXACT, Ops.MULACC)
def multiply_then_add(node: UOp, draw: Draw) -> UOp | None:
    """mulacc(x, y, z) = x * y + z."""
    x, y, z = node.src
    return build.add(build.mul(x, y), z)


# --- quotients and remainders by constants ------------------------------------------------------


@of_node("remainder-by-mask", Domain.INTEGER, Ops.MOD)
def remainder_by_mask(node: UOp, draw: Draw) -> UOp | None:
    """x % 2**k = x & (2**k - 1), x unsigned."""
    x, y = node.src
    divisor = constant(y)
    if divisor is None or power(divisor) is None or not node.dtype.is_unsigned:
        return None
    return build.both(x, divisor - 1)


@of_node("divide-by-shift", Domain.INTEGER, Ops.IDIV)
def divide_by_shift(node: UOp, draw: Draw) -> UOp | None:
    """x / 2**k = (x + ((x >> width - 1) & (2**k - 1))) >> k; x >> k for unsigned x."""
    x, y = node.src
    divisor = constant(y)
    count = power(divisor)
    if divisor is None or count is None:
        return None
    if not node.dtype.is_unsigned:
        sign = build.binary(Ops.SHR, x, node.dtype.bits - 1)
        x = build.add(x, build.both(sign, divisor - 1))
    return build.binary(Ops.SHR, x, count)


# --- maxima -------------------------------------------------------------------------------------


@of_node("max-by-select", Domain.EXACT, Ops.MAX)
def max_by_select(node: UOp, draw: Draw) -> UOp | None:
    """max(x, y) = y where x < y else x."""
    x, y = node.src
    return build.where(build.less(x, y), y, x)
