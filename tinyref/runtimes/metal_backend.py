"""The METAL device: MSL on the GPUs of macOS, through the Metal framework and pyobjc.

It has not run on a Mac yet. It follows Apple's documentation of Metal and is tested with a
framework of fake objects, whose kernels the emulator of MSL runs.

Source of every call: developer.apple.com/documentation/metal. pyobjc spells a selector with `_` for
each `:`. What a call writes through a pointer, such as its NSError, follows its result.
"""

from __future__ import annotations

import functools
import importlib
import math
import platform
import struct
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.contract import Launch
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.metal import MAX_BUFFERS, METAL_OPS, MetalRenderer
from tinyref.runtimes.driver_checks import (
    BufferPart,
    DriverProcess,
    PartAllocator,
    check_copy_in,
    check_copy_out,
    check_size,
)
from tinyref.runtimes.drivers import CompiledSources, DriverBackend, DriverKernel, Extents
from tinyref.uops.tiles import GROUPS

# Metal feature set tables: GPU families with bfloat, and with matrices of a simdgroup.
_BFLOAT_FAMILIES = ("MTLGPUFamilyApple6", "MTLGPUFamilyMetal3")
_MATRIX_FAMILY = "MTLGPUFamilyApple7"
# The first version with MSL 3.1, which has bfloat.
_MACOS_OF_BFLOAT = 14

# Largest number of command buffers not waited for yet; a queue has 64 by default.
MAX_PENDING = 48

PROCESS = DriverProcess("Metal")


def framework(name: str) -> Any:
    """Import the module Metal of pyobjc.

    Raises `DeviceError` with what to install if it is missing, and in a process forked from one
    that had used a GPU.
    """
    PROCESS.check(name)
    try:
        return importlib.import_module("Metal")
    except ImportError as error:
        reason = f"its bindings are missing: pip install '.[metal]' in a clone of tinyref ({error})"
        if platform.system() != "Darwin":
            reason = (
                f"Metal is part of macOS, and this is {platform.system()}: "
                "pip install '.[metal]' in a clone of tinyref on a Mac, or take METAL_EMU"
            )
        raise DeviceError(name, reason) from error


def list_devices(name: str) -> list[Any]:
    """Return the GPUs of this Mac, the preferred one first. Raises `DeviceError` if none."""
    metal = framework(name)
    PROCESS.is_started = True
    preferred = metal.MTLCreateSystemDefaultDevice()
    devices = [] if preferred is None else [preferred]
    known = {device.registryID() for device in devices}
    devices += [gpu for gpu in metal.MTLCopyAllDevices() if gpu.registryID() not in known]
    if not devices:
        raise DeviceError(name, "macOS has no GPU for Metal here, as in some virtual machines")
    return devices


class Session:
    """A GPU and its queue, which runs command buffers in the order of their commits.

    name: the name in errors.
    """

    def __init__(self, name: str, device: Any) -> None:
        self.name = name
        self.metal = framework(name)
        self.device = device
        self._queue = self._new_queue()
        self._pending: deque[Any] = deque()
        self._lock = threading.RLock()

    def _new_queue(self) -> Any:
        queue = self.device.newCommandQueue()
        if queue is None:
            raise DeviceError(self.name, "Metal gives no command queue")
        return queue

    @property
    def options(self) -> Any:
        """Return options for safe mode and precise functions, with the names before macOS 15 too.

        Other modes reassociate, which no flag requests; a pragma of the text allows contraction.
        """
        options = self.metal.MTLCompileOptions.alloc().init()
        if hasattr(options, "setMathMode_"):
            options.setMathMode_(self.metal.MTLMathModeSafe)
            options.setMathFloatingPointFunctions_(self.metal.MTLMathFloatingPointFunctionsPrecise)
        else:
            options.setFastMathEnabled_(False)
        return options

    def library(self, source: str) -> Any:
        """Compile a text. Raises `DeviceError` with the compiler's message and the text."""
        PROCESS.check(self.name)
        library, error = self.device.newLibraryWithSource_options_error_(source, self.options, None)
        if library is None:
            raise DeviceError(self.name, f"MSL does not compile: {words_of(error)}", source)
        return library

    def pipeline(self, library: Any, entry: str) -> Any:
        """Return the pipeline of a kernel. Raises `DeviceError` if there is none of that name."""
        function = library.newFunctionWithName_(entry)
        if function is None:
            raise DeviceError(self.name, f"the source has no kernel {entry}")
        pipeline, error = self.device.newComputePipelineStateWithFunction_error_(function, None)
        if pipeline is None:
            raise DeviceError(self.name, f"{entry} has no pipeline: {words_of(error)}")
        return pipeline

    def pool(self) -> AbstractContextManager[Any]:
        """Return a pool for objects that Metal returns: Python threads have none of their own."""
        pool: AbstractContextManager[Any] = importlib.import_module("objc").autorelease_pool()
        return pool

    def command_buffer(self) -> Any:
        """Return an empty command buffer of the queue; call it within a pool."""
        PROCESS.check(self.name)
        with self._lock:
            if len(self._pending) >= MAX_PENDING:
                self.finish()
            commands = self._queue.commandBuffer()
        if commands is None:
            raise DeviceError(self.name, "Metal gives no command buffer")
        return commands

    def commit(self, commands: Any) -> None:
        """Queue the content of a command buffer."""
        with self._lock:
            self._pending.append(commands)
            commands.commit()

    def finish(self) -> None:
        """Wait for all queued work.

        Raises `DeviceError` for the first launch that failed, and then replaces the queue: Metal
        ignores later work in a queue after an error that this process caused.
        """
        PROCESS.check(self.name)
        with self._lock:
            pending, self._pending = self._pending, deque()
            for commands in pending:
                commands.waitUntilCompleted()
            status = self.metal.MTLCommandBufferStatusError
            failed = next((commands for commands in pending if commands.status() == status), None)
            if failed is not None:
                self._queue = self._new_queue()
                raise DeviceError(self.name, f"a launch failed: {words_of(failed.error())}")


