"""Laws of the boolean rules, of gates and lanes."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import at_least, both, either, less
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import GepArg
from tinyref_spec.proofs.integer_laws import raw
from tinyref_spec.proofs.law import BOOL, VALUES, Equation, law

FALSE = build.const(dtypes.bool, False)
TRUE = build.const(dtypes.bool, True)


def _join_laws(op: Ops) -> None:
    """State the laws of a conjunction (AND) or disjunction (OR), in addition to those of two."""
    is_and = op is Ops.AND

    @law("bool-join", over=BOOL)
    def grouping(p: UOp, q: UOp, r: UOp) -> Equation:
        """(p & q) & r == p & (q & r); the same for |."""
        return Equation(raw(op, raw(op, p, q), r), raw(op, p, raw(op, q, r)))

    @law("bool-join", constants="c d")
    def upper(x: UOp, c: UOp, d: UOp) -> Equation:
        """x < c & x < d == x < c where c <= d; x < c | x < d == x < d."""
        result = less(x, c) if is_and else less(x, d)
        return Equation(raw(op, less(x, c), less(x, d)), result, where=(at_least(d, c),))

    @law("bool-join", constants="c d")
    def lower(x: UOp, c: UOp, d: UOp) -> Equation:
        """x >= c & x >= d == x >= d where c <= d; x >= c | x >= d == x >= c."""
        result = at_least(x, d) if is_and else at_least(x, c)
        return Equation(raw(op, at_least(x, c), at_least(x, d)), result, where=(at_least(d, c),))

    @law("bool-join", constants="c d")
    def excluded(x: UOp, c: UOp, d: UOp) -> Equation:
        """x < c & x >= d == False where d >= c; x < c | x >= d == True where d <= c."""
        conditions = at_least(d, c) if is_and else at_least(c, d)
        absorbing = FALSE if is_and else TRUE
        return Equation(raw(op, less(x, c), at_least(x, d)), absorbing, where=(conditions,))


_join_laws(Ops.AND)
_join_laws(Ops.OR)


@law("bool-absorb-and", over=BOOL)
def absorb_and(p: UOp, q: UOp) -> Equation:
    """p & (p | q) == p; longer joins reduce to joins of two by their laws."""
    return Equation(both(p, either(p, q)), p)


@law("bool-absorb-or", over=BOOL)
def absorb_or(p: UOp, q: UOp) -> Equation:
    """p | (p & q) == p."""
    return Equation(either(p, both(p, q)), p)


def _address(like: UOp) -> UOp:
    """Return some element of a buffer of the type of `like`."""
    position = build.variable("position", 0, 15)
    return build.index(build.define_global(0, like.dtype, 16), position)


@law("load-gate-true", over=VALUES)
def load_gate_true(x: UOp) -> Equation:
    """LOAD(a, x, True) == LOAD(a)."""
    return Equation(UOp(Ops.LOAD, x.dtype, (_address(x), x, TRUE)), build.load(_address(x)))


@law("load-gate-false", over=VALUES)
def load_gate_false(x: UOp) -> Equation:
    """LOAD(a, x, False) == x."""
    return Equation(UOp(Ops.LOAD, x.dtype, (_address(x), x, FALSE)), x)


@law("store-gate-true", over=VALUES)
def store_gate_true(x: UOp) -> Equation:
    """STORE(a, x, True) == STORE(a, x): the memory after it is the same."""
    return Equation(build.store(_address(x), x, TRUE), build.store(_address(x), x))


@law("gep-vectorize", over=VALUES)
def gep_vectorize(a: UOp, b: UOp, c: UOp, d: UOp) -> Equation:
    """GEP(VECTORIZE(a, b, c, d), 2, 0) == VECTORIZE(c, a)."""
    return Equation(build.gep(build.vectorize(a, b, c, d), 2, 0), build.vectorize(c, a))


@law("gep-const", over=VALUES)
def gep_const(x: UOp) -> Equation:
    """GEP(c, 1) == c for a constant vector c of the type of x: its lanes are equal."""
    pair = build.const(x.dtype.vec(2), 1)
    return Equation(build.gep(pair, 1), build.const(x.dtype, 1))


@law("gep-all", over=VALUES)
def gep_all(a: UOp, b: UOp) -> Equation:
    """GEP(v, 0, 1) == v for a v of two lanes."""
    pair = build.vectorize(a, b)
    return Equation(UOp(Ops.GEP, pair.dtype, (pair,), GepArg((0, 1))), pair)
