"""A driver of NVIDIA GPUs that is none: it takes the calls of cuda-bindings and keeps account.

A kernel is the text that the fake NVRTC made its code of. `fails` says what a function answers
next; after a sticky error the device answers nothing else.
"""
# ruff: noqa: N802, N803, N815 - the names are those of cuda-bindings

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pytest

from tests.runtimes.fake_gpu import Event, FakeGpu, Function, Stream, find_function
from tinyref.runtimes.cuda_backend import CudaBackend as CudaBackend
from tinyref.runtimes.cuda_driver import PROCESS
from tinyref.runtimes.emulated.c_emulator import CUDA

# As cuda.h numbers them.
CUresult = IntEnum(
    "CUresult",
    {
        "CUDA_SUCCESS": 0,
        "CUDA_ERROR_OUT_OF_MEMORY": 2,
        "CUDA_ERROR_DEINITIALIZED": 4,
        "CUDA_ERROR_NO_DEVICE": 100,
        "CUDA_ERROR_INVALID_DEVICE": 101,
        "CUDA_ERROR_INVALID_IMAGE": 200,
        "CUDA_ERROR_NOT_FOUND": 500,
        "CUDA_ERROR_ILLEGAL_ADDRESS": 700,
        "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": 704,
        "CUDA_ERROR_LAUNCH_FAILED": 719,
    },
)
CUdevice_attribute = IntEnum(
    "CUdevice_attribute",
    {
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK": 8,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 75,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 76,
    },
)
OK = CUresult["CUDA_SUCCESS"]
STICKY = (CUresult["CUDA_ERROR_ILLEGAL_ADDRESS"], CUresult["CUDA_ERROR_LAUNCH_FAILED"])


@dataclass(eq=False)
class Context:
    """The primary context of a device, by its number."""

    device: int


@dataclass(eq=False)
class Graph:
    """Launches with the arguments that they were given."""

    work: list[Callable[[], None]] = field(default_factory=list)


class NodeParams:
    """CUDA_KERNEL_NODE_PARAMS: the arguments of `cuLaunchKernel` without a stream."""

    func: Any
    gridDimX: int
    gridDimY: int
    gridDimZ: int
    blockDimX: int
    blockDimY: int
    blockDimZ: int
    sharedMemBytes: int
    kernelParams: int

    def launch(self) -> Callable[[], None]:
        grid = (self.gridDimX, self.gridDimY, self.gridDimZ)
        group = (self.blockDimX, self.blockDimY, self.blockDimZ)
        function: Function = self.func
        return function.launch(self.kernelParams, grid, group)


