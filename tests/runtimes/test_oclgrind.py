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
        assert not error.source
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


def run(script: str, *arguments: str, **variables: str) -> str:
    """Return the output of a process that has not looked for drivers yet."""
    environment = {name: value for name, value in os.environ.items() if "OCL" not in name}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=environment | variables,
        timeout=60,
    )
    return done.stdout + done.stderr


def simulate(*texts: str, **variables: str) -> list[str]:
    return run(SCRIPT, *texts, **variables).splitlines()


@pytest.fixture(autouse=True)
def _needs_oclgrind() -> None:
    pytest.importorskip("pyopencl")
    if not any(map(os.path.exists, DRIVERS)):
        pytest.skip("Oclgrind is not installed")


def test_each_report_fails_its_launch_and_no_other() -> None:
    texts = [WELL, *REPORTED, WELL]
    said = simulate(*texts)
    assert said[0] == said[-1] == "well True"
    for actual, expected in zip(said[1:-1], REPORTED.values(), strict=True):
        assert actual.startswith(expected)


def test_a_simulator_that_fell_silent_is_believed_no_more() -> None:
    many = "a[get_local_id(0) + 10] = 1;"
    said = simulate(WELL, many, WELL, OCLGRIND_MAX_ERRORS="2")
    assert said[0] == "well True"
    assert said[1].startswith("Invalid write of size 4")
    assert said[2].startswith("after 2 messages it reports no more")


def test_a_process_that_looked_for_drivers_without_it_says_so() -> None:
    script = """
from tinyref.device import Device
Device.availability("OPENCL")
print(Device.availability("OCLGRIND"))
"""
    said = run(script)
    if "works=True" in said:
        pytest.skip("Oclgrind is on this machine's list of drivers")
    assert "OCL_ICD_VENDORS name a folder" in said


# A child has the same memory. Buffers of changing sizes, written by one kernel and read by another,
# then let go. A reduce by sixteen work-items, with the barrier and without it.
HEALTHY = """
import subprocess, sys
from random import Random
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.optimise.opt import Opt, OptOp
from tinyref.renderers.opencl import OpenCLRenderer
from tinyref.runtimes.kernel import compile_ast, forget_kernels
from tinyref_spec.kernels.notation import kernel_of, load, total

backend = Device["OCLGRIND"]
print(backend.session.device.max_mem_alloc_size, flush=True)
child = "from tinyref.device import Device; "
child += "print(Device['OCLGRIND'].session.device.max_mem_alloc_size)"
subprocess.run([sys.executable, "-c", child], check=True)

fill = '''__kernel void k(__global uchar *base, ulong start) {
  ((__global int *)(base + start))[get_group_id(0)] = 1; }'''
copy = '''__kernel void k(__global int *a, ulong sa, __global int *b, ulong sb) {
  a[get_group_id(0)] = b[get_group_id(0)]; }'''
fill, copy = (backend.load("k", backend.compiler.compile(each)) for each in (fill, copy))
allocator, chance = backend.allocator, Random(1)
for _ in range(100):
    count = chance.randrange(1, 40)
    one, two = allocator.allocate(4 * count), allocator.allocate(4 * count)
    fill([one], (count, 1, 1))
    copy([two, one], (count, 1, 1))
    # A part that the host writes leaves the rest as written as it was.
    allocator.copy_in(allocator.view(two, 4 * (count - 1), 4), memoryview(bytes(4)))
    copy([one, two], (count, 1, 1))
    allocator.free(one)
    allocator.free(two)
large = allocator.allocate(2**20)
copy([large, large], (9, 1, 1))

ast = kernel_of(total(load(1, dtypes.int32, (64,)), 0), 1)
out, given = Buffer("OCLGRIND", 1, dtypes.int32), Buffer("OCLGRIND", 64, dtypes.int32)
given.copy_in(memoryview(bytes(range(1, 9)) * 32))
for barrier in ("barrier(CLK_LOCAL_MEM_FENCE);", ";"):
    OpenCLRenderer.barrier_text = barrier
    forget_kernels()
    try:
        compile_ast("OCLGRIND", ast, [Opt(OptOp.GROUPTOP, 0, 16)])([out, given])
        print("well", flush=True)
    except DeviceError as error:
        print(error)
"""


@pytest.mark.long
def test_only_a_kernel_that_lost_its_barrier_is_reported() -> None:
    first, child, well, *actual = run(HEALTHY).splitlines()
    assert first == child == "4294963200"
    assert well == "well"
    assert actual[0].startswith("OCLGRIND: reports:")
    assert any("data race at local memory" in line for line in actual)


# What is in docs/found.md of Oclgrind: kernels after a healthy one, where its optimiser is on.
OPTIMISED = """
import sys
import numpy as np
from tinyref.errors import DeviceError
from tinyref.runtimes.oclgrind import OclgrindBackend

class Optimised(OclgrindBackend):
    options = ()

backend = Optimised()
source = "__kernel void k(__global int *a, ulong sa, __global int *b, ulong sb) { %s }"
numbers = np.array([0, 1, 2, 255], np.int32)
for text in sys.argv[1:]:
    out, given = (backend.allocator.allocate(16) for _ in range(2))
    backend.allocator.copy_in(out, memoryview(numbers).cast("B"))
    backend.allocator.copy_in(given, memoryview(numbers).cast("B"))
    try:
        kernel = backend.load("k", backend.compiler.compile(source % text))
        kernel([out, given], (1, 1, 1), (4, 1, 1))
        data = bytearray(16)
        backend.allocator.copy_out(memoryview(data), out)
        print(np.frombuffer(data, np.int32).tolist(), flush=True)
    except DeviceError as error:
        print(str(error).replace(chr(10), " "), flush=True)
"""
DEFECTS = {
    "vstore4((vload4(0, b) != (int4)0) & (int4)1, 0, a);": "[0, 255, 255, 255]",
    "uint x = b[1]; a[0] = x << 13 | x >> 19;": "INVALID_KERNEL_NAME",
    "int i = get_local_id(0); a[i] = b[i] / b[2] + b[i] % b[2];": "instruction: freeze",
}


def test_the_defects_that_keep_its_optimiser_off_still_stand() -> None:
    """Fail for a version that repairs one: then check docs/found.md and the options."""
    healthy = "a[get_local_id(0)] = b[get_local_id(0)];"
    actual = run(OPTIMISED, healthy, *DEFECTS)
    assert actual.count("[0, 1, 2, 255]") == 1
    assert actual.startswith("[0, 1, 2, 255]\n")
    assert [text for text, says in DEFECTS.items() if says not in actual] == []
