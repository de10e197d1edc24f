"""METAL_EMU: MSL on the host, as its specification has it, not only as our renderer prints it."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.runtimes.emulated.c_emulator import METAL, CEmulator
from tinyref.runtimes.host.clang import compile_shared, load_shared, toolchain
from tinyref.runtimes.host.memory import address_of

pytestmark = pytest.mark.long

Array = npt.NDArray[Any]

SUM = """
#include <metal_stdlib>
using namespace metal;
kernel void k_sum(constant int &n [[buffer(2)]], device float *out [[buffer(0)]],
                  const device float *in [[buffer(1)]],
                  uint3 lane [[thread_position_in_threadgroup]],
                  uint3 group [[threadgroup_position_in_grid]]) {
  threadgroup float memory[64];
  memory[lane.x] = in[group.y * 64 + lane.x];
  for (uint step = 32; step > 0; step >>= 1) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane.x < step) memory[lane.x] = memory[lane.x] + memory[lane.x + step];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane.x == 0) out[group.y] = memory[0] + n;
}
"""


@pytest.fixture(autouse=True)
def _has_cpp() -> None:
    available = Device.availability("METAL_EMU")
    if not available.works:
        pytest.skip(f"METAL_EMU: {available.reason}")


def run(
    source: str,
    buffers: Sequence[Array],
    variables: Sequence[int] = (),
    grid: tuple[int, int, int] = (1, 1, 1),
    group: tuple[int, int, int] = (1, 1, 1),
) -> None:
    emulator = CEmulator("EMU", METAL)
    name = source.partition("kernel void ")[2].partition("(")[0]
    kernel = emulator.load(name, emulator.compile(source))
    kernel([address_of(item) for item in buffers], variables, grid, group)


def sums(source: str) -> list[float]:
    """Return the result for 0 to 255 in four groups of 64, and the variable 1000."""
    out, operands = np.zeros(4, np.float32), np.arange(256, dtype=np.float32)
    run(source, (out, operands), (1000,), (1, 4, 1), (64, 1, 1))
    return list(map(float, out))


# 0 + ... + 63 is 2016, and each group has 4096 more than the one before.
RIGHT = [3016.0, 7112.0, 11208.0, 15304.0]


def test_arguments_have_numbers_and_positions() -> None:
    """Accept any order in the text, because Metal takes arguments by number."""
    assert sums(SUM) == RIGHT
    swapped = SUM.replace("buffer(0)", "buffer(9)").replace("buffer(1)", "buffer(0)")
    out, operands = np.zeros(4, np.float32), np.arange(256, dtype=np.float32)
    run(swapped.replace("buffer(9)", "buffer(1)"), (operands, out), (1000,), (1, 4, 1), (64, 1, 1))
    assert list(map(float, out)) == RIGHT


def test_a_compiler_without_cpp_is_named() -> None:
    with Context(CC="tcc"):
        available = Device.availability("METAL_EMU")
    assert not available.works
    assert "C++" in available.reason or "not found" in available.reason


def test_what_is_no_msl_is_an_error_with_the_text() -> None:
    with pytest.raises(DeviceError, match="mem_local"):
        sums(SUM.replace("mem_threadgroup", "mem_local"))


SMALL = {"half": np.dtype(np.float16), "bfloat": np.dtype(ml_dtypes.bfloat16)}


def converted(source: str, target: str, values: Array, result: Any) -> Array:
    out = np.zeros(values.shape, result)
    text = (
        f"using namespace metal;\nkernel void k(device {target} *out [[buffer(0)]], "
        f"device {source} *in [[buffer(1)]], uint3 at [[threadgroup_position_in_grid]]) "
        f"{{ out[at.x] = ({target})in[at.x]; }}"
    )
    run(text, (out, values), (), (values.size, 1, 1))
    return out


def same_bits(left: Array, right: Array) -> bool:
    """Compare the bits of floats; all NaN are equal."""
    kind = f"u{left.dtype.itemsize}"
    left_nan, right_nan = np.isnan(left.astype(np.float32)), np.isnan(right.astype(np.float32))
    agree = (left.view(kind) == right.view(kind)) | (left_nan & right_nan)
    return bool(agree.all())


@pytest.mark.parametrize("name", SMALL)
def test_every_small_float_becomes_a_float_and_back(name: str) -> None:
    every = np.arange(65536, dtype=np.uint16).view(SMALL[name])
    wide = converted(name, "float", every, np.float32)
    assert same_bits(wide, every.astype(np.float32))
    assert same_bits(converted("float", name, wide, SMALL[name]), every)


@pytest.mark.parametrize("name", SMALL)
def test_floats_are_rounded_to_nearest_even(name: str) -> None:
    """Round all neighbours of numbers of the small type, and all values half way."""
    every = np.arange(65536, dtype=np.uint16).view(SMALL[name]).astype(np.float32).view(np.uint32)
    step = np.uint32(1 << (12 if name == "half" else 15))
    near = [every + step, every + step + np.uint32(1), every + step - np.uint32(1)]
    tiny = np.arange(0x33000000 - 4, 0x38800000, 4093, dtype=np.uint32)
    operands = np.concatenate([*near, tiny]).view(np.float32)
    with np.errstate(all="ignore"):
        want = operands.astype(SMALL[name])
    assert same_bits(converted("float", name, operands, SMALL[name]), want)


def test_the_device_declares_what_msl_has() -> None:
    declared = Device["METAL_EMU"].capabilities
    assert dtypes.float64 not in declared.dtypes | declared.emulated
    assert {dtypes.float16, dtypes.bfloat16, dtypes.int64} <= declared.dtypes
    assert set(dtypes.fp8s) <= declared.emulated


# The factors 3, 5, 7 and 11 in one lane each, among ones.
LANES = """
#define TIMES(x, y) (int)((unsigned)x * (unsigned)y)
struct four { int x, y, z, w; };
struct two { int x, y; };
__attribute__((noinline)) void multiply(int *out, const int *rows) {
  struct four all = {1, 1, 1, 1};
  for (int i = 0; i < 250; i++) {
    const int *row = rows + 4 * i;
    struct four next = {row[0], row[1], row[2], row[3]};
    struct four both = {TIMES(all.x, next.x), TIMES(all.y, next.y),
                        TIMES(all.z, next.z), TIMES(all.w, next.w)};
    all = both;
  }
  struct two left = {all.x, all.y}, right = {all.z, all.w};
  struct two half = {TIMES(left.x, right.x), TIMES(left.y, right.y)};
  out[0] = TIMES(half.x, half.y);
}
int probe(void) {
  static int rows[1000], out;
  for (int i = 0; i < 1000; i++) rows[i] = 1;
  rows[1] = 3, rows[6] = 5, rows[11] = 7, rows[400] = 11;
  multiply(&out, rows);
  return out;
}
"""


@pytest.mark.parametrize(
    ("options", "found"),
    [((), 1155), (("-O1",), 1155), (("-ftree-loop-vectorize",), 35)],
    ids=["CLANG", "emulators", "found"],
)
def test_gcc_12_multiplies_other_lanes(options: tuple[str, ...], found: int) -> None:
    """Expect the fault gcc-1 of docs/found.md, and not with the options of our devices."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    with Context(CC="gcc"):
        tools = toolchain()
    if " 12.2." not in tools.version:
        pytest.skip(f"gcc-1 is of gcc 12.2, this is {tools.version}")
    with load_shared("gcc", compile_shared((*tools.command, *options, "-mavx2"), LANES)) as library:
        answer = ctypes.CFUNCTYPE(ctypes.c_int)(library.address("probe"))()
    assert answer == found
