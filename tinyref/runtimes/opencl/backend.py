"""The OPENCL device: OpenCL C through pyopencl, on any driver that the ICD loader finds."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Backend
from tinyref.dtype import VECTOR_LANES, dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.opencl import OPENCL_OPS, OpenCLRenderer
from tinyref.runtimes.opencl.driver import Session, devices_of, platforms
from tinyref.runtimes.opencl.kernel import OpenCLKernel
from tinyref.runtimes.opencl.memory import OpenCLAllocator

# A simulator that is a device of its own: tinyref.runtimes.opencl.oclgrind.
SIMULATOR = "Oclgrind"

# Bits of cl_device_fp_config (OpenCL 1.2, table 4.3).
SUBNORMALS = 1 << 0
CORRECTLY_ROUNDED_DIVISION = 1 << 7

# Sources that are built and not loaded yet.
KEPT_PROGRAMS = 1024
# The kernel of a source, up to its name.
_ENTRY = re.compile(r"^__kernel void \w+", re.MULTILINE)
# Bytes of a kernel's parameters that buffers leave to its variables, and what a buffer takes.
VARIABLE_BYTES = 128
BYTES_OF_BUFFER = 16


@dataclass(frozen=True)
class Built:
    """A built program, and what the name of a source's kernel ends in there."""

    program: Any
    suffix: str = ""


class OpenCLCompiler:
    """Builds programs for one session. The binary is the source: drivers keep what they built."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._built: dict[str, Built] = {}
        self._lock = threading.Lock()

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
        """Raises `DeviceError` with the log of the build and the source."""
        self._keep(source, Built(self.session.build(source)))
        return source.encode()

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """One program of all: most of a driver's time goes into its own headers.

        Raises `DeviceError` where a source does not build: the log does not say whose line it is.
        """
        texts = [
            _ENTRY.sub(rf"\g<0>_{number}", source, count=1) for number, source in enumerate(sources)
        ]
        program = self.session.build("\n".join(texts))
        for number, source in enumerate(sources):
            self._keep(source, Built(program, f"_{number}"))
        return [source.encode() for source in sources]

    def _keep(self, source: str, built: Built) -> None:
        with self._lock:
            self._built[source] = built
            while len(self._built) > KEPT_PROGRAMS:
                self._built.pop(next(iter(self._built)))

    def take(self, source: str) -> Built:
        """What was compiled of a source, or is built now."""
        with self._lock:
            found = self._built.pop(source, None)
        return Built(self.session.build(source)) if found is None else found


class OpenCLBackend(Backend):
    """One device of all that the drivers have, numbered over all platforms."""

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

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"{self.base}:{index}" if index else self.base
        found = self.devices()
        if index >= len(found):
            raise DeviceError(self.name, f"there are {len(found)} such devices: {_listed(found)}")
        device = found[index]
        self._capabilities = capabilities_of(device, is_last=index + 1 == len(found))
        self.session = self.session_class(
            self.name, device, [*build_options(device), *self.options]
        )
        self._allocator = self.allocator_class(self.session)
        self._compiler = OpenCLCompiler(self.session)

    @classmethod
    def devices(cls) -> list[Any]:
        """The devices by their numbers. Raises `DeviceError` where there is no driver."""
        return [
            device
            for platform in platforms(cls.base)
            if cls.serves(platform)
            for device in devices_of(cls.base, platform)
        ]

    @classmethod
    def serves(cls, platform: Any) -> bool:
        """Whether the devices of a platform are among its own."""
        return bool(platform.name != SIMULATOR)

    @classmethod
    def availability(cls) -> Availability:
        try:
            found = cls.devices()
        except DeviceError as error:
            return Availability(False, error.message)
        if not found:
            return Availability(False, "the OpenCL drivers that are there have no device for it")
        return Availability(True, _listed(found))

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @functools.cached_property
    def renderer(self) -> OpenCLRenderer:
        return OpenCLRenderer(self.capabilities, divides_exactly(self.session.device))

    @property
    def compiler(self) -> OpenCLCompiler:
        return self._compiler

    @property
    def allocator(self) -> OpenCLAllocator:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> OpenCLKernel:
        source = binary.decode()
        built = self._compiler.take(source)
        return OpenCLKernel(self.session, entry + built.suffix, built.program, source)

    def synchronize(self) -> None:
        self.session.finish()

    def versions(self) -> dict[str, str]:
        device = self.session.device
        return {
            "device": device.name,
            "driver": device.driver_version,
            "language": device.opencl_c_version,
            "platform": f"{device.platform.name} {device.platform.version}",
            "pyopencl": self.session.cl.VERSION_TEXT,
        }


def _listed(devices: list[Any]) -> str:
    return ", ".join(f"{each.name} ({each.driver_version})" for each in devices)


def divides_exactly(device: Any) -> bool:
    """Whether `/` and `sqrt` of float32 may be asked to be correctly rounded."""
    return bool(device.single_fp_config & CORRECTLY_ROUNDED_DIVISION)


def build_options(device: Any) -> list[str]:
    """Strict floats: nothing relaxed, and exact division where the device has it."""
    options = [f"-cl-std=CL{language_version(device)}"]
    if divides_exactly(device):
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    return options


def language_version(device: Any) -> str:
    """The newest OpenCL C that the compiler has and that we write: "1.2" and later."""
    found = re.match(r"OpenCL C (\d+\.\d+)", device.opencl_c_version)
    return found[1] if found else "1.2"


def capabilities_of(device: Any, is_last: bool) -> Capabilities:
    """What a device declares, by its own answers (OpenCL 1.2, 4.2, table 4.3)."""
    extensions = frozenset(device.extensions.split())
    native = {*dtypes.ints, dtypes.bool, dtypes.float32}
    if device.profile == "EMBEDDED_PROFILE" and "cles_khr_int64" not in extensions:
        native -= {dtypes.int64, dtypes.uint64}
    if device.double_fp_config:
        native.add(dtypes.float64)
    if "cl_khr_fp16" in extensions:
        native.add(dtypes.float16)
    small = {*dtypes.fp8s, dtypes.float16, dtypes.bfloat16}
    # Numbers of 64 bits or 32: all work-items of a launch are counted.
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
        # It gives any value, and drivers let the processor trap.
        division_traps=True,
        is_single=is_last,
    )
