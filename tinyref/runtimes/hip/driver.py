"""The HIP runtime, libamdhip64, through ctypes: a device, its stream, and its errors as sentences.

Functions and types are those of ROCm's "HIP Runtime API Reference". What is not known here is asked
of the library by the least that its versions have in common: of the properties of a device, whose
structure grows, only the text is read that names the architecture.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tinyref.errors import DeviceError
from tinyref.runtimes.drivers import DriverProcess

PROCESS = DriverProcess("HIP")
LIBRARIES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
INSTALL = (
    "install its packages: apt-get install libamdhip64-5 (of Debian) or hip-runtime-amd (of ROCm), "
    "with AMD's amdgpu driver"
)

NON_BLOCKING_STREAM = 1
# Larger than the properties of a device in any version.
_PROPERTY_BYTES = 2**14
_ARCHITECTURE = re.compile(rb"gfx[0-9a-f]{3,4}(?::[\w+-]+)*")
# After these all that this process has on the device is lost.
STICKY = frozenset(
    (
        "hipErrorIllegalAddress",
        "hipErrorLaunchFailure",
        "hipErrorLaunchTimeOut",
        "hipErrorAssert",
        "hipErrorECCNotCorrectable",
        "hipErrorContextIsDestroyed",
    )
)
_OUT_OF_MEMORY = "hipErrorOutOfMemory"


def load_library() -> Any:
    """The library. Raises `DeviceError` where it is not there."""
    PROCESS.check("HIP")
    return _loaded(os.environ.get("ROCM_PATH", "/opt/rocm"))


@functools.cache
def _loaded(rocm: str) -> Any:
    names = [*LIBRARIES, *(os.path.join(rocm, "lib", name) for name in LIBRARIES[:1])]
    words = ""
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            words = words or str(error)
        else:
            _declare(library)
            return library
    raise DeviceError("HIP", f"the HIP runtime does not load ({words}): {INSTALL}")


def _declare(library: Any) -> None:
    """Texts are given by two functions alone; all others give the number of an error."""
    for name in ("hipGetErrorName", "hipGetErrorString"):
        getattr(library, name).restype = ctypes.c_char_p


class Session:
    """One opened device: `name` is that of errors, `library` the runtime or what stands for it.

    All work goes through one stream, in the order of the calls. A thread that calls is given the
    device first, for that is a state of threads.
    """

    def __init__(self, name: str, index: int, library: Any) -> None:
        self.name = name
        self.index = index
        self.library = library
        self.lost = ""
        self.stream = self.made("hipStreamCreateWithFlags", NON_BLOCKING_STREAM)
        PROCESS.is_started = True

    def call(self, function: str, *arguments: Any) -> None:
        """Calls the library. Raises `DeviceError` with the call and the library's words."""
        PROCESS.check(self.name)
        if self.lost:
            raise DeviceError(self.name, f"is lost since {self.lost}: start a new process")
        self._check("hipSetDevice", self.library.hipSetDevice(self.index))
        self._check(function, getattr(self.library, function)(*arguments))

    def made(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """What a function makes, whose handle it writes to its first argument."""
        handle = ctypes.c_void_p()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle

    def _check(self, function: str, status: int) -> None:
        if not status:
            return
        words = error_words(self.library, status)
        if words.partition(":")[0] in STICKY:
            self.lost = f"{function} said {words}"
            words += ": every later call of this process would fail: start a new one"
        if words.startswith(_OUT_OF_MEMORY):
            words += ": the device has not so much memory free"
        raise DeviceError(self.name, f"{function}: {words}")

    def finish(self) -> None:
        """Waits for all that is queued. Raises `DeviceError` for a launch that failed."""
        self.call("hipStreamSynchronize", self.stream)

    @contextmanager
    def event(self) -> Iterator[ctypes.c_void_p]:
        """An event, given back at the end; what waits for it in a stream still does."""
        event = self.made("hipEventCreate")
        try:
            yield event
        finally:
            self.call("hipEventDestroy", event)

    def wait_for(self, other: Session) -> None:
        """What is queued here from now on comes after what is queued there now."""
        with other.event() as event:
            other.call("hipEventRecord", event, other.stream)
            self.call("hipStreamWaitEvent", self.stream, event, 0)

    @functools.cached_property
    def architecture(self) -> str:
        """What its compiler calls it: "gfx942:sramecc+:xnack-". Raises `DeviceError`."""
        return architecture_of(self.name, self.index, self.library)


def error_words(library: Any, status: int) -> str:
    """What the library calls an error: its name and a sentence."""
    name, sentence = library.hipGetErrorName(status), library.hipGetErrorString(status)
    words = [text.decode(errors="replace") for text in (name, sentence) if text]
    return ": ".join(dict.fromkeys(words)) or f"error {status}"


def count_devices(library: Any) -> int:
    """How many devices there are. Raises `DeviceError` where the driver does not answer."""
    count = ctypes.c_int()
    status = library.hipGetDeviceCount(ctypes.byref(count))
    if status:
        words = error_words(library, status)
        raise DeviceError("HIP", f"the runtime finds no device: {words}: {INSTALL}")
    return count.value


def device_name(library: Any, index: int) -> str:
    """What a person calls the device."""
    text = ctypes.create_string_buffer(256)
    status = library.hipDeviceGetName(text, len(text), index)
    return text.value.decode(errors="replace") if not status else f"device {index}"


def architecture_of(name: str, index: int, library: Any) -> str:
    """The architecture of a device. Raises `DeviceError` where the runtime does not say it."""
    properties = ctypes.create_string_buffer(_PROPERTY_BYTES)
    # The structure of ROCm 6 has a function of its own name.
    ask = getattr(library, "hipGetDevicePropertiesR0600", None) or library.hipGetDeviceProperties
    status = ask(properties, index)
    if status:
        raise DeviceError(name, f"has no properties: {error_words(library, status)}")
    found = _ARCHITECTURE.search(properties.raw)
    if found is None:
        raise DeviceError(name, "its properties name no architecture")
    return found[0].decode()


def runtime_version(library: Any) -> str:
    """The version of the runtime: "60342131" of ROCm 6.3.42131; "unknown" where it says none."""
    version = ctypes.c_int()
    return "unknown" if library.hipRuntimeGetVersion(ctypes.byref(version)) else str(version.value)
