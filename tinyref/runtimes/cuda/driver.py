"""The NVIDIA driver through cuda-bindings: devices, one session for each, its errors as sentences.

A function of cuda-bindings gives a tuple, the result first. Everything that is no success leaves
this module as a `DeviceError` with the driver's words.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinyref.errors import DeviceError
from tinyref.runtimes.cuda.bindings import bindings
from tinyref.runtimes.drivers import DriverProcess

PROCESS = DriverProcess("CUDA")

# A stream that does not wait for the default one (CU_STREAM_NON_BLOCKING).
STREAM_FLAGS = 1
# After these a context answers nothing else (CUDA Driver API, "Data types used by CUDA driver",
# CUresult: "This leaves the process in an inconsistent state").
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
# As a process ends the driver may be gone before its memory is freed.
ENDED = "CUDA_ERROR_DEINITIALIZED"
_NO_DRIVER = (
    "no NVIDIA driver (libcuda) is found: install that of the GPU, such as apt-get install "
    "nvidia-driver"
)
# What is to be done about an error, before the driver's own words.
ADVICE = {
    "NO_DEVICE": "the driver finds no NVIDIA GPU: CUDA_VISIBLE_DEVICES may hide it",
    "STUB_LIBRARY": "the libcuda that is found is the stub of a toolkit, not a driver",
    "SYSTEM_DRIVER_MISMATCH": "libcuda and the driver of the kernel are of two versions: reboot",
    "CALL_REQUIRES_NEWER_DRIVER": "the driver is too old: update it",
    "OUT_OF_MEMORY": "the device has no more memory",
    "NO_BINARY_FOR_GPU": "the kernel is compiled for another architecture",
    "UNSUPPORTED_PTX_VERSION": "the driver is older than the compiler of the kernel: update it",
}


@dataclass(frozen=True)
class Found:
    """A device of the driver: its number, its name and its compute capability."""

    number: int
    name: str
    capability: tuple[int, int]

    def __str__(self) -> str:
        major, minor = self.capability
        return f"{self.name} (compute capability {major}.{minor})"


class Driver:
    """The library of the driver, for errors of `device`; nothing of a device is opened.

    Raises `DeviceError` where there is no driver, and in a process that was forked off one that
    had opened it.
    """

    def __init__(self, device: str) -> None:
        PROCESS.check(device)
        self.device = device
        self.library = bindings(device, "driver")
        PROCESS.is_started = True
        try:
            answer = self.library.cuInit(0)
        except RuntimeError as error:
            # The module is there, and the library that it loads at the first call is not.
            PROCESS.is_started = False
            raise DeviceError(device, _NO_DRIVER) from error
        self.checked("the driver does not start", answer)

    def checked(self, what: str, answer: Sequence[Any]) -> Any:
        """What a call gives beside its result: nothing, a value or a tuple of them."""
        result, *values = answer
        if result != self.library.CUresult.CUDA_SUCCESS:
            raise DeviceError(self.device, f"{what}: {self.words(result)}")
        return values[0] if len(values) == 1 else tuple(values)

    def words(self, result: Any) -> str:
        """A result in words: what is to be done, where that is known, and the driver's own."""
        _, spoken = self.library.cuGetErrorString(result)
        text = spoken.decode() if isinstance(spoken, bytes) else str(spoken)
        advice = ADVICE.get(_short(result))
        own = f"{result.name}: {text}"
        return own if advice is None else f"{advice} ({own})"

    @property
    def version(self) -> tuple[int, int]:
        """The newest CUDA that the driver serves: (13, 0)."""
        number = self.checked("the driver has no version", self.library.cuDriverGetVersion())
        return number // 1000, number % 1000 // 10

    def devices(self) -> list[Found]:
        """All devices, by their numbers."""
        count = self.checked("no count of devices", self.library.cuDeviceGetCount())
        return [self._found(number) for number in range(count)]

    def _found(self, number: int) -> Found:
        device = self.checked("no such device", self.library.cuDeviceGet(number))
        name = self.checked("a device has no name", self.library.cuDeviceGetName(128, device))
        major = self.attribute(device, "COMPUTE_CAPABILITY_MAJOR")
        minor = self.attribute(device, "COMPUTE_CAPABILITY_MINOR")
        # It fills as much of the buffer as it likes behind the first zero.
        return Found(number, name.partition(b"\0")[0].decode(errors="replace"), (major, minor))

    def attribute(self, device: Any, name: str) -> int:
        """A number that the driver knows of a device."""
        key = getattr(self.library.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.checked(f"no {name}", self.library.cuDeviceGetAttribute(key, device)))


