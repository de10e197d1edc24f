"""The HIP device: HIP C++ through clang, launched by the HIP runtime.

No GPU of AMD was at hand where this was written: the calls are those of the documentation, tried on
a stand-in for the library.
"""

from __future__ import annotations

import functools
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Backend, CompileTarget
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.hip import HipRenderer
from tinyref.runtimes.hip.architectures import ARCHITECTURES, Architecture, architecture
from tinyref.runtimes.hip.compiler import ENVIRONMENT, HipCompiler, clang, parts_of, version
from tinyref.runtimes.hip.driver import (
    Session,
    count_devices,
    device_name,
    load_library,
    runtime_version,
)
from tinyref.runtimes.hip.kernel import HipKernel
from tinyref.runtimes.hip.memory import HipAllocator
from tinyref.runtimes.reuse import ReusingAllocator


class HipBackend(Backend):
    """One GPU of AMD, by its number in the HIP runtime."""

    title = "GPU of AMD, HIP C++ through clang"
    environment = (*ENVIRONMENT, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    compile_targets = tuple(ARCHITECTURES)

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"HIP:{index}" if index else "HIP"
        library = self.library()
        count = count_devices(library)
        if index >= count:
            raise DeviceError(self.name, f"there are {count} such devices")
        self.session = Session(self.name, index, library)
        self._compiler = HipCompiler(self.session.architecture)
        self._allocator = ReusingAllocator(
            HipAllocator(self.session), self.name, synchronize=self.session.finish
        )

    @classmethod
    def library(cls) -> Any:
        """The HIP runtime. Raises `DeviceError` where it is not there."""
        return load_library()

    @classmethod
    def availability(cls) -> Availability:
        try:
            library = cls.library()
            count = count_devices(library)
            clang()
        except DeviceError as error:
            return Availability(False, error.message)
        if not count:
            return Availability(False, "the HIP runtime finds no device")
        names = [device_name(library, number) for number in range(count)]
        return Availability(True, ", ".join(names))

    @classmethod
    def compile_target(cls, name: str) -> CompileTarget:
        capabilities = architecture(name).capabilities
        clang()
        return CompileTarget(name, capabilities, HipRenderer(capabilities), HipCompiler(name))

    @functools.cached_property
    def architecture(self) -> Architecture:
        """What is known of it. Raises `DeviceError` for one of which nothing is."""
        try:
            return architecture(self.session.architecture)
        except UserError as error:
            raise DeviceError(self.name, str(error)) from error

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return self.architecture.capabilities

    @functools.cached_property
    def renderer(self) -> HipRenderer:
        return HipRenderer(self.capabilities)

    @property
    def compiler(self) -> HipCompiler:
        return self._compiler

    @property
    def allocator(self) -> ReusingAllocator:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> HipKernel:
        suffix, code = parts_of(binary)
        return HipKernel(self.session, entry + suffix, code)

    def synchronize(self) -> None:
        self.session.finish()

    def versions(self) -> dict[str, str]:
        library = self.session.library
        return {
            "device": device_name(library, self.index),
            "architecture": self.session.architecture,
            "runtime": runtime_version(library),
            "compiler": version(clang()),
        }
