"""Every rule is proved as the record says, and does what its laws say."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import z3
from expressions import INTEGER_BINARY

from tinyref.algebra.named_rules import (
    Domain,
    Keeps,
    Pattern,
    Rule,
    any_node,
    constant,
    floating,
    match,
)
from tinyref.algebra.semantics import apply
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.formats.text import to_text
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import oracles
from tinyref_spec.proofs import conformance, floats, patterns, prover, record, semantics
from tinyref_spec.proofs.law import LAWS, Proof
from tinyref_spec.proofs.laws import laws_of
from tinyref_spec.proofs.patterns import constants_of
from tinyref_spec.proofs.prover import ProofResult

RULES = {rule.name: rule for rule in ALL_RULES.rules}
COMMITTED = record.committed_proofs()


@pytest.mark.long
@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_proved_as_the_record_says(name: str) -> None:
    assert record.prove(RULES[name]) == COMMITTED[name], "run: python -m tinyref_spec.proofs"


def test_the_record_has_every_rule_and_every_law() -> None:
    assert set(COMMITTED) == set(RULES)
    assert set(LAWS) <= set(RULES)
    for name, proof in COMMITTED.items():
        assert 0 <= proof.laws - len(laws_of(name)) <= 2, name
        assert proof.proofs, name
        if RULES[name].domain.family == "floats":
            assert proof.proofs == (Proof.FLOAT16,), name


def test_the_counts_meet_the_target() -> None:
    """Require z3 for 95 % of the rules on integers and bools, and a proof for every rule."""
    counts = record.counts(COMMITTED.values())
    assert counts["rules"] == len(RULES)
    proved = counts["bit-vectors"] + counts["bounded integers"]
    assert proved / (proved + counts["exhaustively"]) >= 0.95


@pytest.mark.sampled(9)
@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(LAWS))
def test_rules_do_what_their_laws_say(name: str, count: int) -> None:
    """Fire rules on instances of their laws, and compare the result with the left side.

    The solver may give up on one instance in ten.
    """
    answers: Counter[ProofResult] = Counter()
    for law in laws_of(name) if count > 4 else laws_of(name)[:12]:
        for dtype in law.over:
            for node, result in conformance.firings(RULES[name], law, dtype, 1, count):
                answer, detail = conformance.same_value(node, result)
                said = f"{law.label}: {to_text(node)} -> {to_text(result)}: {detail}"
                assert answer is not ProofResult.REFUTED, said
                answers[answer] += 1
    assert answers[ProofResult.UNKNOWN] * 10 <= sum(answers.values())
    assert answers or count == 4


STATED = [name for name in RULES if name not in LAWS and constants_of(RULES[name].pattern)]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", STATED)
def test_rules_do_with_constants_what_they_do_with_all(name: str) -> None:
    """Prove a rule that reads the values of its constants for some of them, too."""
    for equation in patterns.equations(RULES[name], (0, 1, 3, -1)):
        answer, detail = prover.by_bits(equation)
        assert answer is ProofResult.PROVED, f"{equation}: {detail}"


@pytest.mark.long
@pytest.mark.sampled(13)
@pytest.mark.parametrize("op", INTEGER_BINARY, ids=lambda op: op.name)
def test_folding_constants_at_8_bits(op: Ops) -> None:
    """Compare all pairs of bytes with Python's integers, and the rule for some of them."""
    for dtype in (dtypes.int8, dtypes.uint8):
        every = np.arange(int(dtype.minimum), int(dtype.maximum) + 1).astype(numpy_dtype(dtype))
        first, second = (side.ravel() for side in np.meshgrid(every, every, indexing="ij"))
        expected = oracles.evaluate(op.name, dtype, [first, second])
        specified = np.ones(first.size, bool) if expected.specified is None else expected.specified
        results = apply(op, dtype, [first, second])
        np.testing.assert_array_equal(results[specified], expected.values[specified])
        for index in range(0, first.size, 217):
            constants = [build.const(dtype, int(side[index])) for side in (first, second)]
            node = build.binary(op, *constants)
            folded = RULES[record.FOLDING](node)
            assert folded is build.const(node.dtype, results[index].item())


TERMS = (*INTEGER_BINARY, Ops.NEG, Ops.MULACC, Ops.WHERE)
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
        drawn = [int(number) for number in generator.integers(low, high, 3, endpoint=True)]
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
        folded = RULES[record.FOLDING](node)
        assert folded is not None
        assert same_term(semantics.Bits(), node, folded), f"{op.name} {dtype.name} {operands}"
        if op not in BIT_OPS:
            integers = semantics.Integers(wraps=True)
            assert same_term(integers, node, folded), f"{op.name} {dtype.name} {operands}"


def same_term(table: semantics.Semantics, node: UOp, wanted: UOp) -> bool:
    """Return True if a term of constants equals a constant, by computing or by the solver."""
    equal = z3.simplify(table.term(node) == table.term(wanted))
    if z3.is_true(equal):
        return True
    return prover.claim(table.definitions, equal)[0] is ProofResult.PROVED


WHOLE = [*(dtype for dtype in dtypes.all if dtype.is_int), dtypes.bool]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", WHOLE, ids=lambda dtype: dtype.name)
def test_casts_of_the_solver_agree_with_the_semantics(source: DType) -> None:
    for target in WHOLE:
        low, high = int(source.minimum), int(source.maximum)
        for value in {low, high, (low + high) // 2, high - 1, 0, 1}:
            node = UOp(Ops.CAST, target, (build.const(source, value),))
            folded = RULES[record.FOLDING](node)
            assert folded is not None
            for table in (semantics.Bits(), semantics.Integers(wraps=True)):
                assert same_term(table, node, folded), (source, target, value)


def test_the_sizes_of_quotients_and_remainders_follow_from_their_definition() -> None:
    answers = list(prover.lemmas())
    assert len(answers) == 4
    assert {answer for _, answer in answers} == {ProofResult.PROVED}


# Floats


@pytest.mark.long
@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", dtypes.floats[::-1], ids=lambda dtype: dtype.name)
def test_float_rules_of_every_type_keep_what_they_state(dtype: DType) -> None:
    for rule in ALL_RULES.rules:
        if rule.domain.family == "floats":
            losses = [missing for _, missing in floats.losses(rule, dtype, (dtype,))]
            assert losses
            assert not set().union(*losses), rule.name


def x_of(x: UOp) -> UOp:
    return x


@pytest.mark.parametrize(
    ("op", "value", "function", "missing"),
    [
        (Ops.ADD, 0.0, x_of, Keeps.SIGNED_ZERO),
        (Ops.MUL, 0.0, lambda x: build.const(x.dtype, 0.0), Keeps.NAN),
        (Ops.FDIV, 3.0, lambda x: build.mul(x, 1 / 3), Keeps.ROUNDING),
        (Ops.MUL, 65504.0, x_of, Keeps.INFINITY),
    ],
)
def test_wrong_float_rules_are_caught(
    op: Ops, value: float, function: Callable[[UOp], UOp], missing: Keeps
) -> None:
    wrong = rule_of(match(op, any_node("x"), constant(value)), function)
    (losses,) = [lost for _, lost in floats.losses(wrong, dtypes.float16, (dtypes.float16,))]
    assert missing in losses


def rule_of(pattern: Pattern, function: Callable[[UOp], UOp]) -> Rule:
    return Rule("wrong", pattern, function, ("x",), Domain("floats", floating), "x == x.")
