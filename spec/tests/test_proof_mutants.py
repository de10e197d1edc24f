"""Wrong rules, laws and ranges: each must be refuted, or the proofs prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tinyref.algebra.bounds import bounds, wrap_range
from tinyref.algebra.linear import constant_of
from tinyref.algebra.op_table import Range, RangeRule
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.build import add, at_least, idiv, less, logical_not, maximum, mod, mul, sub, where
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs import conformance, prover, ranges
from tinyref_spec.proofs.division_laws import natural, positive
from tinyref_spec.proofs.integer_laws import raw, within
from tinyref_spec.proofs.law import BOOL, INTS, Equation, Law, Proof, law
from tinyref_spec.proofs.laws import laws_of
from tinyref_spec.proofs.prover import Answer

WRONG: dict[str, list[Law]] = {}
SIGNED_TYPES = (dtypes.int32, dtypes.int64, dtypes.index)


@law("mod-of-mod without a multiple", Proof.INTEGERS, table=WRONG)
def mod_of_any_mod(x: UOp, m: UOp, d: UOp) -> Equation:
    """(x % m) % d == x % d for m, d > 0: m must be a multiple of d."""
    return Equation(mod(mod(x, m), d), mod(x, d), (natural(x), positive(m), positive(d)))


@law("div-split of a negative rest", Proof.INTEGERS, SIGNED_TYPES, table=WRONG)
def div_split_negative(x: UOp, q: UOp, r: UOp, c: UOp) -> Equation:
    """(c * q + r) // c == q + r // c where r may be negative."""
    reads = ((x, add(mul(q, c), r)),)
    return Equation(idiv(x, c), add(q, idiv(r, c)), (positive(c), natural(x)), reads=reads)


@law("lt-sum that wraps", table=WRONG)
def moved_constant(x: UOp, c: UOp, d: UOp) -> Equation:
    """(x + c < d) == (x < d - c) in wrapping arithmetic."""
    return Equation(less(add(x, c), d), less(x, sub(d, c)))


@law("lt-div off by one", Proof.INTEGERS, table=WRONG)
def lt_div_off(x: UOp, c: UOp, d: UOp, e: UOp) -> Equation:
    """(x // c < d) == (x < c * d) also for d <= 0."""
    return Equation(less(idiv(x, c), d), less(x, e), (positive(c),), reads=((e, mul(c, d)),))


@law("bit-mask of any constant", table=WRONG)
def any_mask(x: UOp, c: UOp) -> Equation:
    """x & c == x where 0 <= x <= c, for a c that is no 2**n - 1."""
    return Equation(raw(Ops.AND, x, c), x, given=(within(0, x, c),))


@law("max-offset that wraps", table=WRONG)
def max_wraps(x: UOp, c: UOp) -> Equation:
    """max(x, x + c) == x + c for c >= 0 in wrapping arithmetic."""
    return Equation(maximum(x, add(x, c)), add(x, c), given=(at_least(c, 0),))


@law("bool-join inverted", over=BOOL, table=WRONG)
def absorbs_wrongly(p: UOp, q: UOp) -> Equation:
    """p & (p | q) == q."""
    return Equation(build.both(p, build.either(p, q)), q)


@law("where sides swapped", flags="p", table=WRONG)
def swapped(p: UOp, x: UOp, y: UOp) -> Equation:
    """WHERE(not p, x, y) == WHERE(p, x, y)."""
    return Equation(where(logical_not(p), x, y), where(p, x, y))


@law("cast-cast that loses", over=(dtypes.int32, dtypes.uint64), table=WRONG)
def loses(x: UOp) -> Equation:
    """CAST(CAST(x, int8), int64) == CAST(x, int64)."""
    inner = build.cast(x, dtypes.int8)
    return Equation(build.cast(inner, dtypes.int64), build.cast(x, dtypes.int64))


@pytest.mark.parametrize("wrong", [laws[0] for laws in WRONG.values()], ids=list(WRONG))
def test_wrong_laws_are_refuted(wrong: Law) -> None:
    answers = {dtype.name: prover.prove(wrong, dtype) for dtype in wrong.over}
    for verdict in answers.values():
        assert verdict.answer is Answer.REFUTED, verdict
        assert verdict.detail


