"""Expressions beside one that a rule matches: one operand is another, and the rule may not hold.

What decides whether a rule fires is where the range of an operand ends, which sign it has, what
divides a constant. An instance is on one side of that; a neighbour is just on the other side.
"""

from __future__ import annotations

from tinyref.dtype import DType, as_const, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import ALU, BINARY, Ops
from tinyref.uops.payload import ConstArg
from tinyref_fuzz.generate.tape import Tape

# What is added to an operand.
STEPS = (1, -1, 1, -1, 2, -2, 4, -4, -9, 13)
# Of the operands that are no constants so many in 100 become their negative.
NEGATED = 15
# Of those that two operands make so many in 100 are made by another op.
OTHER_OPS = 10
_OPS = (Ops.MAX, Ops.AND, Ops.OR, Ops.XOR)
# What a constant is multiplied by, where nothing is added to it.
FACTORS = (-1, 2, 3, 5, 20, 31)
# So many changes are tried for one after which all is specified.
TRIES = 3
_DIVISIONS = frozenset({Ops.IDIV, Ops.MOD})
_SHIFTS = frozenset({Ops.SHL, Ops.SHR})


def neighbour(node: UOp, tape: Tape) -> UOp:
    """`node` with an operand of integers, a condition or a float's zero changed; or as it is.

    Quotients whose divisor may be 0 or -1 are as they were, and so are counts of shifts.
    """
    places = [
        (parent, at)
        for parent in _changeable(node)
        for at, source in enumerate(parent.src)
        if _may_change(parent, at, source)
    ]
    for _ in range(TRIES if places else 0):
        parent, at = tape.pick(places)
        source = _changed(parent.src[at], tape)
        if parent.op in _DIVISIONS and at == 1 and _number(source) in (None, 0, -1):
            continue
        sources = (*parent.src[:at], source, *parent.src[at + 1 :])
        return substitute(node, {parent: parent.with_sources(sources)})
    return node


def _changeable(node: UOp) -> list[UOp]:
    """The operations of an expression but for those that a divisor or a count is made of."""
    found: dict[UOp, None] = {}
    kept: set[UOp] = set()
    for each in node.toposort():
        if each.op in ALU:
            found[each] = None
            if each.op in _DIVISIONS | _SHIFTS:
                kept.update(each.src[1].toposort())
    return [each for each in found if each not in kept]


def _may_change(parent: UOp, at: int, source: UOp) -> bool:
    if at == 1 and (parent.op in _SHIFTS or (parent.op in _DIVISIONS and _number(source) is None)):
        return False
    return source.dtype in dtypes.ints or source.dtype.is_bool or _is_zero(source)


def _is_zero(node: UOp) -> bool:
    """Whether it is a zero of a float, which has two."""
    return isinstance(node.arg, ConstArg) and node.dtype.is_float and node.arg.value == 0


def _changed(source: UOp, tape: Tape) -> UOp:
    if source.dtype.is_bool:
        return build.logical_not(source)
    if isinstance(source.arg, ConstArg) and source.dtype.is_float:
        return build.const(source.dtype, -source.arg.value)
    value = _number(source)
    step = tape.pick(STEPS)
    if value is not None:
        found = value + step if tape.below(2) else value * tape.pick(FACTORS)
        return build.const(source.dtype, _wrapped(found, source.dtype))
    is_alike = source.op in BINARY and all(each.dtype is source.dtype for each in source.src)
    if is_alike and tape.chance(OTHER_OPS):
        return UOp(tape.pick(_OPS), source.dtype, source.src)
    if tape.chance(NEGATED):
        return build.unary(Ops.NEG, source)
    return build.add(source, build.const(source.dtype, _wrapped(step, source.dtype)))


def _number(node: UOp) -> int | None:
    return int(node.arg.value) if isinstance(node.arg, ConstArg) else None


def _wrapped(value: int, dtype: DType) -> int:
    return int(as_const(value, dtype))
