"""The C emulator: kernels of C-like languages on the host, and what it finds wrong in them."""

from __future__ import annotations

import functools
import gc
import resource
import shutil
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from tinyref.config import Context
from tinyref.errors import DeviceError
from tinyref.runtimes.emulated import c_emulator
from tinyref.runtimes.emulated.c_emulator import (
    HIP,
    OPENCL,
    PLAIN,
    CEmulator,
    Dialect,
)
from tinyref.runtimes.host.clang import COMPILERS
from tinyref.runtimes.host.memory import address_of

Array = npt.NDArray[np.float32]

# The sum of each group's elements, by a tree in shared memory, and a variable.
OPENCL_SUM = """
__kernel void k_sum(__global float *restrict out, const __global float *in, int n) {
  __local float memory[64];
  uint lane = get_local_id(0);
  memory[lane] = in[get_global_id(0)];
  for (uint step = 32; step > 0; step >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) memory[lane] = memory[lane] + memory[lane + step];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0) out[get_group_id(0)] = memory[0] + n;
}
"""
PLAIN_SUM = """
KERNEL void k_sum(float *out, const float *in, int n) {
  SHARED float memory[64];
  unsigned int lane = LOCAL_ID(0);
  memory[lane] = in[GROUP_ID(0) * 64 + lane];
  for (unsigned int step = 32; step > 0; step >>= 1) {
    BARRIER();
    if (lane < step) memory[lane] = memory[lane] + memory[lane + step];
  }
  BARRIER();
  if (lane == 0) out[GROUP_ID(0)] = memory[0] + n;
}
"""
SUMS = {"opencl": (OPENCL, OPENCL_SUM), "c": (PLAIN, PLAIN_SUM)}
LAST_BARRIER = "  barrier(CLK_LOCAL_MEM_FENCE);\n  if (lane == 0)"


