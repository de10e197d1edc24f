"""The framework Metal as pyobjc shows it, made of the host: as little as the device METAL calls.

Its kernels are run by the emulator of MSL, when somebody waits for their command buffer, and not
before: what forgets to wait finds old bytes.
"""

from __future__ import annotations

import contextlib
import platform
import struct
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tinyref.errors import DeviceError
from tinyref.runtimes.emulated.c_emulator import METAL, CEmulator
from tinyref.runtimes.host.memory import address_of
from tinyref.runtimes.metal_backend import MetalBackend as MetalBackend

STATUS_COMPLETED, STATUS_ERROR = 4, 5
# A kernel whose text has this ends as one that reads where it must not.
FAULT = "address fault"


class Error:
    """An NSError."""

    def __init__(self, words: str) -> None:
        self._words = words

    def localizedDescription(self) -> str:  # noqa: N802
        return self._words


class Buffer:
    """An MTLBuffer of shared storage."""

    def __init__(self, nbytes: int) -> None:
        self.array = np.full(nbytes, 0xA5, np.uint8)

    def length(self) -> int:
        return self.array.nbytes

    def contents(self) -> Any:
        return SimpleNamespace(as_buffer=lambda nbytes: memoryview(self.array)[:nbytes])


class CompileOptions:
    """MTLCompileOptions of macOS 15: every setter notes its value."""

    made: list[CompileOptions] = []

    def __init__(self) -> None:
        self.set: dict[str, Any] = {}
        self.made.append(self)

    @classmethod
    def alloc(cls) -> Any:
        return SimpleNamespace(init=cls)

    def setMathMode_(self, value: Any) -> None:  # noqa: N802
        self.set["mathMode"] = value

    def setMathFloatingPointFunctions_(self, value: Any) -> None:  # noqa: N802
        self.set["mathFloatingPointFunctions"] = value


class OldCompileOptions(CompileOptions):
    """Those before macOS 15."""

    def __getattribute__(self, name: str) -> Any:
        if name == "setMathMode_":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def setFastMathEnabled_(self, value: Any) -> None:  # noqa: N802
        self.set["fastMathEnabled"] = value


class Library:
    """An MTLLibrary, and the MTLFunction and the pipeline of its kernel."""

    def __init__(self, emulator: CEmulator, source: str) -> None:
        self.emulator = emulator
        self.source = source
        self.binary = emulator.compile(source)
        self.limit = 64 if "many registers" in source else 1024

    def newFunctionWithName_(self, entry: str) -> Any:  # noqa: N802
        with contextlib.suppress(DeviceError):
            self.function = self.emulator.load(entry, self.binary)
            return self
        return None

    def maxTotalThreadsPerThreadgroup(self) -> int:  # noqa: N802
        return self.limit


