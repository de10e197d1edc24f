"""Every rule has laws, every law is proved, and every rule does what its laws say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import z3

from tinyref.algebra.rewrite import Keeps
from tinyref.algebra.rules import casts
from tinyref.algebra.semantics import apply
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs import conformance, float_laws, prover, ranges, record, semantics
from tinyref_spec.proofs.law import LAWS, Law
from tinyref_spec.proofs.laws import laws_of
from tinyref_spec.proofs.prover import Answer

RULES = {rule.name: rule for rule in ALL_RULES.rules}
COMMITTED = record.committed_proofs()
# Rules that have many laws, one for each triple of types: the quick suite takes some of them.
MANY = 40


def by_rule() -> list[str]:
    return sorted(LAWS)


def chosen(name: str) -> list[Law]:
    laws = laws_of(name)
    return list(laws[:: max(1, len(laws) // MANY)])


def test_every_rule_has_laws_and_every_law_a_rule() -> None:
    known = set(LAWS) | {law.rule for law in float_laws.FLOAT_LAWS} | {record.FOLDING}
    assert known == set(RULES)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", by_rule())
def test_laws_are_proved(name: str) -> None:
    for law in chosen(name):
        for dtype in law.over:
            verdict = prover.prove(law, dtype)
            assert verdict.answer is Answer.PROVED, verdict


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", by_rule())
def test_laws_are_not_vacuous(name: str) -> None:
    """What a law is given can hold, and the sides are not one node before anything is proved."""
    for law in chosen(name):
        for dtype in law.over:
            equation = next(prover.equations(law, dtype))
            assert prover.can_hold(law, equation), law.label


@pytest.mark.slow
def test_the_committed_record_is_current() -> None:
    assert record.prove_all() == COMMITTED, "run: python -m tinyref_spec.proofs"


def test_the_committed_record_is_complete() -> None:
    assert set(COMMITTED) == set(RULES)
    for name, proof in COMMITTED.items():
        expected = len(laws_of(name)) + len(float_laws.laws_of(name)) + (name == record.FOLDING)
        assert proof.laws == expected > 0, name
        assert proof.proofs, name


def test_the_counts_meet_the_target() -> None:
    """At least 95 % of the rules on integers and bools by z3, and nothing without a proof."""
    counts = record.counts(COMMITTED.values())
    assert counts["rules"] == len(RULES)
    proved = counts["bit-vectors"] + counts["bounded integers"]
    assert proved / (proved + counts["exhaustively"]) >= 0.95


@pytest.mark.sampled(9)
@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", by_rule())
def test_rules_do_what_their_laws_say(name: str, count: int) -> None:
    """Rules fire on this many instances of their laws, and some of the rules refuse some."""
    findings = []
    for law in chosen(name) if count > 4 else chosen(name)[:12]:
        for dtype in law.over:
            for finding in conformance.findings(RULES[name], law, dtype, 1, count):
                assert finding.answer is Answer.PROVED, f"{law.label} at {dtype.name}: {finding}"
                findings.append(finding)
    assert findings
    if count > 4:
        fired = [finding.result is not None for finding in findings]
        assert any(fired) or name in conformance.NEVER_FIRES


FOLDED = (
    *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.MAX, Ops.CMPLT, Ops.CMPNE),
    *(Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR),
)


@pytest.mark.long
@pytest.mark.sampled(13)
@pytest.mark.parametrize("op", FOLDED, ids=lambda op: op.name)
def test_folding_constants_at_8_bits(op: Ops) -> None:
    """The semantics on all pairs of bytes against Python's integers; the rule on some of them."""
    for dtype in (dtypes.int8, dtypes.uint8):
        every = np.arange(int(dtype.minimum), int(dtype.maximum) + 1)
        typed = every.astype(numpy_dtype(dtype))
        table = apply(op, dtype, [typed[:, None], typed[None, :]])
        wanted = [
            [ranges.reference(op, int(x), int(y), 8, dtype.is_unsigned) for y in every]
            for x in every
        ]
        np.testing.assert_array_equal(table.astype(np.int64), np.array(wanted))
        for x, y in itertools.product(every[::17], every[::13]):
            node = build.binary(op, build.const(dtype, int(x)), build.const(dtype, int(y)))
            folded = RULES[record.FOLDING](node)
            expected = ranges.reference(op, int(x), int(y), 8, dtype.is_unsigned)
            assert folded is build.const(node.dtype, expected)


TERMS = (*FOLDED, Ops.NEG, Ops.MULACC, Ops.WHERE)
BOOL_OPS = {Ops.AND, Ops.OR, Ops.XOR, Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.WHERE}
BIT_OPS = {Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR}


@pytest.mark.long
@pytest.mark.sampled(5)
@pytest.mark.parametrize("op", TERMS, ids=lambda op: op.name)
def test_terms_of_the_solver_agree_with_the_semantics(op: Ops) -> None:
    """Both tables of terms on edge values and random ones."""
    generator = np.random.default_rng(3)
    for dtype in (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint32, dtypes.int64):
        low, high = int(dtype.minimum), int(dtype.maximum)
        edges = sorted({low, low + 1, 0, 1, 3, high})
        drawn = [int(each) for each in generator.integers(low, high, 3, endpoint=True)]
        check_terms(op, dtype, [*edges, *drawn])
    if op in BOOL_OPS:
        check_terms(op, dtypes.bool, [0, 1])


