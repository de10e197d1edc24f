"""The CUDA device over a driver that is none: order of calls, arguments, copies, errors.

No GPU took part: that the calls are those of cuda-bindings is compared where it is installed.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtimes.by_hand import CUDA_SCALE, get, load, put
from tests.runtimes.fake_cuda import FakeDriver, FakeNvrtc, install
from tinyref.backend import dtypes
from tinyref.config import Context
from tinyref.contract import Launch
from tinyref.device import Device, Health
from tinyref.errors import DeviceError
from tinyref.runtimes import cuda_driver
from tinyref.runtimes.cuda_backend import CudaBackend
from tinyref.runtimes.cuda_compilers import capabilities_of
from tinyref.runtimes.cuda_driver import ADVICE, ENDED, PROCESS, STICKY
from tinyref.runtimes.emulated.text_devices import CudaEmuBackend
from tinyref.uops.tiles import GROUPS

EMULATOR = CudaEmuBackend.availability()
needs_emulator = pytest.mark.skipif(not EMULATOR.works, reason=EMULATOR.reason)
needs_bindings = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason="cuda-bindings is not installed"
)


@pytest.fixture
def nvrtc(monkeypatch: pytest.MonkeyPatch) -> FakeNvrtc:
    compiler = FakeNvrtc()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", compiler)  # type: ignore[arg-type]
    return compiler


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, nvrtc: FakeNvrtc) -> Callable[..., FakeDriver]:
    """Have the CUDA device use a driver of such devices as the driver of the machine."""
    return functools.partial(install, monkeypatch)


# What a device declares


@pytest.mark.parametrize(
    ("capability", "has_bfloat16", "group"),
    [((7, 5), False, "NVIDIA_SM75"), ((8, 0), True, "NVIDIA_SM80"), ((12, 0), True, "NVIDIA_SM80")],
)
def test_types_and_tiles_are_those_of_the_compute_capability(
    capability: tuple[int, int], has_bfloat16: bool, group: str
) -> None:
    declared = capabilities_of(capability)
    assert (dtypes.bfloat16 in declared.dtypes) is has_bfloat16
    assert (dtypes.bfloat16 in declared.emulated) is not has_bfloat16
    assert dtypes.float16 in declared.dtypes
    assert set(dtypes.fp8s) <= declared.emulated
    assert declared.matrix_tiles == GROUPS[group]


def test_limits_are_those_that_the_driver_says(fake: Any) -> None:
    fake((8, 6), (9, 0))
    first, second = CudaBackend(0), CudaBackend(1)
    assert first.capabilities.shared_bytes == 49152
    assert (first.capabilities.is_single, second.capabilities.is_single) == (False, True)
    assert first.versions() == {
        "device": "Fake GPU (compute capability 8.6)",
        "driver": "CUDA 13.0",
        "compiler": "13.4",
    }
    assert "--gpu-architecture=sm_86" in first.compiler.key
    assert "--gpu-architecture=sm_90" in second.compiler.key


# Launches


@needs_emulator
def test_launches_that_are_recorded_are_one_call(fake: Any) -> None:
    """Pass only changed launches to the driver again."""
    driver = fake((9, 0))
    backend = CudaBackend()
    part = put(backend.allocator, np.ones(4, np.int32))
    launch = Launch(load(backend, "scale", CUDA_SCALE), (part, part), (4, 1, 1), (1, 1, 1), (2,))
    commands = backend.record([launch, launch, launch])
    before = len(driver.names())
    commands()
    commands.rebind(1, 0, part)
    commands.vary(1, (2, 1, 1), [1])
    commands()
    commands()
    assert driver.names()[before:] == [
        "cuGraphLaunch",
        "cuGraphExecKernelNodeSetParams",
        "cuGraphLaunch",
        "cuGraphLaunch",
    ]


@needs_emulator
def test_a_launch_that_is_timed_is_measured_by_events(fake: Any) -> None:
    driver = fake((9, 0))
    backend = CudaBackend()
    part = put(backend.allocator, np.zeros(4, np.int32))
    kernel = load(backend, "scale", CUDA_SCALE)
    for _ in range(2):
        assert kernel([part, part], (4, 1, 1), (1, 1, 1), [1], wait=True) == 0.25e-3
    expected = ["cuEventRecord", "cuLaunchKernel", "cuEventRecord", "cuStreamSynchronize"]
    assert driver.names()[-7:-2] == [*expected, "cuEventElapsedTime"]
    # One for the piece of pinned memory, which stays.
    assert driver.names().count("cuEventCreate") == 5
    assert driver.names().count("cuEventDestroy") == 4


@needs_emulator
def test_each_thread_gets_the_context(fake: Any) -> None:
    driver = fake((9, 0))
    backend = CudaBackend()
    driver.current = None
    seen: list[Any] = []

    def work() -> None:
        backend.synchronize()
        seen.append(driver.current)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [backend.session.context]
    calls = [call[0] for call in driver.calls]
    assert calls[-2:] == ["cuCtxSetCurrent", "cuStreamSynchronize"]


# Memory


def test_bytes_come_back_through_pieces_of_pinned_memory(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = fake((9, 0))
    monkeypatch.setattr(cuda_driver, "STAGE_BYTES", 16)
    backend = CudaBackend()
    data = np.arange(53, dtype=np.uint8)
    handle = put(backend.allocator, data)
    # What it was copied from may change now.
    expected = data.tolist()
    data[:] = 0
    assert get(backend.allocator, handle, np.uint8) == expected
    assert driver.names().count("cuMemcpyHtoDAsync") == 4
    assert driver.names().count("cuMemcpyDtoHAsync") == 4
    assert driver.names().count("cuMemHostAlloc") == 2


def test_no_more_memory_is_a_sentence(fake: Any) -> None:
    driver = fake((9, 0))
    inner = CudaBackend().allocator.inner
    driver.fails["cuMemAlloc"] = "OUT_OF_MEMORY"
    with pytest.raises(DeviceError) as actual:
        inner.allocate(7)
    assert actual.value.message == (
        "cannot allocate 7 bytes: the device has no more memory "
        "(CUDA_ERROR_OUT_OF_MEMORY: out of memory)"
    )
    assert inner.allocate(7).nbytes == 7, "the device is not lost"


def test_devices_that_reach_each_other_are_made_peers_once(fake: Any) -> None:
    driver = fake((9, 0), (9, 0))
    here, there = CudaBackend(0).allocator, CudaBackend(1).allocator
    source, target = put(there, np.arange(4, dtype=np.int32)), here.allocate(16)
    for _ in range(2):
        here.transfer(target, source, there)
    assert get(here, target, np.int32) == [0, 1, 2, 3]
    assert driver.peers == {(0, 1)}
    assert driver.names().count("cuCtxEnablePeerAccess") == 1


def test_a_copy_within_a_device_stays_there(fake: Any) -> None:
    driver = fake((9, 0))
    allocator = CudaBackend().allocator
    source, target = put(allocator, np.arange(4, dtype=np.int32)), allocator.allocate(16)
    allocator.transfer(target, source, allocator)
    assert get(allocator, target, np.int32) == [0, 1, 2, 3]
    assert driver.names().count("cuMemcpyDtoDAsync") == 1


# Errors


@pytest.mark.parametrize(
    ("function", "failure", "words"),
    [
        ("cuInit", "NO_DEVICE", "the driver finds no NVIDIA GPU: CUDA_VISIBLE_DEVICES may hide"),
        ("cuDevicePrimaryCtxRetain", "OUT_OF_MEMORY", "cannot open the device: the device has no"),
        ("cuDeviceGetCount", "INVALID_DEVICE", "no count of devices: CUDA_ERROR_INVALID_DEVICE"),
    ],
)
def test_a_device_that_does_not_open_says_why(
    fake: Any, function: str, failure: str, words: str
) -> None:
    fake((9, 0)).fails[function] = failure
    with pytest.raises(DeviceError) as actual:
        CudaBackend()
    assert words in actual.value.message


def test_what_is_missing_is_said_in_one_line(
    fake: Any, monkeypatch: pytest.MonkeyPatch, nvrtc: FakeNvrtc
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    assert "pip install '.[cuda]' in a clone of tinyref" in CudaBackend.availability().reason
    driver = fake((9, 0))
    assert CudaBackend.availability().reason == "Fake GPU (compute capability 9.0)"
    driver.capabilities = ()
    assert CudaBackend.availability().reason == "the driver finds no NVIDIA GPU"
    driver = fake((9, 0))
    monkeypatch.setattr(driver, "version", 12040)
    with pytest.raises(
        DeviceError, match=r"the driver supports CUDA 12\.4, but the compiler is of"
    ):
        CudaBackend()
    fake((6, 1))
    with pytest.raises(DeviceError, match=r"compute capability 6\.1\): accepted are 7\.5 and"):
        CudaBackend()
    fake((13, 0))
    newer = r"NVRTC 13\.4 does not compile for sm_130: accepted are sm_75 to sm_120; pip install"
    with pytest.raises(DeviceError, match=newer):
        CudaBackend()
    fake((9, 0))
    with pytest.raises(DeviceError, match="there are 1 such devices: Fake GPU"):
        CudaBackend(1)
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    assert "pip install '.[cuda]' in a clone of tinyref" in CudaBackend.availability().reason


@pytest.mark.parametrize(
    ("capability", "toolkit", "is_right"),
    [
        ((8, 9), (13, 0), True),
        ((9, 0), (13, 0), False),
        ((9, 0), (13, 3), False),
        ((9, 0), (13, 4), True),
        ((10, 3), (13, 3), False),
        ((10, 3), (14, 0), True),
        ((12, 0), (13, 0), True),
    ],
)
def test_a_compiler_that_loses_negations_is_refused_where_it_does(
    fake: Any,
    nvrtc: FakeNvrtc,
    capability: tuple[int, int],
    toolkit: tuple[int, int],
    is_right: bool,
) -> None:
    fake(capability)
    nvrtc.version = toolkit
    actual = CudaBackend.availability()
    assert actual.works is is_right
    if not is_right:
        words = f"the compiler of CUDA 13.{toolkit[1]} loses negations of integers on sm_"
        assert actual.reason.startswith(words)
        assert "accepted are 13.4 and later: pip install --upgrade" in actual.reason
        with pytest.raises(DeviceError, match="loses negations of integers"):
            CudaBackend()


def test_a_library_that_is_not_there_is_no_crash(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(flags: int) -> None:
        raise RuntimeError("libcuda.so.1 is not found")

    monkeypatch.setattr(FakeDriver, "cuInit", staticmethod(missing))
    fake((9, 0))
    actual = CudaBackend.availability()
    assert actual.reason.startswith(
        "no NVIDIA driver (libcuda) is installed: install the GPU's driver"
    )
    assert not PROCESS.is_started


def test_a_kernel_that_does_not_compile_has_its_log_and_source(fake: Any, nvrtc: FakeNvrtc) -> None:
    fake((9, 0))
    with pytest.raises(DeviceError) as actual:
        CudaBackend().compiler.compile("#error")
    assert actual.value.message == (
        "NVRTC does not compile the kernel for sm_90: kernel.cu(1): error here"
    )
    assert actual.value.source == "#error"
    assert nvrtc.alive == 0


def test_code_of_something_else_is_refused(fake: Any) -> None:
    fake((9, 0))
    backend = CudaBackend()
    with pytest.raises(DeviceError, match="cannot load k: CUDA_ERROR_INVALID_IMAGE"):
        backend.load("k", b"nonsense")


def test_contraction_is_asked_for_by_the_flag_alone(fake: Any) -> None:
    fake((9, 0))
    compiler = CudaBackend().compiler
    strict = compiler.key
    assert "--fmad=false" in strict
    assert "--ftz=false" in strict
    with Context(STRICT_FLOAT=0):
        assert compiler.key == strict.replace("--fmad=false", "--fmad=true")


@needs_emulator
def test_a_sticky_error_loses_the_device_and_frees_nothing_more(fake: Any) -> None:
    driver = fake((9, 0))
    backend = CudaBackend()
    part = put(backend.allocator, np.zeros(4, np.int32))
    kernel = load(backend, "scale", CUDA_SCALE)
    driver.fails["cuStreamSynchronize"] = "ILLEGAL_ADDRESS"
    with pytest.raises(DeviceError, match="a launch failed: CUDA_ERROR_ILLEGAL_ADDRESS"):
        kernel([part, part], (4, 1, 1), (1, 1, 1), [1], wait=True)
    lost = "the device is lost to this process because a kernel failed .* open it in another one"
    with pytest.raises(DeviceError, match=lost):
        backend.synchronize()
    with pytest.raises(DeviceError, match=lost):
        backend.allocator.allocate(8)
    count = len(driver.calls)
    backend.allocator.inner.free(part)
    assert len(driver.calls) == count
    # Opened again, as another process does it.
    assert fake((9, 0)) is not driver
    assert get(CudaBackend().allocator, CudaBackend().allocator.allocate(4), np.uint8) is not None


def test_a_forked_child_is_refused_and_frees_nothing(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = fake((9, 0))
    backend = CudaBackend()
    part = backend.allocator.inner.allocate(4)
    monkeypatch.setattr(PROCESS, "is_forked", True)
    with pytest.raises(DeviceError, match="CUDA was opened before this process was forked"):
        backend.synchronize()
    backend.allocator.inner.free(part)
    assert "cuMemFree" not in driver.names()


def test_a_lost_device_is_found_out_so_that_another_process_opens_it(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = fake((9, 0))
    monkeypatch.setattr(Device, "_open", {})
    health = Health("CUDA")
    assert health.problem_since() == ""
    driver.fails["cuStreamSynchronize"] = "LAUNCH_FAILED"
    with pytest.raises(DeviceError, match="a launch failed: CUDA_ERROR_LAUNCH_FAILED"):
        Device["CUDA"].synchronize()
    assert "CUDA: the device is lost to this process because a kernel failed" in (
        health.problem_since()
    )


# The calls are those of the real module


def _parameters(signature: str) -> list[str]:
    """Return names from the first line of a docstring of cuda-bindings: the last words."""
    inside = signature[signature.index("(") + 1 : signature.rindex(")")]
    # Types may have commas in brackets.
    inside = re.sub(r"\[[^\[\]]*\]", "", re.sub(r"\[[^\[\]]*\]", "", inside))
    parts = [part.partition(":")[0].split() for part in inside.split(",")]
    return [words[-1].lstrip("*") for words in parts if words]


@needs_bindings
@pytest.mark.parametrize(("name", "stand_in"), [("driver", FakeDriver), ("nvrtc", FakeNvrtc)])
def test_the_calls_are_those_of_cuda_bindings(name: str, stand_in: type[Any]) -> None:
    real = importlib.import_module(f"cuda.bindings.{name}")
    for function in (item for item in vars(stand_in) if re.match("cu[A-Z]|nvrtc[A-Z]", item)):
        if not callable(vars(stand_in)[function]) or isinstance(vars(stand_in)[function], type):
            continue
        first = getattr(real, function).__doc__.strip().splitlines()[0]
        taken = list(inspect.signature(vars(stand_in)[function]).parameters)[1:]
        assert taken == _parameters(first), function


@needs_bindings
def test_nodes_have_the_fields_of_cuda_bindings() -> None:
    real = importlib.import_module("cuda.bindings.driver").CUDA_KERNEL_NODE_PARAMS
    assert set(FakeDriver.CUDA_KERNEL_NODE_PARAMS.__annotations__) <= set(dir(real))


@needs_bindings
def test_results_have_the_numbers_of_cuda_bindings() -> None:
    real = importlib.import_module("cuda.bindings.driver")
    for name in (*STICKY, *ADVICE):
        assert hasattr(real.CUresult, f"CUDA_ERROR_{name}"), name
    assert hasattr(real.CUresult, ENDED)
    for kind in ("CUresult", "CUdevice_attribute"):
        for member in getattr(FakeDriver, kind):
            assert int(getattr(getattr(real, kind), member.name)) == int(member)
