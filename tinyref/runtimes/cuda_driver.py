"""The NVIDIA driver through cuda-bindings: devices, sessions, memory, launches and graphs.

A function of cuda-bindings returns a tuple, the result first. Every failure leaves this module as a
`DeviceError` with the driver's message.

A copy from or to host memory that is not pinned would wait for the stream first (CUDA Driver API,
"API synchronization behavior"). Bytes therefore go through two pinned pieces in turn: the device
copies one while the host fills or empties the other.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.contract import Launch
from tinyref.errors import DeviceError
from tinyref.runtimes.cuda_compilers import bindings
from tinyref.runtimes.driver_checks import (
    BufferPart,
    DriverProcess,
    PartAllocator,
    check_copy_in,
    check_copy_out,
    check_size,
)
from tinyref.runtimes.drivers import AddressArguments, DriverKernel, Extents
from tinyref.runtimes.kernel import LaunchesInARow

PROCESS = DriverProcess("CUDA")

# Bytes of a pinned piece: enough that the start of a copy takes little of the time.
STAGE_BYTES = 4 * 2**20
# A stream that does not wait for the default one (CU_STREAM_NON_BLOCKING).
STREAM_FLAGS = 1
# After these errors a context answers nothing else (CUDA Driver API, "Data types used by CUDA
# driver", CUresult: "This leaves the process in an inconsistent state").
STICKY = frozenset(
    (
        "ILLEGAL_ADDRESS",
        "MISALIGNED_ADDRESS",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "ILLEGAL_INSTRUCTION",
        "HARDWARE_STACK_ERROR",
        "ASSERT",
        "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT",
        "ECC_UNCORRECTABLE",
        "NVLINK_UNCORRECTABLE",
        "CONTAINED",
        "CONTEXT_IS_DESTROYED",
        "TENSOR_MEMORY_LEAK",
        "EXTERNAL_DEVICE",
    )
)
# When a process ends, the driver may be gone before its memory is freed.
ENDED = "CUDA_ERROR_DEINITIALIZED"
_NO_DRIVER = (
    "no NVIDIA driver (libcuda) is installed: install the GPU's driver, such as apt-get install "
    "nvidia-driver"
)
# Advice about an error, in front of the driver's own message.
ADVICE = {
    "NO_DEVICE": "the driver finds no NVIDIA GPU: CUDA_VISIBLE_DEVICES may hide it",
    "STUB_LIBRARY": "the loaded libcuda is the stub of a toolkit, not a driver",
    "SYSTEM_DRIVER_MISMATCH": "libcuda and the driver of the kernel are of two versions: reboot",
    "CALL_REQUIRES_NEWER_DRIVER": "the driver is too old: update it",
    "OUT_OF_MEMORY": "the device has no more memory",
    "NO_BINARY_FOR_GPU": "the kernel is compiled for another architecture",
    "UNSUPPORTED_PTX_VERSION": "the driver is older than the compiler of the kernel: update it",
}


@dataclass(frozen=True)
class CudaDevice:
    """A device of the driver: its number, its name and its compute capability."""

    number: int
    name: str
    capability: tuple[int, int]

    def __str__(self) -> str:
        major, minor = self.capability
        return f"{self.name} (compute capability {major}.{minor})"


class Driver:
    """The library of the driver, for errors of `device`; it opens no device.

    Raises `DeviceError` if there is no driver, and in a process forked from one that had opened it.
    """

    def __init__(self, device: str) -> None:
        PROCESS.check(device)
        self.device = device
        self.library = bindings(device, "driver")
        PROCESS.is_started = True
        try:
            answer = self.library.cuInit(0)
        except RuntimeError as error:
            # The module exists, but the library that it loads at the first call does not.
            PROCESS.is_started = False
            raise DeviceError(device, _NO_DRIVER) from error
        self.checked("the driver does not start", answer)

    def checked(self, what: str, answer: Sequence[Any]) -> Any:
        """Return the values of a call after its result: none, one or a tuple of them."""
        result, *values = answer
        if result != self.library.CUresult.CUDA_SUCCESS:
            raise DeviceError(self.device, f"{what}: {self.words(result)}")
        return values[0] if len(values) == 1 else tuple(values)

    def words(self, result: Any) -> str:
        """Describe a result: advice, if there is any, and the driver's own message."""
        _, spoken = self.library.cuGetErrorString(result)
        text = spoken.decode() if isinstance(spoken, bytes) else str(spoken)
        advice = ADVICE.get(_short(result))
        own = f"{result.name}: {text}"
        return own if advice is None else f"{advice} ({own})"

    @property
    def version(self) -> tuple[int, int]:
        """Return the newest CUDA that the driver supports, such as (13, 0)."""
        number = self.checked("the driver has no version", self.library.cuDriverGetVersion())
        return number // 1000, number % 1000 // 10

    def devices(self) -> list[CudaDevice]:
        """Return all devices in order."""
        count = self.checked("no count of devices", self.library.cuDeviceGetCount())
        return [self._device(number) for number in range(count)]

    def _device(self, number: int) -> CudaDevice:
        device = self.checked("no such device", self.library.cuDeviceGet(number))
        name = self.checked("a device has no name", self.library.cuDeviceGetName(128, device))
        major = self.attribute(device, "COMPUTE_CAPABILITY_MAJOR")
        minor = self.attribute(device, "COMPUTE_CAPABILITY_MINOR")
        # The driver may fill the buffer with anything after the first zero.
        return CudaDevice(number, name.partition(b"\0")[0].decode(errors="replace"), (major, minor))

    def attribute(self, device: Any, name: str) -> int:
        """Return a number that the driver has for a device."""
        key = getattr(self.library.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.checked(f"no {name}", self.library.cuDeviceGetAttribute(key, device)))


