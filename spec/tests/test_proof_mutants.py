"""Wrong rules, laws and ranges: each must be refuted, or the proofs prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tinyref.algebra import linear
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


@law("div-nested of negative divisors", Proof.INTEGERS, SIGNED_TYPES, table=WRONG)
def div_of_mod_negative(x: UOp, a: UOp, d: UOp, m: UOp) -> Equation:
    """(x % m) // d == (x // d) % a without 0 <= x; the sign of d matters as well."""
    given = (less(a, 0), less(d, 0), natural(x))
    return Equation(less(idiv(x, d), 0), less(idiv(x, a), d), given, reads=((m, mul(a, d)),))


@law("div-split of a negative rest", Proof.INTEGERS, SIGNED_TYPES, table=WRONG)
def div_split_negative(x: UOp, q: UOp, r: UOp, c: UOp) -> Equation:
    """(c * q + r) // c == q + r // c where r may be negative."""
    reads = ((x, add(mul(q, c), r)),)
    return Equation(idiv(x, c), add(q, idiv(r, c)), (positive(c), natural(x)), reads=reads)


@law("div-factor with an equal rest", Proof.INTEGERS, table=WRONG)
def div_factor_too_far(x: UOp, q: UOp, r: UOp, c: UOp) -> Equation:
    """(c * q + r) // c == q where 0 <= r <= c."""
    given = (positive(c), natural(x), natural(r), at_least(c, r))
    return Equation(idiv(x, c), q, given, reads=((x, add(mul(q, c), r)),))


@law("lt-sum inverted", table=WRONG)
def inverted(x: UOp, y: UOp) -> Equation:
    """(x < y) == not (y < x)."""
    return Equation(less(x, y), logical_not(less(y, x)))


@law("lt-sum that wraps", table=WRONG)
def moved_constant(x: UOp, c: UOp, d: UOp) -> Equation:
    """(x + c < d) == (x < d - c) in wrapping arithmetic."""
    return Equation(less(add(x, c), d), less(x, sub(d, c)))


@law("lt-div off by one", Proof.INTEGERS, table=WRONG)
def lt_div_off(x: UOp, c: UOp, d: UOp, e: UOp) -> Equation:
    """(x // c < d) == (x < c * d) also for d <= 0."""
    return Equation(less(idiv(x, c), d), less(x, e), (positive(c),), reads=((e, mul(c, d)),))


@law("lt-factor without a small rest", Proof.INTEGERS, table=WRONG)
def lt_factor_wide(x: UOp, q: UOp, r: UOp, f: UOp, k: UOp, c: UOp) -> Equation:
    """(f * q + r < f * k) == (q < k) where 0 <= r <= f."""
    given = (natural(r), at_least(f, r), positive(f))
    return Equation(less(x, c), less(q, k), given, reads=((x, add(mul(q, f), r)), (c, mul(f, k))))


@law("bit-mask of any constant", table=WRONG)
def any_mask(x: UOp, c: UOp) -> Equation:
    """x & c == x where 0 <= x <= c, for a c that is no 2**n - 1."""
    return Equation(raw(Ops.AND, x, c), x, given=(within(0, x, c),))


@law("shift-right of a negative", over=(dtypes.int32, dtypes.int64), table=WRONG)
def shift_negative(x: UOp) -> Equation:
    """x >> 3 == x // 8 for negative x too."""
    return Equation(raw(Ops.SHR, x, build.const(x.dtype, 3)), idiv(x, 8))


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


@law("where-both as either", flags="p q", table=WRONG)
def both_as_either(p: UOp, q: UOp, x: UOp, y: UOp) -> Equation:
    """WHERE(p, WHERE(q, x, y), y) == WHERE(p | q, x, y)."""
    return Equation(where(p, where(q, x, y), y), where(build.either(p, q), x, y))


@law("cast-cast that loses", over=(dtypes.int32, dtypes.uint64), table=WRONG)
def loses(x: UOp) -> Equation:
    """CAST(CAST(x, int8), int64) == CAST(x, int64)."""
    inner = build.cast(x, dtypes.int8)
    return Equation(build.cast(inner, dtypes.int64), build.cast(x, dtypes.int64))


@law("div-nested that wraps", over=(dtypes.int32,), table=WRONG, choices={"c": (46341,)})
def nested_wraps(x: UOp, c: UOp) -> Equation:
    """(x // c) // c == x // (c * c), a product that the type does not hold."""
    return Equation(idiv(idiv(x, c), c), idiv(x, mul(c, c)))


@pytest.mark.parametrize("wrong", [laws[0] for laws in WRONG.values()], ids=list(WRONG))
def test_wrong_laws_are_refuted(wrong: Law) -> None:
    answers = {dtype.name: prover.prove(wrong, dtype) for dtype in wrong.over}
    for verdict in answers.values():
        assert verdict.answer is Answer.REFUTED, verdict
        assert verdict.detail


def test_a_sum_that_leaves_its_type_is_refuted() -> None:
    """Equal as integers, but the right side wraps in a type of fixed width."""

    @law("wraps", Proof.INTEGERS, table={})
    def unused(x: UOp) -> Equation:
        """x == x."""
        return Equation(x, x)

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


