"""The OCLGRIND device: what the simulator reports fails the launch that caused it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tinyref.runtimes.oclgrind import DRIVERS

# In a process of its own: a process looks for its drivers once.
SCRIPT = """
import sys
import numpy as np
from tinyref.device import Device
from tinyref.errors import DeviceError

backend = Device["OCLGRIND"]
for text in sys.argv[1:]:
    source = f"__kernel void k(__global int *a, ulong start, int variable) {{ {text} }}"
    memory = backend.allocator.allocate(16)
    kernel = backend.load("k", backend.compiler.compile(source))
    try:
        seconds = kernel([memory], (1, 1, 1), (4, 1, 1), [1], wait=True)
        print("well", 0 < seconds < 10)
    except DeviceError as error:
        assert error.source == source
        print(error.message.removeprefix("reports:\\n").splitlines()[0])
"""
WELL = "a[get_local_id(0)] = 1;"
REPORTED = {
    "a[get_local_id(0) + 10] = 1;": "Invalid write of size 4",
    "a[get_local_id(0)] = a[4 + get_local_id(0)];": "Invalid read of size 4",
    "if (get_local_id(0) < 2) barrier(CLK_LOCAL_MEM_FENCE); a[get_local_id(0)] = 1;": (
        "Work-group divergence detected (barrier)"
    ),
    "a[get_local_id(0)] = a[get_local_id(0)] + 1;": (
        "Uninitialized value written to global memory"
    ),
    "a[0] = get_local_id(0);": "Write-write data race",
}


def simulate(*texts: str, **variables: str) -> list[str]:
    environment = {**os.environ, **variables}
    environment.pop("OCL_ICD_VENDORS", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *texts],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    return done.stdout.splitlines()


@pytest.fixture(autouse=True)
def _needs_oclgrind() -> None:
    pytest.importorskip("pyopencl")
    if not any(map(os.path.exists, DRIVERS)):
        pytest.skip("Oclgrind is not installed")


def test_each_report_fails_its_launch_and_no_other() -> None:
    texts = [WELL, *REPORTED, WELL]
    said = simulate(*texts)
    assert said[0] == said[-1] == "well True"
    for found, wanted in zip(said[1:-1], REPORTED.values(), strict=True):
        assert found.startswith(wanted)


def test_a_simulator_that_fell_silent_is_believed_no_more() -> None:
    many = "a[get_local_id(0) + 10] = 1;"
    said = simulate(WELL, many, WELL, OCLGRIND_MAX_ERRORS="2")
    assert said[0] == "well True"
    assert said[1].startswith("Invalid write of size 4")
    assert said[2].startswith("after 2 messages it says no more")


def test_a_process_that_looked_for_drivers_without_it_says_so() -> None:
    script = """
from tinyref.device import Device
Device.availability("OPENCL")
print(Device.availability("OCLGRIND"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    if "works=True" in done.stdout:
        pytest.skip("Oclgrind is on this machine's list of drivers")
    assert "OCL_ICD_VENDORS name a folder" in done.stdout
