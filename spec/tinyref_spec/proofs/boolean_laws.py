"""Laws of the boolean rules and of WHERE, gates and lanes."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import at_least, both, either, less, logical_not, maximum, not_equal, where
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import GepArg
from tinyref_spec.proofs.integer_laws import raw
from tinyref_spec.proofs.law import BOOL, INTS, VALUES, Equation, law

FALSE = build.const(dtypes.bool, False)
TRUE = build.const(dtypes.bool, True)


@law("bool-not-not", over=BOOL)
def not_not(x: UOp) -> Equation:
    """not not x == x."""
    return Equation(logical_not(logical_not(x)), x)


@law("bool-ne-false", over=BOOL)
def ne_false(x: UOp) -> Equation:
    """(x != False) == x."""
    return Equation(not_equal(x, False), x)


@law("bool-xor", over=BOOL)
def xor(x: UOp, y: UOp) -> Equation:
    """x ^ y == (x != y)."""
    return Equation(raw(Ops.XOR, x, y), not_equal(x, y))


@law("bool-max", over=BOOL)
def bool_max(x: UOp, y: UOp) -> Equation:
    """max(x, y) == x | y."""
    return Equation(maximum(x, y), either(x, y))


@law("bool-less", over=BOOL)
def bool_less(x: UOp, y: UOp) -> Equation:
    """(x < y) == not x & y."""
    return Equation(less(x, y), both(logical_not(x), y))


@law("bool-ne-not", over=BOOL)
def ne_not(x: UOp, y: UOp) -> Equation:
    """(not x != y) == not (x != y)."""
    return Equation(not_equal(logical_not(x), y), logical_not(not_equal(x, y)))


def _join_laws(op: Ops, neutral: bool) -> None:
    """A conjunction for AND and True, a disjunction for OR and False."""
    is_and = op is Ops.AND
    absorbing = FALSE if is_and else TRUE

    @law("bool-join", over=BOOL)
    def order(p: UOp, q: UOp) -> Equation:
        """p & q == q & p; p | q == q | p."""
        return Equation(raw(op, p, q), raw(op, q, p))

    @law("bool-join", over=BOOL)
    def grouping(p: UOp, q: UOp, r: UOp) -> Equation:
        """(p & q) & r == p & (q & r); the same for |."""
        return Equation(raw(op, raw(op, p, q), r), raw(op, p, raw(op, q, r)))

    @law("bool-join", over=BOOL)
    def same(p: UOp) -> Equation:
        """p & p == p; p | p == p."""
        return Equation(raw(op, p, p), p)

    @law("bool-join", over=BOOL)
    def with_neutral(p: UOp) -> Equation:
        """p & True == p; p | False == p."""
        return Equation(raw(op, p, build.const(dtypes.bool, neutral)), p)

    @law("bool-join", over=BOOL)
    def with_absorbing(p: UOp) -> Equation:
        """p & False == False; p | True == True."""
        return Equation(raw(op, p, build.const(dtypes.bool, not neutral)), absorbing)

    @law("bool-join", over=BOOL)
    def opposite(p: UOp) -> Equation:
        """p & not p == False; p | not p == True."""
        return Equation(raw(op, p, logical_not(p)), absorbing)

    @law("bool-join", over=INTS, constants="c d")
    def upper(x: UOp, c: UOp, d: UOp) -> Equation:
        """x < c & x < d == x < c where c <= d; x < c | x < d == x < d."""
        kept = less(x, c) if is_and else less(x, d)
        return Equation(raw(op, less(x, c), less(x, d)), kept, given=(at_least(d, c),))

    @law("bool-join", over=INTS, constants="c d")
    def lower(x: UOp, c: UOp, d: UOp) -> Equation:
        """x >= c & x >= d == x >= d where c <= d; x >= c | x >= d == x >= c."""
        kept = at_least(x, d) if is_and else at_least(x, c)
        return Equation(raw(op, at_least(x, c), at_least(x, d)), kept, given=(at_least(d, c),))

    @law("bool-join", over=INTS, constants="c d")
    def excluded(x: UOp, c: UOp, d: UOp) -> Equation:
        """x < c & x >= d == False where d >= c; x < c | x >= d == True where d <= c."""
        given = at_least(d, c) if is_and else at_least(c, d)
        return Equation(raw(op, less(x, c), at_least(x, d)), absorbing, given=(given,))


_join_laws(Ops.AND, True)
_join_laws(Ops.OR, False)


@law("bool-absorb-and", over=BOOL)
def absorb_and(p: UOp, q: UOp) -> Equation:
    """p & (p | q) == p; joins of more parts are such of two by their laws."""
    return Equation(both(p, either(p, q)), p)


@law("bool-absorb-or", over=BOOL)
def absorb_or(p: UOp, q: UOp) -> Equation:
    """p | (p & q) == p."""
    return Equation(either(p, both(p, q)), p)


@law("where-same", over=VALUES, flags="p")
def where_same(p: UOp, x: UOp) -> Equation:
    """WHERE(p, x, x) == x."""
    return Equation(where(p, x, x), x)


@law("where-constant", over=VALUES)
def where_true(x: UOp, y: UOp) -> Equation:
    """WHERE(True, x, y) == x."""
    return Equation(where(TRUE, x, y), x)


@law("where-constant", over=VALUES)
def where_false(x: UOp, y: UOp) -> Equation:
    """WHERE(False, x, y) == y."""
    return Equation(where(FALSE, x, y), y)


@law("where-not", over=VALUES, flags="p")
def where_not(p: UOp, x: UOp, y: UOp) -> Equation:
    """WHERE(not p, x, y) == WHERE(p, y, x)."""
    return Equation(where(logical_not(p), x, y), where(p, y, x))


@law("where-again-left", over=VALUES, flags="p")
def where_again_left(p: UOp, x: UOp, y: UOp, z: UOp) -> Equation:
    """WHERE(p, WHERE(p, x, y), z) == WHERE(p, x, z)."""
    return Equation(where(p, where(p, x, y), z), where(p, x, z))


@law("where-again-right", over=VALUES, flags="p")
def where_again_right(p: UOp, x: UOp, y: UOp, z: UOp) -> Equation:
    """WHERE(p, x, WHERE(p, y, z)) == WHERE(p, x, z)."""
    return Equation(where(p, x, where(p, y, z)), where(p, x, z))


@law("where-both", over=VALUES, flags="p q")
def where_both(p: UOp, q: UOp, x: UOp, y: UOp) -> Equation:
    """WHERE(p, WHERE(q, x, y), y) == WHERE(p & q, x, y)."""
    return Equation(where(p, where(q, x, y), y), where(both(p, q), x, y))


@law("where-either", over=VALUES, flags="p q")
def where_either(p: UOp, q: UOp, x: UOp, y: UOp) -> Equation:
    """WHERE(p, x, WHERE(q, x, y)) == WHERE(p | q, x, y)."""
    return Equation(where(p, x, where(q, x, y)), where(either(p, q), x, y))


@law("where-bool", over=BOOL)
def where_and(p: UOp, x: UOp) -> Equation:
    """WHERE(p, x, False) == p & x."""
    return Equation(where(p, x, FALSE), both(p, x))


@law("where-bool", over=BOOL)
def where_or(p: UOp, y: UOp) -> Equation:
    """WHERE(p, True, y) == p | y."""
    return Equation(where(p, TRUE, y), either(p, y))


@law("where-bool", over=BOOL)
def where_and_not(p: UOp, y: UOp) -> Equation:
    """WHERE(p, False, y) == not p & y."""
    return Equation(where(p, FALSE, y), both(logical_not(p), y))


@law("where-bool", over=BOOL)
def where_or_not(p: UOp, x: UOp) -> Equation:
    """WHERE(p, x, True) == not p | x."""
    return Equation(where(p, x, TRUE), either(logical_not(p), x))


def _place(like: UOp) -> UOp:
    """Some element of a buffer of the type of `like`."""
    position = build.variable("position", 0, 15)
    return build.index(build.define_global(0, like.dtype, 16), position)


@law("load-gate-true", over=VALUES)
def load_gate_true(x: UOp) -> Equation:
    """LOAD(a, x, True) == LOAD(a)."""
    return Equation(UOp(Ops.LOAD, x.dtype, (_place(x), x, TRUE)), build.load(_place(x)))


@law("load-gate-false", over=VALUES)
def load_gate_false(x: UOp) -> Equation:
    """LOAD(a, x, False) == x."""
    return Equation(UOp(Ops.LOAD, x.dtype, (_place(x), x, FALSE)), x)


@law("store-gate-true", over=VALUES)
def store_gate_true(x: UOp) -> Equation:
    """STORE(a, x, True) == STORE(a, x): the memory after it is the same."""
    return Equation(build.store(_place(x), x, TRUE), build.store(_place(x), x))


@law("gep-vectorize", over=VALUES)
def gep_vectorize(a: UOp, b: UOp) -> Equation:
    """GEP(VECTORIZE(a, b), 1) == b."""
    return Equation(build.gep(build.vectorize(a, b), 1), b)


@law("gep-vectorize", over=VALUES)
def gep_vectorize_some(a: UOp, b: UOp, c: UOp, d: UOp) -> Equation:
    """GEP(VECTORIZE(a, b, c, d), 2, 0) == VECTORIZE(c, a)."""
    return Equation(build.gep(build.vectorize(a, b, c, d), 2, 0), build.vectorize(c, a))


@law("gep-const", over=VALUES)
def gep_const(x: UOp) -> Equation:
    """GEP(VECTORIZE(x, x), 1) == x: a constant vector repeats one constant."""
    return Equation(build.gep(build.vectorize(x, x), 1), x)


@law("gep-all", over=VALUES)
def gep_all(a: UOp, b: UOp) -> Equation:
    """GEP(v, 0, 1) == v for a v of two lanes."""
    pair = build.vectorize(a, b)
    return Equation(UOp(Ops.GEP, pair.dtype, (pair,), GepArg((0, 1))), pair)
