"""The CPU device and LLVM: options, the shape of the code, and the memory that compiles take."""

from __future__ import annotations

import ctypes
import gc
import platform
import subprocess
import sys
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest
from elementwise_programs import fill, read

from tinyref import Context, Tensor
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.linearise import linearise
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.optimise.opt import parse_opts
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.runtimes.host import cpu
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program
from tinyref_fuzz.judge.judge import buffers_with
from tinyref_spec.kernel.byte_sums import SIZES, byte_sum
from tinyref_spec.kernel.programs import at, loop, program
from tinyref_spec.kernels import named

# Loop strength reduction steps a pointer where the text multiplies an index.
MULTIPLIED = """
    define void @scaled(ptr noalias %a, ptr noalias %b, i64 %n, i64 %m) {
    entry:
      br label %loop
    loop:
      %i = phi i64 [0, %entry], [%next, %loop]
      %k = mul i64 %i, %m
      %p = getelementptr float, ptr %a, i64 %k
      %q = getelementptr float, ptr %b, i64 %k
      %v = load float, ptr %p
      store float %v, ptr %q
      %next = add i64 %i, 1
      %more = icmp ult i64 %next, %n
      br i1 %more, label %loop, label %end
    end:
      ret void
    }"""


def test_others_who_use_llvm_find_its_options_as_they_were() -> None:
    option = "-disable-lsr=true"
    assert option in cpu._SLOW_PASSES
    machine = cpu._target_machine(1)

    def assembly() -> str:
        actual: str = machine.emit_assembly(llvm.parse_assembly(MULTIPLIED))
        return actual

    before = assembly()
    with cpu._options(option):
        is_other = assembly() != before
    assert assembly() == before
    (Tensor([1.0, 2.0], device="CPU") * 3).realize()
    assert assembly() == before
    if not is_other:
        pytest.skip(f"this processor has the same code with and without {option}")


def difference_of_sum(form: str, size: int, dtype: str) -> int:
    """Return the error of the sum of bytes on CPU, with all of its lanes unrolled."""
    subject = byte_sum(form, size, getattr(dtypes, dtype))
    opts = parse_opts(f"UNROLL(0, {size})")
    program = compile_kernel(subject.kernel, Device["CPU"].capabilities, opts=opts)
    contents = [np.zeros(1, np.int32), *(row for row in subject.inputs if row is not None)]
    buffers = buffers_with("CPU", contents)
    compile_program("CPU", program)(buffers, wait=True)
    actual = np.frombuffer(buffers[0].copy_out(), np.int32)
    return int(actual[0]) - int(subject.expected[0][0])


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        ("mixed_bytes", "int8"),
        ("mixed_bytes", "uint8"),
        ("rectified_bytes", "int8"),
        ("distance_of_bytes", "int8"),
        ("distance_of_bytes", "uint8"),
    ],
)
def test_sums_of_bytes_have_all_lanes(form: str, dtype: str, size: int, level: int) -> None:
    with Context(CPU_LEVEL=level, CACHE=0):
        assert difference_of_sum(form, size, dtype) == 0


