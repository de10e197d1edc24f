"""Simplifications that must not be lost: a loss is seen, and what owes nothing does not count."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import cast

import pytest
from no_device import NoDevice

from tinyref.algebra import linear
from tinyref.algebra.bounds import bounds
from tinyref.algebra.rules import boolean
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import add, idiv, less, mod, mul
from tinyref.uops.node import UOp, forget_facts
from tinyref.uops.ops import Ops
from tinyref_spec.case import Case, Measurement, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.simplified import NEVER, rows
from tinyref_spec.proofs import kept, known_ranges
from tinyref_spec.proofs.law import LAWS, Equation
from tinyref_spec.proofs.laws import laws_of

x = build.variable("x", 0, 40, dtypes.int32)
small = build.variable("s", 0, 16, dtypes.int8)
below = build.variable("below", -8, -1, dtypes.int32)
few = build.variable("few", 4, 7, dtypes.int32)
any_word = build.variable("w", 0, 2**32 - 1, dtypes.uint32)
huge = build.variable("h", 0, 2**64 - 1, dtypes.uint64)
ROWS = {row.id.removeprefix("kernel.simplified."): row for row in rows()}
GATES, EXPRESSIONS, SIZES = "behind_gates", "expressions", "kernel.known_range.size"
CHAINS = "kernel.known_view.chains"
RANGES = {rule: row for rule, row in ROWS.items() if rule.startswith("kernel.known_range.")}
# Rules that are each the only way from left to right; of some both sides are as large.
SEEN = [
    *("int-mul-mul", "div-nested", "mod-of-mod", "div-factor", "mod-from-div", "mod-join"),
    *("shift-left-index", "int-sub", "int-neg", "bool-xor", "lt-div"),
    *("lt-sum", "ne-div", "bit-mask", "where-again-left", "cast-cast-wrap", "bool-absorb-and"),
]


def measured(rule: str) -> Measurement:
    *_, case = ROWS[rule].cases(Profile.QUICK)
    return case.run(cast(DeviceUnderTest, NoDevice()))


@pytest.mark.parametrize("rule", SEEN)
def test_a_rule_that_no_longer_fires_is_seen(rule: str) -> None:
    assert measured(rule).passed
    with ALL_RULES.without({rule}):
        found = measured(rule)
    assert not found.passed
    assert f"rule {rule} no longer fires" in found.message
    assert found.details is not None
    assert len(found.details.script.splitlines()) <= 40


def test_a_script_shows_the_loss_by_itself() -> None:
    with ALL_RULES.without({"div-nested"}):
        details = measured("div-nested").details
    assert details is not None
    shown = subprocess.run(
        [sys.executable, "-c", details.script], capture_output=True, text=True, check=True
    ).stdout
    # The healthy compiler makes one expression of both.
    left, right = shown.split("right becomes\n")
    assert left.removeprefix("left becomes\n") == right


def forgetting_lower_limits(
    part: UOp, bound_of: Callable[[UOp], tuple[UOp, int, bool] | None] = boolean._bound_of
) -> tuple[UOp, int, bool] | None:
    """Of x >= c what is known of x < c."""
    found = bound_of(part)
    return None if found is None else (found[0], found[1], False)


@pytest.mark.parametrize("row", ["bool-join", EXPRESSIONS])
def test_a_simplification_that_changes_a_value_is_seen(
    row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boolean, "_bound_of", forgetting_lower_limits)
    found = measured(row)
    assert not found.passed
    assert "once it is simplified" in found.message
    assert found.details is not None
    assert "simplify(node)" in found.details.script


def test_a_range_that_is_wider_than_its_operands_make_it_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of operations within expressions too, whose operands are no variables."""
    node = add(mul(x, few), idiv(x, 3))
    assert known_ranges.wide_range(node) is None
    real = bounds
    monkeypatch.setattr(
        known_ranges, "bounds", lambda each: (0, 300) if each is node else real(each)
    )
    found = known_ranges.wide_range(node)
    assert found is not None
    assert "the range (0, 300) that is known of ADD of int32 is wider" in found.describe()
    assert "wanted (0, 293)" in found.describe()
    (_, case) = ROWS[EXPRESSIONS].cases(Profile.QUICK)
    monkeypatch.setattr(known_ranges, "bounds", lambda each: (-(2**31), 2**31 - 1))
    assert "is wider" in case.run(cast(DeviceUnderTest, NoDevice())).message


@pytest.mark.table
@pytest.mark.parametrize("op", known_ranges.OPS)
def test_the_widest_range_that_may_be_known_is_that_of_all_values(op: Ops) -> None:
    """Of an index, which never wraps; of bits and remainders it holds them, and has their sign."""
    for node in known_ranges.drawn(op, dtypes.index, "widest", 120):
        spans = [known_ranges._ends(leaf) for leaf in node.src]
        values = known_ranges._values(node)
        found = int(values.min()), int(values.max())
        low, high = known_ranges._widest(node, spans) or (1, 0)
        assert low <= found[0]
        assert found[1] <= high
        if op not in (*known_ranges.BY_BITS, Ops.MOD, Ops.CAST):
            assert (low, high) == found, node
        elif op is not Ops.XOR:
            assert (low < 0) == (min(found[0], low) < 0)


