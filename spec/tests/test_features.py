"""A device that hides a feature it has, or that lacks one it declares, is found out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from tinyref.capabilities import Capabilities
from tinyref.device import Device
from tinyref.runtimes import kernel
from tinyref.runtimes.python import PythonBackend
from tinyref_spec import catalogue
from tinyref_spec.case import Measurement
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.features import FEATURES

LITTLE = {
    "has_grid": False,
    "has_groups": False,
    "vector_lanes": (1,),
    "images": False,
    "matrix_tiles": (),
}
MUCH = {"has_grid": True, "has_groups": True, "vector_lanes": (1, 2, 4, 8, 16)}


def declare(monkeypatch: pytest.MonkeyPatch, backend: type, changes: dict) -> None:
    healthy: Capabilities = backend(0).capabilities
    changed = dataclasses.replace(healthy, **changes)
    monkeypatch.setattr(backend, "capabilities", property(lambda self: changed))


def run(feature: str, device: str) -> Measurement:
    case_id = f"kernel.program.capability.{feature.replace(':', '')}.both_ways"
    return catalogue.find(case_id).run(DeviceUnderTest(device))


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PYTHON leaves what it can do out of its declaration; no kernel was loaded before."""
    declare(monkeypatch, PythonBackend, LITTLE)
    kernel.forget_kernels()
    yield
    kernel.forget_kernels()


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("feature", FEATURES)
def test_a_hidden_feature_is_refused(feature: str) -> None:
    measured = run(feature, "PYTHON")
    assert measured.passed
    assert "(capabilities." in measured.observed


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("feature", FEATURES)
def test_a_hidden_feature_that_is_accepted_fails(
    monkeypatch: pytest.MonkeyPatch, feature: str
) -> None:
    monkeypatch.setattr(kernel, "check_program", lambda program, capabilities: None)
    measured = run(feature, "PYTHON")
    assert not measured.passed
    assert "was accepted" in measured.message


@pytest.mark.parametrize("feature", ["grid", "groups"])
def test_a_feature_that_is_declared_in_vain_fails(
    monkeypatch: pytest.MonkeyPatch, feature: str
) -> None:
    from tinyref.errors import TinyrefError
    from tinyref.runtimes.host.cpu import CpuBackend

    # It is opened before: an open checks what is declared.
    assert Device["CPU"]
    declare(monkeypatch, CpuBackend, MUCH)
    # The runner counts an error of the device as a failure of the case.
    with pytest.raises(TinyrefError, match=r"SPECIAL: a host has no (group|item) index"):
        run(feature, "CPU")
