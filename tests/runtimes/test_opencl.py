"""The OPENCL device under kernels written by hand: memory, order, errors, images."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests.runtimes.by_hand import OPENCL_SCALE, get, load, put
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.opencl import ImageParameter, images_in
from tinyref.runtimes.opencl_backend import OpenCLBackend, Session, capabilities_of

AVAILABLE = OpenCLBackend.availability()
needs_driver = pytest.mark.skipif(not AVAILABLE.works, reason=AVAILABLE.reason)


@pytest.fixture(scope="module")
def backend() -> OpenCLBackend:
    opened = Device["OPENCL"]
    assert isinstance(opened, OpenCLBackend)
    return opened


@needs_driver
def test_sources_compiled_together_keep_their_kernels(backend: OpenCLBackend) -> None:
    """Give all the same name, and load them in another order."""
    one = "\n__kernel void same(__global uchar *base, ulong start) { base[start] = %d; }"
    sources = [one % number for number in range(3)]
    binaries = backend.compiler.compile_many(sources)
    memory = put(backend.allocator, np.zeros(4, np.uint8))
    for number in (2, 0, 1, 1):
        binary = binaries[number]
        assert isinstance(binary, bytes)
        kernel = backend.load("same", binary)
        kernel([backend.allocator.view(memory, number, 1)])
        assert get(backend.allocator, memory, np.uint8)[number] == number
    with pytest.raises(DeviceError, match="wrong_word"):
        backend.compiler.compile_many([sources[0], sources[1].replace("base[", "wrong_word[")])


@needs_driver
def test_what_the_device_refuses_is_its_error(backend: OpenCLBackend) -> None:
    with pytest.raises(DeviceError, match="one buffer has at most"):
        backend.allocator.allocate(2**62)
    memory = backend.allocator.allocate(4)
    kernel = load(backend, "scale", OPENCL_SCALE)
    with pytest.raises(DeviceError, match="takes 5 arguments, got 4 for 2 buffers and 0 variables"):
        kernel([memory, memory], (1, 1, 1), (1, 1, 1))
    with pytest.raises(DeviceError, match="cannot launch scale"):
        kernel([memory, memory], (1, 1, 1), (2 * backend.capabilities.group_size_limit, 1, 1), [1])


@needs_driver
def test_threads_share_a_kernel(backend: OpenCLBackend) -> None:
    allocator = backend.allocator
    kernel = load(backend, "scale", OPENCL_SCALE)
    source = put(allocator, np.ones(1, np.int32))
    wrong = []

    def work(factor: int) -> None:
        target = allocator.allocate(4)
        for _ in range(50):
            kernel([target, source], (1, 1, 1), (1, 1, 1), [factor])
            if get(allocator, target, np.int32) != [factor]:
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(item,)) for item in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_line_of_an_image_reads_back() -> None:
    actual = [
        ImageParameter(0, True, "float16", 2, 3),
        ImageParameter(12, False, "float32", 5, 1),
    ]
    assert [item.line for item in actual] == [
        "// image 0 write float16 2 3",
        "// image 12 read float32 5 1",
    ]
    text = "\n".join([*(item.line for item in actual), "__kernel", "// image 3 read float32 1 1"])
    assert list(images_in(text)) == actual


@needs_driver
def test_images_get_the_bytes_of_views_and_give_them_back(backend: OpenCLBackend) -> None:
    if not backend.capabilities.images:
        pytest.skip("the device has no images")
    source = """// image 0 write float16 2 1