def wrong_div_of_mod(node: UOp) -> UOp | None:
    """Forgets that the divisor must divide the modulus."""
    found = divisors(node)
    if found is None or found[1] < 0 or found[2] < 0:
        return None
    return mod(idiv(found[0], found[2]), max(found[1] // found[2], 1))


def wrong_div_nested(node: UOp) -> UOp | None:
    """Forgets that the product must fit, and divides by it wrapped."""
    found = divisors(node)
    if found is None:
        return None
    product = build.const(node.dtype, 0) if found[1] * found[2] > 40 else found[1] * found[2]
    return idiv(found[0], product)


def wrong_div_split(node: UOp) -> UOp | None:
    """Takes the quotient out without looking at the sign of the rest."""
    divisor = constant_of(node.src[1])
    total = linear.exact(node.src[0])
    if not divisor or divisor < 0 or total is None:
        return None
    quotient, rest = total.split(divisor)
    dtype = node.dtype
    return add(linear.to_node(dtype, quotient), idiv(linear.to_node(dtype, rest), divisor))


def wrong_mod_bounds(node: UOp) -> UOp | None:
    """The range of the dividend may reach the divisor itself."""
    divisor = constant_of(node.src[1])
    low, high = bounds(node.src[0])
    return node.src[0] if divisor and low >= 0 and high <= divisor else None


def wrong_lt_div(node: UOp) -> UOp | None:
    """The limit for positive d, for every d."""
    if node.src[0].op is not Ops.IDIV:
        return None
    c, d = constant_of(node.src[0].src[1]), constant_of(node.src[1])
    return None if c is None or d is None else less(node.src[0].src[0], c * d)


def wrong_max_bounds(node: UOp) -> UOp | None:
    """Compares the wrong ends."""
    left, right = bounds(node.src[0]), bounds(node.src[1])
    return node.src[0] if left[1] >= right[1] else None


def wrong_mask(node: UOp) -> UOp | None:
    """Takes any constant for a mask."""
    return node.src[0] if bounds(node.src[0])[0] >= 0 else None


WRONG_RULES: dict[str, Callable[[UOp], UOp | None]] = {
    "mod-of-mod": wrong_mod_of_mod,
    "div-of-mod": wrong_div_of_mod,
    "div-nested": wrong_div_nested,
    "div-split": wrong_div_split,
    "mod-bounds": wrong_mod_bounds,
    "lt-div": wrong_lt_div,
    "max-bounds": wrong_max_bounds,
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


def floored_remainder(x: Range, y: Range) -> Range:
    """A remainder that is never negative."""
    return 0, max(abs(y[0]), abs(y[1]), 1) - 1


def remainder_off_by_one(x: Range, y: Range) -> Range:
    largest = max(abs(y[0]), abs(y[1]), 2) - 2
    return (0 if x[0] >= 0 else -largest), (0 if x[1] <= 0 else largest)


def logical_shift(x: Range, y: Range) -> Range:
    return 0, x[1] >> max(y[0], 0)


def quotient_of_ends(x: Range, y: Range) -> Range:
    ends = [ranges.truncated_quotient(a, b) for a in x for b in y]
    return min(ends), max(ends)


WRONG_TABLES = {
    Ops.MUL: unsigned_product,
    Ops.MOD: floored_remainder,
    Ops.SHR: logical_shift,
    Ops.IDIV: quotient_of_ends,
    Ops.AND: lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    Ops.OR: lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
}


@pytest.mark.parametrize("op", WRONG_TABLES, ids=lambda op: op.name)
def test_wrong_ranges_are_found(op: Ops) -> None:
    wrong = interval(WRONG_TABLES[op])
    assert next(ranges.broken_intervals(op, 4, False, wrong), None) is not None


def test_a_remainder_that_is_off_by_one_is_found() -> None:
    wrong = interval(remainder_off_by_one)
    assert next(ranges.broken_intervals(Ops.MOD, 4, True, wrong), None) is not None


@pytest.mark.parametrize(
    ("op", "dtype", "rule"),
    [
        (Ops.MUL, dtypes.index, unsigned_product),
        (Ops.ADD, dtypes.index, lambda x, y: (x[0] + y[0], x[1] + y[1] - 1)),
        (Ops.SUB, dtypes.int32, lambda x, y: (x[0] - y[0], x[1] - y[1])),
        (Ops.MAX, dtypes.uint64, lambda x, y: (x[0], x[1])),
        (Ops.CMPLT, dtypes.int64, lambda x, y: (0, 0) if x[0] > y[0] else (0, 1)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_wrong_ranges_are_refuted(op: Ops, dtype: DType, rule: Callable[..., Range]) -> None:
    assert ranges.prove_range(op, dtype, interval(rule)).answer is Answer.REFUTED


def test_a_range_that_does_not_wrap_is_refuted() -> None:
    def forgets(node: UOp, sources: Sequence[Range | None]) -> Range | None:
        (a, b), (c, d) = (source or (0, 0) for source in sources)
        return a + c, b + d

    assert ranges.prove_range(Ops.ADD, dtypes.int32, forgets).answer is Answer.REFUTED