class Session:
    """One opened device: its primary context, and the stream that runs everything in order.

    A sticky error ends it: each later call reports that, and another process must open the device.
    """

    def __init__(self, name: str, driver: Driver, number: int) -> None:
        self.name = name
        self.driver = driver
        self.number = number
        self.library = driver.library
        self.lost = ""
        self.device = driver.checked("no such device", self.library.cuDeviceGet(number))
        retained = self.library.cuDevicePrimaryCtxRetain(self.device)
        self.context = driver.checked("cannot open the device", retained)
        self.stream = self.call("no stream", "cuStreamCreate", STREAM_FLAGS)
        self._peers: set[int] = set()

    def call(self, what: str, function: str, *arguments: Any) -> Any:
        """Call the driver with the context of this device, on any thread.

        Returns what `Driver.checked` does. Raises `DeviceError`: "what: the driver's message".
        """
        PROCESS.check(self.name)
        if self.lost:
            raise DeviceError(self.name, self.lost)
        # Other code may have changed the current context of this thread.
        self._checked("the context is not there", self.library.cuCtxSetCurrent(self.context))
        return self._checked(what, getattr(self.library, function)(*arguments))

    def _checked(self, what: str, answer: Sequence[Any]) -> Any:
        result = answer[0]
        if result != self.library.CUresult.CUDA_SUCCESS and _short(result) in STICKY:
            self.lost = (
                f"the device is lost to this process because a kernel failed "
                f"({self.driver.words(result)}): open it in another one"
            )
        return self.driver.checked(what, answer)

    def finish(self) -> None:
        """Wait for all queued work. Raises `DeviceError` for a launch that failed."""
        self.call("a launch failed", "cuStreamSynchronize", self.stream)

    def new_event(self, is_timed: bool = False) -> Any:
        """Create an event; without a time it costs less (CU_EVENT_DISABLE_TIMING)."""
        return self.call("no event", "cuEventCreate", 0 if is_timed else 2)

    def record(self, event: Any) -> None:
        """Let the event happen when all work queued now is done."""
        self.call("cannot record an event", "cuEventRecord", event, self.stream)

    def wait_for(self, event: Any) -> None:
        """Order all later work after the event, of this or another device."""
        self.call("cannot wait for an event", "cuStreamWaitEvent", self.stream, event, 0)

    def open_peer(self, other: Session) -> None:
        """Enable direct copies from another device to this one, if the driver offers them."""
        if other.number in self._peers:
            return
        self._peers.add(other.number)
        pair = (self.device, other.device)
        if self.call("no answer about peers", "cuDeviceCanAccessPeer", *pair):
            already = "PEER_ACCESS_ALREADY_ENABLED"
            (result,) = self.library.cuCtxEnablePeerAccess(other.context, 0)
            if _short(result) != already:
                self._checked("no access to a peer", (result,))

    @contextmanager
    def event(self, is_timed: bool = False) -> Iterator[Any]:
        """Yield an event for the block; the driver keeps it while a stream waits for it."""
        event = self.new_event(is_timed)
        try:
            yield event
        finally:
            self.release("cuEventDestroy", event)

    def release(self, function: str, handle: Any) -> None:
        """Free a handle of the driver, unless it belongs to a parent or the device is lost."""
        if PROCESS.is_forked or self.lost:
            return
        self.library.cuCtxSetCurrent(self.context)
        (result,) = getattr(self.library, function)(handle)
        if result != self.library.CUresult.CUDA_SUCCESS and result.name != ENDED:
            self._checked("cannot free memory", (result,))