class Session:
    """One opened device: its primary context, and the stream in which all happens in order.

    A sticky error ends it: each later call says so, and another process opens the device anew.
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
        self._timers: list[tuple[Any, Any]] = []
        self._lock = threading.Lock()

    def call(self, what: str, function: str, *arguments: Any) -> Any:
        """Calls the driver with the context of this device, on whatever thread this is.

        Gives what `Driver.checked` does. Raises `DeviceError`: "what: the driver's words".
        """
        PROCESS.check(self.name)
        if self.lost:
            raise DeviceError(self.name, self.lost)
        # Others may have changed what is current on this thread.
        self._checked("the context is not there", self.library.cuCtxSetCurrent(self.context))
        return self._checked(what, getattr(self.library, function)(*arguments))

    def _checked(self, what: str, answer: Sequence[Any]) -> Any:
        result = answer[0]
        if result != self.library.CUresult.CUDA_SUCCESS and _short(result) in STICKY:
            self.lost = (
                f"the device is lost to this process since a kernel failed "
                f"({self.driver.words(result)}): open it in another one"
            )
        return self.driver.checked(what, answer)

    def finish(self) -> None:
        """Waits for all that is queued. Raises `DeviceError` for a launch that failed."""
        self.call("a launch failed", "cuStreamSynchronize", self.stream)

    def new_event(self, is_timed: bool = False) -> Any:
        """An event; one that is not timed costs less (CU_EVENT_DISABLE_TIMING)."""
        return self.call("no event", "cuEventCreate", 0 if is_timed else 2)

    def record(self, event: Any) -> None:
        """The event happens when all that is queued now is done."""
        self.call("cannot record an event", "cuEventRecord", event, self.stream)

    def wait_for(self, event: Any) -> None:
        """What is queued from now on comes after the event, of this or another device."""
        self.call("cannot wait for an event", "cuStreamWaitEvent", self.stream, event, 0)

    def open_peer(self, other: Session) -> None:
        """Lets copies from another device go straight to this one, where the driver offers that."""
        if other.number in self._peers:
            return
        self._peers.add(other.number)
        pair = (self.device, other.device)
        if self.call("no answer about peers", "cuDeviceCanAccessPeer", *pair):
            already = "PEER_ACCESS_ALREADY_ENABLED"
            (result,) = self.library.cuCtxEnablePeerAccess(other.context, 0)
            if _short(result) != already:
                self._checked("no access to a peer", (result,))

    def take_timer(self) -> tuple[Any, Any]:
        """Two events that measure time, for `give_back_timer`."""
        with self._lock:
            if self._timers:
                return self._timers.pop()
        return self.new_event(is_timed=True), self.new_event(is_timed=True)

    def give_back_timer(self, timer: tuple[Any, Any]) -> None:
        """For the next launch that is timed."""
        with self._lock:
            self._timers.append(timer)

    def release(self, function: str, handle: Any) -> None:
        """Frees what the driver gave, where that is still its own: not of a parent, nor lost."""
        if PROCESS.is_forked or self.lost:
            return
        self.library.cuCtxSetCurrent(self.context)
        (result,) = getattr(self.library, function)(handle)
        if result != self.library.CUresult.CUDA_SUCCESS and result.name != ENDED:
            self._checked("cannot free memory", (result,))


def _short(result: Any) -> str:
    return str(result.name).removeprefix("CUDA_ERROR_")
