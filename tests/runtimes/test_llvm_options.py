"""How LLVM is asked to make the kernels of the CPU device."""

import os
import platform
import subprocess
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest

from tinyref import Context, Tensor
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.optimise.opt import parse_opts
from tinyref.runtimes.host import cpu
from tinyref.runtimes.kernel import compile_program
from tinyref_fuzz.judge.judge import buffers_with
from tinyref_spec.kernel.byte_sums import SIZES, byte_sum

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
        found: str = machine.emit_assembly(llvm.parse_assembly(MULTIPLIED))
        return found

    before = assembly()
    with cpu._options(option):
        is_other = assembly() != before
    assert assembly() == before
    (Tensor([1.0, 2.0], device="CPU") * 3).realize()
    assert assembly() == before
    if not is_other:
        pytest.skip(f"this processor has the same code with and without {option}")


def difference_of_sum(form: str, size: int, dtype: str) -> int:
    """What the sum of bytes is off by on CPU, with all of its lanes unrolled."""
    subject = byte_sum(form, size, getattr(dtypes, dtype))
    opts = parse_opts(f"UNROLL(0, {size})")
    program = compile_kernel(subject.kernel, Device["CPU"].capabilities, opts=opts)
    contents = [np.zeros(1, np.int32), *(row for row in subject.inputs if row is not None)]
    buffers = buffers_with("CPU", contents)
    compile_program("CPU", program)(buffers, wait=True)
    found = np.frombuffer(buffers[0].copy_out(), np.int32)
    return int(found[0]) - int(subject.expected[0][0])


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
    """The fault llvm-1 of docs/found.md; with another LLVM the pass may be used again."""
    if llvm.llvm_version_info[0] != 22 or platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("llvm-1 is of LLVM 22 for x86-64")
    monkeypatch.setattr(cpu, "_faulty_passes", lambda: ())
    with Context(CPU_LEVEL=2, CACHE=0):
        assert difference_of_sum("distance_of_bytes", 16, "uint8") != 0


def printed_at(level: int, text: str, **flags: str) -> str:
    """What a program prints in a process of its own, which has a minute."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        env={**os.environ, "TINYREF_CPU_LEVEL": str(level), "TINYREF_CACHE": "0", **flags},
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("level", [2, 3])
def test_the_largest_of_powers_compiles_at_every_level(level: int) -> None:
    """Without the option, LLVM 22 looks for a CRC in that loop for longer than anyone waits."""
    text = (
        "from tinyref import Tensor\n"
        "x = Tensor([1.0, 1.5, 2.0, 2.5, 3.0, 1.0, 1.0, 1.0]).realize()\n"
        "y = Tensor([2.0, 1.0, 2.0, 1.0, 2.0, 4.0, 4.0, 4.0]).realize()\n"
        "print(float((x ** y).max().numpy()))\n"
    )
    printed = printed_at(level, text, TINYREF_NOOPT="1", TINYREF_DEVICE="CPU")
    assert printed == "9.0\n"


@pytest.mark.parametrize("level", [2, 3])
def test_items_that_store_the_same_compile_at_every_level(level: int) -> None:
    """Of a loop that becomes lanes LLVM 22 asks shared operands again and again: llvm-4."""
    text = (
        "from tinyref.codegen.compile import compile_kernel\n"
        "from tinyref.device import Device\n"
        "from tinyref.runtimes.kernel import compile_program\n"
        "from tinyref_spec.kernel.regressions import records\n"
        "ast = records()['random-bits-beside-a-choice'].case.ast\n"
        "program = compile_kernel(ast, Device['GPU_EMU'].capabilities, opts=())\n"
        "print(compile_program('GPU_EMU', program).device)\n"
    )
    assert printed_at(level, text) == "GPU_EMU\n"
