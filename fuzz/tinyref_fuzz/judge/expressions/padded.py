"""Which sums keep their value where loads beyond an axis give 0: the fuzzer's own rule."""

from __future__ import annotations

import math
from collections.abc import Callable

from tinyref.algebra.kernel_shape import kernel_shape, reduced_sizes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, ReduceArg

# The padding of an axis may make the work on it this many times as large.
MAX_PADDING = 4
_ALL_ZERO = frozenset(
    {Ops.NEG, Ops.SQRT, Ops.SIN, Ops.TRUNC, Ops.CAST, Ops.ADD, Ops.SUB, Ops.MAX, Ops.OR, Ops.XOR}
    | {Ops.CMPNE, Ops.CMPLT}
)


def may_pad(reduce: UOp, target: int) -> bool:
    """Whether a reduce may go over positions beyond its axis."""
    is_sum = isinstance(reduce.arg, ReduceArg) and reduce.arg.op is Ops.ADD
    return is_sum and _is_zero(reduce.src[0], target)


def _is_zero(node: UOp, target: int) -> bool:
    """Whether a value is surely 0 where all that is read along an axis is."""

    def zero(source: UOp) -> bool:
        return _is_zero(source, target)

    if isinstance(node.arg, ConstArg):
        return node.arg.value == 0
    if node.op in (Ops.LOAD, Ops.VALID, Ops.IOTA):
        shape = kernel_shape(node)
        return bool(shape) and shape[target] != 1
    if node.op in _ALL_ZERO:
        return all(map(zero, node.src))
    rule = _RULES.get(node.op)
    return rule is not None and rule(node, zero)


Zero = Callable[[UOp], bool]


def _product(node: UOp, zero: Zero) -> bool:
    """0 * inf is NaN."""
    x, y = node.src[:2]
    if not node.dtype.is_float:
        return zero(x) or zero(y)
    return (zero(x) and (zero(y) or _is_finite(y))) or (zero(y) and _is_finite(x))


def _is_finite(node: UOp) -> bool:
    return isinstance(node.arg, ConstArg) and math.isfinite(node.arg.value)


def _quotient(node: UOp, zero: Zero) -> bool:
    divisor = node.src[1].arg
    if not isinstance(divisor, ConstArg) or divisor.value == 0 or math.isnan(divisor.value):
        return False
    return zero(node.src[0])


def _reduced(node: UOp, zero: Zero) -> bool:
    """Of nothing at all only the sum is 0."""
    is_sum = isinstance(node.arg, ReduceArg) and node.arg.op is Ops.ADD
    has_terms = all(isinstance(size, int) for size in reduced_sizes(node))
    return zero(node.src[0]) and (is_sum or has_terms)


def _bits(node: UOp, zero: Zero) -> bool:
    """-0.0 is 0 and has a bit."""
    (source,) = node.src
    return zero(source) and (source.op is Ops.LOAD or not source.dtype.is_float)


_RULES: dict[Ops, Callable[[UOp, Zero], bool]] = {
    Ops.MUL: _product,
    Ops.MULACC: lambda node, zero: zero(node.src[2]) and _product(node, zero),
    Ops.AND: lambda node, zero: any(map(zero, node.src)),
    Ops.SHL: lambda node, zero: zero(node.src[0]),
    Ops.SHR: lambda node, zero: zero(node.src[0]),
    Ops.FDIV: _quotient,
    Ops.IDIV: _quotient,
    Ops.MOD: _quotient,
    Ops.WHERE: lambda node, zero: zero(node.src[2]) and (zero(node.src[0]) or zero(node.src[1])),
    Ops.REDUCE: _reduced,
    Ops.BITCAST: _bits,
}
