"""A stand-in for the HIP runtime: its calls by their documentation, on memory of this host.

A module is the text of a kernel, which runs as on HIP_EMU. It checks what a driver would: handles
that it gave, memory that is there.
"""

# ruff: noqa: N802 - functions have the names of the library's

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtimes.fake_gpu import Event, FakeGpu, Stream, find_function
from tinyref.runtimes.emulated.c_emulator import HIP
from tinyref.runtimes.hip_backend import HipBackend
from tinyref.runtimes.hip_compiler import make_module

MEMORY_BYTES = 2**26
NAMES = {1: "hipErrorInvalidValue", 2: "hipErrorOutOfMemory", 700: "hipErrorIllegalAddress"}
SENTENCES = {1: "invalid argument", 2: "out of memory", 700: "an illegal memory access"}
INVALID, OUT_OF_MEMORY, ILLEGAL = 1, 2, 700


class FakeHip(FakeGpu):
    """The library: `calls` has the names of what was called, `fails` what the next call says."""

    def __init__(self, devices: int = 2, architecture: str = "gfx942:sramecc+:xnack-") -> None:
        super().__init__()
        self.devices = devices
        self.architecture = architecture
        self.fails: dict[str, int] = {}
        self.handles: dict[int, Any] = {}
        self.current = 0
        self._numbers = itertools.count(1000)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(type(self), f"_{name}", None) if name.startswith("hip") else None
        if function is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            status = self.fails.pop(name, 0)
            return status or function(self, *arguments) or 0

        return call

    def hipGetErrorName(self, status: int) -> bytes:
        return NAMES[status].encode()

    def hipGetErrorString(self, status: int) -> bytes:
        return SENTENCES[status].encode()

    def _hipGetDeviceCount(self, count: Any) -> None:
        count._obj.value = self.devices

    def _hipDeviceGetName(self, text: Any, size: int, index: int) -> None:
        text.value = f"Fake {index}".encode()

    def _hipGetDevicePropertiesR0600(self, properties: Any, index: int) -> None:
        name = self.architecture.encode()
        properties[0:5] = b"Fake\0"
        properties[1160 : 1160 + len(name)] = name

    def _hipRuntimeGetVersion(self, version: Any) -> None:
        version._obj.value = 60342131

    def _hipSetDevice(self, index: int) -> int:
        self.current = index
        return 0 if index < self.devices else INVALID

    def _new(self, out: Any, thing: Any) -> None:
        number = next(self._numbers)
        self.handles[number] = thing
        out._obj.value = number

    def _stream(self, handle: Any) -> Stream:
        stream = self.handles[handle.value]
        assert isinstance(stream, Stream)
        return stream

    def _event(self, handle: Any) -> Event:
        event = self.handles[handle.value]
        assert isinstance(event, Event)
        return event

    def _hipStreamCreateWithFlags(self, out: Any, flags: int) -> None:
        self._new(out, self.new_stream())

    def _hipStreamSynchronize(self, stream: Any) -> None:
        self._stream(stream).run()

    def _hipStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        self._event(event).hold(self._stream(stream))

    def _hipEventCreate(self, out: Any) -> None:
        self._new(out, Event())

    def _hipEventRecord(self, event: Any, stream: Any) -> None:
        self._event(event).record(self._stream(stream))

    def _hipEventSynchronize(self, event: Any) -> None:
        self._event(event).reach()

    def _hipEventElapsedTime(self, out: Any, start: Any, end: Any) -> int:
        out._obj.value = 2.0
        return 0 if self._event(start).has_happened and self._event(end).has_happened else INVALID

    def _hipEventDestroy(self, event: Any) -> int:
        return 0 if self.handles.pop(event.value, None) else INVALID

    def _hipMalloc(self, out: Any, size: Any) -> int:
        if size.value > MEMORY_BYTES:
            return OUT_OF_MEMORY
        out._obj.value = self.allocate(size.value)
        return 0

    def _hipFree(self, pointer: Any) -> int:
        return 0 if self.free(pointer.value) else INVALID

    def _hipMemcpyHtoDAsync(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        self._stream(stream).copy(target.value, source, size.value)
        return 0 if self.has(target.value) else INVALID

    def _hipMemcpyDtoHAsync(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        self._stream(stream).copy(target, source.value, size.value)
        return 0 if self.has(source.value) else INVALID

    def _hipMemcpyPeerAsync(
        self, target: Any, there: int, source: Any, here: int, size: Any, stream: Any
    ) -> int:
        self._stream(stream).copy(target.value, source.value, size.value)
        return 0 if self.has(target.value, source.value) else INVALID

    def _hipModuleLoadData(self, out: Any, code: Any) -> None:
        self._new(out, code.value.decode())

    def _hipModuleUnload(self, module: Any) -> int:
        return 0 if self.handles.pop(module.value, None) else INVALID

    def _hipModuleGetFunction(self, out: Any, module: Any, name: bytes) -> int:
        function = find_function(self.handles[module.value], name.decode(), HIP)
        if function is None:
            return INVALID
        self._new(out, function)
        return 0

    def _hipModuleLaunchKernel(self, function: Any, *rest: Any) -> int:
        *extents, shared, stream, arguments, extra = rest
        assert (shared, extra) == (0, None)
        kernel = self.handles[function.value]
        if not self.has(*kernel.arguments(arguments.value)[0]):
            return ILLEGAL
        launch = kernel.launch(arguments.value, tuple(extents[:3]), tuple(extents[3:]))
        self._stream(stream).work.append(launch)
        return 0


class TextCompiler:
    """A module is the text itself."""

    key = "text"

    def compile(self, source: str) -> bytes:
        return make_module("", source.encode())


class FakeHipBackend(HipBackend):
    """The device HIP over the stand-in."""

    fake = FakeHip()

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        path = f"{type(self).__module__}:{type(self).__name__}"
        self.name = f"{path}:{index}" if index else path

    @classmethod
    def library(cls) -> Any:
        return cls.fake

    @property
    def compiler(self) -> TextCompiler:  # type: ignore[override] # runs as text
        return TextCompiler()


def install(monkeypatch: pytest.MonkeyPatch) -> FakeHip:
    """Have `FakeHipBackend` take a new library with two devices."""
    library = FakeHip()
    monkeypatch.setattr(FakeHipBackend, "fake", library)
    monkeypatch.setattr("tinyref.runtimes.hip_backend.clang", lambda: "clang")
    monkeypatch.setattr("tinyref.runtimes.hip_backend.version", lambda command: f"{command} 19")
    return library
