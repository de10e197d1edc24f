"""METAL under a framework of fake objects: no Mac has run it. What it calls, and what it says."""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Callable

import numpy as np
import pytest

from tests.runtimes import fake_metal
from tests.runtimes.by_hand import METAL_SCALE as SCALE
from tests.runtimes.by_hand import get, load, put
from tests.runtimes.fake_metal import (
    M1,
    CompileOptions,
    FakeDevice,
    OldCompileOptions,
    install,
)
from tinyref import Tensor, TinyJit
from tinyref.config import Context
from tinyref.contract import Launch
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.runtimes.metal_backend import MAX_PENDING, MetalBackend

INTEL = frozenset[int]()
NAME = "tinyref.runtimes.metal_backend:MetalBackend"

needs_cpp = pytest.mark.skipif(
    not Device.availability("METAL_EMU").works, reason="the fake GPU is METAL_EMU"
)


def test_elsewhere_it_says_that_it_is_of_macos() -> None:
    if platform.system() == "Darwin":
        pytest.skip("this is macOS")
    available = Device.availability("METAL")
    assert not available.works
    assert available.reason == (
        f"Metal is part of macOS, and this is {platform.system()}: "
        "pip install '.[metal]' in a clone of tinyref on a Mac, or take METAL_EMU"
    )


