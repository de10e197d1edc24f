"""Fuzzed kernels of the suite: what they owe is right, and what is wrong is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wrong_device import Wrong

from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest, slots_of
from tinyref_spec.kernel import fuzzed as kernels

PYTHON = DeviceUnderTest("PYTHON")
KERNELS = kernels.kernels()
each_kernel = pytest.mark.parametrize("fuzzed", KERNELS, ids=lambda it: f"{it.policy}-{it.number}")
CASES = catalogue.cases(Profile.QUICK, "kernel.fuzzed")


def test_there_are_many_and_each_has_its_cases():
    assert len(KERNELS) >= 100
    assert {each.id for each in CASES} == {
        *(f"kernel.fuzzed.{it.policy}:{it.number}.plain" for it in KERNELS),
        *(f"kernel.fuzzed.{it.policy}:{it.number}.heuristics" for it in KERNELS),
        *(f"kernel.fuzzed.{it.policy}:{it.number}.opts0" for it in KERNELS if it.record["opts"]),
    }


@pytest.mark.table
@each_kernel
def test_what_a_kernel_owes_is_what_it_computes(fuzzed: kernels.Fuzzed):
    """By the evaluator, which most of the file was written by: it says what it said then."""
    case = fuzzed.case
    written = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
    slots = [slot.number for slot in slots_of(case.ast) if slot.is_written]
    for slot, owed in zip(slots, fuzzed.owed, strict=True):
        found = written.get(slot, case.buffers[slot])
        np.testing.assert_array_equal(found.astype(owed.dtype), owed)
        assert found.dtype == owed.dtype


@pytest.mark.table
@each_kernel
def test_a_kernel_that_writes_nothing_does_not_pass(fuzzed: kernels.Fuzzed):
    written = [slot.number for slot in slots_of(fuzzed.case.ast) if slot.is_written]
    before = [fuzzed.case.buffers[slot] for slot in written]
    assert any(b.tobytes() != o.tobytes() for b, o in zip(before, fuzzed.owed, strict=True))


@pytest.mark.sampled(10)
@each_kernel
def test_a_wrong_result_fails(fuzzed: kernels.Fuzzed):
    assert kernels.run_plain(fuzzed, "id", PYTHON).passed
    found = kernels.run_plain(fuzzed, "id", Wrong("PYTHON"))
    assert not found.passed
    assert found.details is not None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "is no JSON"),
        ("{}", "list: expected a list"),
        ("[[]]", "item 0: expected an object"),
        ('[{"policy": "small"}]', "item 0: expected a member 'case', got none"),
    ],
)
def test_a_broken_file_is_reported(tmp_path: Path, text: str, problem: str):
    file = tmp_path / "kernels.json"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        kernels.kernels(file)
    assert str(caught.value).startswith(f"{file}: {problem}")
