"""WHERE, gates and lanes: rules that choose among values, for every type."""

from __future__ import annotations

from tinyref.algebra.linear import constant_of
from tinyref.algebra.named_rules import any_node, boolean, constant, is_const, match, rule
from tinyref.algebra.rules.boolean import operand_of_not
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import GepArg

x = any_node("x")
y = any_node("y")
z = any_node("z")
p = any_node("p")
q = any_node("q")
c = is_const("c")
address = any_node("address")


@rule("where-same", match(Ops.WHERE, p, x, x))
def where_same(p: UOp, x: UOp) -> UOp:
    """WHERE(p, x, x) == x."""
    return x


@rule("where-constant", match(Ops.WHERE, c, x, y))
def where_constant(c: UOp, x: UOp, y: UOp) -> UOp:
    """WHERE(True, x, y) == x and WHERE(False, x, y) == y."""
    return x if constant_of(c) else y


@rule("where-not", match(Ops.WHERE, p, x, y))
def where_not(p: UOp, x: UOp, y: UOp) -> UOp | None:
    """WHERE(not p, x, y) == WHERE(p, y, x)."""
    inner = operand_of_not(p)
    return None if inner is None else build.where(inner, y, x)


@rule("where-again-left", match(Ops.WHERE, p, match(Ops.WHERE, p, x, y), z))
def where_again_left(p: UOp, x: UOp, y: UOp, z: UOp) -> UOp:
    """WHERE(p, WHERE(p, x, y), z) == WHERE(p, x, z)."""
    return build.where(p, x, z)


@rule("where-again-right", match(Ops.WHERE, p, x, match(Ops.WHERE, p, y, z)))
def where_again_right(p: UOp, x: UOp, y: UOp, z: UOp) -> UOp:
    """WHERE(p, x, WHERE(p, y, z)) == WHERE(p, x, z)."""
    return build.where(p, x, z)


@rule("where-both", match(Ops.WHERE, p, match(Ops.WHERE, q, x, y), y))
def where_both(p: UOp, q: UOp, x: UOp, y: UOp) -> UOp | None:
    """WHERE(p, WHERE(q, x, y), y) == WHERE(p & q, x, y)."""
    if operand_of_not(p) is not None:
        return None  # where-not removes this NOT first; the joined condition would keep it
    return build.where(build.both(p, q), x, y)


@rule("where-either", match(Ops.WHERE, p, x, match(Ops.WHERE, q, x, y)))
def where_either(p: UOp, q: UOp, x: UOp, y: UOp) -> UOp | None:
    """WHERE(p, x, WHERE(q, x, y)) == WHERE(p | q, x, y)."""
    if operand_of_not(p) is not None:
        return None  # where-not removes this NOT first; the joined condition would keep it
    return build.where(build.either(p, q), x, y)


@rule("where-bool", match(Ops.WHERE, p, x, y), when=boolean)
def where_bool(p: UOp, x: UOp, y: UOp) -> UOp | None:
    """WHERE of bools with a constant side == p & x, p | y, not p & y or not p | x.

    WHERE(p, True, False) == p and WHERE(p, False, True) == not p follow from these.
    """
    chosen, other = constant_of(x), constant_of(y)
    if other == 0:
        return build.both(p, x)
    if chosen == 1:
        return build.either(p, y)
    if chosen == 0:
        return build.both(build.logical_not(p), y)
    return build.either(build.logical_not(p), x) if other == 1 else None


@rule("load-gate-true", match(Ops.LOAD, address, x, constant(True)))
def load_gate_true(node: UOp, address: UOp, x: UOp) -> UOp:
    """LOAD(a, x, True) == LOAD(a)."""
    return UOp(Ops.LOAD, node.dtype, (address,))


@rule("load-gate-false", match(Ops.LOAD, address, x, constant(False)))
def load_gate_false(address: UOp, x: UOp) -> UOp:
    """LOAD(a, x, False) == x."""
    return x


@rule("store-gate-true", match(Ops.STORE, address, x, constant(True)))
def store_gate_true(address: UOp, x: UOp) -> UOp:
    """STORE(a, x, True) == STORE(a, x)."""
    return build.store(address, x)


@rule("gep-vectorize", match(Ops.GEP, match(Ops.VECTORIZE).named("x")))
def gep_vectorize(node: UOp, x: UOp) -> UOp | None:
    """GEP(VECTORIZE(a, b, ...)) == the selected lanes."""
    if not isinstance(node.arg, GepArg):
        return None
    taken = [x.src[lane] for lane in node.arg.lanes]
    return taken[0] if len(taken) == 1 else build.vectorize(*taken)


@rule("gep-const", match(Ops.GEP, c))
def gep_const(node: UOp, c: UOp) -> UOp:
    """GEP of a constant vector == the constant: all its lanes are equal."""
    return UOp(Ops.CONST, node.dtype, (), c.arg)


@rule("gep-all", match(Ops.GEP, x))
def gep_all(node: UOp, x: UOp) -> UOp | None:
    """GEP of every lane in order == the vector."""
    if not isinstance(node.arg, GepArg):
        return None
    return x if node.arg.lanes == tuple(range(x.dtype.lanes)) else None
