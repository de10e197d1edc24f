"""Fuzzed kernels of the suite: a right device passes them, a wrong result fails."""

from __future__ import annotations

import pytest
from wrong_device import Wrong

from tinyref_spec import catalogue
from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.regressions import fuzzed

PYTHON = DeviceUnderTest("PYTHON")
KERNELS = [f"{name}:{at}" for name, alike in fuzzed().items() for at in range(len(alike))]
CASES = catalogue.cases(Profile.QUICK, "kernel.fuzzed")
PLAIN = [case for case in CASES if case.id.endswith(".plain")]


def test_there_are_many_and_each_has_its_cases():
    assert len(KERNELS) >= 100
    ways = ("plain", "opts0", "heuristics")
    assert {case.id for case in CASES} == {
        f"kernel.fuzzed.{kernel}.{way}" for kernel in KERNELS for way in ways
    }


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.id.endswith(".plain")], ids=lambda case: case.id
)
def test_a_wrong_result_fails(case: Case) -> None:
    assert case.run(PYTHON).passed
    found = case.run(Wrong("PYTHON"))
    assert not found.passed
    assert found.details is not None
