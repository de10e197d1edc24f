"""A backend in one file: a device that runs one work-item, in C, compiled by the host's compiler.

`tinyref new-backend` writes a package to change, with a GPU's groups and queues. This file is the
smallest complete device. From its folder, `tinyref conform --device custom_backend:Tiny --query
kernel.one_alu` runs a part of the suite. `python examples/custom_backend.py` prints a sum.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tinyref.backend import (
    CORE_OPS,
    Availability,
    Backend,
    Capabilities,
    CStyleRenderer,
    DeviceError,
    DType,
    dtypes,
)

COMMAND = ("cc", "-O1", "-shared", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off")


class TinyRenderer(CStyleRenderer):
    """Renderer of programs as C source."""

    language = "C"
    type_names = {
        dtypes.bool: "_Bool",
        dtypes.int8: "signed char",
        dtypes.uint8: "unsigned char",
        dtypes.int16: "short",
        dtypes.uint16: "unsigned short",
        dtypes.int32: "int",
        dtypes.uint32: "unsigned",
        dtypes.float32: "float",
    }
    suffixes = {dtypes.int32: "", dtypes.uint32: "u", dtypes.float32: "f"}
    kernel_keywords = "void"

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        """Return the same bits as a value of another type, through a union."""
        union = f"union {{ {self.type(source)} from; {self.type(target)} to; }}"
        return f"(({union}){{ .from = {value} }}).to"


CAPABILITIES = Capabilities(
    dtypes=frozenset(TinyRenderer.type_names),
    # tinyref computes float16 with float32 and integers.
    emulated=frozenset({dtypes.float16}),
    ops=CORE_OPS,
    # Division by zero stops the process; a GPU returns any number.
    division_traps=True,
)


class TinyCompiler:
    """The C compiler of the host."""

    key = " ".join(COMMAND)

    def compile(self, source: str) -> bytes:
        """Return a shared library. Raise `DeviceError` with the message of the C compiler."""
        with tempfile.TemporaryDirectory() as folder:
            text, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
            text.write_text(source)
            done = subprocess.run(
                [*COMMAND, "-o", library, text, "-lm"], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise DeviceError("TINY", done.stderr, source)
            return library.read_bytes()


class TinyAllocator:
    """Host memory; a handle is an address."""

    def __init__(self) -> None:
        self._blocks: dict[int, ctypes.Array[ctypes.c_char]] = {}

    def allocate(self, nbytes: int) -> int:
        block = ctypes.create_string_buffer(max(nbytes, 1))
        self._blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free(self, handle: int) -> None:
        del self._blocks[handle]

    def view(self, handle: int, offset: int, nbytes: int) -> int:
        return handle + offset

    def copy_in(self, handle: int, source: memoryview) -> None:
        ctypes.memmove(handle, source.cast("B").tobytes(), source.nbytes)

    def copy_out(self, destination: memoryview, handle: int) -> None:
        destination.cast("B")[:] = ctypes.string_at(handle, destination.nbytes)


class TinyKernel:
    """A function of a library. It takes buffers in the order of the parameters, then variables."""

    def __init__(self, entry: str, binary: bytes) -> None:
        # The loader identifies a library by its path, and an open library may be deleted.
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(binary)
            file.flush()
            self._function = ctypes.CDLL(file.name)[entry]

    def __call__(
        self,
        buffers: Sequence[int],
        grid: tuple[int, int, int] = (1, 1, 1),
        group: tuple[int, int, int] = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        start = time.perf_counter()
        self._function(*map(ctypes.c_void_p, buffers), *map(ctypes.c_int, variables))
        return time.perf_counter() - start if wait else None


class Tiny(Backend):
    """The device: one work-item, run by the host."""

    contract = 1
    title = "one work-item in C"
    capabilities = CAPABILITIES
    renderer = TinyRenderer(CAPABILITIES)
    compiler = TinyCompiler()
    allocator = TinyAllocator()

    @classmethod
    def availability(cls) -> Availability:
        path = shutil.which("cc")
        if path is None:
            return Availability(False, "no C compiler: cc is not on the path")
        return Availability(True, path)

    def load(self, entry: str, binary: bytes) -> TinyKernel:
        return TinyKernel(entry, binary)

    def synchronize(self) -> None:
        """Do nothing, because a launch returns when it is complete."""


if __name__ == "__main__":
    from tinyref import Tensor

    x = Tensor([1, 2, 3, 4], device="custom_backend:Tiny")
    print((x * x).sum().item())