// image 1 read float32 2 1
__kernel void copy(__write_only image2d_t to, __read_only image2d_t from) {
  int2 at = (int2)(0, get_global_id(0));
  write_imagef(to, at, read_imagef(from, at));
}
"""
    allocator = backend.allocator
    # Halfway cases go to the even neighbour, and what is too large to infinity.
    row = np.array([1.0, 1 + 2**-11, 1 + 3 * 2**-11, 70000.0], np.float32)
    read = put(allocator, np.concatenate([[9, 9, 9], row, row * 0.5]).astype(np.float32))
    written = put(allocator, np.zeros(10, np.float16))
    kernel = load(backend, "copy", source)
    kernel([allocator.view(written, 2, 16), allocator.view(read, 12, 32)], (2, 1, 1), (1, 1, 1))
    halves = [1, 1, 1 + 2**-9, math.inf, 0.5, 0.5, 0.5 + 2**-10, 35008]
    assert get(allocator, written, np.float16) == [0, *halves, 0]


@needs_driver
def test_the_key_has_driver_device_and_options(backend: OpenCLBackend) -> None:
    key = backend.compiler.key
    for part in (*backend.versions().values(), "-cl-std=CL"):
        if part not in (backend.versions()["pyopencl"], backend.versions()["language"]):
            assert part in key


def python(script: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment, timeout=60
    )
    return done.stdout.strip() + done.stderr.strip()


def test_without_a_driver_the_reason_says_what_to_install(tmp_path: Any) -> None:
    pytest.importorskip("pyopencl")
    script = "from tinyref.device import Device; print(Device.availability('OPENCL'))"
    said = python(script, OCL_ICD_VENDORS=str(tmp_path))
    assert "works=False" in said
    assert "no OpenCL driver (ICD) is installed" in said
    assert "pocl-opencl-icd" in said
    assert str(tmp_path) in said


def test_without_pyopencl_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    actual = OpenCLBackend.availability()
    assert not actual.works
    assert "pip install '.[opencl]' in a clone of tinyref" in actual.reason


@needs_driver
def test_devices_are_numbered_over_all_platforms() -> None:
    script = """
from tinyref.device import Device
from tinyref.errors import DeviceError
one, two = Device["OPENCL"], Device["OPENCL:1"]
memory = two.allocator.allocate(4)
two.allocator.copy_in(memory, memoryview(b"abcd"))
data = bytearray(4)
two.allocator.copy_out(memoryview(data), memory)
print(bytes(data), one.capabilities.is_single, two.capabilities.is_single)
try:
    Device["OPENCL:2"]
except DeviceError as error:
    print(error)
"""
    if "pthread" not in AVAILABLE.reason:
        pytest.skip("only PoCL is told by POCL_DEVICES how many devices it has")
    said = python(script, POCL_DEVICES="basic basic")
    assert said.startswith("b'abcd' False True\nOPENCL:2: there are 2 such devices")


class FakeDevice:
    """A device's answers, those of a small embedded GPU."""

    extensions = ""
    profile = "EMBEDDED_PROFILE"
    double_fp_config = 0
    single_fp_config = 6
    address_bits = 32
    max_work_group_size = 64
    max_work_item_sizes = (64, 64, 16)
    local_mem_size = 1024
    max_parameter_size = 256
    image_support = 0


def test_a_small_device_declares_little() -> None:
    actual = capabilities_of(FakeDevice(), is_last=False)
    assert actual.dtypes.isdisjoint({dtypes.float64, dtypes.float16, dtypes.int64, dtypes.uint64})
    assert {dtypes.float16, dtypes.int64, dtypes.uint64} <= actual.emulated
    assert not actual.keeps_subnormals
    assert not actual.images
    assert not actual.is_single
    assert actual.shared_bytes == 1024
    assert actual.buffer_limit == 8
    assert actual.group_limit == (64, 64, 16)
    assert actual.grid_limit == ((2**32 - 1) // 64,) * 3


def test_what_extensions_add_is_declared() -> None:
    device = FakeDevice()
    device.extensions = "cl_khr_fp16 cles_khr_int64"
    device.single_fp_config = 7
    actual = capabilities_of(device, is_last=True)
    assert {dtypes.float16, dtypes.int64, dtypes.uint64} <= actual.dtypes
    assert actual.keeps_subnormals
    assert actual.is_single


@needs_driver
def test_a_launch_that_failed_is_said_by_the_next_wait(backend: OpenCLBackend) -> None:
    cl = backend.session.cl
    session = Session("OPENCL", backend.session.device, [])
    event = Mock(wait=Mock(side_effect=cl.RuntimeError("EXEC_STATUS_ERROR")))
    session._pending.append(event)
    with pytest.raises(DeviceError, match="a launch failed"):
        session.finish()
    session.finish()
