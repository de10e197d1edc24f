"""Devices of drivers under a kernel written by hand: views, copies, order, errors, command lists.

CUDA, HIP and METAL run over drivers that are none, whose work is done as late as can be; OPENCL and
WEBGPU run over those of the machine.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.runtimes import fake_cuda, fake_hip, fake_metal
from tests.runtimes.by_hand import get, load, put
from tinyref.backend import Backend
from tinyref.contract import Launch
from tinyref.device import Device
from tinyref.errors import DeviceError, UserError


@dataclass(frozen=True)
class Driver:
    """How to open a device, and `scale`, which writes b[i] * factor to a[i] by groups of two.

    runs_on: a device that has to work here. broken: a text that does not compile. missing: the
    words for a kernel that is not there.
    """

    open: Callable[[pytest.MonkeyPatch], list[Backend]]
    runs_on: str
    scale: str
    broken: str
    missing: str


def _open_cuda(monkeypatch: pytest.MonkeyPatch) -> list[Backend]:
    fake_cuda.install(monkeypatch, (9, 0), (9, 0))
    return [fake_cuda.CudaBackend(index) for index in range(2)]


def _open_hip(monkeypatch: pytest.MonkeyPatch) -> list[Backend]:
    fake_hip.install(monkeypatch)
    return [fake_hip.FakeHipBackend(index) for index in range(2)]


def _open_metal(monkeypatch: pytest.MonkeyPatch) -> list[Backend]:
    fake_metal.install(monkeypatch, fake_metal.M1)
    return [fake_metal.MetalBackend()]


DRIVERS = {
    "CUDA": Driver(
        _open_cuda,
        "CUDA_EMU",
        """
extern "C" __global__ void scale(int *a, int *b, int factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = b[i] * factor;
}
""",
        "#error",
        "no kernel other: CUDA_ERROR_NOT_FOUND",
    ),
    "HIP": Driver(
        _open_hip,
        "HIP_EMU",
        """
extern "C" __global__ void scale(int *a, int *b, int factor) {
  int i = __builtin_amdgcn_workgroup_id_x() * 2 + __builtin_amdgcn_workitem_id_x();
  a[i] = b[i] * factor;
}
""",
        "",
        "hipModuleGetFunction: hipErrorInvalidValue: invalid",
    ),
    "METAL": Driver(
        _open_metal,
        "METAL_EMU",
        """
using namespace metal;
kernel void scale(device int *a [[buffer(0)]], device int *b [[buffer(1)]],
                  constant int &factor [[buffer(2)]],
                  uint3 group [[threadgroup_position_in_grid]],
                  uint3 item [[thread_position_in_threadgroup]]) {
  int i = group.x * 2 + item.x;
  a[i] = b[i] * factor;
}
""",
        "kernel void k(device int *a [[buffer(0)]]) { a[0] = unknown; }",
        "the source has no kernel other",
    ),
    "OPENCL": Driver(
        lambda monkeypatch: [Device["OPENCL"]],
        "OPENCL",
        """
__kernel void scale(__global uchar *base0, ulong start0, __global uchar *base1, ulong start1,
                    int factor) {
  __global int *a = (__global int *)(base0 + start0);
  __global int *b = (__global int *)(base1 + start1);
  a[get_global_id(0)] = b[get_global_id(0)] * factor;
}
""",
        "__kernel void k(void) { unknown; }",
        "no kernel other",
    ),
    "WEBGPU": Driver(
        lambda monkeypatch: [Device["WEBGPU"]],
        "WEBGPU",
        """
