"""The OPENCL device: OpenCL C through pyopencl, on any driver that the ICD loader finds.

Every error of pyopencl leaves this module as a `DeviceError` with the driver's message.

A kernel takes these arguments in order. For each buffer: the memory object, and the byte at which
its view begins (ulong). For each image: an image2d_t, which it reads or writes. Then each variable
(int). A sub-buffer of OpenCL begins only at a multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN bits
(OpenCL 1.2, 5.2.1), a view of ours at any element. The first lines of a text describe its images.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.contract import Launch
from tinyref.dtype import VECTOR_LANES, dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.opencl import OPENCL_OPS, ImageParameter, OpenCLRenderer, images_in
from tinyref.runtimes.driver_checks import (
    BufferPart,
    DriverProcess,
    PartAllocator,
    check_copy_in,
    check_copy_out,
    check_size,
)
from tinyref.runtimes.drivers import CompiledSources, DriverBackend, DriverKernel

# A simulator that is a separate device: tinyref.runtimes.oclgrind.
SIMULATOR = "Oclgrind"

# Bits of cl_device_fp_config (OpenCL 1.2, table 4.3).
SUBNORMALS = 1 << 0
CORRECTLY_ROUNDED_DIVISION = 1 << 7

# The kernel of a source, up to its name.
_ENTRY = re.compile(r"^__kernel void \w+", re.MULTILINE)
# Parameter bytes reserved for the variables of a kernel, and the parameter bytes of a buffer.
VARIABLE_BYTES = 128
BYTES_OF_BUFFER = 16


# Largest number of launches whose end was not checked yet; with more, the queue is waited for.
MAX_PENDING = 256

PROCESS = DriverProcess("OpenCL")


def pyopencl(name: str) -> Any:
    """Return the module pyopencl.

    Raises `DeviceError` if it is not installed, and in a process forked from one that used a
    driver: the child lacks the driver's contexts and threads.
    """
    PROCESS.check(name)
    # tinyref and drivers cache compiled programs: a third cache only takes space.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    try:
        return importlib.import_module("pyopencl")
    except ImportError as error:
        raise DeviceError(
            name,
            f"pyopencl does not import: pip install '.[opencl]' in a clone of tinyref ({error})",
        ) from error


def platforms(name: str) -> list[Any]:
    """Return the platforms of all drivers, in order. Raises `DeviceError` if there are none."""
    cl = pyopencl(name)
    PROCESS.is_started = True
    try:
        return list(cl.get_platforms())
    except cl.Error as error:
        folder = os.environ.get("OCL_ICD_VENDORS")
        where = f"; OCL_ICD_VENDORS is {folder}" if folder else ""
        raise DeviceError(
            name,
            f"no OpenCL driver (ICD) is installed{where}: install one, such as pocl-opencl-icd "
            f"({error})",
        ) from error


def devices_of(name: str, platform: Any) -> list[Any]:
    """Return the devices of a platform that compile kernels; maybe none."""
    try:
        devices = list(platform.get_devices())
    except pyopencl(name).Error:
        return []
    return [device for device in devices if device.available and device.compiler_available]


class Session:
    """One opened device: its context and its queue, which runs everything in the order of calls.

    name: the name in errors. options: of the driver's compiler.
    """

    def __init__(self, name: str, device: Any, options: Sequence[str]) -> None:
        self.name = name
        self.device = device
        self.options = tuple(options)
        self.cl = pyopencl(name)
        with self.errors("cannot open the device"):
            self.context = self.cl.Context([device])
            profiling = self.cl.command_queue_properties.PROFILING_ENABLE
            self.queue = self.cl.CommandQueue(self.context, device, properties=profiling)
        self._pending: deque[Any] = deque()
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def errors(self, what: str, source: str = "") -> Iterator[None]:
        """Turn errors of pyopencl into `DeviceError`s: "what: the driver's message"."""
        PROCESS.check(self.name)
        try:
            yield
        except (self.cl.Error, MemoryError) as error:
            raise DeviceError(self.name, f"{what}: {_words(error)}", source) from error

    def build(self, source: str) -> Any:
        """Build the program of a source. Raises `DeviceError` with the log and the source."""
        with self.errors("the driver does not build the program", source):
            return self.cl.Program(self.context, source).build(options=list(self.options))

    def kernel(self, program: Any, entry: str) -> Any:
        """Return a kernel of a program. Raises `DeviceError` if it has none of that name."""
        with self.errors(f"no kernel {entry}"):
            return self.cl.Kernel(program, entry)

    def launch(self, kernel: Any, sizes: Sequence[int], group: Sequence[int]) -> Any:
        """Queue a launch of `sizes` work-items, whose arguments are set; return its event.

        Its errors carry no source: only errors of the compiler do.
        """
        event = self.cl.enqueue_nd_range_kernel(self.queue, kernel, tuple(sizes), tuple(group))
        with self._lock:
            self._pending.append(event)
        if len(self._pending) > MAX_PENDING:
            self.finish()
        return event

    def finish(self) -> None:
        """Wait for all queued work. Raises `DeviceError` for a launch that failed."""
        with self.errors("a launch failed"):
            self.queue.finish()
            with self._lock:
                pending, self._pending = self._pending, deque()
            for event in pending:
                event.wait()


def _words(error: BaseException) -> str:
    """Return the driver's message, in which pyopencl repeats the name of the call after dashes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = " - ".join(dict.fromkeys(lines[0].split(" - "))) if lines else type(error).__name__
    return "\n".join([first, *lines[1:]])


