"""The WEBGPU device: WGSL through wgpu, on Vulkan, Metal or Direct3D 12.

A kernel takes a read-only array of words, and its buffers. The words are: a 0 that compilers do not
know (`tinyref.renderers.wgsl` has the reason), the variables, and for each buffer the byte at which
it begins in its binding. Bindings begin at multiples of 32 to 256 bytes, views anywhere.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import re
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.contract import Launch
from tinyref.dtype import DType, dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.wgsl import LAUNCH_WORDS, WGSL_OPS, WgslRenderer
from tinyref.runtimes.driver_checks import (
    BufferPart,
    DriverProcess,
    PartAllocator,
    check_copy_in,
    check_copy_out,
    check_size,
)
from tinyref.runtimes.drivers import DriverBackend, DriverKernel
from tinyref.uops.program import SMALL_FLOATS, STORABLE_IN_WORDS, WIDE_INTEGERS

# WGSL stores and binds memory in words of this many bytes.
WORD = 4
# A binding is at least as large as the largest element of an array.
SMALLEST_BUFFER = 16
# OpenGL is excluded: its compute shaders lack the types and the limits.
_DRIVERS = ("Vulkan", "Metal", "D3D12")
_FEATURES = ("shader-f16", "shader-int64", "shader-f64", "timestamp-query")
_TYPES_OF_FEATURES: dict[str, tuple[DType, ...]] = {
    "shader-f16": (dtypes.float16,),
    "shader-int64": (dtypes.int64, dtypes.uint64),
    "shader-f64": (dtypes.float64,),
}
_NOT_IN_WGSL = frozenset(
    {*STORABLE_IN_WORDS, *SMALL_FLOATS, *WIDE_INTEGERS} - {dtypes.bool},
)
_STORAGE = re.compile(r"@binding\(\d+\) var<storage, read_write>")
_WORDS = re.compile(rf"var<storage, read> {LAUNCH_WORDS}: array<u32, (\d+)>")
PROCESS = DriverProcess("wgpu")


# Public: docs/backend.md names it.
WebgpuMemory = BufferPart


class WebgpuBackend(DriverBackend):
    """One adapter of the machine; `index` counts those of Vulkan, Metal and Direct3D."""

    title = "WGSL through wgpu, on Vulkan, Metal or Direct3D 12"
    environment = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "LP_NUM_THREADS")
    base = "WEBGPU"
    _allocator: WebgpuAllocator

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.adapter = self.chosen(self.devices())
        self.features = [name for name in _FEATURES if name in self.adapter.features]
        self.limits = {name: int(limit) for name, limit in self.adapter.limits.items()}
        # Orders launches and copies of all threads.
        self.lock = threading.RLock()
        with self.errors("cannot be opened"):
            self._device = self.adapter.request_device_sync(
                required_features=self.features, required_limits=dict(self.adapter.limits)
            )
        self._capabilities = _capabilities(self.features, self.limits)
        self._allocator = WebgpuAllocator(self)
        self._compiler = WgslCompiler(self)
        self._layouts: dict[int, tuple[Any, Any]] = {}

    @classmethod
    def devices(cls) -> list[Any]:
        PROCESS.check(cls.base)
        return _adapters()

    @classmethod
    def label(cls, device: Any) -> str:
        return str(device.summary)

    @property
    def device(self) -> Any:
        """Return the device of the driver. Raises `DeviceError` in a forked process."""
        PROCESS.check(self.name)
        return self._device

    @contextlib.contextmanager
    def errors(self, what: str, source: str = "") -> Iterator[None]:
        """Turn errors of the driver inside the block into a `DeviceError` with its message."""
        try:
            yield
        except (_wgpu().GPUError, RuntimeError) as error:
            raise DeviceError(self.name, f"{what}: {error}", source) from error

    @functools.cached_property
    def renderer(self) -> WgslRenderer:
        return WgslRenderer(self.capabilities)

    def load(self, entry: str, binary: bytes) -> WebgpuKernel:
        return WebgpuKernel(self, entry, binary.decode())

    def layout(self, buffers: int) -> tuple[Any, Any]:
        """Return the layouts of bind group and pipeline for a kernel with this many buffers.

        They are explicit, because a layout that the driver derives from a source omits unused
        buffers.
        """
        if buffers not in self._layouts:
            visibility = _wgpu().ShaderStage.COMPUTE
            kinds = ["read-only-storage", *["storage"] * buffers]
            entries = [
                {"binding": number, "visibility": visibility, "buffer": {"type": kind}}
                for number, kind in enumerate(kinds)
            ]
            group = self.device.create_bind_group_layout(entries=entries)
            pipeline = self.device.create_pipeline_layout(bind_group_layouts=[group])
            self._layouts[buffers] = group, pipeline
        return self._layouts[buffers]

    def synchronize(self) -> None:
        """Read a word, which waits for all work queued before."""
        with self.lock, self.errors("does not finish"):
            self._allocator.read(self._allocator.sentinel, 0, WORD)

    def versions(self) -> dict[str, str]:
        info = self.adapter.info
        return {
            "wgpu": importlib.metadata.version("wgpu"),
            "adapter": self.adapter.summary,
            "driver": str(info["description"]),
        }


class WgslCompiler:
    """Checks a source with the driver's front end; the source itself is the binary."""

    def __init__(self, backend: WebgpuBackend) -> None:
        self.backend = backend

    @property
    def key(self) -> str:
        return " ".join([*self.backend.versions().values(), *self.backend.features])

    def compile(self, source: str) -> bytes:
        with self.backend.errors("does not compile", source):
            self.backend.device.create_shader_module(code=source)
        return source.encode()


