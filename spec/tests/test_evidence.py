"""Conditions hold for the elements that they name; distances are counted in bins that end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tinyref_spec import catalogue
from tinyref_spec.accuracy import Accuracy, accuracy_of
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.evidence import Elements, Evidence, evidence_of


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def counts(
    actual: Any, expected: Any, *inputs: Any, before: Any = None, offset: int = 0
) -> Evidence:
    bad = actual.view(f"u{actual.itemsize}") != expected.view(f"u{actual.itemsize}")
    return evidence_of(Elements(actual, expected, bad, inputs, before, offset))


def explaining(found: Evidence) -> set[str]:
    wrong = found.elements[0]
    return {name for name, with_it in found.conditions.items() if with_it == (wrong, 0)}


@pytest.mark.parametrize(
    ("actual", "expected", "given", "names"),
    [
        (f32(0, 2, 3), f32(1e-40, 2, 3), f32(1, 2, 3), {"subnormal", "zero", "first"}),
        (f32(1, 0, 3), f32(1, -0.0, 3), f32(1, 2, 3), {"negative-zero", "sign-of-zero"}),
        (f32(1, 2, 0), f32(1, 2, math.nan), f32(1, 2, 3), {"nan", "nan-lost", "zero", "last"}),
        (f32(1, math.nan), f32(1, 2), f32(1, math.inf), {"infinite", "nan-made", "last"}),
        (f32(1, math.inf), f32(1, 3e38), f32(1, 2), {"infinity-made", "last"}),
        (f32(-1, 2), f32(1, 2), f32(1, 2), {"negated", "first"}),
        (f32(1, 4, 3, 2), f32(1, 2, 3, 4), f32(1, 2, 3, 4), {"other-place", "lane-1-of-2"}),
        (f32(1, 2), f32(1, np.nextafter(f32(2), f32(3))[0]), f32(1, 2), {"truncated"}),
    ],
)
def test_floats_meet_what_they_should(actual: Any, expected: Any, given: Any, names: Any) -> None:
    conditions = explaining(counts(actual, expected, given))
    assert names <= conditions
    # What only others are of: integers, and conditions of another line.
    others = {"subnormal", "negative-zero", "nan", "infinite", "infinity-made", "nan-made"}
    assert not ({*others, "one-below", "low-half"} - names) & conditions


def test_integers_meet_what_they_should() -> None:
    large, small = 2**24 + 1, 2**24 - 1
    right = np.array([large, small, 5], np.int64)
    assert "above-2^24" in explaining(counts(np.array([2**24, small, 5]), right, right))
    dividend, divisor = np.array([-7, 7, 6]), np.array([2, 2, 3])
    floor = explaining(counts(np.array([-4, 3, 2]), np.array([-3, 3, 2]), dividend, divisor))
    assert {"one-below", "different-signs", "negative"} <= floor
    truncated = explaining(counts(np.array([5, 1]), np.array([5 + 2**40, 1])))
    assert "low-half" in truncated
    saturated = counts(np.array([127, 1], np.int8), np.array([-126, 1], np.int8))
    assert "extreme" in explaining(saturated)


def test_bytes_of_words_and_old_contents_are_told() -> None:
    old, right = np.zeros(9, np.uint8), np.arange(1, 10, dtype=np.uint8)
    # The buffer begins two bytes after a multiple of 4: its elements 2 and 6 are at multiples.
    actual = np.where(np.arange(9) % 4 == 2, right, old)
    conditions = explaining(counts(actual, right, before=old, offset=2))
    assert {"off-word", "untouched"} <= conditions
    assert "off-word" not in explaining(counts(actual, right, before=old, offset=0))


@pytest.mark.parametrize(
    ("units", "names"),
    [
        ((-1, -2, -3, -4, -5, -6, -7, -16), {"few-units", "few-units-nearer"}),
        ((1, -2, 3, -4, 5, -6, 7, -8), {"few-units"}),
        ((-1, -2, -3, -4, -5, -6, -7), {"few-units"}),
        ((-1, -2, -3, -4, -5, -6, -7, -17), set()),
    ],
)
def test_values_that_lost_digits_are_a_few_units_away(units: Any, names: Any) -> None:
    right = np.full(len(units), 1.5, np.float16)
    actual = (right.view(np.uint16) + np.array(units).astype(np.uint16)).view(np.float16)
    conditions = explaining(counts(actual, right))
    assert {"few-units", "few-units-nearer"} & conditions == names


def test_evidence_adds_up_and_reads_back() -> None:
    first = Evidence((1, 2), {"nan": (1, 0)}, (1, 0), {"loop": (1, 0)}, (7, None))
    first.add(Evidence((0, 3), {"nan": (0, 2)}, (0, 1), {"gate": (0, 1)}, (9, 4)))
    evidence = Evidence((1, 5), {"nan": (1, 2)}, (1, 1), {"loop": (1, 0), "gate": (0, 1)}, (7, 4))
    assert first == evidence == Evidence.from_json(first.to_json())
    assert Evidence().to_json() == {}
    for damaged in ([], {"elements": [1]}, {"conditions": []}, {"launches": ["x", None]}):
        with pytest.raises(ValueError, match=r"object|integers"):
            Evidence.from_json(damaged)


@pytest.mark.parametrize(
    ("case", "forms"),
    [
        ("kernel.program.group.reverse:64", {"group", "barrier", "shared"}),
        ("kernel.program.gate.load", {"gate"}),
        ("kernel.program.vector4.float32.add", {"vector"}),
    ],
)
def test_a_measurement_says_of_what_forms_its_kernel_is(case: str, forms: set[str]) -> None:
    reported = catalogue.find(case).run(DeviceUnderTest("PYTHON")).evidence.forms
    assert forms <= set(reported)
    assert set(reported.values()) == {(0, 1)}


def test_accuracy_adds_up_and_reads_back() -> None:
    first = accuracy_of(np.array([0.0, 1, 2, math.inf]), np.array([0.0, 0.5, 1, 9]), None)
    first.add(accuracy_of(np.zeros(96), np.zeros(96), f32(*range(96))))
    assert first.histogram == {0: 97, 1: 1, 2: 1, 66: 1}
    assert (first.quantile(0.5), first.quantile(0.99), first.quantile(1)) == (0.0, 2.0, math.inf)
    assert first.share == 9
    assert Accuracy.from_json(first.to_json()) == first
    assert Accuracy().quantile(0.5) is None
    for damaged in ([], {"histogram": {"67": 1}}, {"operand": "int32"}, {"by_operand": 3}):
        with pytest.raises(ValueError, match=r"object|bin|float"):
            Accuracy.from_json(damaged)