class FakeDriver(FakeGpu):
    """Stands for the module cuda.bindings.driver; `capabilities` are those of its devices."""

    CUresult = CUresult
    CUdevice_attribute = CUdevice_attribute
    CUDA_KERNEL_NODE_PARAMS = NodeParams

    def __init__(self, capabilities: tuple[tuple[int, int], ...] = ((9, 0),)) -> None:
        super().__init__()
        self.capabilities = capabilities
        self.version = 13000
        self.fails: dict[str, str] = {}
        self.lost: CUresult | None = None
        self.pinned: list[Any] = []
        self.peers: set[tuple[int, int]] = set()
        self.current: Context | None = None
        self._contexts = [Context(number) for number in range(len(capabilities))]

    def names(self) -> list[str]:
        """Return the called functions in order, without `cuCtxSetCurrent`."""
        return [call[0] for call in self.calls if call[0] != "cuCtxSetCurrent"]

    def __getattribute__(self, name: str) -> Any:
        actual = super().__getattribute__(name)
        if not name.startswith("cu") or name == "current":
            return actual

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            failure = self.fails.pop(name, None)
            if failure is not None:
                result = CUresult[f"CUDA_ERROR_{failure}"]
                if result in STICKY:
                    self.lost = result
                return (result, *[None] * (len(actual(*arguments)) - 1))
            if self.lost is not None and name != "cuGetErrorString":
                return (self.lost, None)
            answer: tuple[Any, ...] = actual(*arguments)
            return answer

        return call

    # Devices

    def cuInit(self, Flags: int) -> tuple[Any, ...]:
        return (OK,)

    def cuGetErrorString(self, error: CUresult) -> tuple[Any, ...]:
        return OK, error.name.removeprefix("CUDA_ERROR_").lower().replace("_", " ").encode()

    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return OK, self.version

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return OK, len(self.capabilities)

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return OK, ordinal

    def cuDeviceGetName(self, length: int, dev: int) -> tuple[Any, ...]:
        # As a driver of H100 does: zeros behind the name, then other bytes.
        return OK, b"Fake GPU\0\0".ljust(length)

    def cuDeviceGetAttribute(self, attrib: CUdevice_attribute, dev: int) -> tuple[Any, ...]:
        major, minor = self.capabilities[dev]
        known = {75: major, 76: minor, 8: 49152}
        return OK, known[int(attrib)]

    def cuDevicePrimaryCtxRetain(self, dev: int) -> tuple[Any, ...]:
        return OK, self._contexts[dev]

    def cuCtxSetCurrent(self, ctx: Context) -> tuple[Any, ...]:
        self.current = ctx
        return (OK,)

    def cuDeviceCanAccessPeer(self, dev: int, peerDev: int) -> tuple[Any, ...]:
        return OK, 1

    def cuCtxEnablePeerAccess(self, peerContext: Context, Flags: int) -> tuple[Any, ...]:
        assert self.current is not None
        self.peers.add((self.current.device, peerContext.device))
        return (OK,)

    # Streams and events

    def cuStreamCreate(self, Flags: int) -> tuple[Any, ...]:
        return OK, self.new_stream()

    def cuStreamSynchronize(self, hStream: Stream) -> tuple[Any, ...]:
        hStream.run()
        return (OK,)

    def cuStreamWaitEvent(self, hStream: Stream, hEvent: Event, Flags: int) -> tuple[Any, ...]:
        hEvent.hold(hStream)
        return (OK,)

    def cuEventCreate(self, Flags: int) -> tuple[Any, ...]:
        return OK, Event()

    def cuEventRecord(self, hEvent: Event, hStream: Stream) -> tuple[Any, ...]:
        hEvent.record(hStream)
        return (OK,)

    def cuEventSynchronize(self, hEvent: Event) -> tuple[Any, ...]:
        hEvent.reach()
        return (OK,)

    def cuEventElapsedTime(self, hStart: Event, hEnd: Event) -> tuple[Any, ...]:
        assert hEnd.has_happened
        return OK, 0.25

    def cuEventDestroy(self, hEvent: Event) -> tuple[Any, ...]:
        return (OK,)

    # Memory

    def cuMemAlloc(self, bytesize: int) -> tuple[Any, ...]:
        return OK, self.allocate(bytesize)

    def cuMemFree(self, dptr: int) -> tuple[Any, ...]:
        assert self.free(dptr)
        return (OK,)

    def cuMemHostAlloc(self, bytesize: int, Flags: int) -> tuple[Any, ...]:
        self.pinned.append((ctypes.c_uint8 * bytesize)())
        return OK, ctypes.addressof(self.pinned[-1])

    def cuMemcpyHtoDAsync(
        self, dstDevice: int, srcHost: int, ByteCount: int, hStream: Stream
    ) -> tuple[Any, ...]:
        hStream.copy(dstDevice, srcHost, ByteCount)
        return (OK,)

    def cuMemcpyDtoHAsync(
        self, dstHost: int, srcDevice: int, ByteCount: int, hStream: Stream
    ) -> tuple[Any, ...]:
        hStream.copy(dstHost, srcDevice, ByteCount)
        return (OK,)

    def cuMemcpyDtoDAsync(
        self, dstDevice: int, srcDevice: int, ByteCount: int, hStream: Stream
    ) -> tuple[Any, ...]:
        hStream.copy(dstDevice, srcDevice, ByteCount)
        return (OK,)

    def cuMemcpyPeerAsync(
        self,
        dstDevice: int,
        dstContext: Context,
        srcDevice: int,
        srcContext: Context,
        ByteCount: int,
        hStream: Stream,
    ) -> tuple[Any, ...]:
        assert dstContext is not srcContext
        hStream.copy(dstDevice, srcDevice, ByteCount)
        return (OK,)

    # Kernels

    def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:
        if not image.startswith(b"cubin:"):
            return CUresult["CUDA_ERROR_INVALID_IMAGE"], None
        return OK, image.removeprefix(b"cubin:").decode()

    def cuModuleUnload(self, hmod: str) -> tuple[Any, ...]:
        return (OK,)

    def cuModuleGetFunction(self, hmod: str, name: bytes) -> tuple[Any, ...]:
        function = find_function(hmod, name.decode(), CUDA)
        return (CUresult["CUDA_ERROR_NOT_FOUND"], None) if function is None else (OK, function)

    def cuLaunchKernel(
        self,
        f: Function,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: Stream,
        kernelParams: int,
        extra: int,
    ) -> tuple[Any, ...]:
        """Read the values at once."""
        grid, group = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        hStream.work.append(f.launch(kernelParams, grid, group))
        return (OK,)

    # Graphs

    def cuGraphCreate(self, flags: int) -> tuple[Any, ...]:
        return OK, Graph()

    def cuGraphAddKernelNode(
        self, hGraph: Graph, dependencies: list[int], numDependencies: int, nodeParams: NodeParams
    ) -> tuple[Any, ...]:
        assert numDependencies == len(dependencies)
        assert dependencies == ([len(hGraph.work) - 1] if hGraph.work else []), "in order"
        hGraph.work.append(nodeParams.launch())
        return OK, len(hGraph.work) - 1

    def cuGraphInstantiate(self, hGraph: Graph, flags: int) -> tuple[Any, ...]:
        return OK, Graph(list(hGraph.work))

    def cuGraphExecKernelNodeSetParams(
        self, hGraphExec: Graph, hNode: int, nodeParams: NodeParams
    ) -> tuple[Any, ...]:
        hGraphExec.work[hNode] = nodeParams.launch()
        return (OK,)

    def cuGraphLaunch(self, hGraphExec: Graph, hStream: Stream) -> tuple[Any, ...]:
        hStream.work.extend(hGraphExec.work)
        return (OK,)

    def cuGraphExecDestroy(self, hGraphExec: Graph) -> tuple[Any, ...]:
        return (OK,)

    def cuGraphDestroy(self, hGraph: Graph) -> tuple[Any, ...]:
        return (OK,)