@pytest.fixture(params=COMPILERS)
def compiler(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    with Context(CC=name):
        yield name


def sums(source: str, dialect: Dialect = OPENCL, order: str = "forward") -> list[float]:
    """Return the result for 0 to 255 in four groups of 64, and the variable 1000."""
    emulator = CEmulator("EMU", dialect)
    kernel = emulator.load("k_sum", emulator.compile(source))
    operands = np.arange(256, dtype=np.float32)
    out = np.zeros(4, dtype=np.float32)
    with Context(EMU_ORDER=order):
        addresses = [address_of(item) for item in (out, operands)]
        kernel(addresses, [1000], (4, 1, 1), (64, 1, 1), [out.nbytes, operands.nbytes])
    return list(map(float, out))


# 0 + ... + 63 is 2016, and each group has 4096 more than the one before.
RIGHT = [3016.0, 7112.0, 11208.0, 15304.0]


@pytest.mark.parametrize("order", ["forward", "reverse", "both"])
@pytest.mark.parametrize("language", SUMS)
def test_groups_share_memory_and_wait(compiler: str, language: str, order: str) -> None:
    dialect, source = SUMS[language]
    assert sums(source, dialect, order) == RIGHT


@pytest.mark.usefixtures("c_compiler")
def test_the_portable_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use ucontext if the processor has no switch of its own."""
    portable = functools.cache(
        lambda tools: c_emulator._FiberScheduler(tools, ("-DTINYREF_UCONTEXT",))
    )
    monkeypatch.setattr(c_emulator, "_scheduler", portable)
    assert sums(OPENCL_SUM) == RIGHT
    with pytest.raises(DeviceError, match="not all work-items"):
        sums(OPENCL_SUM.replace("if (lane == 0)", "if (lane == 0) barrier(0);\n  if (lane == 0)"))
    assert sums(OPENCL_SUM) == RIGHT


def test_a_missing_barrier_shows_in_one_of_the_orders(compiler: str) -> None:
    """Sum in the first work-item before the others have written: it reads poison, a NaN."""
    unsound = OPENCL_SUM.replace("    barrier(CLK_LOCAL_MEM_FENCE);\n", "", 1)
    assert all(np.isnan(sums(unsound)))
    assert sums(unsound, order="reverse") == RIGHT
    with pytest.raises(DeviceError, match="k_sum: the order of work-items matters: byte 0 of buf"):
        sums(unsound, order="both")


@pytest.mark.usefixtures("c_compiler")
def test_no_group_finds_what_another_one_left() -> None:
    """Poison memory between groups: otherwise each would read the sum of the one before."""
    stale = OPENCL_SUM.replace("memory[lane] = in", "if (get_group_id(0) == 0) memory[lane] = in")
    first, *others = sums(stale)
    assert first == RIGHT[0]
    assert all(np.isnan(others))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("memory[64]", "memory[63]"), r"writes behind the end of the shared array of number 0"),
        (("memory[64]", "memory[1 << 20]"), r"shared memory is larger than the limit"),
        (
            (LAST_BARRIER, f"  if (lane > 2) barrier(0);\n{LAST_BARRIER}"),
            r"not all work-items of the group arrive at the barrier of line 1[01]",
        ),
        (
            (LAST_BARRIER, f"  if (lane == 7) return;\n{LAST_BARRIER}"),
            r"not all work-items of the group arrive at the barrier of line 1[01]",
        ),
    ],
    ids=["undersized", "too much", "two barriers", "a work-item that left"],
)
def test_what_breaks_a_rule_is_named(compiler: str, change: tuple[str, str], message: str) -> None:
    assert OPENCL_SUM.count(change[0]) == 1
    with pytest.raises(DeviceError, match=message):
        sums(OPENCL_SUM.replace(*change))
    assert sums(OPENCL_SUM) == RIGHT


@pytest.mark.usefixtures("c_compiler")
def test_memory_of_a_group_that_is_no_array_is_refused() -> None:
    """Refuse it: without an array it would be memory of each work-item."""
    with pytest.raises(DeviceError, match=r"'__local float total;' is not shared memory"):
        sums(OPENCL_SUM.replace("uint lane", "__local float total; uint lane", 1))
    with pytest.raises(DeviceError, match="has no function marked __kernel"):
        sums(OPENCL_SUM.replace("__kernel", ""))


HIP_SUM = """
extern "C" __global__ void __launch_bounds__(64) k_sum(float *out, float *in, int n) {
  __shared__ float memory[64];
  unsigned int lane = __builtin_amdgcn_workitem_id_x();
  unsigned int group = __builtin_amdgcn_workgroup_id_x();
  _Float16 half = (_Float16)in[group * 64 + lane];
  memory[lane] = half;
  for (unsigned int step = 32; step > 0; step >>= 1) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier();
    if (lane < step) memory[lane] = memory[lane] + memory[lane + step];
  }
  __builtin_amdgcn_s_barrier();
  if (lane == 0) out[group] = memory[0] + n;
}
"""


@pytest.mark.parametrize("order", ["forward", "both"])
def test_hip_with_float16_is_run_as_cpp(compiler: str, order: str) -> None:
    if compiler == "tcc":
        with pytest.raises(DeviceError, match=r"tcc cannot compile C\+\+: apt-get install g\+\+"):
            sums(HIP_SUM, HIP, order)
        return
    assert sums(HIP_SUM, HIP, order) == RIGHT


@pytest.mark.usefixtures("c_compiler")
def test_a_scheduler_that_goes_gives_back_the_stacks_of_its_workers() -> None:
    """Free them: a worker takes 256 MiB of addresses, and a process may not hold a hundred."""
    tools = c_emulator._tools()
    before = mapped_bytes()
    scheduler = c_emulator._FiberScheduler(tools)
    with scheduler.worker(), scheduler.worker():
        assert mapped_bytes() - before > 2 * 2**28
    del scheduler
    gc.collect()
    assert mapped_bytes() - before < 2**28


def mapped_bytes() -> int:
    """Return the bytes of addresses that this process uses."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        pytest.skip("this system does not say what its processes have mapped")
