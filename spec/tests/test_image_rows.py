"""The rows of images: the interpreter passes them, and compilers that mix texels up do not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from simulated_device import SimulatedDevice

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.interpret import lanes
from tinyref.uops.node import UOp
from tinyref_spec import catalogue
from tinyref_spec.bits import Array
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import images

CAPABILITIES = Device["PYTHON"].capabilities


def interpreter_without_sanitizer() -> SimulatedDevice:
    """Return the PYTHON device without caches and sanitizer: it lets wrong values out."""
    return SimulatedDevice(CAPABILITIES, is_sanitized=False)


def failures(base: str) -> set[str]:
    """Return the forms that do not pass."""
    dtype = getattr(dtypes, base)
    return {
        form.__name__
        for form in images.FORMS
        if not images._computes(form, dtype, form.__name__, interpreter_without_sanitizer()).passed
    }


def test_a_device_without_images_owes_nothing_but_the_refusal(cpu: DeviceUnderTest) -> None:
    rows = [row for row in catalogue.all_rows() if row.id.startswith("kernel.image.")]
    cases = [case for row in rows for case in row.cases(Profile.FULL)]
    assert len(cases) == 2 * len(images.FORMS) + len(images.PARTS) + len(images.WIDE)
    assert all(case.needs.unmet(cpu.capabilities) for case in cases)
    both = catalogue.find("kernel.program.capability.images.both_ways")
    assert both.needs.unmet(cpu.capabilities) is None
    assert both.run(cpu).passed


def test_a_device_that_hides_its_images_is_found_out(
    interpreter: DeviceUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = dataclasses.replace(CAPABILITIES, images=False)
    monkeypatch.setattr(DeviceUnderTest, "capabilities", hidden)
    case = catalogue.find("kernel.program.capability.images.both_ways")
    assert not case.run(interpreter).passed


def test_texels_that_are_cut_short_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncate stores to float16 instead of rounding, as images of some devices do."""
    healthy = lanes.LaneMemory._write

    def truncated(self: lanes.LaneMemory, run: object, node: UOp, flat: Array, value: Array, *rest):
        if self.array.dtype == np.float16 and value.dtype == np.float32:
            value = (value.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        healthy(self, run, node, flat, value, *rest)

    monkeypatch.setattr(lanes.LaneMemory, "_write", truncated)
    assert failures("float16") == {"from_buffer"}