class OpenCLAllocator(PartAllocator):
    """An allocator for one session; sizes and offsets are in bytes, size 0 is accepted."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def allocate(self, nbytes: int) -> BufferPart:
        """Allocate memory. Raises `UserError` for a negative size, `DeviceError` if too large."""
        check_size(nbytes)
        session = self.session
        limit = session.device.max_mem_alloc_size
        if nbytes > limit:
            raise DeviceError(
                session.name, f"cannot allocate {nbytes} bytes: one buffer has at most {limit}"
            )
        with session.errors(f"cannot allocate {nbytes} bytes"):
            flags = session.cl.mem_flags.READ_WRITE
            # OpenCL has no empty buffers.
            return BufferPart(session.cl.Buffer(session.context, flags, max(nbytes, 1)), 0, nbytes)

    def free(self, handle: BufferPart) -> None:
        """Release memory; the driver frees it after the queued work (OpenCL 1.2, 5.4.1).

        A forked child frees nothing: the memory is its parent's.
        """
        if PROCESS.is_forked:
            return
        with self.session.errors("cannot free memory"):
            handle.buffer.release()

    def copy_in(self, handle: BufferPart, source: memoryview) -> None:
        """Copy to the device. Raises `UserError` if the bytes do not fit."""
        check_copy_in(source, handle.nbytes)
        if source.nbytes:
            session = self.session
            with session.errors("copy_in"):
                session.cl.enqueue_copy(
                    session.queue, handle.buffer, source, dst_offset=handle.offset
                )

    def copy_out(self, destination: memoryview, handle: BufferPart) -> None:
        """Copy to the host. Raises `UserError` if the memory has fewer bytes."""
        check_copy_out(destination, handle.nbytes)
        session = self.session
        session.finish()
        if destination.nbytes:
            with session.errors("copy_out"):
                session.cl.enqueue_copy(
                    session.queue, destination, handle.buffer, src_offset=handle.offset
                )


class _Image:
    """The image object of one parameter. It shares no memory with a buffer, so it is a copy."""

    def __init__(self, session: Session, parameter: ImageParameter) -> None:
        cl = session.cl
        self.session = session
        self.is_written = parameter.is_written
        self.region = (parameter.width, parameter.height)
        is_half = parameter.texel == "float16"
        channel = cl.channel_type.HALF_FLOAT if is_half else cl.channel_type.FLOAT
        form = cl.ImageFormat(cl.channel_order.RGBA, channel)
        access = cl.mem_flags.WRITE_ONLY if self.is_written else cl.mem_flags.READ_ONLY
        with session.errors(f"no image of {parameter.height} by {parameter.width} texels"):
            self.object = cl.create_image(session.context, access, form, shape=self.region)

    def fill(self, memory: BufferPart) -> Any:
        """Copy `memory` to the object and return it; also before a write, which may be partial."""
        self._copy(self.object, memory.buffer, memory.offset)
        return self.object

    def put_back(self, memory: BufferPart) -> None:
        """Copy the result of a launch back to `memory`."""
        if self.is_written:
            self._copy(memory.buffer, self.object, memory.offset)

    def _copy(self, destination: Any, source: Any, offset: int) -> None:
        session = self.session
        session.cl.enqueue_copy(
            session.queue,
            destination,
            source,
            offset=offset,
            origin=(0, 0),
            region=self.region,
        )


class OpenCLKernel(DriverKernel):
    """A kernel of a built program, launched in the order of the session's queue."""

    def __init__(self, session: Session, entry: str, program: Any, source: str) -> None:
        self.session = session
        self.entry = entry
        self._kernel = session.kernel(program, entry)
        self._images = {image.position: _Image(session, image) for image in images_in(source)}
        # The arguments of a kernel object are set one by one (OpenCL 1.2, A.2).
        self._lock = threading.Lock()

    def queue(self, launch: Launch, wait: bool) -> float | None:
        group, buffers = launch.group, launch.buffers
        sizes = [groups * items for groups, items in zip(launch.grid, group, strict=True)]
        session = self.session
        with session.errors(f"cannot launch {self.entry}"), self._lock:
            self._bind(buffers, launch.variables)
            event = session.launch(self._kernel, sizes, group)
            for position, image in self._images.items():
                image.put_back(buffers[position])
        if not wait:
            return None
        session.finish()
        with session.errors("no time of the launch"):
            nanoseconds = int(event.profile.end - event.profile.start)
        return max(nanoseconds, 1) * 1e-9

    def _bind(self, buffers: Sequence[BufferPart], variables: Sequence[int]) -> None:
        values: list[Any] = []
        for position, memory in enumerate(buffers):
            image = self._images.get(position)
            if image is None:
                values += [memory.buffer, np.uint64(memory.offset)]
            else:
                values.append(image.fill(memory))
        values += map(np.int32, variables)
        if len(values) != self._kernel.num_args:
            raise DeviceError(
                self.session.name,
                f"{self.entry} takes {self._kernel.num_args} arguments, got {len(values)} for "
                f"{len(buffers)} buffers and {len(variables)} variables",
            )
        self._kernel.set_args(*values)


