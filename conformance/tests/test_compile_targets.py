"""Kernels of the suite compile for architectures without a device of them."""

from __future__ import annotations

import pytest

from tinyref.device import Device
from tinyref.errors import DeviceError
from tinyref_conformance.compile_check import compile_suite

# An architecture of each family of instruction sets, and fewer of them for a sample.
TARGETS = [
    *(("HIP", name) for name in ("gfx90a", "gfx942", "gfx1100", "gfx1201")),
    *(("PTX", name) for name in ("sm_75", "sm_90", "sm_100")),
    *(("CUDA", name) for name in ("sm_75", "sm_90", "sm_100")),
]
SAMPLED = [("HIP", "gfx942"), ("HIP", "gfx1201"), ("PTX", "sm_75"), ("PTX", "sm_100")]
SAMPLED += [("CUDA", "sm_75"), ("CUDA", "sm_100")]
# NVRTC takes many kernels in one call.
SAMPLES = {"HIP": 32, "PTX": 32, "CUDA": 60}
# What a compiler cannot compile, by docs/found.md: clang-1.
CRASHES = {"HIP": {"kernel.matmul.uint8.transposed.9x8x7": "PLEASE submit a bug report"}}


def refused(device: str, architecture: str, sample: int) -> list[str]:
    """Return the kernels that do not compile, with the reasons; skip without the compiler."""
    try:
        target = Device.backend_class(device).compile_target(architecture)
    except DeviceError as error:
        pytest.skip(error.message)
    report = compile_suite(target, sample=sample, jobs=2)
    assert report.kernels >= (sample or 1000)
    known = CRASHES.get(device, {})
    return [
        f"{refusal.case}: {refusal.message}"
        for refusal in report.refused
        if refusal.case not in known or known[refusal.case] not in refusal.message
    ]


@pytest.mark.long
@pytest.mark.parametrize(("device", "architecture"), SAMPLED)
def test_a_sample_compiles(device: str, architecture: str) -> None:
    assert refused(device, architecture, SAMPLES[device]) == []


@pytest.mark.slow
@pytest.mark.parametrize(("device", "architecture"), TARGETS)
def test_every_kernel_compiles(device: str, architecture: str) -> None:
    assert refused(device, architecture, 0) == []
