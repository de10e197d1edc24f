"""Texts of OpenCL C and CUDA C++ on a GPU made of the host, so that every machine can run them."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tinyref.device import Availability, Backend, Capabilities
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.c_style import CStyleRenderer
from tinyref.renderers.cuda import CUDA_OPS, CudaRenderer
from tinyref.renderers.opencl import OPENCL_OPS, OpenCLRenderer
from tinyref.runtimes.emulated.c_text import CUDA, MAX_SHARED_BYTES, OPENCL, CEmulator, Dialect
from tinyref.runtimes.emulated.driver import EmulatedDriver, Function
from tinyref.runtimes.emulated.memory import EmulatedMemory

Extents = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Part:
    """A part of an allocation, `offset` bytes in."""

    memory: EmulatedMemory
    offset: int


class PartAllocator:
    """Memory of the emulated device: a view adds an offset in bytes."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self._driver = driver

    def allocate(self, nbytes: int) -> Part:
        return Part(self._driver.malloc(nbytes), 0)

    def free(self, handle: Part) -> None:
        self._driver.free(handle.memory)

    def view(self, handle: Part, offset: int, nbytes: int) -> Part:
        return Part(handle.memory, handle.offset + offset)

    def copy_in(self, handle: Part, source: memoryview) -> None:
        self._driver.write(handle.memory, handle.offset, source)

    def copy_out(self, destination: memoryview, handle: Part) -> None:
        self._driver.read(destination, handle.memory, handle.offset)


class EmulatedKernel:
    """A loaded kernel. takes_offsets: it adds the offset of each buffer itself."""

    def __init__(self, driver: EmulatedDriver, function: Function, takes_offsets: bool) -> None:
        self._driver = driver
        self._function = function
        self._takes_offsets = takes_offsets

    def __call__(
        self,
        buffers: Sequence[Part],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        values = list(variables)
        arguments = [(piece.memory, piece.offset) for piece in buffers]
        if self._takes_offsets:
            values = [*(piece.offset for piece in buffers), *values]
            arguments = [(piece.memory, 0) for piece in buffers]
        if wait:
            self._driver.synchronize()
        start = time.perf_counter()
        self._driver.launch(self._function, arguments, values, grid, group)
        if not wait:
            return None
        self._driver.synchronize()
        return time.perf_counter() - start


class EmulatedCompiler:
    """The host's compiler."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self._driver = driver

    @property
    def key(self) -> str:
        return self._driver.emulator.key

    def compile(self, source: str) -> bytes:
        return self._driver.emulator.compile(source)


class EmulatedBackend(Backend):
    """A language on the host: subclasses say which, and `printer` prints it.

    takes_offsets: kernels take the byte at which each buffer begins, before the variables.
    """

    dialect: ClassVar[Dialect]
    printer: ClassVar[type[CStyleRenderer]]
    ops: ClassVar[frozenset[str]]
    takes_offsets: ClassVar[bool] = False

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = type(self).__name__
        self._driver = EmulatedDriver(self.name, CEmulator(self.name, self.dialect))
        self._allocator = PartAllocator(self._driver)

    @classmethod
    def availability(cls) -> Availability:
        try:
            return Availability(True, CEmulator(cls.__name__, cls.dialect).version)
        except DeviceError as error:
            return Availability(False, error.message)

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        native = frozenset(self.printer.type_names) - {dtypes.float16}
        return Capabilities(
            dtypes=native,
            ops=self.ops,
            emulated=frozenset({dtypes.float16, dtypes.bfloat16, *dtypes.fp8s}),
            vector_lanes=(1, 2, 4),
            has_grid=True,
            has_groups=True,
            grid_limit=(65535, 65535, 65535),
            group_limit=(256, 256, 64),
            group_size_limit=256,
            shared_bytes=MAX_SHARED_BYTES // 2,
            division_traps=True,
        )

    @functools.cached_property
    def renderer(self) -> CStyleRenderer:
        return self.printer(self.capabilities)

    @property
    def compiler(self) -> EmulatedCompiler:
        return EmulatedCompiler(self._driver)

    @property
    def allocator(self) -> PartAllocator:
        return self._allocator

    def load(self, entry: str, binary: bytes) -> EmulatedKernel:
        function = self._driver.emulator.load(entry, binary)
        return EmulatedKernel(self._driver, function, self.takes_offsets)

    def synchronize(self) -> None:
        self._driver.synchronize()


class LanewiseOpenCL(OpenCLRenderer):
    """OpenCL C without operators and functions of vectors, which the emulator has not."""

    vector_infix = frozenset()
    vector_load = CStyleRenderer.vector_load
    vector_store = CStyleRenderer.vector_store


class EmulatedOpencl(EmulatedBackend):
    """OpenCL C on the host."""

    title = "OpenCL C on a GPU made of the host"
    dialect = OPENCL
    printer = LanewiseOpenCL
    ops = OPENCL_OPS
    takes_offsets = True


class EmulatedCuda(EmulatedBackend):
    """CUDA C++ on the host."""

    title = "CUDA C++ on a GPU made of the host"
    dialect = CUDA
    printer = CudaRenderer
    ops = CUDA_OPS
