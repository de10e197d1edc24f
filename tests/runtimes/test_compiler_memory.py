"""A process may compile kernels for days: what a compile takes of memory, it gives back."""

from __future__ import annotations

import ctypes
import gc
import sys

import pytest

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.runtimes.host import cpu
from tinyref_spec.kernels import named

COMPILES = 64


class _Allocated(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "mapped", "usmblks", "fsmblks", "used")
    ] + [("free", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]


def _allocated_bytes() -> int:
    """Of the C library, in which LLVM allocates."""
    read = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
    if read is None:
        pytest.skip("the C library does not say what is allocated")
    read.restype = _Allocated
    gc.collect()
    found = read()
    return int(found.used + found.mapped)


@pytest.mark.long
def test_compiles_leave_little_behind() -> None:
    """llvmlite keeps 5 KB of each pipeline of passes and its builder."""
    backend = Device["CPU"]
    program = compile_kernel(named.transposed(dtypes.float32, 8, 8), backend.capabilities)
    source = backend.renderer.render(program)
    compiler = cpu.LlvmCompiler("CPU")
    # One of the shared pipelines, so that what it takes is there.
    for _ in range(cpu.MODULES_PER_BUILDER):
        compiler.compile(source)
    before = _allocated_bytes()
    for _ in range(COMPILES):
        compiler.compile(source)
    assert (_allocated_bytes() - before) / COMPILES < 1000


def test_a_kernel_imports_only_what_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each import takes a kilobyte for as long as the kernel is there."""
    imported: list[str] = []
    builder = cpu.llvm.JITLibraryBuilder
    monkeypatch.setattr(
        builder, "import_symbol", lambda self, name, address: imported.append(name) or self
    )
    backend = Device["CPU"]
    program = compile_kernel(named.transposed(dtypes.float32, 8, 8), backend.capabilities)
    binary = cpu.LlvmCompiler("CPU").compile(backend.renderer.render(program))
    cpu.link_object("CPU", binary, [program.name])
    assert "sin" not in imported
    assert "pow" not in imported
