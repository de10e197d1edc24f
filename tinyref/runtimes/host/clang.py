"""The CLANG device: C source through whichever of gcc, clang and tcc is there."""

from __future__ import annotations

import functools

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.contract import Availability, Backend
from tinyref.errors import DeviceError
from tinyref.machine import Machine
from tinyref.renderers.c import C_OPS, CRenderer
from tinyref.runtimes.host.description import host_machine
from tinyref.runtimes.host.function import HostFunction
from tinyref.runtimes.host.memory import SCRATCH_BYTES, HostAllocator
from tinyref.runtimes.host.threads import thread_count
from tinyref.runtimes.host.toolchain import Toolchain, compile_shared, load_shared, toolchain


class CCompiler:
    """C source to a shared object, by one toolchain."""

    def __init__(self, tools: Toolchain) -> None:
        self.tools = tools

    @property
    def key(self) -> str:
        return f"{self.tools.version} {' '.join(self.tools.command)} {self.tools.target}"

    def compile(self, source: str) -> bytes:
        return compile_shared(self.tools.command, source)


class ClangBackend(Backend):
    """Kernels as C, compiled to shared objects of this process.

    The compiler is the one that the CC flag names now, so one open device can serve several.
    """

    title = "host processor, C through gcc, clang or tcc"
    survives_fork = True
    environment = ("CC",)

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"CLANG:{index}" if index else "CLANG"
        self._allocator = HostAllocator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        try:
            tools = toolchain()
        except DeviceError as error:
            return Availability(False, error.message)
        return Availability(True, tools.version)

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities(toolchain(), thread_count(), host_machine())

    @property
    def renderer(self) -> CRenderer:
        return CRenderer(self.capabilities)

    @property
    def compiler(self) -> CCompiler:
        return CCompiler(toolchain())

    @property
    def allocator(self) -> HostAllocator:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> HostFunction:
        library = load_shared(self.name, binary)
        return HostFunction(self.name, library.address(entry), library)

    def versions(self) -> dict[str, str]:
        tools = toolchain()
        return {"compiler": tools.version, "command": " ".join(tools.command)}


@functools.cache
def _capabilities(tools: Toolchain, threads: int, machine: Machine) -> Capabilities:
    return Capabilities(
        dtypes=tools.accepted,
        # As vectors they are faster than calls of the C library, and the bits are those of CPU.
        ops=C_OPS - ELEMENTARY_OPS,
        vector_lanes=tools.vector_lanes,
        shared_bytes=SCRATCH_BYTES,
        threads=threads,
        machine=machine,
        division_traps=True,
    )
