"""CUDA, HIP and METAL over drivers that are none: rows of the suite, order, command lists.

The work of these drivers is done as late as can be. OPENCL and WEBGPU, whose drivers are here, run
the suite itself in CI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.runtimes import fake_cuda, fake_hip, fake_metal
from tests.runtimes.by_hand import (
    CUDA_SCALE,
    HIP_SCALE,
    METAL_SCALE,
    OPENCL_SCALE,
    get,
    load,
    put,
)
from tinyref.contract import Launch
from tinyref.device import Device
from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.kernel import forget_kernels
from tinyref_spec import catalogue
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.memory.order import long_work

ROWS = (
    "memory.copy.int8",
    "memory.view.float32",
    "memory.refuse",
    "memory.launch.int32",
    "kernel.offset.int32",
)
# Rows that take seconds.
OF_CUDA = ("memory.order", "system.jit.float32", "system.transfer.order", "system.transfer.view")

# Fakes: what stands in for the driver, the device that has to work here, and the name of it.
FAKES: dict[str, tuple[Callable[[pytest.MonkeyPatch], object], str, str]] = {
    "CUDA": (lambda patch: fake_cuda.install(patch, (9, 0), (9, 0)), "CUDA_EMU", CUDA_SCALE),
    "tests.runtimes.fake_hip:FakeHipBackend": (fake_hip.install, "HIP_EMU", HIP_SCALE),
    "METAL": (lambda patch: fake_metal.install(patch, fake_metal.M1), "METAL_EMU", METAL_SCALE),
}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Open a device again, over its fake if it has one."""

    def prepare(name: str) -> None:
        install, needed, _ = FAKES.get(name, (None, name, ""))
        available = Device.availability(needed)
        if not available.works:
            pytest.skip(f"{needed}: {available.reason}")
        if install is not None:
            install(monkeypatch)
            monkeypatch.setattr(Device, "_open", {})

    # Both hold kernels of the driver that they were made with.
    forget_kernels()
    long_work.cache_clear()
    yield prepare
    forget_kernels()
    long_work.cache_clear()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "query"),
    [
        *((name, query) for name in FAKES for query in ROWS),
        *(("CUDA", query) for query in OF_CUDA),
    ],
)
def test_rows_of_drivers_pass(driver: Callable[[str], None], name: str, query: str) -> None:
    driver(name)
    cases = catalogue.cases(query=query)
    results = [(case.id, case.run(DeviceUnderTest(name))) for case in cases]
    assert results
    assert [f"{case}: {result.message}" for case, result in results if not result.passed] == []


MISSING = {
    "CUDA": "no kernel other: CUDA_ERROR_NOT_FOUND",
    "tests.runtimes.fake_hip:FakeHipBackend": "hipModuleGetFunction: hipErrorInvalidValue: inv",
    "METAL": "the source has no kernel other",
    "OPENCL": "no kernel other",
}


@pytest.mark.parametrize("name", MISSING)
def test_launches_that_are_none_and_kernels_that_are_not_there(
    driver: Callable[[str], None], name: str
) -> None:
    driver(name)
    backend = Device[name]
    source = FAKES[name][2] if name in FAKES else OPENCL_SCALE
    kernel = load(backend, "scale", source)
    memory = put(backend.allocator, np.ones(1, np.int32))
    assert kernel([memory, memory], (0, 1, 1), (1, 1, 1), [5], wait=True) == 0.0
    assert kernel([memory, memory], (0, 1, 1), (1, 1, 1), [5]) is None
    with pytest.raises(UserError, match=r"scale: got grid \(-1, 1, 1\) and group \(1, 1, 1\)"):
        kernel([memory, memory], (-1, 1, 1), (1, 1, 1), [5])
    assert get(backend.allocator, memory, np.int32) == [1]
    with pytest.raises(DeviceError, match=MISSING[name]):
        load(backend, "other", source)


@pytest.mark.parametrize("name", FAKES)
def test_copies_and_frees_come_after_the_launches_before_them(
    driver: Callable[[str], None], name: str
) -> None:
    driver(name)
    backend = Device[name]
    allocator, kernel = backend.allocator, load(backend, "scale", FAKES[name][2])
    target, other = (put(allocator, np.zeros(2, np.int32)) for _ in range(2))
    for factor in range(1, 4):
        source = put(allocator, np.array([1, 2], np.int32))
        kernel([target, source], (2, 1, 1), (1, 1, 1), [factor])
        allocator.free(source)
    kernel([other, target], (2, 1, 1), (1, 1, 1), [1])
    # The launch sees the old bytes, and what was copied from may change at once.
    values = np.array([9, 9], np.int32)
    allocator.copy_in(target, memoryview(values).cast("B"))
    values[:] = 0
    assert get(allocator, other, np.int32) == [3, 6]
    assert get(allocator, target, np.int32) == [9, 9]
    # A launch that is waited for has a time, and parts begin where they should.
    seconds = kernel([allocator.view(target, 4, 4), other], (1, 1, 1), (1, 1, 1), [7], wait=True)
    assert 0 < seconds < 60
    assert get(allocator, target, np.int32) == [9, 21]


def test_hip_copies_from_another_device_between_the_launches_there(
    driver: Callable[[str], None],
) -> None:
    name = "tests.runtimes.fake_hip:FakeHipBackend"
    driver(name)
    here, there = Device[name], Device[f"{name}:1"]
    kernel = load(there, "scale", HIP_SCALE)
    first = put(there.allocator, np.array([1, 2], np.int32))
    source = put(there.allocator, np.zeros(2, np.int32))
    target = put(here.allocator, np.zeros(2, np.int32))
    kernel([source, first], (2, 1, 1), (1, 1, 1), [10])
    here.allocator.transfer(target, source, there.allocator)  # type: ignore[attr-defined]
    assert get(here.allocator, target, np.int32) == [10, 20]
    here.allocator.transfer(target, source, there.allocator)  # type: ignore[attr-defined]
    kernel([source, first], (2, 1, 1), (1, 1, 1), [0])
    there.synchronize()
    assert get(here.allocator, target, np.int32) == [10, 20]


@pytest.mark.parametrize("name", ["CUDA", "METAL"])
def test_a_command_list_is_called_with_what_is_bound_then(
    driver: Callable[[str], None], name: str
) -> None:
    driver(name)
    backend = Device[name]
    kernel = load(backend, "scale", FAKES[name][2])
    a, other, b, c = (
        put(backend.allocator, np.array([value, value], np.int32)) for value in (2, 3, 0, 0)
    )
    launches = [
        Launch(kernel, buffers, (2, 1, 1), (1, 1, 1), (factor,))
        for buffers, factor in (((b, a), 3), ((c, b), 10))
    ]
    commands = backend.record(launches)
    assert commands is not None
    assert get(backend.allocator, c, np.int32) == [0, 0]
    commands()
    # What is bound later changes nothing of a call that is queued.
    commands.rebind(0, 1, other)
    commands.vary(1, (1, 1, 1), [100])
    assert get(backend.allocator, c, np.int32) == [60, 60]
    commands()
    assert get(backend.allocator, c, np.int32) == [900, 60]
