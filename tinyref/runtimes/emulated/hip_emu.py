"""The HIP_EMU device: HIP C++ on a GPU made of the host by a C compiler; with float16 it is C++."""

from __future__ import annotations

from tinyref.dtype import VECTOR_LANES
from tinyref.renderers.hip import HIP_OPS, HipRenderer
from tinyref.runtimes.emulated.c_text import HIP
from tinyref.runtimes.emulated.text_device import TextDevice
from tinyref.uops.tiles import GROUPS


class HipEmuBackend(TextDevice):
    """The text of the device HIP, on the cores of the host."""

    title = "HIP C++ on a GPU made of the host, through tcc, gcc or clang"
    called = "HIP_EMU"
    dialect = HIP
    printer = HipRenderer
    ops = HIP_OPS
    vector_lanes = (1, *VECTOR_LANES)
    # Warps of 32 and of 64 lanes: each tile says how many meet.
    tiles = (*GROUPS["AMD_RDNA3"], *GROUPS["AMD_CDNA3"], *GROUPS["AMD_RDNA4"])
