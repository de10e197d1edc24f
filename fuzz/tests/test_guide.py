"""Guidance: what was seldom reached weighs more, within limits, and what never was is listed."""

from __future__ import annotations

from collections import Counter

from tinyref.algebra.simplify import ALL_RULES
from tinyref.optimise.opt import OptOp
from tinyref_fuzz.campaign.guide import (
    NOT_IN_KERNELS,
    STRONGEST,
    factors,
    guidance,
    missing_coverage,
    possible_pairs,
)


def test_what_was_reached_seldom_weighs_more_and_what_was_reached_often_less():
    found = factors({"a": 0, "b": 8, "c": 99})
    assert found == {"a": 3.0, "b": 1.0, "c": 0.3}


def test_no_factor_is_beyond_the_strongest():
    found = factors({"never": 0, "often": 10**9, "some": 10**4, "more": 10**4})
    assert found["never"] == STRONGEST == 4.0
    assert found["often"] == 0.25


def test_without_counts_nothing_is_preferred():
    found = guidance({}, {})
    assert set(found["opts"].values()) == {1.0}


def test_optimisations_that_are_missing_are_asked_for():
    pairs = Counter({pair: 50 for pair in possible_pairs() if "PACK" not in pair.split()})
    pairs["UPCAST PACK"] = 1
    found = guidance({}, pairs)
    assert 3.5 < found["opts"]["PACK"] <= 4.0
    assert 1.0 < found["opts"]["UPCAST"] < 2.0


def test_a_pair_that_never_met_is_asked_for_among_those_that_the_device_accepts():
    ops = (OptOp.UPCAST, OptOp.UNROLL, OptOp.THREAD, OptOp.PACK)
    pairs = Counter({pair: 500 for pair in possible_pairs(ops) if pair != "THREAD PACK"})
    found = guidance({}, pairs)["opts"]
    # The mean over seven pairs, of which one weighs four times as much as the others.
    assert found["THREAD"] == found["PACK"] == 1.429
    assert found["UPCAST"] == found["UNROLL"] == 1.0
    # What the device refuses is not held against the others.
    assert found["LOCAL"] == found["GROUP"] == found["TC"] == 1.0


def test_pairs_have_an_order_and_a_tile_comes_first():
    pairs = possible_pairs()
    assert "UPCAST LOCAL" in pairs
    assert "LOCAL UPCAST" in pairs
    assert "TC UPCAST" in pairs
    assert "UPCAST UPCAST" in pairs
    assert "UPCAST TC" not in pairs
    assert "NOLOCALS NOLOCALS" not in pairs


def test_the_page_names_what_was_never_reached():
    rules = {rule.name: 1 for rule in ALL_RULES.rules if rule.name not in NOT_IN_KERNELS}
    del rules["div-nested"]
    known = [pair for pair in possible_pairs() if "PACK" not in pair.split()]
    pairs = {pair: 1 for pair in known if pair != "GROUP UNROLL"}
    missing = missing_coverage(rules, pairs)
    assert [name for name, _ in missing.rules] == ["div-nested"]
    assert missing.pairs == ("GROUP UNROLL",)
    assert missing.alone == ("PACK",)
    assert set(missing.by_hand) == NOT_IN_KERNELS
    text = missing.text()
    assert "- `div-nested`: (x // c) // d == x // (c * d)" in text
    assert "- GROUP UNROLL" in text
    assert "Never in a list with another: PACK. What the device refuses is among them." in text
    assert "PACK UPCAST" not in text


def test_the_rules_that_need_no_kernel_exist():
    assert {rule.name for rule in ALL_RULES.rules} >= NOT_IN_KERNELS