# Sums of int8 that wrap: all by the same number of turns, or not all.
WRAPPED = [((100, 110), (30, 40), (-126, -106)), ((100, 110), (20, 30), (-128, 127))]


@pytest.mark.parametrize(("left", "right", "wanted"), WRAPPED)
def test_the_widest_range_of_what_wraps(
    left: tuple[int, int], right: tuple[int, int], wanted: tuple[int, int]
) -> None:
    node = add(*(build.variable(n, *s, dtypes.int8) for n, s in (("p", left), ("q", right))))
    assert known_ranges._widest(node, (left, right)) == wanted
    assert known_ranges.wrong_range(node) is None


def test_nothing_is_owed_of_divisions_by_what_may_be_zero_and_of_counts_that_are_none() -> None:
    divisor = build.variable("d", -1, 3, dtypes.int32)
    assert known_ranges.wide_range(idiv(x, divisor)) is None
    assert known_ranges._widest(mod(x, divisor), ((0, 40), (-1, 3))) is None
    assert known_ranges._widest(UOp(Ops.SHL, dtypes.int32, (x, x)), ((0, 1), (0, 32))) is None
    number = build.cast(build.variable("v", 0, 9, dtypes.int32), dtypes.float32)
    assert known_ranges.wide_range(number) is None
    assert known_ranges.wide_range(build.cast(number, dtypes.int32)) is None


def test_a_product_that_wraps_is_any_number_before_more_is_added() -> None:
    """Of int8: 3 to 4 times 127 wraps; 2 to 3 times 5, and 7 more, does not."""
    x, y, z = (build.variable(name, 0, 1, dtypes.int8) for name in "xyz")
    node = UOp(Ops.MULACC, dtypes.int8, (x, y, z))
    assert known_ranges._widest(node, ((3, 4), (127, 127), (-128, -127))) == (-128, 127)
    assert known_ranges._widest(node, ((2, 3), (5, 5), (7, 7))) == (17, 22)
    assert known_ranges.wide_range(node) is None


def test_a_choice_is_as_wide_as_its_condition_leaves_it() -> None:
    limited = build.where(less(x, 5), x, 0)
    assert known_ranges._widest(limited, ((0, 1), (0, 40), (0, 0))) == (0, 4)
    reached = build.where(less(few, x), x, 9)
    assert known_ranges._widest(reached, ((0, 1), (0, 40), (9, 9))) == (5, 40)
    # What can never hold limits nothing.
    bit = build.variable("bit", 0, 1, dtypes.int32)
    never = build.where(less(bit, bit), bit, 50)
    assert known_ranges._widest(never, ((0, 1), (0, 1), (50, 50))) == (0, 50)
    assert known_ranges._widest(limited, ((1, 1), (3, 4), (0, 0))) == (3, 4)


def test_a_sum_that_wraps_unseen_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    (case, _) = ROWS[EXPRESSIONS].cases(Profile.QUICK)
    device = cast(DeviceUnderTest, NoDevice())
    assert case.run(device).passed
    # What is known of a node stays with it while it lives.
    forget_facts()
    monkeypatch.setattr(linear, "_does_not_wrap", lambda node: True)
    found = case.run(device)
    assert not found.passed
    assert "a sum taken apart of" in found.message


# An expression, what it is believed to be, and what is said of that; "" where it is right.
BELIEVED = [
    (add(x, few), add(few, x), ""),
    (add(x, few), add(x, 4), "an expression of int32 gives 4 instead of 5 for x = 0, few = 5"),
    # The ends of a range of which not all values are tried.
    (mod(any_word, 256), any_word, "instead of"),
    (less(any_word, 2**32 - 1), build.const(dtypes.bool, True), "for w = 4294967295"),
    # Where an index has no such value, nothing is owed.
    (build.cast(huge, dtypes.index), build.const(dtypes.index, 0), ""),
]


@pytest.mark.table
@pytest.mark.parametrize(("node", "simple", "said"), BELIEVED)
def test_the_values_of_an_expression_are_compared(
    node: UOp, simple: UOp, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "simplify", lambda each: simple)
    found = kept.changed_value(node, "an expression")
    assert (found is None) is (said == "")
    assert found is None or said in found.describe()


def test_a_range_that_leaves_out_values_of_an_expression_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert kept.changed_value(mul(add(x, few), 2), "an expression") is None
    monkeypatch.setattr(kept, "bounds", lambda node: (9, 94))
    found = kept.changed_value(mul(add(x, few), 2), "an expression")
    assert found is not None
    assert "leaves out values: wanted (8, 94)" in found.describe()


n, m = build.variable("n", 2, 9), build.variable("m", 1, 4)