class WebgpuAllocator(PartAllocator):
    """An allocator of driver buffers; views may begin at any byte."""

    def __init__(self, backend: WebgpuBackend) -> None:
        self.backend = backend

    @functools.cached_property
    def sentinel(self) -> WebgpuMemory:
        """Return the memory that `synchronize` reads."""
        return self.allocate(WORD)

    def allocate(self, nbytes: int) -> WebgpuMemory:
        check_size(nbytes)
        usage = _wgpu().BufferUsage
        size = max(_round_up(nbytes, WORD), SMALLEST_BUFFER)
        with self.backend.errors(f"cannot allocate {nbytes} bytes"):
            buffer = self.backend.device.create_buffer(
                size=size, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
            )
        return WebgpuMemory(buffer, 0, nbytes)

    def free(self, handle: WebgpuMemory) -> None:
        if not PROCESS.is_forked:
            with self.backend.errors("cannot free memory"):
                handle.buffer.destroy()

    def copy_in(self, handle: WebgpuMemory, source: memoryview) -> None:
        """Copy to the device; words at both ends that are only partly written are read first."""
        check_copy_in(source, handle.nbytes)
        if not source.nbytes:
            return
        first = _round_down(handle.offset, WORD)
        head = handle.offset - first
        size = _round_up(head + source.nbytes, WORD)
        with self.backend.lock, self.backend.errors("cannot copy in"):
            data: memoryview | bytearray = source
            if size != source.nbytes:
                data = bytearray(self.read(handle, first, size))
                data[head : head + source.nbytes] = source
            self.backend.device.queue.write_buffer(handle.buffer, first, data)

    def copy_out(self, destination: memoryview, handle: WebgpuMemory) -> None:
        check_copy_out(destination, handle.nbytes)
        if not destination.nbytes:
            return
        first = _round_down(handle.offset, WORD)
        head = handle.offset - first
        size = _round_up(head + destination.nbytes, WORD)
        with self.backend.lock, self.backend.errors("cannot copy out"):
            data = self.read(handle, first, size)
        destination[:] = data[head : head + destination.nbytes]

    def read(self, handle: WebgpuMemory, first: int, size: int) -> memoryview:
        """Return `size` bytes of the buffer of `handle` from `first` on, after earlier work."""
        data = self.backend.device.queue.read_buffer(handle.buffer, first, size)
        return memoryview(data).cast("B")


class WebgpuKernel(DriverKernel):
    """A pipeline of the driver, with the words that its launches take."""

    def __init__(self, backend: WebgpuBackend, entry: str, source: str) -> None:
        self.backend = backend
        self.source = source
        self.buffers = len(_STORAGE.findall(source))
        words = _WORDS.search(source)
        if words is None:
            raise DeviceError(backend.name, f"{entry}: has no words of a launch", source)
        self.words = int(words.group(1))
        usage = _wgpu().BufferUsage
        with backend.lock, backend.errors(f"{entry}: does not load", source):
            module = backend.device.create_shader_module(code=source)
            self.group_layout, layout = backend.layout(self.buffers)
            self.pipeline = backend.device.create_compute_pipeline(
                layout=layout, compute={"module": module, "entry_point": entry}
            )
            self.memory = backend.device.create_buffer(
                size=WORD * self.words, usage=usage.STORAGE | usage.COPY_DST
            )
        self.entry = entry

    def queue(self, launch: Launch, wait: bool) -> float | None:
        """Launch it. The source contains the size of a group; errors name this launch."""
        with self.backend.lock, self.backend.errors(f"{self.entry}: cannot launch", self.source):
            return self._queue(launch, wait)

    def _queue(self, launch: Launch, wait: bool) -> float | None:
        device = self.backend.device
        bindings = [_binding(memory, self._alignment) for memory in launch.buffers]
        words = [0, *launch.variables, *[offset for _, offset in bindings]]
        # The queue orders writes and launches, so earlier launches still see their own words.
        data = struct.pack(f"<{self.words}I", *[word & 0xFFFFFFFF for word in words])
        device.queue.write_buffer(self.memory, 0, data)
        whole = {"buffer": self.memory, "offset": 0, "size": WORD * self.words}
        resources = [whole, *[resource for resource, _ in bindings]]
        entries = [{"binding": number, "resource": item} for number, item in enumerate(resources)]
        bound = device.create_bind_group(layout=self.group_layout, entries=entries)
        clock = _Clock(self.backend) if wait else None
        encoder = device.create_command_encoder()
        compute = encoder.begin_compute_pass(timestamp_writes=clock.writes if clock else None)
        compute.set_pipeline(self.pipeline)
        compute.set_bind_group(0, bound)
        compute.dispatch_workgroups(*launch.grid)
        compute.end()
        device.queue.submit([encoder.finish()])
        return clock.seconds() if clock else None

    @functools.cached_property
    def _alignment(self) -> int:
        return self.backend.limits["min-storage-buffer-offset-alignment"]