class CommandBuffer:
    """An MTLCommandBuffer, which is its encoder too: arguments stay set from launch to launch."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.buffers: dict[int, tuple[Buffer, int]] = {}
        self.words: dict[int, bytes] = {}
        self.problem = ""
        self.runs: list[Callable[[], None]] = []
        self.is_ended = False

    def computeCommandEncoder(self) -> CommandBuffer:  # noqa: N802
        return self

    def setComputePipelineState_(self, pipeline: Library) -> None:  # noqa: N802
        self.pipeline = pipeline

    def setBuffer_offset_atIndex_(self, buffer: Buffer, offset: int, number: int) -> None:  # noqa: N802
        self.buffers[number] = (buffer, offset)

    def setBytes_length_atIndex_(self, data: bytes, length: int, number: int) -> None:  # noqa: N802
        assert len(data) == length
        self.words[number] = data

    def dispatchThreadgroups_threadsPerThreadgroup_(self, grid: Any, group: Any) -> None:  # noqa: N802
        operands = [position for _, position in sorted(self.buffers.items())]
        addresses = [address_of(buffer.array) + offset for buffer, offset in operands]
        sizes = [buffer.length() - offset for buffer, offset in operands]
        values = [struct.unpack("<i", word)[0] for _, word in sorted(self.words.items())]
        assert sorted([*self.buffers, *self.words]) == list(range(len(addresses) + len(values)))

        function, source = self.pipeline.function, self.pipeline.source

        def run() -> None:
            if FAULT in source:
                self.problem = "Caused GPU Address Fault Error"
            else:
                function(addresses, values, grid, group, sizes)

        self.runs.append(run)

    def endEncoding(self) -> None:  # noqa: N802
        self.is_ended = True

    def commit(self) -> None:
        assert self.is_ended
        self.queue.committed.append(self)

    def waitUntilCompleted(self) -> None:  # noqa: N802
        for commands in self.queue.committed[: self.queue.committed.index(self) + 1]:
            if self.queue.is_blamed and commands.runs:
                commands.problem = "Ignored (for causing prior/excessive GPU errors)"
                commands.runs = []
            commands.start = time.monotonic()
            while commands.runs and not commands.problem:
                commands.runs.pop(0)()
            commands.end = time.monotonic()
            self.queue.is_blamed |= bool(commands.problem)

    def status(self) -> int:
        return STATUS_ERROR if self.problem else STATUS_COMPLETED

    def error(self) -> Error | None:
        return Error(self.problem) if self.problem else None

    def GPUStartTime(self) -> float:  # noqa: N802
        return self.start

    def GPUEndTime(self) -> float:  # noqa: N802
        return self.end


class Queue:
    """An MTLCommandQueue: after an error of the GPU it ignores what it is given."""

    def __init__(self) -> None:
        self.committed: list[CommandBuffer] = []
        self.is_blamed = False

    def commandBuffer(self) -> CommandBuffer:  # noqa: N802
        return CommandBuffer(self)


class FakeDevice:
    """An MTLDevice of some families of GPUs."""

    def __init__(self, name: str, number: int, families: frozenset[int]) -> None:
        self._name = name
        self._number = number
        self._families = families
        self._emulator = CEmulator(name, METAL)

    def name(self) -> str:
        return self._name

    def registryID(self) -> int:  # noqa: N802
        return self._number

    def supportsFamily_(self, family: int) -> bool:  # noqa: N802
        return family in self._families

    def maxBufferLength(self) -> int:  # noqa: N802
        return 1 << 30

    def maxThreadgroupMemoryLength(self) -> int:  # noqa: N802
        return 32768

    def maxThreadsPerThreadgroup(self) -> Any:  # noqa: N802
        return SimpleNamespace(width=1024, height=1024, depth=1024)

    def newCommandQueue(self) -> Queue:  # noqa: N802
        return Queue()

    def newBufferWithLength_options_(self, nbytes: int, options: int) -> Buffer:  # noqa: N802
        assert nbytes > 0
        assert options == 0
        return Buffer(nbytes)

    def newLibraryWithSource_options_error_(  # noqa: N802
        self, source: str, options: CompileOptions, error: None
    ) -> tuple[Library | None, Error | None]:
        try:
            return Library(self._emulator, source), None
        except DeviceError as problem:
            return None, Error(f"program_source: {problem.message}")

    def newComputePipelineStateWithFunction_error_(  # noqa: N802
        self, function: Library, error: None
    ) -> tuple[Library, None]:
        return function, None


def framework(devices: list[FakeDevice], options: type[CompileOptions] = CompileOptions) -> Any:
    """Return the module Metal, with the constants of the macOS headers."""
    return SimpleNamespace(
        MTLCreateSystemDefaultDevice=lambda: devices[0] if devices else None,
        MTLCopyAllDevices=lambda: devices[::-1],
        MTLCompileOptions=options,
        MTLSizeMake=lambda width, height, depth: (width, height, depth),
        MTLResourceStorageModeShared=0,
        MTLCommandBufferStatusError=STATUS_ERROR,
        MTLMathModeSafe=0,
        MTLMathFloatingPointFunctionsPrecise=1,
        MTLGPUFamilyApple6=1006,
        MTLGPUFamilyApple7=1007,
        MTLGPUFamilyMetal3=5001,
    )


M1 = FakeDevice("M1", 7, frozenset({1006, 1007, 5001}))


def install(
    monkeypatch: pytest.MonkeyPatch,
    *devices: FakeDevice,
    version: str = "15.1",
    options: type[CompileOptions] = CompileOptions,
) -> None:
    """Have the device METAL find a Mac with these GPUs."""
    monkeypatch.setitem(sys.modules, "Metal", framework(list(devices), options))
    objc: Any = SimpleNamespace(autorelease_pool=contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "objc", objc)
    monkeypatch.setattr(platform, "mac_ver", lambda: (version, ("", "", ""), "arm64"))