def test_a_sum_that_leaves_its_type_is_refuted() -> None:
    """Equal as integers, but the right side wraps in a type of fixed width."""

    table: dict[str, list[Law]] = {}

    @law("wraps", Proof.INTEGERS, INTS, table=table)
    def wraps(x: UOp, y: UOp) -> Equation:
        """(x < y) == (x * 2 < y * 2), where the products may wrap."""
        return Equation(less(x, y), less(mul(x, 2), mul(y, 2)))

    (made,) = table["wraps"]
    assert prover.prove(made, dtypes.index).answer is Answer.PROVED
    for dtype in INTS[:-1]:
        verdict = prover.prove(made, dtype)
        assert verdict.answer is Answer.REFUTED
        assert "MUL may wrap" in verdict.detail


def test_contradicting_conditions_are_seen() -> None:
    table: dict[str, list[Law]] = {}

    @law("vacuous", table=table)
    def vacuous(x: UOp) -> Equation:
        """x == 0 where x < 0 and 0 <= x, which proves anything."""
        return Equation(x, build.const(x.dtype, 0), given=(less(x, 0), at_least(x, 0)))

    (made,) = table["vacuous"]
    assert prover.prove(made, dtypes.int32).answer is Answer.PROVED
    assert not prover.can_hold(made, made.general(dtypes.int32))


# Rules whose code is wrong: fired on instances of the laws of the right rule.


def divisors(node: UOp) -> tuple[UOp, int, int] | None:
    """x, c and d of (x op c) op d."""
    inner = node.src[0]
    if inner.op not in (Ops.IDIV, Ops.MOD) or node.op not in (Ops.IDIV, Ops.MOD):
        return None
    c, d = constant_of(inner.src[1]), constant_of(node.src[1])
    return None if not c or not d else (inner.src[0], c, d)


def wrong_mod_of_mod(node: UOp) -> UOp | None:
    """Forgets that the outer modulus must divide the inner one."""
    found = divisors(node)
    return None if found is None else mod(found[0], found[2])


def wrong_lt_div(node: UOp) -> UOp | None:
    """The limit for positive d, for every d."""
    if node.src[0].op is not Ops.IDIV:
        return None
    c, d = constant_of(node.src[0].src[1]), constant_of(node.src[1])
    return None if c is None or d is None else less(node.src[0].src[0], c * d)


def wrong_mask(node: UOp) -> UOp | None:
    """Takes any constant for a mask."""
    return node.src[0] if bounds(node.src[0])[0] >= 0 else None


WRONG_RULES: dict[str, Callable[[UOp], UOp | None]] = {
    "mod-of-mod": wrong_mod_of_mod,
    "lt-div": wrong_lt_div,
    "bit-mask": wrong_mask,
}


@pytest.mark.long
@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", WRONG_RULES)
def test_wrong_code_is_found(name: str) -> None:
    assert any(
        found.answer is Answer.REFUTED
        for each in laws_of(name)
        for dtype in each.over
        for found in conformance.findings(WRONG_RULES[name], each, dtype, 1, 30)
    )


# Range rules that are wrong.


def interval(rule: Callable[..., Range]) -> RangeRule:
    def range_rule(node: UOp, sources: Sequence[Range | None]) -> Range | None:
        return wrap_range(node.dtype, *rule(*sources))

    return range_rule


def unsigned_product(x: Range, y: Range) -> Range:
    """Forgets the products of ends with other signs."""
    return x[0] * y[0], x[1] * y[1]


def logical_shift(x: Range, y: Range) -> Range:
    return 0, x[1] >> max(y[0], 0)


WRONG_TABLES = {
    Ops.MUL: unsigned_product,
    Ops.SHR: logical_shift,
    Ops.AND: lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
}


@pytest.mark.parametrize("op", WRONG_TABLES, ids=lambda op: op.name)
def test_wrong_ranges_are_found(op: Ops) -> None:
    wrong = interval(WRONG_TABLES[op])
    assert next(ranges.broken_intervals(op, 4, False, wrong), None) is not None


@pytest.mark.parametrize(
    ("op", "dtype", "rule"),
    [
        (Ops.MUL, dtypes.index, unsigned_product),
        (Ops.SUB, dtypes.int32, lambda x, y: (x[0] - y[0], x[1] - y[1])),
        (Ops.MAX, dtypes.uint64, lambda x, y: (x[0], x[1])),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_wrong_ranges_are_refuted(op: Ops, dtype: DType, rule: Callable[..., Range]) -> None:
    assert ranges.prove_range(op, dtype, interval(rule)).answer is Answer.REFUTED