def words_of(error: Any) -> str:
    """Return the description of an NSError."""
    return "no reason is given" if error is None else str(error.localizedDescription())


@dataclass(eq=False, slots=True)
class Allocation:
    """An MTLBuffer; None once it is freed."""

    buffer: Any


class MetalAllocator(PartAllocator):
    """An allocator for one session; sizes and offsets are in bytes, size 0 is accepted."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def allocate(self, nbytes: int) -> BufferPart:
        """Allocate memory. Raises `UserError` for a negative size, `DeviceError` if too large."""
        check_size(nbytes)
        PROCESS.check(self.session.name)
        limit = self.session.device.maxBufferLength()
        # Metal has no empty buffers, and returns None if it has no memory.
        shared = self.session.metal.MTLResourceStorageModeShared
        buffer = None
        if nbytes <= limit:
            buffer = self.session.device.newBufferWithLength_options_(max(nbytes, 1), shared)
        if buffer is None:
            raise DeviceError(
                self.session.name, f"cannot allocate {nbytes} bytes: one buffer has at most {limit}"
            )
        return BufferPart(Allocation(buffer), 0, nbytes)

    def free(self, handle: BufferPart) -> None:
        """Free the buffer; command buffers that use it hold it until they are done.

        Raises `DeviceError` for freed memory.
        """
        self.buffer_of(handle)
        handle.buffer.buffer = None

    def copy_in(self, handle: BufferPart, source: memoryview) -> None:
        """Copy to the device. Raises `UserError` if the bytes do not fit."""
        check_copy_in(source, handle.nbytes)
        bytes_of = self._bytes(handle)
        bytes_of[: source.nbytes] = source.cast("B")

    def copy_out(self, destination: memoryview, handle: BufferPart) -> None:
        """Copy to the host. Raises `UserError` if the memory has fewer bytes."""
        check_copy_out(destination, handle.nbytes)
        destination.cast("B")[:] = self._bytes(handle)[: destination.nbytes]

    def buffer_of(self, handle: BufferPart) -> Any:
        """Return the MTLBuffer. Raises `DeviceError` for freed memory."""
        if handle.buffer.buffer is None:
            raise DeviceError(
                self.session.name, f"memory of {handle.nbytes} bytes is used after it was freed"
            )
        return handle.buffer.buffer

    def _bytes(self, handle: BufferPart) -> memoryview:
        """Return the bytes of `handle` after all earlier launches."""
        buffer = self.buffer_of(handle)
        self.session.finish()
        whole = memoryview(buffer.contents().as_buffer(buffer.length())).cast("B")
        return whole[handle.offset : handle.offset + handle.nbytes]


class MetalKernel(DriverKernel):
    """A pipeline, launched in the order of the session's queue.

    Arguments 0, 1 ... are the buffers, followed by the variables.
    """

    def __init__(self, memory: MetalAllocator, entry: str, pipeline: Any) -> None:
        self.session = memory.session
        self.entry = entry
        self._memory = memory
        self._pipeline = pipeline

    def queue(self, launch: Launch, wait: bool) -> float | None:
        """Launch it, as `MetalCommandList` does; raises `DeviceError` as `encode` does."""
        commands = MetalCommandList([launch])()
        if not wait:
            return None
        self.session.finish()
        return max(float(commands.GPUEndTime() - commands.GPUStartTime()), 1e-9)

    def encode(self, encoder: Any, launch: Launch) -> None:
        """Add a launch of this kernel to an encoder of commands, which runs them in order.

        Raises `DeviceError` for a group too large for the registers of the GPU, and for freed
        memory.
        """
        limit = self._pipeline.maxTotalThreadsPerThreadgroup()
        if math.prod(launch.group) > limit:
            raise DeviceError(
                self.session.name,
                f"{self.entry}: the GPU has registers for groups of {limit} work-items, "
                f"got {launch.group}",
            )
        encoder.setComputePipelineState_(self._pipeline)
        for number, memory in enumerate(launch.buffers):
            buffer = self._memory.buffer_of(memory)
            encoder.setBuffer_offset_atIndex_(buffer, memory.offset, number)
        for number, value in enumerate(launch.variables, len(launch.buffers)):
            word = struct.pack("<i", value)
            encoder.setBytes_length_atIndex_(word, len(word), number)
        size = self.session.metal.MTLSizeMake
        grid, group = size(*launch.grid), size(*launch.group)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(grid, group)


class MetalCommandList:
    """Launches of one session in one command buffer, which each call encodes again."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = list(launches)

    def __call__(self) -> Any:
        """Queue all and return the command buffer; if one is refused, queue nothing."""
        session = self._kernel(0).session
        with session.pool():
            commands = session.command_buffer()
            encoder = commands.computeCommandEncoder()
            try:
                for number, launch in enumerate(self._launches):
                    self._kernel(number).encode(encoder, launch)
            finally:
                # Destroying an encoder without this ends the process.
                encoder.endEncoding()
            session.commit(commands)
        return commands

    def rebind(self, launch: int, place: int, handle: BufferPart) -> None:
        """Bind `handle` as buffer number `place` of a launch, from the next call on."""
        old = self._launches[launch]
        buffers = (*old.buffers[:place], handle, *old.buffers[place + 1 :])
        self._launches[launch] = replace(old, buffers=buffers)

    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        """Set the grid and the values of the variables of a launch, from the next call on."""
        changed = replace(self._launches[launch], grid=grid, variables=tuple(variables))
        self._launches[launch] = changed

    def _kernel(self, number: int) -> MetalKernel:
        kernel = self._launches[number].kernel
        assert isinstance(kernel, MetalKernel), "a device records launches of its own kernels"
        return kernel


