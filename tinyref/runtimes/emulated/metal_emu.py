"""The METAL_EMU device: MSL on a GPU made of the host by a C++ compiler."""

from __future__ import annotations

import functools
from dataclasses import replace

from tinyref.capabilities import Capabilities
from tinyref.renderers.metal import MAX_BUFFERS, METAL_OPS, MetalRenderer
from tinyref.runtimes.emulated.c_text import METAL
from tinyref.runtimes.emulated.text_device import TextDevice
from tinyref.uops.tiles import GROUPS


class MetalEmuBackend(TextDevice):
    """The text of the device METAL, on the cores of the host, where subnormal floats are kept."""

    title = "MSL on a GPU made of the host, through gcc or clang with C++"
    called = "METAL_EMU"
    dialect = METAL
    printer = MetalRenderer
    ops = METAL_OPS
    tiles = GROUPS["APPLE"]

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, buffer_limit=MAX_BUFFERS)