def check_terms(op: Ops, dtype: DType, values: list[int]) -> None:
    count = 1 if op is Ops.NEG else 3 if op is Ops.MULACC else 2
    result = dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else dtype
    for operands in itertools.product(values[: 5 if count == 3 else None], repeat=count):
        sources = [build.const(dtype, value) for value in operands]
        if op is Ops.WHERE:
            sources.insert(0, build.const(dtypes.bool, operands[0] % 2))
        node = UOp(op, result, tuple(sources))
        wanted = RULES[record.FOLDING](node)
        assert wanted is not None
        assert same_term(semantics.Bits(), node, wanted), f"{op.name} {dtype.name} {operands}"
        if op not in BIT_OPS:
            integers = semantics.Integers(wraps=True)
            assert same_term(integers, node, wanted), f"{op.name} {dtype.name} {operands}"


def same_term(table: semantics.Semantics, node: UOp, wanted: UOp) -> bool:
    """Whether the term of constants is that constant: by computing it, or else by the solver."""
    equal = z3.simplify(table.term(node) == table.term(wanted))
    if z3.is_true(equal):
        return True
    return prover.claim(table.definitions, equal)[0] is Answer.PROVED


WHOLE = [*(dtype for dtype in dtypes.all if dtype.is_int), dtypes.bool]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", WHOLE, ids=lambda dtype: dtype.name)
def test_casts_of_the_solver_agree_with_the_semantics(source: DType) -> None:
    for target in WHOLE:
        low, high = int(source.minimum), int(source.maximum)
        for value in {low, high, (low + high) // 2, high - 1, 0, 1}:
            node = UOp(Ops.CAST, target, (build.const(source, value),))
            wanted = RULES[record.FOLDING](node)
            assert wanted is not None
            for table in (semantics.Bits(), semantics.Integers(wraps=True)):
                assert same_term(table, node, wanted), (source, target, value)


# Floats


@pytest.mark.sampled(5)
@pytest.mark.parametrize("law", float_laws.FLOAT_LAWS, ids=lambda law: law.rule)
def test_float_rules_keep_what_they_state(law: float_laws.FloatLaw) -> None:
    found = float_laws.check(law, RULES[law.rule])
    assert found.fired
    assert found.values >= 65536 or law.chooses
    assert not found.lost & RULES[law.rule].domain.keeps


def test_every_float_rule_has_a_float_law() -> None:
    wanted = {rule.name for rule in ALL_RULES.rules if rule.domain.family == "floats"}
    assert wanted | {"cast-float-to-bool"} <= {law.rule for law in float_laws.FLOAT_LAWS}


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", float_laws.CAST_RULES)
def test_casts_through_floats(name: str) -> None:
    found = list(float_laws.float_casts(RULES[name]))
    assert len(found) > 100
    assert [each[:3] for each in found if not each[3]] == []


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", prover.FLOAT_SORTS, ids=lambda dtype: dtype.name)
def test_floats_that_casts_may_go_through_hold_every_value(target: DType) -> None:
    """What cast-cast asks of a float between two types, at all widths; and what it refuses."""
    for source in (*(dtype for dtype in dtypes.all if dtype.is_int), *prover.FLOAT_SORTS):
        wanted = Answer.PROVED if casts.is_lossless(source, target) else Answer.REFUTED
        if source.bits < 64 or target.bits == 64 or not source.is_int:
            assert prover.holds_every_value(source, target) is wanted, (source, target)


def test_wrong_float_rules_are_caught() -> None:
    def x_of(node: UOp) -> UOp:
        return node.src[0]

    half = dtypes.float16
    wrong = {
        "x + 0.0 == x": (Ops.ADD, 0.0, x_of, Keeps.SIGNED_ZERO),
        "x * 0.0 == 0.0": (Ops.MUL, 0.0, lambda node: build.const(half, 0.0), Keeps.NAN),
        "x / 3.0 == x * (1 / 3)": (
            Ops.FDIV,
            3.0,
            lambda node: build.mul(node.src[0], 1 / 3),
            Keeps.ROUNDING,
        ),
        "x * 65504 == x": (Ops.MUL, 65504.0, x_of, Keeps.INFINITY),
    }
    for equation, (op, value, rule, missing) in wrong.items():
        law = float_laws.FloatLaw(equation, 1, float_laws._binary(op, value))
        assert missing in float_laws.check(law, rule).lost, equation


# Ranges


@pytest.mark.sampled(11)
@pytest.mark.parametrize("op", ranges.SYMBOLIC, ids=lambda op: op.name)
def test_ranges_hold_every_value(op: Ops) -> None:
    for dtype in ranges.types_of(op):
        verdict = ranges.prove_range(op, dtype)
        assert verdict.answer is Answer.PROVED, verdict


@pytest.mark.sampled(9)
@pytest.mark.parametrize("op", ranges.TABLED, ids=lambda op: op.name)
@pytest.mark.parametrize("is_unsigned", [False, True], ids=["signed", "unsigned"])
def test_ranges_hold_every_value_of_4_bits(op: Ops, is_unsigned: bool) -> None:
    assert list(itertools.islice(ranges.broken_intervals(op, 4, is_unsigned), 3)) == []
