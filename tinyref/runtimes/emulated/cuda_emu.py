"""The CUDA_EMU device: CUDA C++ on a GPU made of the host by a C compiler."""

from __future__ import annotations

from dataclasses import replace

from tinyref.capabilities import Capabilities
from tinyref.renderers.cuda import CUDA_OPS, CudaRenderer
from tinyref.runtimes.cuda_compilers import capabilities_of
from tinyref.runtimes.emulated.c_text import CUDA
from tinyref.runtimes.emulated.text_device import TextDevice


class CudaEmuBackend(TextDevice):
    """The text of the device CUDA, on the cores of the host."""

    title = "CUDA C++ on a GPU made of the host, through tcc, gcc or clang"
    called = "CUDA_EMU"
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
