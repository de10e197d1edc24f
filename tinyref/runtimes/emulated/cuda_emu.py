"""The CUDA_EMU device: CUDA C++ on a GPU made of the host by a C compiler."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.renderers.cuda import CUDA_OPS, CudaRenderer
from tinyref.runtimes.emulated.c_text import CUDA
from tinyref.runtimes.emulated.text_device import TextDevice


class CudaEmuBackend(TextDevice):
    """The text of the device CUDA, on the cores of the host."""

    title = "CUDA C++ on a GPU made of the host, through tcc, gcc or clang"
    called = "CUDA_EMU"
    dialect = CUDA
    printer = CudaRenderer
    ops = CUDA_OPS
    # The words of halves are not among those of the dialect yet.
    native = frozenset(CudaRenderer.type_names) - {dtypes.float16, dtypes.bfloat16}
