"""Runs rows of the quick profile and says which of their cases fail."""

from __future__ import annotations

from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest


def failed(query: str, device: str = "PYTHON", dtype: str = "") -> list[str]:
    """The ids of the cases that fail, an error on the way included; those of `dtype` if named."""
    under_test = DeviceUnderTest(device)
    listed = [case for case in catalogue.cases(Profile.QUICK, query) if dtype in case.dtype]
    assert listed
    names = []
    for case in listed:
        try:
            passed = case.run(under_test).passed
        except Exception:
            passed = False
        names += [] if passed else [case.id]
    return names
