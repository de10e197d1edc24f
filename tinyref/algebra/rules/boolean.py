"""Boolean identities. NOT x is written x != True; XOR of bools is written x != y."""

from __future__ import annotations

from tinyref.algebra.linear import constant_of
from tinyref.algebra.named_rules import any_node, boolean, commute, constant, is_const, match, rule
from tinyref.uops import build
from tinyref.uops.node import UOp, order_key
from tinyref.uops.ops import Ops

x = any_node("x")
y = any_node("y")
c = is_const("c")
flag = any_node("x", when=boolean)

# Longer conjunctions stay unchanged, like longer sums.
MAX_PARTS = 32


@rule("bool-not-not", match(Ops.CMPNE, match(Ops.CMPNE, flag, constant(True)), constant(True)))
def not_not(x: UOp) -> UOp:
    """not not x == x."""
    return x


@rule("bool-ne-false", commute(Ops.CMPNE, flag, constant(False)))
def ne_false(x: UOp) -> UOp:
    """(x != False) == x."""
    return x


@rule("bool-xor", match(Ops.XOR, x, y), when=boolean)
def xor(x: UOp, y: UOp) -> UOp:
    """x ^ y == (x != y)."""
    return build.not_equal(x, y)


@rule("bool-max", match(Ops.MAX, x, y), when=boolean)
def maximum(x: UOp, y: UOp) -> UOp:
    """max(x, y) == x | y for bools."""
    return build.either(x, y)


@rule("bool-less", match(Ops.CMPLT, flag, y))
def less(x: UOp, y: UOp) -> UOp:
    """(x < y) == not x & y for bools."""
    return build.both(build.logical_not(x), y)


@rule(
    "bool-ne-not",
    commute(Ops.CMPNE, match(Ops.CMPNE, flag, constant(True)), any_node("y", when=boolean)),
)
def ne_not(x: UOp, y: UOp) -> UOp | None:
    """(not x != y) == not (x != y): the negation moves out."""
    return None if y.op is Ops.CONST else build.logical_not(build.not_equal(x, y))


def operand_of_not(node: UOp) -> UOp | None:
    """Return x if `node` is NOT x, else None."""
    if node.op is Ops.CMPNE and node.src[0].dtype.is_bool and constant_of(node.src[1]) == 1:
        return node.src[0]
    return None


def parts_of(op: Ops, node: UOp) -> list[UOp] | None:
    """Return the parts of a conjunction (AND) or disjunction (OR); None if there are too many."""
    parts: dict[UOp, None] = {}
    stack = [node]
    while stack:
        part = stack.pop()
        if part.op is op:
            stack += reversed(part.src)
        else:
            parts[part] = None
        if len(parts) + len(stack) > MAX_PARTS:
            return None
    return list(parts)


def join(op: Ops, parts: list[UOp]) -> UOp:
    """Join the bools `parts`, at least one, by AND or OR in the order of normal forms."""
    total, *rest = sorted(parts, key=order_key)
    for part in rest:
        total = UOp(op, total.dtype, (total, part))
    return total


def _bound_of(part: UOp) -> tuple[UOp, int, bool] | None:
    """Return (x, c, False) for x < c and (x, c, True) for not x < c."""
    inner = operand_of_not(part)
    comparison = part if inner is None else inner
    if comparison.op is not Ops.CMPLT or not comparison.src[0].dtype.is_int:
        return None
    limit = constant_of(comparison.src[1])
    return None if limit is None else (comparison.src[0], limit, inner is not None)


def _keep_tightest(op: Ops, parts: list[UOp]) -> list[UOp] | None:
    """Keep only the tightest limits on each value; None if they exclude each other."""
    # In a conjunction the least upper and the greatest lower limit count, else the reverse.
    sign = 1 if op is Ops.AND else -1
    limits: dict[tuple[UOp, bool], tuple[int, UOp]] = {}
    others = []
    for part in parts:
        bound = _bound_of(part)
        if bound is None:
            others.append(part)
            continue
        value, limit, is_lower = bound
        weight = sign * (-limit if is_lower else limit)
        known = limits.get((value, is_lower))
        if known is None or weight < known[0]:
            limits[value, is_lower] = (weight, part)
    for (value, is_lower), (weight, _) in limits.items():
        other = limits.get((value, True))
        if is_lower or other is None:
            continue
        upper, lower = sign * weight, -sign * other[0]
        # x < upper and x >= lower: a conjunction holds for no x, a disjunction for every x.
        if lower >= upper if op is Ops.AND else lower <= upper:
            return None
    return others + [part for _, part in limits.values()]


@rule("bool-join", match({Ops.AND, Ops.OR}, x, y), when=boolean)
def normal_join(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """A conjunction == its different parts in order; the same holds for a disjunction.

    x & True == x, x & False == False, x & not x == False; x < 3 & x < 5 == x < 3,
    x < 3 & not x < 3 == False. For OR, True and False are exchanged.
    """
    parts = parts_of(node.op, node)
    if parts is None:
        return None
    neutral = 1 if node.op is Ops.AND else 0
    values = {constant_of(part) for part in parts}
    absorbing = build.const(node.dtype, 1 - neutral)
    if 1 - neutral in values:
        return absorbing
    parts = [part for part in parts if constant_of(part) is None]
    if any(operand_of_not(part) in parts for part in parts):
        return absorbing
    tight = _keep_tightest(node.op, parts)
    if tight is None:
        return absorbing
    return join(node.op, tight) if tight else build.const(node.dtype, neutral)


def _absorbs(op: Ops, other: Ops, node: UOp) -> UOp | None:
    parts = parts_of(op, node)
    if parts is None:
        return None
    names = set(parts)
    remaining = [
        part
        for part in parts
        if part.op is not other or not any(inner in names for inner in parts_of(other, part) or ())
    ]
    return join(op, remaining) if len(remaining) < len(parts) else None


@rule("bool-absorb-and", match(Ops.AND, x, y), when=boolean)
def absorb_and(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """x & (x | y) == x."""
    return _absorbs(Ops.AND, Ops.OR, node)


@rule("bool-absorb-or", match(Ops.OR, x, y), when=boolean)
def absorb_or(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """x | (x & y) == x."""
    return _absorbs(Ops.OR, Ops.AND, node)
