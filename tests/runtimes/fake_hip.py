"""A stand-in for the HIP runtime: its calls by their documentation, on memory of this host.

A module is the text of a kernel, which runs as on HIP_EMU. It checks what a driver would: handles
that it gave, events that were recorded, memory that is there.
"""

# ruff: noqa: N802 - functions have the names of the library's

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable
from typing import Any

from tinyref.runtimes.emulated.c_text import HIP, CEmulator
from tinyref.runtimes.hip_backend import HipBackend
from tinyref.runtimes.hip_compiler import make_module

MEMORY_BYTES = 2**26
NAMES = {1: "hipErrorInvalidValue", 2: "hipErrorOutOfMemory", 700: "hipErrorIllegalAddress"}
SENTENCES = {1: "invalid argument", 2: "out of memory", 700: "an illegal memory access"}
INVALID, OUT_OF_MEMORY, ILLEGAL = 1, 2, 700


class FakeHip:
    """The library: `calls` has the names of what was called, `fails` what the next call says."""

    def __init__(self, devices: int = 2, architecture: str = "gfx942:sramecc+:xnack-") -> None:
        self.devices = devices
        self.architecture = architecture
        self.calls: list[str] = []
        self.fails: dict[str, int] = {}
        self.memory: dict[int, Any] = {}
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

    def _hipStreamCreateWithFlags(self, out: Any, flags: int) -> None:
        self._new(out, "stream")

    def _hipStreamSynchronize(self, stream: Any) -> int:
        return 0 if self.handles.get(stream.value) == "stream" else INVALID

    def _hipStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> int:
        return 0 if self.handles.get(event.value) == "recorded" else INVALID

    def _hipEventCreate(self, out: Any) -> None:
        self._new(out, "event")

    def _hipEventRecord(self, event: Any, stream: Any) -> int:
        if self.handles.get(event.value) != "event":
            return INVALID
        self.handles[event.value] = "recorded"
        return 0

    def _hipEventSynchronize(self, event: Any) -> int:
        return 0 if self.handles.get(event.value) == "recorded" else INVALID

    def _hipEventElapsedTime(self, out: Any, start: Any, end: Any) -> int:
        out._obj.value = 2.0
        recorded = {self.handles.get(start.value), self.handles.get(end.value)} == {"recorded"}
        return 0 if recorded else INVALID

    def _hipEventDestroy(self, event: Any) -> int:
        return 0 if self.handles.pop(event.value, None) else INVALID

    def _hipMalloc(self, out: Any, size: Any) -> int:
        if size.value > MEMORY_BYTES:
            return OUT_OF_MEMORY
        data = ctypes.create_string_buffer(size.value)
        self.memory[ctypes.addressof(data)] = data
        out._obj.value = ctypes.addressof(data)
        return 0

    def _hipFree(self, pointer: Any) -> int:
        return 0 if self.memory.pop(pointer.value, None) is not None else INVALID

    def _has(self, address: int, nbytes: int) -> bool:
        return any(
            start <= address and address + nbytes <= start + len(data)
            for start, data in self.memory.items()
        )

    def _hipMemcpyHtoDAsync(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        if not self._has(target.value, size.value):
            return INVALID
        ctypes.memmove(target.value, source, size.value)
        return 0

    def _hipMemcpyDtoHAsync(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        if not self._has(source.value, size.value):
            return INVALID
        ctypes.memmove(target, source.value, size.value)
        return 0

    def _hipMemcpyPeerAsync(
        self, target: Any, there: int, source: Any, here: int, size: Any, stream: Any
    ) -> int:
        if not (self._has(target.value, size.value) and self._has(source.value, size.value)):
            return INVALID
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    def _hipModuleLoadData(self, out: Any, code: Any) -> None:
        self._new(out, code.value.decode())

    def _hipModuleUnload(self, module: Any) -> int:
        return 0 if self.handles.pop(module.value, None) else INVALID

    def _hipModuleGetFunction(self, out: Any, module: Any, name: bytes) -> int:
        source = self.handles[module.value]
        found = re.search(rf"\b{name.decode()}\(([^()]*)\)", source)
        if found is None:
            return INVALID
        emulator = CEmulator("FAKE", HIP)
        function = emulator.load(name.decode(), emulator.compile(source))
        pointers = ["*" in parameter for parameter in found[1].split(",") if parameter.strip()]
        self._new(out, (function, pointers))
        return 0

    def _hipModuleLaunchKernel(self, function: Any, *rest: Any) -> int:
        *extents, shared, stream, arguments, extra = rest
        run, pointers = self.handles[function.value]
        assert (shared, extra) == (0, None)
        assert self.handles[stream.value] == "stream"
        addresses, variables = [], []
        places = (ctypes.c_void_p * len(pointers)).from_address(arguments.value)
        for pointer, is_buffer in zip(places, pointers, strict=True):
            if is_buffer:
                addresses.append(ctypes.c_void_p.from_address(pointer).value)
            else:
                variables.append(ctypes.c_int.from_address(pointer).value)
        if not all(self._has(address or 0, 1) for address in addresses):
            return ILLEGAL
        run(addresses, variables, tuple(extents[:3]), tuple(extents[3:]))
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
