"""Simplifications that must not be lost: a loss is seen, and what owes nothing does not count."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import pytest

from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import add, idiv, less, mod, mul
from tinyref_spec.case import Measurement, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.simplified import NEVER, rows
from tinyref_spec.proofs import kept
from tinyref_spec.proofs.law import LAWS, Equation
from tinyref_spec.proofs.laws import laws_of

x = build.variable("x", 0, 40, dtypes.int32)
few = build.variable("few", 4, 7, dtypes.int32)
any_word = build.variable("w", 0, 2**32 - 1, dtypes.uint32)
ROWS = {row.id.removeprefix("kernel.simplified."): row for row in rows()}
# Of rules whose sides differ by more than an order; each is the only way from left to right.
SEEN = [
    *("int-mul-mul", "div-nested", "mod-of-mod", "div-factor", "mod-from-div", "mod-join"),
    *("lt-sum", "ne-div", "bit-mask", "where-again-left", "cast-cast-wrap", "bool-absorb-and"),
]


class NoDevice:
    """What a row of the compiler asks of a device: nothing."""

    def on_rung(self, rung: object) -> NoDevice:
        return self


def measured(rule: str) -> Measurement:
    (case,) = ROWS[rule].cases(Profile.QUICK)
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


@pytest.mark.parametrize(("equation", "wanted"), COUNTED)
def test_which_instances_count(equation: Equation, wanted: bool) -> None:
    assert kept.counts(equation) is wanted


def test_the_larger_side_is_named() -> None:
    law = laws_of("div-nested")[0]
    lost = kept.lost_simplification(law, Equation(mul(add(x, few), x), add(x, few)))
    assert lost is not None
    assert "of 2 operations where" in lost.describe()
    assert kept.lost_simplification(law, Equation(add(x, few), mul(add(x, few), x))) is None


@pytest.mark.long
def test_every_rule_with_a_law_has_a_row_that_passes() -> None:
    assert set(ROWS) == set(LAWS) - set(NEVER)
    for rule in ROWS:
        found = measured(rule)
        assert found.passed, found.message
        assert found.compared >= 10, rule
