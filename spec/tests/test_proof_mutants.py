"""Wrong rules and laws: each must be refuted, or the proofs prove nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinyref.algebra.bounds import bounds
from tinyref.algebra.linear import constant_of
from tinyref.algebra.named_rules import Domain, Pattern, Rule, any_node, anything, is_const, match
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.build import add, at_least, idiv, less, mod, mul, sub
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs import conformance, patterns, prover
from tinyref_spec.proofs.division_laws import natural, positive
from tinyref_spec.proofs.integer_laws import raw, within
from tinyref_spec.proofs.law import INTS, Equation, Law, Proof
from tinyref_spec.proofs.laws import laws_of
from tinyref_spec.proofs.prover import ProofResult


def div_split_negative(x: UOp, q: UOp, r: UOp, c: UOp) -> Equation:
    """(c * q + r) // c == q + r // c where r may be negative."""
    reads = ((x, add(mul(q, c), r)),)
    return Equation(idiv(x, c), add(q, idiv(r, c)), (positive(c), natural(x)), reads=reads)


def moved_constant(x: UOp, c: UOp, d: UOp) -> Equation:
    """(x + c < d) == (x < d - c) in wrapping arithmetic."""
    return Equation(less(add(x, c), d), less(x, sub(d, c)))


def lt_div_off(x: UOp, c: UOp, d: UOp, e: UOp) -> Equation:
    """(x // c < d) == (x < c * d) also for d <= 0."""
    return Equation(less(idiv(x, c), d), less(x, e), (positive(c),), reads=((e, mul(c, d)),))


def any_mask(x: UOp, c: UOp) -> Equation:
    """x & c == x where 0 <= x <= c, for a c that is no 2**n - 1."""
    return Equation(raw(Ops.AND, x, c), x, where=(within(0, x, c),))


def loses(x: UOp) -> Equation:
    """CAST(CAST(x, int8), int64) == CAST(x, int64)."""
    inner = build.cast(x, dtypes.int8)
    return Equation(build.cast(inner, dtypes.int64), build.cast(x, dtypes.int64))


SIGNED_TYPES = (dtypes.int32, dtypes.int64, dtypes.index)
MACHINE = tuple(dtype for dtype in INTS if dtype is not dtypes.index)
WRONG = (
    Law("div-split of a negative rest", div_split_negative, Proof.INTEGERS, SIGNED_TYPES),
    Law("lt-sum that wraps", moved_constant),
    Law("lt-div off by one", lt_div_off, Proof.INTEGERS),
    Law("bit-mask of any constant", any_mask),
    Law("cast-cast that loses", loses, over=(dtypes.int32, dtypes.uint64)),
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda law: law.rule)
def test_wrong_laws_are_refuted(wrong: Law) -> None:
    for dtype in wrong.over:
        answer, detail = prover.prove(wrong, dtype)
        assert answer is ProofResult.REFUTED, detail
        assert detail
        with pytest.raises(UserError, match="refuted"):
            prover.require(wrong, dtype)


def doubled(x: UOp, y: UOp) -> Equation:
    """(x < y) == (x * 2 < y * 2), where the products may wrap."""
    return Equation(less(x, y), less(mul(x, 2), mul(y, 2)))


def test_a_sum_that_leaves_its_type_is_refuted() -> None:
    """Equal as integers, but the right side wraps in a type of fixed width."""
    law = Law("wraps", doubled, Proof.INTEGERS)
    assert prover.prove(law, dtypes.index)[0] is ProofResult.PROVED
    for dtype in MACHINE:
        answer, detail = prover.prove(law, dtype)
        assert answer is ProofResult.REFUTED
        assert "MUL may wrap" in detail


def vacuous(x: UOp) -> Equation:
    """x == 0 where x < 0 and 0 <= x, which proves anything."""
    return Equation(x, build.const(x.dtype, 0), where=(less(x, 0), at_least(x, 0)))


@pytest.mark.parametrize("proof", [Proof.BITS, Proof.INTEGERS])
def test_contradicting_conditions_are_seen(proof: Proof) -> None:
    law = Law("vacuous", vacuous, proof)
    assert prover.prove(law, dtypes.int32)[0] is ProofResult.PROVED
    with pytest.raises(UserError, match="its conditions are never true"):
        prover.require(law, dtypes.int32)


x, y, c, d = any_node("x"), any_node("y"), is_const("c"), is_const("d")


@pytest.mark.parametrize(
    ("pattern", "function"),
    [
        (match(Ops.WHERE, any_node("p"), x, y), lambda p, x, y: build.where(p, y, x)),
        (match(Ops.MUL, match(Ops.MUL, x, c), y), lambda x, c, y: mul(x, c)),
        (match(Ops.CAST, match(Ops.CAST, x)), lambda node, x: build.cast(x, node.dtype)),
        (match(Ops.CMPNE, match(Ops.CAST, x), c), lambda x, c: build.not_equal(x, 0)),
    ],
    ids=["where", "product", "cast", "compared cast"],
)
def test_wrong_functions_of_patterns_are_refuted(
    pattern: Pattern, function: Callable[..., UOp]
) -> None:
    names = tuple(function.__code__.co_varnames)
    rule = Rule("wrong", pattern, function, names, Domain("tests", anything), "x == y.")
    answers = (prover.by_bits(equation, 3_000_000)[0] for equation in patterns.equations(rule))
    assert ProofResult.REFUTED in answers


# Rules whose code is wrong: fired on instances of the laws of the right rule.


def divisors(node: UOp) -> tuple[UOp, int, int] | None:
    """x, c and d of (x op c) op d."""
    inner = node.src[0]
    if inner.op not in (Ops.IDIV, Ops.MOD) or node.op not in (Ops.IDIV, Ops.MOD):
        return None
    c, d = constant_of(inner.src[1]), constant_of(node.src[1])
    return None if not c or not d else (inner.src[0], c, d)


def wrong_mod_of_mod(node: UOp) -> UOp | None:
    """Forget that the outer modulus must divide the inner one."""
    divisor = divisors(node)
    return None if divisor is None else mod(divisor[0], divisor[2])


def wrong_mask(node: UOp) -> UOp | None:
    """Treat any constant as a mask."""
    return node.src[0] if bounds(node.src[0])[0] >= 0 else None


WRONG_RULES: dict[str, Callable[[UOp], UOp | None]] = {
    "mod-of-mod": wrong_mod_of_mod,
    "bit-mask": wrong_mask,
}


@pytest.mark.long
@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", WRONG_RULES)
def test_wrong_code_is_found(name: str) -> None:
    answers = (
        conformance.same_value(*firing)[0]
        for law in laws_of(name)
        for dtype in law.over
        for firing in conformance.firings(WRONG_RULES[name], law, dtype, 1, 30)
    )
    assert ProofResult.REFUTED in answers
