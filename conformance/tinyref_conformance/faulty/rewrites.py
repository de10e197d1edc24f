"""Devices whose compiler rewrites a chain of operations by a rule that some operands break."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_conformance.faulty.device import Array, FaultyDevice
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_spec.case import Rung

_QUERY = "memory.open,memory.launch.uint8,isa.chain.int32,isa.comparison.*32,isa.branch.*32"


def _rewritten(
    name: str, sentence: str, clause: str, change: Change, rung: Rung = Rung.CAST
) -> FaultyDevice:
    return FaultyDevice(
        name=name,
        sentence=sentence,
        clause=clause,
        rung=rung,
        program=each_node(change),
        query=_QUERY,
    )


_COMPARISONS = (Ops.CMPLT, Ops.CMPNE)


def _is_not(node: UOp, op: Ops) -> bool:
    """Return True for the negation of two comparisons that `op` joins."""
    if node.op is not Ops.CMPNE or node.src[1].op is not Ops.CONST or node.src[0].op is not op:
        return False
    return all(source.op in _COMPARISONS for source in node.src[0].src)


def _absorb(node: UOp) -> tuple[UOp, ...]:
    """Make max(x, max(y, x) + c) max(y, x) + c: the sum may wrap."""
    if node.op is Ops.MAX and node.dtype.is_int:
        for inner, other in (node.src, reversed(node.src)):
            is_step = inner.op is Ops.ADD and inner.src[1].op is Ops.CONST
            if is_step and inner.src[0].op is Ops.MAX and other in inner.src[0].src:
                return (inner,)
    return (node,)


def _positive_difference(node: UOp) -> tuple[UOp, ...]:
    """Make x - min(x, y) the maximum of x - y and 0: the difference may wrap."""
    if node.op is not Ops.SUB or not node.dtype.is_int or node.src[1].op is not Ops.WHERE:
        return (node,)
    x, (condition, *smaller) = node.src[0], node.src[1].src
    if condition.op is not Ops.CMPLT or [*condition.src] != smaller or smaller[0] is not x:
        return (node,)
    difference = UOp(Ops.SUB, node.dtype, (x, smaller[1]))
    zero = build.const(node.dtype, 0)
    return (difference, zero, UOp(Ops.MAX, node.dtype, (difference, zero)))


def _lose_negation(consumer: Ops, position: int) -> Change:
    """Return the change that drops the NEG of an operand."""

    def change(node: UOp) -> tuple[UOp, ...]:
        if node.op is not consumer or node.src[position].op is not Ops.NEG:
            return (node,)
        operands = list(node.src)
        operands[position] = operands[position].src[0]
        return (node.with_sources(tuple(operands)),)

    return change


def _equal_rotation(node: UOp) -> tuple[UOp, ...]:
    """Find a number equal to its rotation."""
    if node.op is Ops.CMPNE and node.src[1].op is Ops.OR:
        shifts = node.src[1].src
        is_rotation = {shift.op for shift in shifts} == {Ops.SHL, Ops.SHR}
        if is_rotation and all(shift.src[0] is node.src[0] for shift in shifts):
            return (build.const(node.dtype, False),)
    return (node,)


def _choose_smaller(node: UOp) -> tuple[UOp, ...]:
    """Make x < k ? x : k k < x ? k : x, which is another one for NaN and for zeros."""
    if node.op is not Ops.WHERE or node.src[0].op is not Ops.CMPLT:
        return (node,)
    condition, first, second = node.src
    if condition.src != (first, second) or second.op is not Ops.CONST:
        return (node,)
    other = UOp(Ops.CMPLT, condition.dtype, (second, first))
    return (other, UOp(Ops.WHERE, node.dtype, (other, second, first)))


def _widen_constant(node: UOp) -> tuple[UOp, ...]:
    """Widen a constant before it is shifted left, in place of the result."""
    if node.op is not Ops.CAST or node.src[0].op is not Ops.SHL or not node.dtype.is_int:
        return (node,)
    constant, count = node.src[0].src
    if constant.op is not Ops.CONST or node.dtype.bits <= constant.dtype.bits:
        return (node,)
    operands = tuple(UOp(Ops.CAST, node.dtype, (source,)) for source in (constant, count))
    return (*operands, UOp(Ops.SHL, node.dtype, operands))


def _saturated_negation(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = np.negative(operands[0])
    if dtype.is_float or dtype.scalar.is_unsigned:
        return value
    return np.where(operands[0] == dtype.scalar.minimum, dtype.scalar.maximum, value)


def _distribute(op: Ops) -> Change:
    """Return the change that distributes the negation of joined comparisons, and still joins by op.

    By De Morgan an AND becomes an OR, and an OR an AND.
    """

    def change(node: UOp) -> tuple[UOp, ...]:
        if not _is_not(node, op):
            return (node,)
        first, second = (build.logical_not(source) for source in node.src[0].src)
        return (first.src[1], first, second, UOp(op, node.dtype, (first, second)))

    return change


def _distribute_in_branches(node: UOp) -> tuple[UOp, ...]:
    """Distribute wrongly where a branch is taken by the condition."""
    if node.op is not Ops.IF:
        return (node,)
    *others, condition = _distribute(Ops.AND)(node.src[0])
    return (*others, condition, node.with_sources((condition,)))


def _join_by_or(node: UOp) -> tuple[UOp, ...]:
    """Join exclusive comparisons by OR."""
    if node.op is Ops.XOR and all(source.op in _COMPARISONS for source in node.src):
        return (UOp(Ops.OR, node.dtype, node.src),)
    return (node,)


FAULTS = (
    _rewritten(
        "AbsorbedMaximum",
        "Drops x of max(x, max(y, x) + c), as if sums did not wrap.",
        "int.wrap",
        _absorb,
    ),
    _rewritten(
        "PositiveDifference",
        "Computes x - min(x, y) as max(x - y, 0), as if differences did not wrap.",
        "isa.sub",
        _positive_difference,
    ),
    _rewritten(
        "MaximumWithoutNegation",
        "Computes max(-x, y) as max(x, y).",
        "isa.max",
        _lose_negation(Ops.MAX, 0),
    ),
    _rewritten(
        "DivisorWithoutNegation",
        "Divides by y where it should divide by -y.",
        "isa.idiv",
        _lose_negation(Ops.IDIV, 1),
    ),
    FaultyDevice(
        name="SaturatedNegation",
        sentence="Gives the largest integer as the negative of the least one.",
        clause="isa.neg",
        rung=Rung.CAST,
        ops={Ops.NEG: _saturated_negation},
        query=_QUERY,
    ),
    _rewritten(
        "WidenedConstant",
        "Widens a constant before it is shifted left, in place of the result.",
        "isa.shl",
        _widen_constant,
    ),
    _rewritten(
        "RotationEqualsItself",
        "Takes a number for equal to its rotation.",
        "isa.cmpne",
        _equal_rotation,
    ),
    _rewritten(
        "TurnedChoice",
        "Computes x < k ? x : k as k < x ? k : x, in which a NaN and zeros are other ones.",
        "isa.where",
        _choose_smaller,
    ),
    _rewritten(
        "DistributedNegation",
        "Computes not (a or b) as not a or not b.",
        "isa.or",
        _distribute(Ops.OR),
    ),
    _rewritten(
        "InvertedBranch",
        "Takes a branch on not (a and b) where neither holds.",
        "kernel.if",
        _distribute_in_branches,
        Rung.GATE,
    ),
    _rewritten(
        "InclusiveComparisons",
        "Joins two comparisons by OR where they are exclusive.",
        "isa.xor",
        _join_by_or,
    ),
)
