"""Run cases, and return the problems of those that fail."""

from __future__ import annotations

from collections.abc import Iterable

from tinyref_spec import catalogue
from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest


def failures(device: DeviceUnderTest, cases: Iterable[Case]) -> dict[str, str]:
    """Map each case that the device must pass and fails to its problem; an error is a failure."""
    problems = {}
    for case in cases:
        if case.needs.unmet(device.capabilities) is not None:
            continue
        try:
            result = case.run(device)
        except Exception as error:
            problems[case.id] = f"{type(error).__name__}: {error}"
            continue
        if not result.passed or not result.compared:
            problems[case.id] = result.message
    return problems


def failed(query: str, device: str = "PYTHON") -> list[str]:
    """Return the ids of the cases of the quick profile that fail on a device."""
    cases = catalogue.cases(Profile.QUICK, query)
    assert cases
    return list(failures(DeviceUnderTest(device), cases))