class _Clock:
    """Measures one launch: by the device if it counts nanoseconds, else by the host."""

    def __init__(self, backend: WebgpuBackend) -> None:
        self.backend = backend
        self.writes: dict[str, Any] | None = None
        backend.synchronize()
        if "timestamp-query" in backend.features:
            self.queries = backend.device.create_query_set(type="timestamp", count=2)
            self.writes = {
                "query_set": self.queries,
                "beginning_of_pass_write_index": 0,
                "end_of_pass_write_index": 1,
            }
        self.start = time.perf_counter()

    def seconds(self) -> float:
        """Wait for the launch and return its seconds: above 0, at most the host's time."""
        device = self.backend.device
        if self.writes is None:
            self.backend.synchronize()
            return time.perf_counter() - self.start
        usage = _wgpu().BufferUsage
        size = 2 * struct.calcsize("<Q")
        answer = device.create_buffer(size=size, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        encoder = device.create_command_encoder()
        encoder.resolve_query_set(self.queries, 0, 2, answer, 0)
        device.queue.submit([encoder.finish()])
        begin, end = struct.unpack("<2Q", device.queue.read_buffer(answer))
        elapsed = time.perf_counter() - self.start
        seconds: float = max(end - begin, 1) * 1e-9
        return min(seconds, elapsed)


def _binding(memory: WebgpuMemory, alignment: int) -> tuple[dict[str, Any], int]:
    """Return the binding for a piece of memory, and the byte at which it begins in it."""
    start = _round_down(memory.offset, alignment)
    within = memory.offset - start
    size = max(_round_up(within + memory.nbytes, WORD), SMALLEST_BUFFER)
    if start + size > memory.buffer.size:
        # At the end of a buffer there may be fewer bytes than the smallest binding.
        start = _round_down(max(memory.buffer.size - SMALLEST_BUFFER, 0), alignment)
        within = memory.offset - start
        size = memory.buffer.size - start
    return {"buffer": memory.buffer, "offset": start, "size": size}, within


def _round_down(number: int, multiple: int) -> int:
    return number - number % multiple


def _round_up(number: int, multiple: int) -> int:
    return number + -number % multiple


@functools.cache
def _wgpu() -> Any:
    """Import the package. Raises `DeviceError` if it is missing or does not load."""
    try:
        import wgpu
        from wgpu.backends.wgpu_native import extras
    except (ImportError, OSError, RuntimeError) as error:
        raise DeviceError(
            "WEBGPU",
            f"the package wgpu is missing: pip install '.[webgpu]' in a clone of tinyref ({error})",
        ) from error
    with contextlib.suppress(RuntimeError):
        extras.set_instance_extras(backends=["Vulkan", "Metal", "DX12"])
    return wgpu


@functools.cache
def _adapters() -> list[Any]:
    """Return the adapters of this machine. Raises `DeviceError` with what is missing."""
    gpu = _wgpu().gpu
    PROCESS.is_started = True
    adapters = [
        adapter
        for adapter in gpu.enumerate_adapters_sync()
        if adapter.info["backend_type"] in _DRIVERS
    ]
    if not adapters:
        raise DeviceError(
            "WEBGPU",
            "no adapter: install a driver for Vulkan, such as the package "
            "mesa-vulkan-drivers, which computes on the host",
        )
    return adapters


def _capabilities(features: Sequence[str], limit: Mapping[str, int]) -> Capabilities:
    native = {dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32}
    for feature in features:
        native |= set(_TYPES_OF_FEATURES.get(feature, ()))
    lacking = frozenset(_NOT_IN_WGSL - native)
    sides = ("x", "y", "z")
    x, y, z = (limit[f"max-compute-workgroup-size-{side}"] for side in sides)
    groups = limit["max-compute-workgroups-per-dimension"]
    return Capabilities(
        dtypes=frozenset(native),
        emulated=lacking,
        stored_in_words=frozenset(STORABLE_IN_WORDS),
        ops=WGSL_OPS,
        vector_lanes=(1, 2, 4),
        has_grid=True,
        has_groups=True,
        shared_bytes=limit["max-compute-workgroup-storage-size"],
        grid_limit=(groups, groups, groups),
        group_limit=(x, y, z),
        group_size_limit=limit["max-compute-invocations-per-workgroup"],
        # One buffer is reserved for the words of a launch.
        buffer_limit=limit["max-storage-buffers-per-shader-stage"] - 1,
        is_single=len(_adapters()) == 1,
    )
