"""Drivers and forks: a forked child is told that the driver is its parent's."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest

from tinyref.device import Device
from tinyref.errors import DeviceError
from tinyref.runtimes.driver_checks import DriverProcess

# 7: the child was told, and freed nothing of its parent's.
SCRIPT = """
import os, sys
from tinyref.device import Device
from tinyref.errors import DeviceError
names = sys.argv[1:]
memory = {name: Device[name].allocator.allocate(4) for name in names}
def is_told(name):
    Device[name].allocator.free(memory[name])
    works = Device.backend_class(name).availability()
    try:
        Device[name].allocator.copy_out(memoryview(bytearray(4)), memory[name])
    except DeviceError as error:
        return "before this process was forked" in str(error) and not works.works
    return False
child = os.fork()
if child == 0:
    os._exit(7 if all(map(is_told, names)) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.long
def test_a_forked_child_is_told_so() -> None:
    devices = [name for name in ("OPENCL", "WEBGPU") if Device.availability(name).works]
    if not devices:
        pytest.skip("neither OPENCL nor WEBGPU is available here")
    command = [sys.executable, "-c", SCRIPT, *devices]
    assert subprocess.run(command, check=False, timeout=60).returncode == 7


def forked(work: Callable[[], int]) -> int:
    """Return the exit code of a child that does this work."""
    with warnings.catch_warnings():
        # Python warns of forking with threads; the child does nothing but its work.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = work()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_only_a_driver_that_was_opened_is_lost_in_a_fork() -> None:
    """Let a child open the driver first; its own child may not use it."""
    process = DriverProcess("Some")

    def grandchild() -> int:
        with pytest.raises(DeviceError, match="SOME: Some was opened before"):
            process.check("SOME")
        return 3

    def child() -> int:
        process.check("SOME")
        process.is_started = True
        process.check("SOME")
        return 7 if forked(grandchild) == 3 else 2

    assert forked(child) == 7
