"""Texts of OpenCL C on an emulated GPU, so that every machine can run them."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.renderers.c_style import CStyleRenderer
from tinyref.renderers.opencl import OPENCL_OPS, OpenCLRenderer
from tinyref.runtimes.emulated.c_emulator import OPENCL
from tinyref.runtimes.emulated.text_devices import TextDevice


class LanewiseOpenCL(OpenCLRenderer):
    """OpenCL C without operators and functions of vectors, which the emulator has not."""

    vector_infix = frozenset()
    vector_load = CStyleRenderer.vector_load
    vector_store = CStyleRenderer.vector_store


class EmulatedOpencl(TextDevice):
    """OpenCL C on the host."""

    title = "OpenCL C on an emulated GPU"
    dialect = OPENCL
    printer = LanewiseOpenCL
    ops = OPENCL_OPS
    native = frozenset(OpenCLRenderer.type_names) - {dtypes.float16}
    takes_offsets = True
