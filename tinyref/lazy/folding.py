"""Constants of the tensor graph: nodes with one value for all elements, and folding of ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tinyref.algebra import semantics
from tinyref.algebra.sizes import is_certain
from tinyref.dtype import ConstType, DType, as_const
from tinyref.uops import build
from tinyref.uops.node import UOp, node_fact, sint
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import ConstArg, ShapeArg


def full(shape: Sequence[sint], value: ConstType, dtype: DType) -> UOp:
    """Return a constant of `shape`: CONST, reshaped to ones and expanded; () is the CONST alone."""
    node = build.const(dtype, value)
    if not shape:
        return node
    ones = (1,) * len(shape)
    node = UOp(Ops.RESHAPE, dtype, (node,), ShapeArg(ones))
    if tuple(shape) == ones:
        return node
    return UOp(Ops.EXPAND, dtype, (node,), ShapeArg(tuple(shape)))


@node_fact
def _uniform(node: UOp) -> ConstArg | None:
    if node.op is Ops.CONST and isinstance(node.arg, ConstArg):
        return node.arg
    # Padding adds zeros. The builders themselves fold a padded zero to a constant.
    if node.op in MOVEMENT and node.op is not Ops.PAD and is_certain(node):
        return _uniform(node.src[0])
    return None


def shows_constant(node: UOp) -> bool:
    """Return True if `node` is only a constant that is moved and padded with zeros."""
    while node.op in MOVEMENT and is_certain(node):
        node = node.src[0]
    return node.op is Ops.CONST


def uniform_value(node: UOp) -> ConstType | None:
    """Return the one value of all elements of `node`, if the graph determines it; else None."""
    uniform = _uniform(node)
    return None if uniform is None else uniform.value


def fold_alu(op: Ops, dtype: DType, sources: Sequence[UOp]) -> ConstType | None:
    """Return the one value of `op` over constant sources by the op table's semantics; else None."""
    values = [uniform_value(source) for source in sources]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return semantics.fold(op, dtype, known, [source.dtype for source in sources])


def absorbing_value(op: Ops, src: Sequence[UOp]) -> ConstType | None:
    """Return the one value of `op` if a single operand determines it; else None.

    Each case is exact for NaN and infinities, so 0 times a float is not among them.
    """
    if len(src) != 2:
        return None
    x, y = src
    if op is Ops.POW:
        is_one = is_value(x, 1) or is_value(y, 0.0) or is_value(y, -0.0)
        return 1.0 if is_one and y.dtype.is_float else None
    if x.dtype.is_float:
        return False if op is Ops.CMPLT and x is y else None
    if op in (Ops.MUL, Ops.AND):
        return 0 if is_value(x, 0) or is_value(y, 0) else None
    if op is Ops.OR:
        ones = True if x.dtype.is_bool else -1
        return ones if is_value(x, ones) or is_value(y, ones) else None
    if op is Ops.MOD:
        return 0 if is_value(y, 1) else None
    if op in (Ops.SUB, Ops.XOR, Ops.CMPNE, Ops.CMPLT):
        return 0 if x is y else None
    return None


def is_value(node: UOp, value: ConstType) -> bool:
    """Return True if every element of `node` is `value`, including the sign of a zero."""
    return _uniform(node) == ConstArg(as_const(value, node.dtype))


def same_as_operand(op: Ops, src: tuple[UOp, ...]) -> UOp | None:
    """Return the operand that `op` does not change (x * 1, x + 0, ...), or None.

    Each case is exact for NaN, infinities and signed zeros: adding +0.0 to a float is not among
    them, because -0.0 + 0.0 is 0.0.
    """
    if op is Ops.WHERE:
        return _same_as_branch(src)
    if len(src) != 2:
        return None
    x, y = src
    if _is_right_neutral(op, y):
        return x
    if op in (Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR) and _is_right_neutral(op, x):
        return y
    if op in (Ops.AND, Ops.OR) and x is y:
        return x
    return None


def _same_as_branch(src: tuple[UOp, ...]) -> UOp | None:
    condition, if_true, if_false = src
    if if_true is if_false:
        return if_true
    chosen = uniform_value(condition)
    if chosen is None:
        return None
    return if_true if chosen else if_false


def _is_right_neutral(op: Ops, y: UOp) -> bool:
    if op is Ops.ADD:
        return is_value(y, -0.0) if y.dtype.is_float else is_value(y, 0)
    if op in (Ops.SUB, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR):
        return is_value(y, 0)
    if op in (Ops.MUL, Ops.FDIV, Ops.IDIV, Ops.POW):
        return is_value(y, 1)
    if op is Ops.AND:
        return is_value(y, True if y.dtype.is_bool else -1)
    return False


def fold_reduce(op: Ops, value: ConstType, count: int, dtype: DType) -> ConstType | None:
    """Return the reduction of `count` equal values, or None if it may be rounded.

    Integers wrap, so their result is always exact. A float sum is exact while `count` times the
    value fits the mantissa, because then every partial sum fits. A float product is exact only for
    powers of 0 and 1.
    """
    if count == 0:
        return semantics.reduce_identity(op, dtype)
    if count == 1 or op is Ops.MAX:
        return value
    if dtype.is_bool:
        return value
    if not isinstance(value, float):
        if op is Ops.ADD:
            return as_const(value * count, dtype)
        return as_const(pow(int(value), count, 1 << dtype.bits), dtype)
    if op is Ops.ADD:
        return _float_sum(value, count, dtype)
    return value if value in (0.0, 1.0) and math.copysign(1.0, value) > 0 else None


def _float_sum(value: float, count: int, dtype: DType) -> float | None:
    if not math.isfinite(value):
        return value
    total = Fraction(value) * count
    significant = Fraction(value).numerator
    significant = abs(significant) >> _trailing_zeros(significant)
    if significant * count > 1 << (dtype.mantissa_bits + 1):
        return None
    result = as_const(float(total), dtype)
    return float(result) if math.isfinite(result) and Fraction(result) == total else None


def _trailing_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else 0
