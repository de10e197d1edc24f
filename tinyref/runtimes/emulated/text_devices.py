"""GPUs made of the host that run the very text which a renderer prints for a real one.

A device is a few lines over `TextDevice`, such as CUDA_EMU, HIP_EMU and METAL_EMU: its name, the
renderer, and the dialect by which the C emulator compiles what that prints.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import ClassVar

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability
from tinyref.dtype import VECTOR_LANES, DType, dtypes
from tinyref.errors import DeviceError
from tinyref.renderers.c_style import CStyleRenderer
from tinyref.renderers.cuda import CUDA_OPS, CudaRenderer
from tinyref.renderers.hip import HIP_OPS, HipRenderer
from tinyref.renderers.metal import MAX_BUFFERS, METAL_OPS, MetalRenderer
from tinyref.runtimes.cuda_compilers import capabilities_of
from tinyref.runtimes.emulated.c_emulator import CUDA, HIP, METAL, CEmulator, Dialect
from tinyref.runtimes.emulated.driver import (
    MAX_GROUP_SIZE,
    MAX_SHARED_BYTES,
    EmulatedBackend,
)
from tinyref.uops.tiles import GROUPS, MatrixTile

_SMALL_FLOATS = frozenset({dtypes.float16, dtypes.bfloat16, *dtypes.fp8s})


class TextDevice(EmulatedBackend):
    """A GPU made of the host by a C compiler: subclasses say what it is called and what it runs.

    dialect: the language as C of the host. printer: what prints it. ops: what it prints.
    native: the types it computes in; those of `printer`, where nothing is said. Small floats that
    are not among them are emulated. vector_lanes, tiles: as in `Capabilities`.

    **Matrix tiles.** A text calls `tinyref_wmma_NAME(a, b, c)`, NAME being that of a tile of
    `tinyref.uops.tiles`; where TINYREF_EMULATED is defined, it does not define that function. The
    three are values of any types whose bytes are those of the registers of the fragments, register
    0 first: a scalar for one register, else a vector or a structure of them. The call gives a value
    of the type of `c`, and each work-item of the warp must make it in the same line.
    """

    environment = ("CC",)

    dialect: ClassVar[Dialect]
    printer: ClassVar[type[CStyleRenderer]]
    ops: ClassVar[frozenset[str]]
    native: ClassVar[frozenset[DType] | None] = None
    vector_lanes: ClassVar[tuple[int, ...]] = (1, 2, 4)
    tiles: ClassVar[tuple[MatrixTile, ...]] = ()

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._emulator = CEmulator(self.name, self.dialect)

    @classmethod
    def availability(cls) -> Availability:
        try:
            return Availability(True, CEmulator(cls.__name__, cls.dialect).version)
        except DeviceError as error:
            return Availability(False, error.message)

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        native = frozenset(self.printer.type_names) if self.native is None else self.native
        return Capabilities(
            dtypes=native,
            ops=self.ops,
            emulated=_SMALL_FLOATS - native,
            vector_lanes=self.vector_lanes,
            has_grid=True,
            has_groups=True,
            shared_bytes=MAX_SHARED_BYTES,
            group_size_limit=MAX_GROUP_SIZE,
            matrix_tiles=self.tiles,
            # Made of single products: as slow as these are.
            tiles_pay=False,
            division_traps=True,
        )

    @functools.cached_property
    def renderer(self) -> CStyleRenderer:
        return self.printer(self.capabilities)

    def versions(self) -> dict[str, str]:
        return {"compiler": self._emulator.version}


class CudaEmuBackend(TextDevice):
    """The text of the device CUDA, on the cores of the host."""

    title = "CUDA C++ on a GPU made of the host, through tcc, gcc or clang"
    base = "CUDA_EMU"
    dialect = CUDA
    printer = CudaRenderer
    ops = CUDA_OPS

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES


# Those of an A100, whose tiles are as slow here as their products, and where a host divides. tcc
# does not take calls of as many arguments as CUDA does.
_CAPABILITIES = replace(
    capabilities_of((8, 0)), tiles_pay=False, division_traps=True, buffer_limit=128
)


class HipEmuBackend(TextDevice):
    """The text of the device HIP, on the cores of the host."""

    title = "HIP C++ on a GPU made of the host, through tcc, gcc or clang"
    base = "HIP_EMU"
    dialect = HIP
    printer = HipRenderer
    ops = HIP_OPS
    vector_lanes = (1, *VECTOR_LANES)
    # Warps of 32 and of 64 lanes: each tile says how many meet.
    tiles = (*GROUPS["AMD_RDNA3"], *GROUPS["AMD_CDNA3"], *GROUPS["AMD_RDNA4"])


class MetalEmuBackend(TextDevice):
    """The text of the device METAL, on the cores of the host, where subnormal floats are kept."""

    title = "MSL on a GPU made of the host, through gcc or clang with C++"
    base = "METAL_EMU"
    dialect = METAL
    printer = MetalRenderer
    ops = METAL_OPS
    tiles = GROUPS["APPLE"]

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, buffer_limit=MAX_BUFFERS)
