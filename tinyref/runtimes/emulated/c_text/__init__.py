"""A GPU made of the host: kernels of C-like languages, run through gcc, clang or tcc.

`dialects.py` turns the text of a kernel into C of this host, or C++, with the words of its language
in a header; float16 and bfloat16 are made of their bits (`small_floats.h`; with operators in
`operators.h`), matrix tiles of a table of their own (`tiles.c`). `engine.py` compiles it and hands
groups to threads; `scheduler.c` runs the work-items of a group as fibers that switch at barriers
and meet at tiles. Shared memory is poisoned for each group, what is written behind the end of an
array of it and a barrier or tile that only some work-items reach are errors.
"""

from tinyref.runtimes.emulated.c_text.dialects import CUDA, HIP, METAL, OPENCL, PLAIN, Dialect
from tinyref.runtimes.emulated.c_text.engine import CEmulator
from tinyref.runtimes.emulated.memory import MAX_GROUP_SIZE, MAX_SHARED_BYTES

__all__ = [
    "CUDA",
    "HIP",
    "MAX_GROUP_SIZE",
    "MAX_SHARED_BYTES",
    "METAL",
    "OPENCL",
    "PLAIN",
    "CEmulator",
    "Dialect",
]