def test_llvm_22_still_leaves_lanes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expect the fault llvm-1 of docs/found.md; another LLVM may use the pass again."""
    if llvm.llvm_version_info[0] != 22 or platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("llvm-1 is of LLVM 22 for x86-64")
    monkeypatch.setattr(cpu, "faulty_passes", lambda: ())
    with Context(CPU_LEVEL=2, CACHE=0):
        assert difference_of_sum("distance_of_bytes", 16, "uint8") != 0


def test_what_llvm_was_long_about_compiles_at_every_level() -> None:
    """Compile in another process, with a limit of a minute: LLVM cannot be interrupted.

    Without the options, LLVM 22 searches for a CRC in the loop of powers without an end. In a loop
    that becomes lanes, it visits shared operands many times: llvm-4 of docs/found.md.
    """
    text = (
        "from tinyref import Context, Tensor\n"
        "from tinyref.codegen.compile import compile_kernel\n"
        "from tinyref.device import Device\n"
        "from tinyref.runtimes.kernel import compile_program\n"
        "from tinyref_spec.kernel.regressions import records\n"
        "x = Tensor([1.0, 1.5, 2.0, 2.5, 3.0, 1.0, 1.0, 1.0], device='CPU').realize()\n"
        "y = Tensor([2.0, 1.0, 2.0, 1.0, 2.0, 4.0, 4.0, 4.0], device='CPU').realize()\n"
        "ast = records()['random-bits-beside-a-choice'].case.ast\n"
        "program = compile_kernel(ast, Device['GPU_EMU'].capabilities, opts=())\n"
        "for level in (2, 3):\n"
        "    with Context(CPU_LEVEL=level, CACHE=0, NOOPT=1):\n"
        "        print(float((x ** y).max().numpy()))\n"
        "        print(compile_program('GPU_EMU', program).device)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "9.0\nGPU_EMU\n" * 2


# --- the shape of the code ---

INT, FLOAT = dtypes.int32, dtypes.float32
LANES, VECTORS, ROWS, DEPTH = 16, 2, 3, 8
WIDTH = LANES * VECTORS


def number(value: int) -> UOp:
    return build.const(INT, value)


def register_block() -> Program:
    """out = a @ b for ROWS x DEPTH times DEPTH x WIDTH, all sums in vectors, b through scratch."""
    a = build.define_global(1, FLOAT, ROWS * DEPTH)
    b = build.define_global(2, FLOAT, DEPTH * WIDTH)
    out = build.define_global(0, FLOAT, ROWS * WIDTH)
    scratch = build.define_local("panel", FLOAT, DEPTH * WIDTH)
    row = build.counter(number(DEPTH), 0, AxisKind.LOOP, INT)
    k = build.counter(number(DEPTH), 1, AxisKind.REDUCE, INT)

    def place(counter: UOp, vector: int) -> UOp:
        return build.add(build.mul(counter, WIDTH), LANES * vector)

    fills = [
        build.store(
            build.index(scratch, place(row, vector)),
            build.load(build.index(b, place(row, vector)), lanes=LANES),
        )
        for vector in range(VECTORS)
    ]
    panel = build.after(scratch, *fills, row)
    stores = []
    for i in range(ROWS):
        scalar = build.load(build.index(a, build.add(k, i * DEPTH)))
        splat = build.gep(scalar, *[0] * LANES)
        for vector in range(VECTORS):
            zero = build.const(FLOAT.vec(LANES), 0.0)
            total = build.accumulator(f"sum{i}_{vector}", zero, k)
            loaded = build.load(build.index(panel, place(k, vector)), lanes=LANES)
            value = build.add(total, build.mul(splat, loaded))
            update = build.update(total, value)
            position = number(i * WIDTH + vector * LANES)
            stores.append(build.store(build.index(out, position), update))
    parameters = (
        Parameter(0, FLOAT, ROWS * WIDTH, True, False),
        Parameter(1, FLOAT, ROWS * DEPTH, False, True),
        Parameter(2, FLOAT, DEPTH * WIDTH, False, True),
    )
    return Program("block", linearise(build.sink(*stores)), parameters)


def optimised(source: str) -> str:
    module = llvm.parse_assembly(source)
    machine = cpu._target_machine(1)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    cpu.run_cheap_passes(module, machine)
    return str(module)


def test_sums_live_in_registers() -> None:
    text = optimised(LlvmRenderer().render(register_block()))
    # Each sum is a value that the loop carries; the only memory of the function is the panel.
    assert text.count("phi <16 x float>") == ROWS * VECTORS
    assert text.count("alloca") == 1
    assert "alloca [256 x float], align 64" in text

    # A scalar is spread once for all its products.
    assert text.count("shufflevector") == ROWS
    assert text.count("insertelement") == ROWS
    assert text.count("zeroinitializer\n") >= ROWS


@pytest.mark.parametrize("device", ["CPU", "CLANG"])
def test_two_parameters_may_be_one_buffer(device: str, needs_device: Callable[[str], None]) -> None:
    """Read in each iteration what the one before wrote: the loop must not read ahead."""
    needs_device(device)
    i = loop(63, 0)
    out, source = (build.define_global(slot, INT, 64) for slot in (0, 1))
    value = build.add(build.load(at(source, i)), 2)
    stored = build.store(at(out, build.add(i, 1)), value)
    ahead = program("ahead", stored, build.close(i))
    both = fill(device, np.arange(64) * 100 + 7, INT)
    compile_program(device, ahead)([both, both])
    assert read(both).tolist() == [7 + 2 * k for k in range(64)]


# --- memory ---

COMPILES = 64


class _Allocated(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "mapped", "usmblks", "fsmblks", "used")
    ] + [("free", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]


def _allocated_bytes() -> int:
    """Return the bytes of the C library, in which LLVM allocates."""
    read = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
    if read is None:
        pytest.skip("the C library does not say what is allocated")
    read.restype = _Allocated
    gc.collect()
    actual = read()
    return int(actual.used + actual.mapped)


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
    """Import only these: each import holds a kilobyte as long as the kernel exists."""
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