@dataclass(frozen=True)
class Built:
    """A built program, and the suffix that it adds to the name of a source's kernel."""

    program: Any
    suffix: str = ""


class OpenCLCompiler:
    """Builds programs for one session. The binary is the source: drivers cache what they built."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.built = CompiledSources(lambda source: Built(session.build(source)))

    @functools.cached_property
    def key(self) -> str:
        device = self.session.device
        parts = (
            device.platform.name,
            device.platform.version,
            device.name,
            device.driver_version,
            device.version,
            *self.session.options,
        )
        return " ".join(parts)

    def compile(self, source: str) -> bytes:
        """Build a source. Raises `DeviceError` with the log of the build and the source."""
        self.built.keep(source, Built(self.session.build(source)))
        return source.encode()

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """Build one program of all sources: most of a driver's time is spent in its own headers.

        Raises `DeviceError` if a source does not build: the log does not tell which one.
        """
        texts = [
            _ENTRY.sub(rf"\g<0>_{number}", source, count=1) for number, source in enumerate(sources)
        ]
        program = self.session.build("\n".join(texts))
        for number, source in enumerate(sources):
            self.built.keep(source, Built(program, f"_{number}"))
        return [source.encode() for source in sources]


class OpenCLBackend(DriverBackend):
    """One of the devices of all drivers, numbered across all platforms."""

    title = "OpenCL through pyopencl"
    environment: tuple[str, ...] = (
        "OCL_ICD_VENDORS",
        "PYOPENCL_BUILD_OPTIONS",
        "POCL_DEVICES",
        "POCL_MAX_PTHREAD_COUNT",
        "POCL_WORK_GROUP_METHOD",
    )
    base = "OPENCL"
    session_class = Session
    allocator_class = OpenCLAllocator
    options: tuple[str, ...] = ()
    nothing_found = "the installed OpenCL drivers have no device for it"

    session: Session
    _compiler: OpenCLCompiler

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        devices = self.devices()
        device = self.chosen(devices)
        self._capabilities = capabilities_of(device, is_last=index + 1 == len(devices))
        options = [*build_options(device), *self.options]
        self.session = self.session_class(self.name, device, options)
        self._allocator = self.allocator_class(self.session)
        self._compiler = OpenCLCompiler(self.session)

    @classmethod
    def devices(cls) -> list[Any]:
        devices = [
            device
            for platform in platforms(cls.base)
            if cls.serves(platform)
            for device in devices_of(cls.base, platform)
        ]
        if not devices:
            raise DeviceError(cls.base, cls.nothing_found)
        return devices

    @classmethod
    def serves(cls, platform: Any) -> bool:
        """Return True if this backend is responsible for the devices of a platform."""
        return bool(platform.name != SIMULATOR)

    @classmethod
    def label(cls, device: Any) -> str:
        return f"{device.name} ({device.driver_version})"

    @functools.cached_property
    def renderer(self) -> OpenCLRenderer:
        return OpenCLRenderer(self.capabilities, divides_exactly(self.session.device))

    def load(self, entry: str, binary: bytes) -> OpenCLKernel:
        source = binary.decode()
        built = self._compiler.built.take(source)
        return OpenCLKernel(self.session, entry + built.suffix, built.program, source)

    def versions(self) -> dict[str, str]:
        device = self.session.device
        return {
            "device": device.name,
            "driver": device.driver_version,
            "language": device.opencl_c_version,
            "platform": f"{device.platform.name} {device.platform.version}",
            "pyopencl": self.session.cl.VERSION_TEXT,
        }


def divides_exactly(device: Any) -> bool:
    """Return True if correct rounding of float32 `/` and `sqrt` can be requested."""
    return bool(device.single_fp_config & CORRECTLY_ROUNDED_DIVISION)


def build_options(device: Any) -> list[str]:
    """Return options for strict floats: no relaxations, and exact division if available."""
    # The newest OpenCL C that the compiler supports and our texts allow: 1.2 and later.
    version = re.match(r"OpenCL C (\d+\.\d+)", device.opencl_c_version)
    options = [f"-cl-std=CL{version[1] if version else '1.2'}"]
    if divides_exactly(device):
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    return options


def capabilities_of(device: Any, is_last: bool) -> Capabilities:
    """Return a device's capabilities from its own answers (OpenCL 1.2, 4.2, table 4.3)."""
    extensions = frozenset(device.extensions.split())
    native = {*dtypes.ints, dtypes.bool, dtypes.float32}
    if device.profile == "EMBEDDED_PROFILE" and "cles_khr_int64" not in extensions:
        native -= {dtypes.int64, dtypes.uint64}
    if device.double_fp_config:
        native.add(dtypes.float64)
    if "cl_khr_fp16" in extensions:
        native.add(dtypes.float16)
    small = {*dtypes.fp8s, dtypes.float16, dtypes.bfloat16}
    # A launch counts all its work-items in 64 bits or in 32.
    most = 2**31 - 1 if device.address_bits == 64 else (2**32 - 1) // device.max_work_group_size
    parameters = (device.max_parameter_size - VARIABLE_BYTES) // BYTES_OF_BUFFER
    return Capabilities(
        dtypes=frozenset(native),
        emulated=frozenset((small | {dtypes.int64, dtypes.uint64}) - native),
        ops=OPENCL_OPS,
        vector_lanes=(1, *VECTOR_LANES),
        has_grid=True,
        has_groups=True,
        shared_bytes=device.local_mem_size,
        grid_limit=(most, most, most),
        group_limit=tuple(device.max_work_item_sizes[:3]),
        group_size_limit=device.max_work_group_size,
        buffer_limit=parameters,
        images=bool(device.image_support),
        keeps_subnormals=bool(device.single_fp_config & SUBNORMALS),
        # OpenCL allows any result, but drivers let the processor trap.
        division_traps=True,
        is_single=is_last,
    )
