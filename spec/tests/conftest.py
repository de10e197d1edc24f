"""Devices that the tables are tested with; makes the helpers in this folder importable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tinyref_spec.device_under_test import DeviceUnderTest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def interpreter() -> DeviceUnderTest:
    return DeviceUnderTest("PYTHON")


@pytest.fixture(scope="session")
def cpu() -> DeviceUnderTest:
    return DeviceUnderTest("CPU")