@group(0) @binding(0) var<storage, read> launch_words: array<u32, 4>;
@group(0) @binding(1) var<storage, read_write> a: array<i32>;
@group(0) @binding(2) var<storage, read_write> b: array<i32>;
@compute @workgroup_size(2)
fn scale(@builtin(global_invocation_id) at: vec3<u32>) {
  a[launch_words[2] / 4u + at.x] =
      b[launch_words[3] / 4u + at.x] * bitcast<i32>(launch_words[1]);
}
""",
        "@compute @workgroup_size(1) fn k() { unknown(); }",
        "Unable to find entry point 'other'",
    ),
}


@dataclass(frozen=True)
class Opened:
    """A device, its allocator, and the kernel `scale` of it."""

    driver: Driver
    backend: Any
    kernel: Any

    def put(self, *values: int) -> Any:
        return put(self.backend.allocator, np.array(values, np.int32))

    def get(self, memory: Any) -> list[int]:
        return get(self.backend.allocator, memory, np.int32)

    def scale(self, target: Any, source: Any, factor: int, groups: int = 2) -> None:
        assert self.kernel([target, source], (groups, 1, 1), (2, 1, 1), [factor]) is None


def opened(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Opened]:
    driver = DRIVERS[name]
    available = Device.availability(driver.runs_on)
    if not available.works:
        pytest.skip(f"{driver.runs_on}: {available.reason}")
    return [
        Opened(driver, backend, load(backend, "scale", driver.scale))
        for backend in driver.open(monkeypatch)
    ]


@pytest.fixture(params=DRIVERS)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Opened:
    return opened(request.param, monkeypatch)[0]


@pytest.mark.parametrize("first", [0, 1, 3])
def test_views_begin_at_any_element(device: Opened, first: int) -> None:
    """Also where that is no multiple of what bindings of WebGPU must begin at."""
    view = device.backend.allocator.view
    source, target = device.put(*range(8)), device.put(*[0] * 8)
    device.scale(view(target, 4 * first, 16), view(source, 12, 16), -3)
    assert device.get(target) == [*[0] * first, -9, -12, -15, -18, *[0] * (4 - first)]
    inner = view(view(target, 4 * first, 12), 4, 8)
    assert device.get(inner) == [-12, -15]
    device.backend.allocator.copy_in(inner, memoryview(np.array([7], np.int32)).cast("B"))
    assert device.get(target)[first : first + 3] == [-9, 7, -15]


def test_copies_and_frees_come_after_the_launches_before_them(device: Opened) -> None:
    allocator = device.backend.allocator
    target, other = device.put(*[0] * 4), device.put(*[0] * 4)
    for factor in range(1, 4):
        source = device.put(1, 2, 3, 4)
        device.scale(target, source, factor)
        allocator.free(source)
    # The launch sees the old bytes, and what was copied from may change at once.
    values = np.array([9, 9, 9, 9], np.int32)
    device.scale(other, target, 1)
    allocator.copy_in(target, memoryview(values).cast("B"))
    values[:] = 0
    assert device.get(other) == [3, 6, 9, 12]
    assert device.get(target) == [9, 9, 9, 9]


def test_what_lies_outside_of_memory_is_refused(device: Opened) -> None:
    allocator = device.backend.allocator
    memory = device.put(1, 2, 3, 4)
    with pytest.raises(UserError, match="view: bytes 8 to 17 are outside the memory's 16"):
        allocator.view(memory, 8, 9)
    # The neighbours of a piece belong to others.
    piece = allocator.view(memory, 0, 8)
    with pytest.raises(UserError, match="copy_in: 12 bytes do not fit into 8"):
        allocator.copy_in(piece, memoryview(bytes(12)))
    with pytest.raises(UserError, match="copy_out: asked for 12 bytes of 8"):
        allocator.copy_out(memoryview(bytearray(12)), piece)
    with pytest.raises(UserError, match="nbytes is -4, accepted is 0 and above"):
        getattr(allocator, "inner", allocator).allocate(-4)
    empty = allocator.allocate(0)
    allocator.copy_in(empty, memoryview(b""))
    assert device.get(allocator.view(empty, 0, 0)) == []
    allocator.free(empty)


def test_a_launch_that_is_waited_for_has_a_time(device: Opened) -> None:
    memory = device.put(1, 2, 3, 4)
    seconds = device.kernel([memory, memory], (2, 1, 1), (2, 1, 1), [5], wait=True)
    assert math.isfinite(seconds)
    assert 0 < seconds < 60
    assert device.get(memory) == [5, 10, 15, 20]


def test_each_launch_has_its_own_variables(device: Opened) -> None:
    source = device.put(3, 4)
    targets = [device.put(0, 0) for _ in range(20)]
    for factor, target in enumerate(targets):
        device.scale(target, source, factor, groups=1)
    assert [device.get(target) for target in targets] == [[3 * k, 4 * k] for k in range(20)]


@pytest.mark.parametrize("name", [name for name in DRIVERS if name != "WEBGPU"])
def test_an_empty_launch_is_none_and_a_negative_one_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, *_ = opened(name, monkeypatch)
    memory = device.put(1)
    assert device.kernel([memory, memory], (0, 1, 1), (2, 1, 1), [5], wait=True) == 0.0
    assert device.kernel([memory, memory], (0, 1, 1), (2, 1, 1), [5]) is None
    assert device.get(memory) == [1]
    with pytest.raises(UserError, match=r"scale: got grid \(-1, 1, 1\) and group \(2, 1, 1\)"):
        device.kernel([memory, memory], (-1, 1, 1), (2, 1, 1), [5])
    with pytest.raises(UserError, match=r"scale: got grid \(1, 1, 1\) and group \(0, 1, 1\)"):
        device.kernel([memory, memory], (1, 1, 1), (0, 1, 1), [5])


def test_a_text_without_the_kernel_or_that_does_not_compile_is_an_error(device: Opened) -> None:
    with pytest.raises(DeviceError, match=device.driver.missing):
        load(device.backend, "other", device.driver.scale)
    if device.driver.broken:
        with pytest.raises(DeviceError, match=r"unknown|error here") as caught:
            device.backend.compiler.compile(device.driver.broken)
        assert caught.value.source == device.driver.broken


def test_threads_share_a_kernel(device: Opened) -> None:
    source = device.put(1, 1)
    wrong = []

    def work(factor: int) -> None:
        target = device.put(0, 0)
        for _ in range(20):
            device.scale(target, source, factor, groups=1)
            if device.get(target) != [factor, factor]:
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("name", ["CUDA", "METAL"])
def test_a_command_list_is_called_with_what_is_bound_then(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, *_ = opened(name, monkeypatch)
    a, other, b, c = (device.put(value, value) for value in (2, 3, 0, 0))
    launches = [
        Launch(device.kernel, buffers, (1, 1, 1), (2, 1, 1), (factor,))
        for buffers, factor in (((b, a), 3), ((c, b), 10))
    ]
    commands = device.backend.record(launches)
    assert device.get(c) == [0, 0]
    commands()
    # What is bound later changes nothing of a call that is queued.
    commands.rebind(0, 1, other)
    commands.vary(1, (1, 1, 1), [100])
    assert device.get(c) == [60, 60]
    commands()
    assert device.get(c) == [900, 900]


@pytest.mark.parametrize("name", ["CUDA", "HIP"])
def test_a_copy_from_another_device_waits_for_both(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after what is queued there, and before what is queued there later."""
    here, there = opened(name, monkeypatch)
    first, source, target = there.put(0, 1, 2, 3), there.put(*[0] * 4), here.put(*[0] * 4)
    there.scale(source, first, 10)
    here.backend.allocator.transfer(target, source, there.backend.allocator)
    assert here.get(target) == [0, 10, 20, 30]
    there.scale(source, first, 20)
    here.backend.allocator.transfer(target, source, there.backend.allocator)
    there.scale(source, first, 0)
    there.backend.synchronize()
    assert here.get(target) == [0, 20, 40, 60]