def _short(result: Any) -> str:
    return str(result.name).removeprefix("CUDA_ERROR_")


class _Stage:
    """A pinned piece of host memory, and the event after which it is free again."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.address = int(session.call("cannot pin host memory", "cuMemHostAlloc", STAGE_BYTES, 0))
        self.event = session.new_event()
        raw = (ctypes.c_uint8 * STAGE_BYTES).from_address(self.address)
        self.bytes: npt.NDArray[np.uint8] = np.ctypeslib.as_array(raw)

    def wait(self) -> None:
        """Wait until the device has read or written it."""
        self.session.call("a copy failed", "cuEventSynchronize", self.event)


class CudaAllocator(PartAllocator):
    """An allocator for one session; sizes and offsets are in bytes, size 0 is accepted.

    The driver allocates and frees slowly, so an allocator around this one should reuse memory.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._stages: list[_Stage] = []
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> BufferPart:
        """Allocate memory. Raises `UserError` for a negative size, `DeviceError` if too large."""
        check_size(nbytes)
        what = f"cannot allocate {nbytes} bytes"
        address = self.session.call(what, "cuMemAlloc", max(nbytes, 1))
        return BufferPart(int(address), 0, nbytes)

    def free(self, handle: BufferPart) -> None:
        """Free memory; the driver waits for queued work first."""
        self.session.release("cuMemFree", handle.address)

    def copy_in(self, handle: BufferPart, source: memoryview) -> None:
        """Copy to the device. Raises `UserError` if the bytes do not fit."""
        check_copy_in(source, handle.nbytes)
        if not source.nbytes:
            return
        data = np.frombuffer(source, np.uint8)
        session = self.session
        with self._lock:
            for number, start in enumerate(range(0, len(data), STAGE_BYTES)):
                stage = self._stage(number)
                stage.wait()
                piece = data[start : start + STAGE_BYTES]
                stage.bytes[: len(piece)] = piece
                target = handle.address + start
                copy = ("cuMemcpyHtoDAsync", target, stage.address, len(piece), session.stream)
                session.call("copy_in", *copy)
                session.record(stage.event)

    def copy_out(self, destination: memoryview, handle: BufferPart) -> None:
        """Copy to the host. Raises `UserError` if the memory has fewer bytes."""
        check_copy_out(destination, handle.nbytes)
        if not destination.nbytes:
            self.session.finish()
            return
        data = np.frombuffer(destination, np.uint8)
        with self._lock:
            starts = range(0, len(data), STAGE_BYTES)
            for number, start in enumerate(starts):
                self._fetch(number, handle.address + start, len(data) - start)
                if number:
                    self._empty(number - 1, data)
            self._empty(len(starts) - 1, data)

    def _fetch(self, number: int, address: int, nbytes: int) -> None:
        """Let the device copy the next bytes to a piece of the host, all of them if they fit.

        Earlier copies from that piece come first in the stream.
        """
        stage, session = self._stage(number), self.session
        copy = ("cuMemcpyDtoHAsync", stage.address, address, min(nbytes, STAGE_BYTES))
        session.call("copy_out", *copy, session.stream)
        session.record(stage.event)

    def _empty(self, number: int, data: npt.NDArray[np.uint8]) -> None:
        """Take the bytes that `_fetch` copied as its piece of that number."""
        stage = self._stage(number)
        stage.wait()
        piece = data[number * STAGE_BYTES : (number + 1) * STAGE_BYTES]
        piece[:] = stage.bytes[: len(piece)]

    def _stage(self, number: int) -> _Stage:
        """Return the two pieces in turn; the second one is allocated at its first use."""
        index = number % 2
        if index == len(self._stages):
            self._stages.append(_Stage(self.session))
        return self._stages[index]

    def transfer(self, target: BufferPart, source: BufferPart, origin: Any) -> None:
        """Copy `source`, of the allocator `origin`, into `target` by the driver.

        Each stream waits for the other, so later work of either device comes after the copy. If
        the devices have peer access, the bytes do not pass through the host.
        """
        session, other = self.session, origin.session
        if other is session:
            copy = ("cuMemcpyDtoDAsync", target.address, source.address, source.nbytes)
            session.call("transfer", *copy, session.stream)
            return
        with other.event() as written, session.event() as copied:
            other.record(written)
            session.wait_for(written)
            session.open_peer(other)
            ends = (target.address, session.context, source.address, other.context)
            session.call("transfer", "cuMemcpyPeerAsync", *ends, source.nbytes, session.stream)
            session.record(copied)
            other.wait_for(copied)


