"""The CUDA device: CUDA C++ compiled by NVRTC, launched through the driver of NVIDIA GPUs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Backend, Compiler, CompileTarget, Launch, Renderer
from tinyref.errors import DeviceError
from tinyref.renderers.cuda import CudaRenderer
from tinyref.runtimes.cuda.architectures import (
    LARGEST_OF_THREE,
    OLDEST,
    TARGETS,
    Capability,
    capabilities_of,
    capability_of,
    target_name,
)
from tinyref.runtimes.cuda.compilers import NvrtcChecker, NvrtcCompiler, ToolkitCompiler
from tinyref.runtimes.cuda.driver import Driver, Found, Session
from tinyref.runtimes.cuda.graph import CudaGraph
from tinyref.runtimes.cuda.kernel import CudaKernel
from tinyref.runtimes.cuda.memory import CudaAllocator
from tinyref.runtimes.reuse import ReusingAllocator

# The toolkit whose ptxas negates the second of three integers, too.
NEGATES_ALL = (13, 4)


class CudaBackend(Backend):
    """One NVIDIA GPU of those that the driver has, by its number."""

    title = "CUDA C++ through NVRTC, on NVIDIA GPUs"
    environment = (
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_PATH",
        "CUDA_HOME",
    )
    compile_targets = TARGETS
    base: ClassVar[str] = "CUDA"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"{self.base}:{index}" if index else self.base
        driver = Driver(self.name)
        found = driver.devices()
        if index >= len(found):
            raise DeviceError(self.name, f"there are {len(found)} such devices: {_listed(found)}")
        self.found = found[index]
        if self.found.capability < OLDEST:
            raise DeviceError(
                self.name,
                f"is {self.found}: accepted are {OLDEST[0]}.{OLDEST[1]} and later",
            )
        self._compiler = self.make_compiler(self.name, target_name(self.found.capability))
        check_driver(self.name, driver.version, self.toolkit)
        check_toolkit(self.name, self.found.capability, self.toolkit)
        self.session = Session(self.name, driver, index)
        shared_bytes = driver.attribute(self.session.device, "MAX_SHARED_MEMORY_PER_BLOCK")
        self._capabilities = capabilities_of(
            self.found.capability, shared_bytes, is_single=index + 1 == len(found)
        )
        # Of the driver each piece costs as much as many launches, and a free waits for all of them.
        self._allocator = ReusingAllocator(
            CudaAllocator(self.session), self.name, synchronize=self.session.finish
        )

    @classmethod
    def availability(cls) -> Availability:
        try:
            found = Driver(cls.base).devices()
            if not found:
                return Availability(False, "the driver finds no NVIDIA GPU")
            compiler = cls.make_compiler(cls.base, target_name(found[0].capability))
            check_toolkit(cls.base, found[0].capability, toolkit_of(compiler))
        except DeviceError as error:
            return Availability(False, error.message)
        return Availability(True, _listed(found))

    @classmethod
    def make_compiler(cls, name: str, architecture: str) -> ToolkitCompiler:
        """The compiler of an architecture. Raises `DeviceError` where it is missing."""
        return NvrtcCompiler(name, architecture)

    @classmethod
    def make_renderer(cls, declared: Capabilities, architecture: str) -> Renderer:
        """What prints programs for an architecture."""
        return CudaRenderer(declared)

    @classmethod
    def compile_target(cls, name: str) -> CompileTarget:
        """What compiles for "sm_90", with what a device of that architecture declares."""
        declared = capabilities_of(capability_of(name))
        return CompileTarget(
            name, declared, cls.make_renderer(declared, name), cls.make_checker(cls.base, name)
        )

    @classmethod
    def make_checker(cls, name: str, architecture: str) -> Compiler:
        """A compiler whose code is not loaded."""
        return NvrtcChecker(name, architecture)

    @property
    def toolkit(self) -> tuple[int, int]:
        """The version of CUDA for which the compiler is."""
        return toolkit_of(self._compiler)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @functools.cached_property
    def renderer(self) -> Renderer:
        return self.make_renderer(self.capabilities, target_name(self.found.capability))

    @property
    def compiler(self) -> Compiler:
        return self._compiler

    @property
    def allocator(self) -> ReusingAllocator:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> CudaKernel:
        return CudaKernel(self.session, entry, binary)

    def record(self, launches: Sequence[Launch]) -> CudaGraph:
        return CudaGraph(self.session, launches)

    def synchronize(self) -> None:
        self.session.finish()

    def versions(self) -> dict[str, str]:
        major, minor = self.session.driver.version
        return {
            "device": str(self.found),
            "driver": f"CUDA {major}.{minor}",
            "compiler": ".".join(map(str, self.toolkit)),
        }


def toolkit_of(compiler: ToolkitCompiler) -> tuple[int, int]:
    """The version of CUDA for which a compiler is."""
    major, _, minor = compiler.version.partition(".")
    return int(major), int(minor)


def check_toolkit(name: str, capability: Capability, toolkit: tuple[int, int]) -> None:
    """Raises `DeviceError` for a compiler that is known to give wrong values on this GPU.

    Of the largest or least of three integers it does not negate the second one, where it should
    (ptxas-1 of docs/found.md), on every GPU that has an instruction for that.
    """
    if LARGEST_OF_THREE[0] <= capability <= LARGEST_OF_THREE[1] and toolkit < NEGATES_ALL:
        raise DeviceError(
            name,
            f"the compiler of CUDA {toolkit[0]}.{toolkit[1]} loses negations of integers on "
            f"{target_name(capability)}: accepted are {NEGATES_ALL[0]}.{NEGATES_ALL[1]} and later: "
            "pip install --upgrade nvidia-cuda-nvrtc nvidia-cuda-nvcc",
        )


def check_driver(name: str, driver: tuple[int, int], toolkit: tuple[int, int]) -> None:
    """Raises `DeviceError` for a driver that serves an older CUDA than the compiler is of.

    Within one major version an older driver loads what a newer compiler makes (CUDA Compatibility,
    "Minor Version Compatibility").
    """
    if driver[0] < toolkit[0]:
        raise DeviceError(
            name,
            f"the driver serves CUDA {driver[0]}.{driver[1]} and the compiler is of "
            f"{toolkit[0]}.{toolkit[1]}: update the driver, or install a compiler of "
            f"{driver[0]}: pip install 'nvidia-cuda-nvrtc-cu{driver[0]}'",
        )


def _listed(devices: list[Found]) -> str:
    return ", ".join(map(str, devices))