def test_on_a_mac_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setitem(sys.modules, "Metal", None)
    available = MetalBackend.availability()
    assert not available.works
    assert available.reason.startswith(
        "its bindings are missing: pip install '.[metal]' in a clone of tinyref ("
    )


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a Mac with these GPUs."""
    return functools.partial(install, monkeypatch)


@pytest.fixture
def backend(mac: Callable[..., None]) -> MetalBackend:
    mac(M1)
    return MetalBackend()


def test_devices_have_numbers_and_the_preferred_one_is_first(mac: Callable[..., None]) -> None:
    mac(M1, FakeDevice("Radeon", 8, INTEL))
    assert MetalBackend.availability().reason == "M1, Radeon"
    second = MetalBackend(1)
    assert second.name == "METAL:1"
    assert second.session.device.name() == "Radeon"
    assert second.capabilities.is_single
    assert not MetalBackend().capabilities.is_single
    with pytest.raises(DeviceError, match="there are 2 such devices: M1, Radeon"):
        MetalBackend(2)


def test_a_mac_without_a_gpu(mac: Callable[..., None]) -> None:
    mac()
    assert MetalBackend.availability().reason.startswith("macOS has no GPU for Metal here")


def test_a_family_of_gpus_declares_what_it_has(mac: Callable[..., None]) -> None:
    mac(M1)
    actual = MetalBackend().capabilities
    assert {dtypes.bfloat16, dtypes.float16, dtypes.int64} <= actual.dtypes
    assert dtypes.float64 not in actual.dtypes | actual.emulated
    assert [tile.name for tile in actual.matrix_tiles] == [
        "apple_m8n8k8_float32_float32",
        "apple_m8n8k8_float16_float16",
        "apple_m8n8k8_bfloat16_bfloat16",
    ]
    assert not actual.keeps_subnormals
    assert (actual.shared_bytes, actual.group_size_limit) == (32768, 1024)
    assert actual.buffer_limit == 23


def test_before_macos_14_bfloat_is_emulated(mac: Callable[..., None]) -> None:
    mac(M1, version="13.6")
    actual = MetalBackend().capabilities
    assert dtypes.bfloat16 in actual.emulated - actual.dtypes
    assert len(actual.matrix_tiles) == 2
    mac(FakeDevice("Iris", 7, INTEL))
    actual = MetalBackend().capabilities
    assert dtypes.bfloat16 in actual.emulated - actual.dtypes
    assert actual.matrix_tiles == ()


@pytest.mark.parametrize("flag", [0, 1])
def test_no_flag_asks_for_fast_mathematics(mac: Callable[..., None], flag: int) -> None:
    for options, expected in (
        (CompileOptions, {"mathMode": 0, "mathFloatingPointFunctions": 1}),
        (OldCompileOptions, {"fastMathEnabled": False}),
    ):
        mac(M1, options=options)
        with Context(STRICT_FLOAT=flag):
            assert MetalBackend().session.options.set == expected


@pytest.mark.long
@needs_cpp
def test_more_launches_than_a_queue_has_buffers_for(backend: MetalBackend) -> None:
    memory = put(backend.allocator, np.ones(1, np.int32))
    kernel = load(backend, "scale", SCALE)
    for _ in range(2 * MAX_PENDING + 1):
        kernel([memory, memory], (1, 1, 1), (1, 1, 1), [-1])
        assert len(backend.session._pending) <= MAX_PENDING
    backend.synchronize()
    assert not backend.session._pending
    assert get(backend.allocator, memory, np.int32) == [-1]


@pytest.mark.long
@needs_cpp
def test_a_group_that_is_too_large_for_the_registers(backend: MetalBackend) -> None:
    memory = put(backend.allocator, np.ones(1, np.int32))
    kernel = load(backend, "scale", SCALE + "// many registers\n")
    message = "scale: the GPU has registers for groups of 64 work-items, got \\(65, 1, 1\\)"
    with pytest.raises(DeviceError, match=message):
        kernel([memory, memory], (1, 1, 1), (65, 1, 1), [1])


@pytest.mark.long
@needs_cpp
def test_after_a_fault_of_the_gpu_there_is_another_queue(backend: MetalBackend) -> None:
    """Metal ignores what the old one is given."""
    memory = put(backend.allocator, np.ones(1, np.int32))
    faulty = load(backend, "scale", SCALE + f"// {fake_metal.FAULT}\n")
    kernel = load(backend, "scale", SCALE)
    faulty([memory, memory], (1, 1, 1), (1, 1, 1), [1])
    with pytest.raises(DeviceError, match="a launch failed: Caused GPU Address Fault Error"):
        backend.synchronize()
    kernel([memory, memory], (1, 1, 1), (1, 1, 1), [7])
    assert get(backend.allocator, memory, np.int32) == [7]


@pytest.mark.long
@needs_cpp
def test_a_command_list_with_memory_that_was_freed_queues_nothing(backend: MetalBackend) -> None:
    a, b = (put(backend.allocator, np.array([2], np.int32)) for _ in range(2))
    kernel = load(backend, "scale", SCALE)
    launches = [Launch(kernel, (a, item), (1, 1, 1), (1, 1, 1), (3,)) for item in (a, b)]
    commands = backend.record(launches)
    backend.allocator.free(b)
    with pytest.raises(DeviceError, match="is used after it was freed"):
        commands()
    assert get(backend.allocator, a, np.int32) == [2]


@pytest.mark.long
@needs_cpp
def test_a_replay_is_one_command_buffer(mac: Callable[..., None]) -> None:
    mac(M1)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        y = (x * 2).contiguous()
        return (y.sum() + y).realize()

    for number in range(4):
        x = Tensor(np.full(4, number, np.float32), device=NAME).realize()
        committed = Device[NAME].session._queue.committed
        before = len(committed)
        result = step(x)
        after = len(committed)
        assert result.numpy().tolist() == [10.0 * number] * 4
    assert after == before + 1


def test_memory_that_is_not_there(backend: MetalBackend) -> None:
    allocator = backend.allocator
    with pytest.raises(DeviceError, match="cannot allocate 1073741825 bytes: one buffer has at m"):
        allocator.allocate((1 << 30) + 1)
    memory = allocator.allocate(16)
    part = allocator.view(memory, 8, 8)
    allocator.free(memory)
    for use in (lambda: allocator.free(memory), lambda: get(allocator, part, np.int32)):
        with pytest.raises(DeviceError, match="bytes is used after it was freed"):
            use()


@pytest.mark.long
@needs_cpp
def test_tensors_compute_there(mac: Callable[..., None]) -> None:
    mac(M1)
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor(rows, device=NAME)
    np.testing.assert_array_equal((x @ x.T).numpy(), rows @ rows.T)
    np.testing.assert_array_equal(x.cast(dtypes.float16).sum(axis=0).numpy(), rows.sum(axis=0))