class FakeNvrtc:
    """Stands for cuda.bindings.nvrtc: its code is the text, and it refuses one with an #error."""

    nvrtcResult = IntEnum("nvrtcResult", {"NVRTC_SUCCESS": 0, "NVRTC_ERROR_COMPILATION": 6})

    def __init__(self) -> None:
        self.options: list[bytes] = []
        self.alive = 0
        self.version = (13, 4)

    def nvrtcVersion(self) -> tuple[Any, ...]:
        return 0, *self.version

    def nvrtcGetSupportedArchs(self) -> tuple[Any, ...]:
        return 0, [75, 80, 86, 89, 90, 100, 103, 120]

    def nvrtcGetErrorString(self, result: int) -> tuple[Any, ...]:
        return 0, b"NVRTC_ERROR"

    def nvrtcCreateProgram(
        self, src: bytes, name: bytes, numHeaders: int, headers: Any, includeNames: Any
    ) -> tuple[Any, ...]:
        self.alive += 1
        return 0, src

    def nvrtcDestroyProgram(self, prog: bytes) -> tuple[Any, ...]:
        self.alive -= 1
        return (0,)

    def nvrtcCompileProgram(
        self, prog: bytes, numOptions: int, options: list[bytes]
    ) -> tuple[Any, ...]:
        assert numOptions == len(options)
        self.options = options
        return (6 if b"#error" in prog else 0,)

    def nvrtcGetProgramLogSize(self, prog: bytes) -> tuple[Any, ...]:
        return 0, 30

    def nvrtcGetProgramLog(self, prog: bytes, log: bytearray) -> tuple[Any, ...]:
        log[:24] = b"kernel.cu(1): error here"
        return (0,)

    def nvrtcGetCUBINSize(self, prog: bytes) -> tuple[Any, ...]:
        return 0, len(prog) + 6

    def nvrtcGetCUBIN(self, prog: bytes, cubin: bytearray) -> tuple[Any, ...]:
        cubin[:] = b"cubin:" + prog
        return (0,)


def install(monkeypatch: pytest.MonkeyPatch, *capabilities: tuple[int, int]) -> FakeDriver:
    """Have the device CUDA take a driver of such devices, and a compiler, for the machine's."""
    driver = FakeDriver(capabilities)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)  # type: ignore[arg-type]
    if not isinstance(sys.modules.get("cuda.bindings.nvrtc"), FakeNvrtc):
        monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", FakeNvrtc())  # type: ignore[arg-type]
    monkeypatch.setattr(PROCESS, "is_started", False)
    return driver
