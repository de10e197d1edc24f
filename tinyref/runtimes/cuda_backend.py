"""The devices CUDA and PTX: CUDA C++ or our own PTX text, on the driver of NVIDIA GPUs."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tinyref.capabilities import Capabilities
from tinyref.contract import Compiler, CompileTarget, Launch, Renderer
from tinyref.errors import DeviceError
from tinyref.renderers.cuda import CudaRenderer
from tinyref.renderers.ptx import PtxRenderer
from tinyref.runtimes.cuda_compilers import (
    LARGEST_OF_THREE,
    OLDEST,
    TARGETS,
    Capability,
    NvrtcChecker,
    NvrtcCompiler,
    PtxasChecker,
    PtxasCompiler,
    ToolkitCompiler,
    capabilities_of,
    capability_of,
    target_name,
)
from tinyref.runtimes.cuda_driver import (
    CudaAllocator,
    CudaDevice,
    CudaGraph,
    CudaKernel,
    Driver,
    Session,
)
from tinyref.runtimes.drivers import DriverBackend
from tinyref.runtimes.reuse import ReusingAllocator

# The first toolkit whose ptxas negates the second of three integers correctly.
NEGATES_ALL = (13, 4)


class CudaBackend(DriverBackend):
    """One of the NVIDIA GPUs of the driver, by its number."""

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
    base = "CUDA"
    session: Session

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        driver = Driver(self.name)
        devices = driver.devices()
        self.gpu = self.chosen(devices)
        if self.gpu.capability < OLDEST:
            raise DeviceError(
                self.name,
                f"is {self.gpu}: accepted are {OLDEST[0]}.{OLDEST[1]} and later",
            )
        compiler = self.make_compiler(self.name, target_name(self.gpu.capability))
        self._compiler = compiler
        self.toolkit = toolkit_of(compiler)
        check_driver(self.name, driver.version, self.toolkit)
        check_toolkit(self.name, self.gpu.capability, self.toolkit)
        self.session = Session(self.name, driver, index)
        shared_bytes = driver.attribute(self.session.device, "MAX_SHARED_MEMORY_PER_BLOCK")
        self._capabilities = capabilities_of(
            self.gpu.capability, shared_bytes, is_single=index + 1 == len(devices)
        )
        # The driver takes as long for one allocation as for many launches; a free waits for them.
        self._allocator = ReusingAllocator(
            CudaAllocator(self.session), self.name, synchronize=self.session.finish
        )

    @classmethod
    def devices(cls) -> list[CudaDevice]:
        devices = Driver(cls.base).devices()
        if not devices:
            raise DeviceError(cls.base, "the driver finds no NVIDIA GPU")
        return devices

    @classmethod
    def check_compiler(cls, device: CudaDevice) -> None:
        compiler = cls.make_compiler(cls.base, target_name(device.capability))
        check_toolkit(cls.base, device.capability, toolkit_of(compiler))

    @classmethod
    def make_compiler(cls, name: str, architecture: str) -> ToolkitCompiler:
        """Return the compiler of an architecture. Raises `DeviceError` if it is missing."""
        return NvrtcCompiler(name, architecture)

    @classmethod
    def make_renderer(cls, declared: Capabilities, architecture: str) -> Renderer:
        """Return the renderer for an architecture."""
        return CudaRenderer(declared)

    @classmethod
    def compile_target(cls, name: str) -> CompileTarget:
        """Return the compiler for "sm_90" and the capabilities of such a device."""
        declared = capabilities_of(capability_of(name))
        return CompileTarget(
            name, declared, cls.make_renderer(declared, name), cls.make_checker(cls.base, name)
        )

    @classmethod
    def make_checker(cls, name: str, architecture: str) -> Compiler:
        """Return a compiler whose code is not loaded."""
        return NvrtcChecker(name, architecture)

    @functools.cached_property
    def renderer(self) -> Renderer:
        return self.make_renderer(self.capabilities, target_name(self.gpu.capability))

    def load(self, entry: str, binary: bytes) -> CudaKernel:
        return CudaKernel(self.session, entry, binary)

    def record(self, launches: Sequence[Launch]) -> CudaGraph:
        return CudaGraph(self.session, launches)

    def versions(self) -> dict[str, str]:
        major, minor = self.session.driver.version
        return {
            "device": str(self.gpu),
            "driver": f"CUDA {major}.{minor}",
            "compiler": ".".join(map(str, self.toolkit)),
        }


class PtxBackend(CudaBackend):
    """One of the NVIDIA GPUs of the driver, by its number."""

    title = "PTX through ptxas, on NVIDIA GPUs"
    base = "PTX"

    @classmethod
    def make_compiler(cls, name: str, architecture: str) -> ToolkitCompiler:
        return PtxasCompiler(name, architecture)

    @classmethod
    def make_checker(cls, name: str, architecture: str) -> Compiler:
        return PtxasChecker(name, architecture)

    @classmethod
    def make_renderer(cls, declared: Capabilities, architecture: str) -> Renderer:
        return PtxRenderer(int(architecture.removeprefix("sm_")))


def toolkit_of(compiler: ToolkitCompiler) -> tuple[int, int]:
    """Return the version of CUDA that a compiler belongs to."""
    major, _, minor = compiler.version.partition(".")
    return int(major), int(minor)


def check_toolkit(name: str, capability: Capability, toolkit: tuple[int, int]) -> None:
    """Raise `DeviceError` for a compiler that is known to give wrong values on this GPU.

    In a maximum or minimum of three integers it does not negate the second one (ptxas-1 of
    docs/found.md). Every GPU with an instruction for this is affected.
    """
    if LARGEST_OF_THREE[0] <= capability <= LARGEST_OF_THREE[1] and toolkit < NEGATES_ALL:
        raise DeviceError(
            name,
            f"the compiler of CUDA {toolkit[0]}.{toolkit[1]} loses negations of integers on "
            f"{target_name(capability)}: accepted are {NEGATES_ALL[0]}.{NEGATES_ALL[1]} and later: "
            "pip install --upgrade nvidia-cuda-nvrtc nvidia-cuda-nvcc",
        )


def check_driver(name: str, driver: tuple[int, int], toolkit: tuple[int, int]) -> None:
    """Raise `DeviceError` for a driver that supports an older CUDA than the compiler's.

    Within one major version, an older driver loads the output of a newer compiler (CUDA
    Compatibility, "Minor Version Compatibility").
    """
    if driver[0] < toolkit[0]:
        raise DeviceError(
            name,
            f"the driver supports CUDA {driver[0]}.{driver[1]}, but the compiler is of CUDA "
            f"{toolkit[0]}.{toolkit[1]}: update the driver, or install a compiler of "
            f"{driver[0]}: pip install 'nvidia-cuda-nvrtc-cu{driver[0]}'",
        )
