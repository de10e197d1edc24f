"""GPUs emulated on the host that run the same text which a renderer prints for a real one.

A device such as CUDA_EMU, HIP_EMU or METAL_EMU is a few lines over `TextDevice`: its name, the
renderer, and the dialect with which the C emulator compiles the text.
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
    """A GPU emulated on the host by a C compiler; subclasses set these members.

    dialect: the language, translated to C of the host.
    printer: the renderer.
    ops: the ops that it prints.
    native: the types that it computes in; by default those of `printer`. Other small floats are
    emulated.
    vector_lanes, tiles: as in `Capabilities`.

    **Matrix tiles.** A text calls `tinyref_wmma_NAME(a, b, c)` with the NAME of a tile of
    `tinyref.uops.tiles`; if TINYREF_EMULATED is defined, it must not define that function. The
    arguments are values of any types with the bytes of the registers of the fragments, register 0
    first: a scalar for one register, else a vector or a structure. The call returns a value of the
    type of `c`. Each work-item of the warp must make the call in the same line.
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
            # Tiles are made of single products, and as slow.
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

    title = "CUDA C++ on a GPU emulated on the host, through tcc, gcc or clang"
    base = "CUDA_EMU"
    dialect = CUDA
    printer = CudaRenderer
    ops = CUDA_OPS

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES


# The capabilities of an A100, except: tiles are as slow as their products, the host divides, and
# tcc accepts fewer arguments of a call than CUDA.
_CAPABILITIES = replace(
    capabilities_of((8, 0)), tiles_pay=False, division_traps=True, buffer_limit=128
)


class HipEmuBackend(TextDevice):
    """The text of the device HIP, on the cores of the host."""

    title = "HIP C++ on a GPU emulated on the host, through tcc, gcc or clang"
    base = "HIP_EMU"
    dialect = HIP
    printer = HipRenderer
    ops = HIP_OPS
    vector_lanes = (1, *VECTOR_LANES)
    # Warps of 32 and of 64 lanes: each tile states its number of work-items.
    tiles = (*GROUPS["AMD_RDNA3"], *GROUPS["AMD_CDNA3"], *GROUPS["AMD_RDNA4"])


class MetalEmuBackend(TextDevice):
    """The text of the device METAL, on the cores of the host, which preserves subnormals."""

    title = "MSL on a GPU emulated on the host, through gcc or clang with C++"
    base = "METAL_EMU"
    dialect = METAL
    printer = MetalRenderer
    ops = METAL_OPS
    tiles = GROUPS["APPLE"]

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, buffer_limit=MAX_BUFFERS)