class MetalCompiler:
    """Compiles for one session. The binary is the source: macOS caches what it compiled."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.libraries = CompiledSources[Any](session.library)

    @property
    def key(self) -> str:
        return f"Metal {platform.mac_ver()[0]} {self.session.device.name()}"

    def compile(self, source: str) -> bytes:
        """Compile a source. Raises `DeviceError` with the compiler's message and the source."""
        self.libraries.keep(source, self.session.library(source))
        return source.encode()


class MetalBackend(DriverBackend):
    """One GPU of a Mac; the preferred one has number 0."""

    title = "Metal of macOS through pyobjc"
    base = "METAL"
    session: Session
    _allocator: MetalAllocator
    _compiler: MetalCompiler

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        devices = list_devices(self.name)
        self.session = Session(self.name, self.chosen(devices))
        self._capabilities = capabilities_of(self.session, is_last=index + 1 == len(devices))
        self._allocator = MetalAllocator(self.session)
        self._compiler = MetalCompiler(self.session)

    @classmethod
    def devices(cls) -> list[Any]:
        return list_devices(cls.base)

    @classmethod
    def label(cls, device: Any) -> str:
        return str(device.name())

    @functools.cached_property
    def renderer(self) -> MetalRenderer:
        return MetalRenderer(self.capabilities)

    def load(self, entry: str, binary: bytes) -> MetalKernel:
        library = self._compiler.libraries.take(binary.decode())
        return MetalKernel(self._allocator, entry, self.session.pipeline(library, entry))

    def record(self, launches: Sequence[Launch]) -> MetalCommandList:
        return MetalCommandList(launches)

    def versions(self) -> dict[str, str]:
        return {"device": str(self.session.device.name()), "macOS": platform.mac_ver()[0]}


def capabilities_of(session: Session, is_last: bool) -> Capabilities:
    """Return the capabilities of a GPU, from its own answers and its family."""
    device = session.device

    def is_of(family: str) -> bool:
        return bool(device.supportsFamily_(getattr(session.metal, family)))

    macos = int(platform.mac_ver()[0].partition(".")[0] or 0)
    native = set(MetalRenderer.type_names)
    if macos < _MACOS_OF_BFLOAT or not any(map(is_of, _BFLOAT_FAMILIES)):
        native.remove(dtypes.bfloat16)
    tiles = GROUPS["APPLE"] if is_of(_MATRIX_FAMILY) else ()
    group = device.maxThreadsPerThreadgroup()
    return Capabilities(
        dtypes=frozenset(native),
        emulated=frozenset({*dtypes.fp8s, dtypes.bfloat16} - native),
        ops=METAL_OPS,
        vector_lanes=(1, 2, 4),
        has_grid=True,
        has_groups=True,
        shared_bytes=device.maxThreadgroupMemoryLength(),
        group_limit=(group.width, group.height, group.depth),
        group_size_limit=group.width,
        buffer_limit=MAX_BUFFERS,
        matrix_tiles=tuple(tile for tile in tiles if tile.dtype_in in native),
        # Subnormal float32 may become zero (MSL, 8.1), and does on Apple's GPUs.
        keeps_subnormals=False,
        # The result is undefined (C++14, 5.6), so a compiler may assume that it never happens.
        division_traps=True,
        is_single=is_last,
    )
