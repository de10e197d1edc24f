"""Drivers and forks: a forked child is told that the driver is its parent's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tinyref.device import Device

# 7: the child was told, and freed nothing of its parent's.
SCRIPT = """
import os, sys
from tinyref.device import Device
from tinyref.errors import DeviceError
name = sys.argv[1]
memory = Device[name].allocator.allocate(4)
child = os.fork()
if child == 0:
    Device[name].allocator.free(memory)
    works = Device.backend_class(name).availability()
    try:
        Device[name].allocator.copy_out(memoryview(bytearray(4)), memory)
    except DeviceError as error:
        told = "before this process was forked" in str(error) and not works.works
        os._exit(7 if told else 1)
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

# A child that opens the driver first may: 7, and its own child may not: 3.
UNOPENED = """
import os, sys
from tinyref.errors import DeviceError
from tinyref.runtimes.driver_checks import DriverProcess
process = DriverProcess("Some")
def forked(work):
    child = os.fork()
    if child == 0:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
def grandchild():
    try:
        process.check("SOME")
    except DeviceError as error:
        return 3 if str(error).startswith("SOME: Some was opened before") else 1
    return 2
def child():
    process.check("SOME")
    process.is_started = True
    process.check("SOME")
    return 7 if forked(grandchild) == 3 else 1
sys.exit(forked(child))
"""


@pytest.mark.long
@pytest.mark.parametrize("device", ["OPENCL", "WEBGPU"])
def test_a_forked_child_is_told_so(device: str) -> None:
    available = Device.availability(device)
    if not available.works:
        pytest.skip(f"{device}: {available.reason}")
    command = [sys.executable, "-c", SCRIPT, device]
    assert subprocess.run(command, check=False, timeout=60).returncode == 7


def test_only_a_driver_that_was_opened_is_lost_in_a_fork() -> None:
    command = [sys.executable, "-c", UNOPENED]
    assert subprocess.run(command, check=False, timeout=60).returncode == 7
