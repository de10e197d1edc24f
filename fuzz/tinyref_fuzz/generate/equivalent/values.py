"""Equations of values: other operations, or another type, for the same elements."""

from __future__ import annotations

from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import BINARY, UNARY, Ops
from tinyref.uops.payload import ConstArg
from tinyref_fuzz.generate.equivalent.transformation import (
    TransformationChoices,
    bits,
    equation,
    every_type,
    integers,
)

COMMUTATIVE = (Ops.ADD, Ops.MUL, Ops.CMPNE, Ops.AND, Ops.OR, Ops.XOR)
ASSOCIATIVE = (Ops.ADD, Ops.MUL, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR)
# The low bits of these depend only on the low bits of the operands.
MODULAR = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.AND, Ops.OR, Ops.XOR)


def _exponent(node: UOp) -> int | None:
    """Return k if `node` is the integer constant 2**k with k >= 1."""
    if not isinstance(node.arg, ConstArg) or not node.dtype.is_int:
        return None
    number = int(node.arg.value)
    return None if number < 2 or number & (number - 1) else number.bit_length() - 1


# --- arithmetic -----------------------------------------------------------------------------------


@equation("commute", every_type, *COMMUTATIVE)
def commute(node: UOp, draw: TransformationChoices) -> UOp | None:
    """x + y = y + x; also *, !=, &, |, ^."""
    return node.replace(src=node.src[::-1])


@equation("reassociate", bits, *ASSOCIATIVE)
def reassociate(node: UOp, draw: TransformationChoices) -> UOp | None:
    """(x + y) + z = x + (y + z); also *, max, &, |, ^."""
    left, right = node.src
    if left.op is node.op:
        x, y = left.src
        return node.replace(src=(x, node.replace(src=(y, right))))
    if right.op is node.op:
        y, z = right.src
        return node.replace(src=(node.replace(src=(left, y)), z))
    return None


@equation("distribute", integers, Ops.MUL)
def distribute(node: UOp, draw: TransformationChoices) -> UOp | None:
    """x * (y + z) = x * y + x * z; also -."""
    for x, total in (node.src, node.src[::-1]):
        if total.op in (Ops.ADD, Ops.SUB):
            y, z = total.src
            return build.binary(total.op, build.mul(x, y), build.mul(x, z))
    return None


@equation("multiply-by-shift", integers, Ops.MUL)
def multiply_by_shift(node: UOp, draw: TransformationChoices) -> UOp | None:
    """x * 2**k = x << k."""
    x, y = node.src
    count = _exponent(y)
    return None if count is None else build.binary(Ops.SHL, x, count)


@equation("divide-by-shift", integers, Ops.IDIV)
def divide_by_shift(node: UOp, draw: TransformationChoices) -> UOp | None:
    """x / 2**k = (x + ((x >> width - 1) & (2**k - 1))) >> k; x >> k for unsigned x."""
    x, y = node.src
    count = _exponent(y)
    if count is None:
        return None
    if not node.dtype.is_unsigned:
        sign = build.binary(Ops.SHR, x, node.dtype.bits - 1)
        x = build.add(x, build.both(sign, (1 << count) - 1))
    return build.binary(Ops.SHR, x, count)


# --- choices --------------------------------------------------------------------------------------


@equation("max-by-select", every_type, Ops.MAX)
def max_by_select(node: UOp, draw: TransformationChoices) -> UOp | None:
    """max(x, y) = y where x < y else x."""
    x, y = node.src
    return build.where(build.less(x, y), y, x)


@equation("select-lifted", every_type, *sorted(UNARY | BINARY, key=lambda op: op.value))
def select_lifted(node: UOp, draw: TransformationChoices) -> UOp | None:
    """(a where c else b) + y = (a + y) where c else (b + y); also every other op."""
    for at, source in enumerate(node.src):
        if source.op is Ops.WHERE:
            condition, *choices = source.src
            sides = (
                node.replace(src=(*node.src[:at], choice, *node.src[at + 1 :]))
                for choice in choices
            )
            return build.where(condition, *sides)
    return None


# --- a wider type ---------------------------------------------------------------------------------


@equation("compute-wider", integers, *MODULAR)
def compute_wider(node: UOp, draw: TransformationChoices) -> UOp | None:
    """x + y = narrow(wide(x) + wide(y)); also -, *, &, |, ^."""
    wider = [dtype for dtype in draw.dtypes if dtype.is_int and dtype.bits > node.dtype.bits]
    if not wider:
        return None
    wide = draw.tape.pick(sorted(wider, key=lambda dtype: dtype.name))
    sources = tuple(build.cast(source, wide) for source in node.src)
    return build.cast(UOp(node.op, wide, sources), node.dtype)
