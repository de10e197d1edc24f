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


@of_node("subtract-by-negation", Domain.NUMBER, Ops.SUB)
def subtract_by_negation(node: UOp, draw: Draw) -> UOp | None:
    """x - y = x + -y."""
    x, y = node.src
    return build.add(x, build.unary(Ops.NEG, y))


@of_node("add-by-negation", Domain.NUMBER, Ops.ADD)
def add_by_negation(node: UOp, draw: Draw) -> UOp | None:
    """x + y = x - -y."""
    x, y = node.src
    return build.sub(x, build.unary(Ops.NEG, y))


@of_node("subtract-swapped", Domain.EXACT, Ops.SUB)
def subtract_swapped(node: UOp, draw: Draw) -> UOp | None:
    """x - y = -(y - x)."""
    x, y = node.src
    return build.unary(Ops.NEG, build.sub(y, x))


@of_node("negate-twice", Domain.NUMBER)
def negate_twice(node: UOp, draw: Draw) -> UOp | None:
    """x = --x."""
    return build.unary(Ops.NEG, build.unary(Ops.NEG, node))


@of_node("negate-by-product", Domain.NUMBER, Ops.NEG)
def negate_by_product(node: UOp, draw: Draw) -> UOp | None:
    """-x = x * -1."""
    return build.mul(node.src[0], -1)


@of_node("negate-by-complement", Domain.INTEGER, Ops.NEG)
def negate_by_complement(node: UOp, draw: Draw) -> UOp | None:
    """-x = ~x + 1."""
    return build.add(complement(node.src[0]), 1)


@of_node("add-and-subtract", Domain.INTEGER)
def add_and_subtract(node: UOp, draw: Draw) -> UOp | None:
    """x = (x + c) - c."""
    number = draw.tape.between(1, 100)
    return build.sub(build.add(node, number), number)


@of_node("constant-as-sum", Domain.INTEGER, Ops.CONST)
def constant_as_sum(node: UOp, draw: Draw) -> UOp | None:
    """a = (a - b) + b for constants."""
    value = constant(node)
    if value is None:
        return None
    part = draw.tape.between(1, 9)
    return UOp(
        Ops.ADD, node.dtype, (build.const(node.dtype, value - part), build.const(node.dtype, part))
    )


@of_node("add-by-bits", Domain.INTEGER, Ops.ADD)
def add_by_bits(node: UOp, draw: Draw) -> UOp | None:
    """x + y = (x ^ y) + ((x & y) << 1)."""
    x, y = node.src
    carry = build.binary(Ops.SHL, build.both(x, y), build.const(node.dtype, 1))
    return build.add(build.binary(Ops.XOR, x, y), carry)


# --- products -----------------------------------------------------------------------------------


@of_node("double-by-product", Domain.NUMBER, Ops.ADD)
def double_by_product(node: UOp, draw: Draw) -> UOp | None:
    """x + x = x * 2."""
    x, y = node.src
    return build.mul(x, 2) if x is y else None


@of_node("multiply-by-sum", Domain.INTEGER, Ops.MUL)
def multiply_by_sum(node: UOp, draw: Draw) -> UOp | None:
    """x * c = x * (c - 1) + x; x * 2 = x + x."""
    x, y = node.src
    factor = constant(y)
    if factor is None:
        return None
    return build.add(x, x) if factor == 2 else build.add(build.mul(x, factor - 1), x)


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


@of_node("factor-out", Domain.INTEGER, Ops.ADD)
def factor_out(node: UOp, draw: Draw) -> UOp | None:
    """x * y + x = x * (y + 1); x * y + x * z = x * (y + z)."""
    left, right = node.src
    if left.op is Ops.MUL and right in left.src:
        other = left.src[1] if left.src[0] is right else left.src[0]
        return build.mul(right, build.add(other, 1))
    if left.op is not Ops.MUL or right.op is not Ops.MUL:
        return None
    for x, y in (left.src, left.src[::-1]):
        for same, z in (right.src, right.src[::-1]):
            if same is x:
                return build.mul(x, build.add(y, z))
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


@of_node("remainder-by-quotient", Domain.INTEGER, Ops.MOD)
def remainder_by_quotient(node: UOp, draw: Draw) -> UOp | None:
    """x % c = x - (x / c) * c, c not 0 and not -1."""
    x, y = node.src
    if constant(y) in (None, 0, -1):
        return None
    return build.sub(x, build.mul(build.idiv(x, y), y))


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


@of_node("divide-in-steps", Domain.INTEGER, Ops.IDIV)
def divide_in_steps(node: UOp, draw: Draw) -> UOp | None:
    """x / (a * b) = (x / a) / b, a and b above 1."""
    x, y = node.src
    divisor = constant(y)
    if divisor is None or divisor < 4:
        return None
    first = next((number for number in (2, 3, 5, 7) if divisor % number == 0), divisor)
    if first == divisor:
        return None
    return build.idiv(build.idiv(x, first), divisor // first)


# --- maxima -------------------------------------------------------------------------------------


@of_node("max-by-select", Domain.EXACT, Ops.MAX)
def max_by_select(node: UOp, draw: Draw) -> UOp | None:
    """max(x, y) = y where x < y else x."""
    x, y = node.src
    return build.where(build.less(x, y), y, x)


@of_node("max-of-itself", Domain.EVERY)
def max_of_itself(node: UOp, draw: Draw) -> UOp | None:
    """x = max(x, x)."""
    return UOp(Ops.MAX, node.dtype, (node, node))