def test_another_end_of_a_size_is_seen() -> None:
    assert known_ranges.wrong_end(add(mul(n, m), -2), (0, 34)) is None
    for ends in ((-1, 34), (1, 34), (0, 35), (0, 33)):
        found = known_ranges.wrong_end(add(mul(n, m), -2), ends)
        assert found is not None
        assert found.describe() == f"(0, 34) are known for the ends of n*m+-2: wanted {ends}"
        assert "known" in found.script()


def test_the_ends_of_drawn_sizes_are_those_of_all_their_values() -> None:
    for size, ends in known_ranges.drawn_sizes("sizes", 40):
        values = known_ranges._values(size)
        assert (values.min(), values.max()) == ends


# What an instance is, and whether its rule owes anything.
COUNTED = [
    (Equation(idiv(idiv(x, 3), 5), idiv(x, 15)), True),
    # The condition does not hold for 0.
    (Equation(idiv(x, 3), x, given=(less(0, x),)), False),
    (Equation(idiv(x, 3), x, given=(less(x, 41),)), True),
    # All values cannot be tried.
    (Equation(idiv(any_word, 3), any_word, given=(less(any_word, 41),)), False),
    # A quotient that is always 1 is a constant before, and a remainder a difference.
    (Equation(add(mul(idiv(few, 4), 4), mod(x, 4)), x), False),
    (Equation(mul(mod(few, 4), 3), x), False),
    # What wraps is no sum of integers.
    (Equation(add(mul(any_word, 8), 1), any_word), False),
    (Equation(add(mul(x, 8), 1), x), True),
]


@pytest.mark.table
@pytest.mark.parametrize(("equation", "wanted"), COUNTED)
def test_which_instances_count(equation: Equation, wanted: bool) -> None:
    assert kept.counts(equation) is wanted


def test_the_larger_side_is_named() -> None:
    law = laws_of("div-nested")[0]
    lost = kept.lost_simplification(law, Equation(mul(add(x, few), x), add(x, few)))
    assert lost is not None
    assert "int32 of 2 operations, of which" in lost.describe()
    assert kept.lost_simplification(law, Equation(add(x, few), mul(add(x, few), x))) is None


@pytest.mark.long
def test_every_rule_with_a_law_has_a_row_that_passes() -> None:
    assert set(ROWS) == {*(set(LAWS) - set(NEVER)), *RANGES, GATES, EXPRESSIONS, CHAINS}
    for rule in ROWS:
        found = measured(rule)
        assert found.passed, found.message
        assert found.compared >= 10, rule


# A node, a range that might be known of it, and what is said of that one; "" where it is right.
KNOWN = [
    (add(few, x), (4, 47), ""),
    (add(few, x), (4, 48), "is wider"),
    (add(few, x), (5, 47), "leaves out"),
    (idiv(x, few), (0, 10), ""),
    (idiv(x, few), (0, 11), "is wider"),
    # Of remainders and bits the whole range is not known, but their sign and number are.
    (mod(x, few), (0, 6), ""),
    (mod(x, few), (-1, 6), "is wider"),
    (mod(x, few), (0, 7), "is wider"),
    (build.both(x, few), (0, 7), ""),
    (build.both(x, few), (0, 8), "is wider"),
    (build.either(x, few), (0, 63), ""),
    (build.either(x, few), (0, 64), "is wider"),
    (build.either(below, few), (-8, -1), ""),
    (build.either(below, few), (-8, 0), "is wider"),
    # 16 does not fit where products wrap.
    (mul(small, small), (-128, 127), ""),
    (mul(x, few), (0, 280), ""),
    (build.cast(few, dtypes.bool), (1, 1), ""),
    (build.cast(few, dtypes.bool), (0, 1), "is wider"),
    (build.cast(x, dtypes.bool), (1, 1), "leaves out"),
    (mul(x, few), (0, 281), "is wider"),
]


@pytest.mark.table
@pytest.mark.parametrize(("node", "known", "said"), KNOWN)
def test_a_range_that_leaves_out_values_or_is_too_wide_is_seen(
    node: UOp, known: tuple[int, int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_ranges, "bounds", lambda each: known)
    wrong = known_ranges.wrong_range(node)
    assert (wrong is None) is (said == "")
    assert wrong is None or said in wrong.describe()
    assert wrong is None or "wanted" in wrong.script()


@pytest.mark.table
@pytest.mark.parametrize("row", RANGES)
def test_what_is_known_of_the_range_of_an_op(row: str) -> None:
    found = measured(row)
    assert found.passed, found.message
    assert found.compared == (60 if row == SIZES else 240)


@pytest.mark.table
@pytest.mark.parametrize("case", ROWS[GATES].cases(Profile.QUICK), ids=lambda case: case.id)
def test_what_a_gate_says_that_is_no_longer_known_is_seen(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = cast(DeviceUnderTest, NoDevice())
    found = case.run(device)
    assert found.passed, found.message
    assert found.compared >= 5
    # Without facts nothing but the ranges of the leaves is known.
    monkeypatch.setattr("tinyref.algebra.simplify._facts", lambda conditions: [])
    found = case.run(device)
    assert not found.passed
    assert found.details is not None
    assert "given.append" in found.details.script
