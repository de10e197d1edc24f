"""The HIP device: HIP C++ through clang, launched by libamdhip64, the HIP runtime, with ctypes.

It was written without an AMD GPU: the calls follow the documentation and were tried on a stand-in
for the library. Functions and types are those of ROCm's "HIP Runtime API Reference". It depends on
as little of the library's versions as possible: of the properties of a device, whose structure
grows, it reads only the text with the name of the architecture.
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

from tinyref.contract import CompileTarget, Launch
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.hip import HipRenderer
from tinyref.runtimes.driver_checks import (
    BufferPart,
    DriverProcess,
    PartAllocator,
    check_copy_in,
    check_copy_out,
    check_size,
)
from tinyref.runtimes.drivers import AddressArguments, DriverBackend, DriverKernel
from tinyref.runtimes.hip_compiler import (
    ARCHITECTURES,
    ENVIRONMENT,
    HipCompiler,
    architecture,
    clang,
    parts_of,
    version,
)
from tinyref.runtimes.reuse import ReusingAllocator

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
# After these errors everything that this process has on the device is lost.
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
    """Load the library. Raises `DeviceError` if it is missing."""
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
            # Only two functions return texts; all others return the number of an error.
            for function in ("hipGetErrorName", "hipGetErrorString"):
                getattr(library, function).restype = ctypes.c_char_p
            return library
    raise DeviceError("HIP", f"the HIP runtime does not load ({words}): {INSTALL}")


class Session:
    """One opened device.

    name: the name in errors. library: the runtime or its stand-in.

    One stream runs all work in the order of the calls. Each call first selects the device, because
    the selection belongs to a thread.
    """

    def __init__(self, name: str, index: int, library: Any) -> None:
        self.name = name
        self.index = index
        self.library = library
        self.lost = ""
        self.stream = self.made("hipStreamCreateWithFlags", NON_BLOCKING_STREAM)
        PROCESS.is_started = True

    def call(self, function: str, *arguments: Any) -> None:
        """Call the library. Raises `DeviceError` with the call and the library's message."""
        PROCESS.check(self.name)
        if self.lost:
            raise DeviceError(self.name, f"is lost since {self.lost}: start a new process")
        self._check("hipSetDevice", self.library.hipSetDevice(self.index))
        self._check(function, getattr(self.library, function)(*arguments))

    def made(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """Return the handle that a function writes to its first argument."""
        handle = ctypes.c_void_p()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle

    def _check(self, function: str, status: int) -> None:
        if not status:
            return
        words = error_words(self.library, status)
        if words.partition(":")[0] in STICKY:
            self.lost = f"{function} returned {words}"
            words += ": every later call of this process would fail: start a new one"
        if words.startswith(_OUT_OF_MEMORY):
            words += ": the device has too little free memory"
        raise DeviceError(self.name, f"{function}: {words}")

    def finish(self) -> None:
        """Wait for all queued work. Raises `DeviceError` for a launch that failed."""
        self.call("hipStreamSynchronize", self.stream)

    @contextmanager
    def event(self) -> Iterator[ctypes.c_void_p]:
        """Yield an event and destroy it at the end; streams that wait for it still do."""
        event = self.made("hipEventCreate")
        try:
            yield event
        finally:
            self.call("hipEventDestroy", event)

    def wait_for(self, other: Session) -> None:
        """Order later work of this stream after the work queued in another one now."""
        with other.event() as event:
            other.call("hipEventRecord", event, other.stream)
            self.call("hipStreamWaitEvent", self.stream, event, 0)


def error_words(library: Any, status: int) -> str:
    """Return the name of an error and a sentence, from the library."""
    name, sentence = library.hipGetErrorName(status), library.hipGetErrorString(status)
    words = [text.decode(errors="replace") for text in (name, sentence) if text]
    return ": ".join(dict.fromkeys(words)) or f"error {status}"


def count_devices(library: Any) -> int:
    """Return the number of devices. Raises `DeviceError` if the driver does not answer."""
    count = ctypes.c_int()
    status = library.hipGetDeviceCount(ctypes.byref(count))
    if status:
        words = error_words(library, status)
        raise DeviceError("HIP", f"the runtime finds no device: {words}: {INSTALL}")
    return count.value


def device_name(library: Any, index: int) -> str:
    """Return the readable name of a device."""
    text = ctypes.create_string_buffer(256)
    status = library.hipDeviceGetName(text, len(text), index)
    return text.value.decode(errors="replace") if not status else f"device {index}"


def architecture_of(name: str, index: int, library: Any) -> str:
    """Return the architecture of a device. Raises `DeviceError` if it is unknown."""
    properties = ctypes.create_string_buffer(_PROPERTY_BYTES)
    # The structure of ROCm 6 has its own function.
    ask = getattr(library, "hipGetDevicePropertiesR0600", None) or library.hipGetDeviceProperties
    status = ask(properties, index)
    if status:
        raise DeviceError(name, f"has no properties: {error_words(library, status)}")
    match = _ARCHITECTURE.search(properties.raw)
    if match is None:
        raise DeviceError(name, "its properties name no architecture")
    return match[0].decode()


def runtime_version(library: Any) -> str:
    """Return the version: "60342131" for ROCm 6.3.42131; "unknown" if there is none."""
    version = ctypes.c_int()
    return "unknown" if library.hipRuntimeGetVersion(ctypes.byref(version)) else str(version.value)


class HipAllocator(PartAllocator):
    """An allocator for one session; sizes and offsets are in bytes, size 0 is accepted."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def allocate(self, nbytes: int) -> BufferPart:
        """Allocate memory. Raises `UserError` for a negative size, `DeviceError` if too large."""
        check_size(nbytes)
        # Empty memory has no address.
        address = self.session.made("hipMalloc", ctypes.c_size_t(max(nbytes, 1)))
        return BufferPart(address.value or 0, 0, nbytes)

    def free(self, handle: BufferPart) -> None:
        """Wait for its users, then free it. A forked child frees nothing of its parent."""
        if not PROCESS.is_forked:
            self.session.finish()
            self.session.call("hipFree", ctypes.c_void_p(handle.address))

    def copy_in(self, handle: BufferPart, source: memoryview) -> None:
        """Copy to the device. Raises `UserError` if the bytes do not fit."""
        check_copy_in(source, handle.nbytes)
        if source.nbytes:
            data = (ctypes.c_char * source.nbytes).from_buffer_copy(source)
            session = self.session
            size = ctypes.c_size_t(source.nbytes)
            session.call(
                "hipMemcpyHtoDAsync", ctypes.c_void_p(handle.address), data, size, session.stream
            )
            # `data` is destroyed after this call.
            session.finish()

    def copy_out(self, destination: memoryview, handle: BufferPart) -> None:
        """Copy to the host. Raises `UserError` if the memory has fewer bytes."""
        check_copy_out(destination, handle.nbytes)
        session = self.session
        if destination.nbytes:
            data = (ctypes.c_char * destination.nbytes).from_buffer(destination)
            size = ctypes.c_size_t(destination.nbytes)
            session.call(
                "hipMemcpyDtoHAsync", data, ctypes.c_void_p(handle.address), size, session.stream
            )
        session.finish()

    def transfer(self, target: BufferPart, source: BufferPart, origin: Any) -> None:
        """Copy from the device of `origin`, by a peer connection if there is one.

        The copy comes after earlier work of that device and before its later work.
        """
        here, there = self.session, origin.session
        here.wait_for(there)
        here.call(
            "hipMemcpyPeerAsync",
            ctypes.c_void_p(target.address),
            here.index,
            ctypes.c_void_p(source.address),
            there.index,
            ctypes.c_size_t(source.nbytes),
            here.stream,
        )
        there.wait_for(here)


class HipKernel(DriverKernel):
    """A kernel of a module, launched in the order of the session's stream."""

    def __init__(self, session: Session, entry: str, code: bytes) -> None:
        self.session = session
        self.entry = entry
        self._module = session.made("hipModuleLoadData", ctypes.c_char_p(code))
        self._function = session.made("hipModuleGetFunction", self._module, entry.encode())

    def __del__(self) -> None:
        # A queued launch still needs the module; an error here would reach nobody.
        session = self.session
        if hasattr(self, "_module") and not (PROCESS.is_forked or session.lost):
            session.library.hipStreamSynchronize(session.stream)
            session.library.hipModuleUnload(self._module)

    def queue(self, launch: Launch, wait: bool) -> float | None:
        if not wait:
            self._launch(launch)
            return None
        session = self.session
        with session.event() as start, session.event() as end:
            session.call("hipEventRecord", start, session.stream)
            self._launch(launch)
            session.call("hipEventRecord", end, session.stream)
            session.call("hipEventSynchronize", end)
            milliseconds = ctypes.c_float()
            session.call("hipEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return max(milliseconds.value, 1e-6) * 1e-3

    def _launch(self, launch: Launch) -> None:
        # The runtime copies the values before the call returns.
        arguments = AddressArguments(launch.buffers, launch.variables)
        self.session.call(
            "hipModuleLaunchKernel",
            self._function,
            *launch.grid,
            *launch.group,
            0,
            self.session.stream,
            ctypes.c_void_p(arguments.address),
            None,
        )


class HipBackend(DriverBackend):
    """One AMD GPU, by its number in the HIP runtime."""

    title = "AMD GPU, HIP C++ through clang"
    environment = (*ENVIRONMENT, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    compile_targets = tuple(ARCHITECTURES)

    base = "HIP"
    session: Session

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.chosen(self.devices())
        library = self.library()
        self.session = Session(self.name, index, library)
        self.architecture = architecture_of(self.name, index, library)
        self._compiler = HipCompiler(self.architecture)
        try:
            self._capabilities = architecture(self.architecture).capabilities
        except UserError as error:
            raise DeviceError(self.name, str(error)) from error
        self._allocator = ReusingAllocator(
            HipAllocator(self.session), self.name, synchronize=self.session.finish
        )

    @classmethod
    def library(cls) -> Any:
        """Return the HIP runtime. Raises `DeviceError` if it is missing."""
        return load_library()

    @classmethod
    def devices(cls) -> list[str]:
        """Return the names of the devices in order. Raises `DeviceError` if there are none."""
        library = cls.library()
        count = count_devices(library)
        if not count:
            raise DeviceError(cls.base, "the HIP runtime finds no device")
        return [device_name(library, number) for number in range(count)]

    @classmethod
    def check_compiler(cls, device: str) -> None:
        clang()

    @classmethod
    def compile_target(cls, name: str) -> CompileTarget:
        capabilities = architecture(name).capabilities
        clang()
        return CompileTarget(name, capabilities, HipRenderer(capabilities), HipCompiler(name))

    @functools.cached_property
    def renderer(self) -> HipRenderer:
        return HipRenderer(self.capabilities)

    def load(self, entry: str, binary: bytes) -> HipKernel:
        suffix, code = parts_of(binary)
        return HipKernel(self.session, entry + suffix, code)

    def versions(self) -> dict[str, str]:
        library = self.session.library
        return {
            "device": device_name(library, self.index),
            "architecture": self.architecture,
            "runtime": runtime_version(library),
            "compiler": version(clang()),
        }
