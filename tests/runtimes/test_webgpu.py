"""The WEBGPU device under sources written by hand: memory at any byte, order, errors."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.runtimes.by_hand import get, load, put
from tinyref import Tensor, Variable
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.runtimes import webgpu
from tinyref.runtimes.webgpu import WebgpuBackend

AVAILABLE = WebgpuBackend.availability()
needs_adapter = pytest.mark.skipif(not AVAILABLE.works, reason=AVAILABLE.reason)

# a[i] = b[i] * factor, and a third buffer that the kernel never uses.
SCALE = """
@group(0) @binding(0) var<storage, read> launch_words: array<u32, 5>;
@group(0) @binding(1) var<storage, read_write> a: array<i32>;
@group(0) @binding(2) var<storage, read_write> b: array<i32>;
@group(0) @binding(3) var<storage, read_write> unused: array<i32>;
@compute @workgroup_size(1)
fn scale(@builtin(workgroup_id) group: vec3<u32>) {
  let a_at = launch_words[2] / 4u;
  let b_at = launch_words[3] / 4u;
  a[a_at + group.x] = b[b_at + group.x] * bitcast<i32>(launch_words[1]);
}
"""


@pytest.fixture(scope="module")
def backend() -> WebgpuBackend:
    opened = Device["WEBGPU"]
    assert isinstance(opened, WebgpuBackend)
    return opened


@needs_adapter
@pytest.mark.parametrize("nbytes", [1, 2, 3, 5])
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 6])
def test_bytes_are_copied_to_and_from_anywhere(
    backend: WebgpuBackend, offset: int, nbytes: int
) -> None:
    allocator = backend.allocator
    memory = put(allocator, np.arange(16, dtype=np.uint8))
    piece = allocator.view(memory, offset, nbytes)
    assert get(allocator, piece, np.uint8) == list(range(offset, offset + nbytes))
    allocator.copy_in(piece, memoryview(bytes(range(100, 100 + nbytes))))
    expected = [*range(offset), *range(100, 100 + nbytes), *range(offset + nbytes, 16)]
    assert get(allocator, memory, np.uint8) == expected


@needs_adapter
def test_memory_that_no_adapter_has_is_a_device_error(backend: WebgpuBackend) -> None:
    with pytest.raises(DeviceError, match="cannot allocate 1099511627776 bytes"):
        backend.allocator.allocate(1 << 40)
    # What comes later is not spoiled by it.
    assert get(backend.allocator, put(backend.allocator, np.array([7])), np.int64) == [7]


@needs_adapter
def test_a_source_without_words_of_a_launch_is_refused(backend: WebgpuBackend) -> None:
    with pytest.raises(DeviceError, match="has no words of a launch"):
        load(backend, "scale", "@compute @workgroup_size(1) fn scale() { }")


@needs_adapter
def test_an_error_belongs_to_the_launch_that_caused_it(backend: WebgpuBackend) -> None:
    allocator = backend.allocator
    kernel = load(backend, "scale", SCALE)
    out, operands = (
        put(allocator, np.zeros(4, np.int32)),
        put(allocator, np.arange(4, dtype=np.int32)),
    )
    kernel([out, operands, operands], (2, 1, 1), (1, 1, 1), [10])
    with pytest.raises(DeviceError, match="scale: cannot launch") as caught:
        kernel([out, operands, operands], (70_000, 1, 1), (1, 1, 1), [20])
    assert "65535" in caught.value.message
    kernel([out, operands, operands], (4, 1, 1), (1, 1, 1), [30])
    assert get(allocator, out, np.int32) == [0, 30, 60, 90]


@needs_adapter
@pytest.mark.parametrize("has_clock", [True, False])
def test_seconds_are_positive_and_finite(
    backend: WebgpuBackend, has_clock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_clock:
        without = [name for name in backend.features if name != "timestamp-query"]
        monkeypatch.setattr(backend, "features", without)
    allocator = backend.allocator
    kernel = load(backend, "scale", SCALE)
    memory = put(allocator, np.zeros(4, np.int32))
    seconds = kernel([memory, memory, memory], (4, 1, 1), (1, 1, 1), [1], wait=True)
    assert math.isfinite(seconds)
    assert 0 < seconds < 60


@needs_adapter
def test_types_are_those_of_the_features_that_the_adapter_has(backend: WebgpuBackend) -> None:
    core = webgpu._capabilities((), backend.limits)
    assert core.dtypes == {dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32}
    assert {dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.int8} <= core.emulated
    more = webgpu._capabilities(("shader-f16", "shader-int64", "shader-f64"), backend.limits)
    assert more.dtypes - core.dtypes == {
        dtypes.float16,
        dtypes.float64,
        dtypes.int64,
        dtypes.uint64,
    }
    assert not more.dtypes & more.emulated


@needs_adapter
def test_another_number_than_there_are_adapters_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"WEBGPU:99: there are \d+ such devices: "):
        WebgpuBackend(99)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    webgpu._wgpu.cache_clear()
    webgpu._adapters.cache_clear()
    monkeypatch.setitem(sys.modules, "wgpu", None)
    try:
        actual = WebgpuBackend.availability()
    finally:
        webgpu._wgpu.cache_clear()
        webgpu._adapters.cache_clear()
    assert not actual.works
    assert "pip install '.[webgpu]' in a clone of tinyref" in actual.reason


@pytest.mark.long
@needs_adapter
def test_without_a_driver_the_driver_is_named() -> None:
    """Run another process, which finds no Vulkan driver."""
    script = "from tinyref.device import Device; print(Device.availability('WEBGPU'))"
    environment = {**os.environ, "VK_DRIVER_FILES": "/none.json", "VK_ICD_FILENAMES": "/none.json"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert "works=False" in done.stdout
    assert "mesa-vulkan-drivers" in done.stdout


# Defects of docs/found.md: once one fails, what goes around it may go. naga-2 is accepted.
HALVES = """enable f16;
@group(0) @binding(0) var<storage, read_write> a: array<u32>;
@compute @workgroup_size(1) fn halves() { %s }
"""
NAGA = {
    "naga-1": (
        HALVES % "let h: vec2<f16> = bitcast<vec2<f16>>(a[0]); a[0] = bitcast<u32>(h);",
        "expected to be `vec2<f16>`, but got `f32`",
    ),
    "naga-2": (
        "@compute @workgroup_size(4) fn divergent(@builtin(local_invocation_id) id: vec3<u32>) {\n"
        "  if (id.x == 1u) { workgroupBarrier(); }\n}\n",
        "",
    ),
    "naga-3": (
        HALVES % "a[0] = bitcast<u32>(vec2<f16>(1.0h, 2.0h));",
        "automatic conversions cannot convert elements",
    ),
}


@needs_adapter
@pytest.mark.parametrize("name", NAGA)
def test_defects_of_naga_still_stand(backend: WebgpuBackend, name: str) -> None:
    source, words = NAGA[name]
    if "f16" in source and "shader-f16" not in backend.features:
        pytest.skip("the adapter has no shader-f16")
    if not words:
        assert backend.compiler.compile(source) == source.encode()
        return
    with pytest.raises(DeviceError, match=words):
        backend.compiler.compile(source)


@needs_adapter
def test_lavapipe_2_a_widened_integer_is_less_than_no_constant(backend: WebgpuBackend) -> None:
    """docs/found.md has it: once this fails on lavapipe, what goes around it may go."""
    if "shader-int64" not in backend.features or "llvmpipe" not in backend.adapter.summary:
        pytest.skip("the adapter is another one, or has no shader-int64")
    source = (
        "@group(0) @binding(0) var<storage, read> launch_words: array<u32, 2>;\n"
        "@group(0) @binding(1) var<storage, read_write> a: array<u32>;\n"
        "@compute @workgroup_size(1) fn compare() {\n"
        "  let x = i64(bitcast<i32>(a[0]));\n"
        "  a[1] = select(0u, 1u, x < 32li);\n"
        "  a[2] = select(0u, 1u, x < 32li + i64(launch_words[0]));\n"
        "}\n"
    )
    memory = put(backend.allocator, np.array([5, 7, 7], np.uint32))
    load(backend, "compare", source)([memory])
    assert get(backend.allocator, memory, np.uint32) == [5, 0, 1]


@needs_adapter
def test_a_driver_that_compiles_for_the_words_of_a_launch_knows_no_zero() -> None:
    """Bound a loop by a variable: lavapipe compiled for its value, and knew the zero next to it.

    Then 2 ** (x - most) lost its fraction, as (x + 1.5 * 2 ** 23) - 1.5 * 2 ** 23 became x.
    """
    size = Variable("size", 1, 8)
    x = Tensor([[0.25 * column - row for column in range(8)] for row in range(4)])
    part = x.to("WEBGPU").realize()[:, : size.bind(5)]
    actual = (part - part.max(axis=1, keepdim=True)).exp().sum(axis=1).numpy()
    expected = sum(math.exp(-0.25 * step) for step in range(5))
    np.testing.assert_allclose(actual, [expected] * 4, rtol=1e-6)