class CudaKernel(DriverKernel):
    """A kernel of a module, launched in the order of the session's stream."""

    def __init__(self, session: Session, entry: str, image: bytes) -> None:
        self.session = session
        self.entry = entry
        module = session.call(f"cannot load {entry}", "cuModuleLoadData", image)
        weakref.finalize(self, session.release, "cuModuleUnload", module)
        lookup = ("cuModuleGetFunction", module, entry.encode())
        self.function = session.call(f"no kernel {entry}", *lookup)

    def queue(self, launch: Launch, wait: bool) -> float | None:
        bound = CudaLaunch(self, launch)
        if wait:
            return self._timed(bound)
        bound()
        return None

    def _timed(self, launch: CudaLaunch) -> float:
        session = self.session
        with session.event(is_timed=True) as start, session.event(is_timed=True) as end:
            session.record(start)
            launch()
            session.record(end)
            session.finish()
            milliseconds = session.call("no time of the launch", "cuEventElapsedTime", start, end)
        # The device's clock has steps of about half a microsecond.
        return max(float(milliseconds) * 1e-3, 1e-9)

    def prepare(
        self,
        buffers: Sequence[BufferPart],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> CudaLaunch:
        """Return a launch with its arguments bound."""
        return CudaLaunch(self, Launch(self, tuple(buffers), grid, group, tuple(variables)))


class CudaLaunch:
    """A repeatable launch: the driver reads arguments by addresses, which do not change."""

    def __init__(self, kernel: CudaKernel, launch: Launch) -> None:
        self.kernel = kernel
        self.grid, self.group = launch.grid, launch.group
        self.arguments = AddressArguments(launch.buffers, launch.variables)

    def __call__(self) -> None:
        session, kernel = self.kernel.session, self.kernel
        shared_bytes, extra = 0, 0
        session.call(
            f"cannot launch {kernel.entry}",
            "cuLaunchKernel",
            kernel.function,
            *self.grid,
            *self.group,
            shared_bytes,
            session.stream,
            self.arguments.address,
            extra,
        )

    def rebind(self, place: int, handle: BufferPart) -> None:
        """Bind `handle` as buffer number `place` from now on."""
        self.arguments.rebind(place, handle)

    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        """Set the grid and the values of the variables from now on."""
        self.grid = grid
        self.arguments.vary(variables)


class CudaGraph(LaunchesInARow):
    """Launches submitted to the driver as one; changed arguments are set before a launch.

    Setting them does not affect launches that are queued already (CUDA Driver API,
    cuGraphExecKernelNodeSetParams).
    """

    def __init__(self, session: Session, launches: Sequence[Launch]) -> None:
        super().__init__(launches)
        self.session = session
        graph = session.call("no graph", "cuGraphCreate", 0)
        weakref.finalize(self, session.release, "cuGraphDestroy", graph)
        self._nodes: list[Any] = []
        for launch in self._launches:
            # Each node comes after the one before it.
            before = self._nodes[-1:]
            added = (graph, before, len(before), self._parameters(launch))
            self._nodes.append(session.call("no node", "cuGraphAddKernelNode", *added))
        self._graph = session.call("no graph to launch", "cuGraphInstantiate", graph, 0)
        weakref.finalize(self, session.release, "cuGraphExecDestroy", self._graph)
        self._changed: set[int] = set()

    def _parameters(self, launch: CudaLaunch) -> Any:
        """Return the arguments of a launch in the driver's form for a node; it copies them."""
        parameters = self.session.library.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = launch.kernel.function
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = launch.grid
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = launch.group
        parameters.sharedMemBytes = 0
        parameters.kernelParams = launch.arguments.address
        return parameters

    def __call__(self) -> None:
        session = self.session
        for number in sorted(self._changed):
            change = (self._graph, self._nodes[number], self._parameters(self._launches[number]))
            session.call("cannot change a node", "cuGraphExecKernelNodeSetParams", *change)
        self._changed.clear()
        session.call("cannot launch the graph", "cuGraphLaunch", self._graph, session.stream)

    def rebind(self, launch: int, place: int, handle: BufferPart) -> None:
        super().rebind(launch, place, handle)
        self._changed.add(launch)

    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        super().vary(launch, grid, variables)
        self._changed.add(launch)
