"""A product and a sum become one operation only where the flag STRICT_FLOAT is 0."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest

from tinyref.config import Context
from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes
from tinyref.runtimes import cpu
from tinyref.runtimes.kernel import compile_program
from tinyref.runtimes.toolchain import toolchain
from tinyref.uops import build

Fill = Callable[..., Buffer]
Read = Callable[[Buffer], np.ndarray]

HOSTS = [name for name in ("CPU", "CLANG") if Device.availability(name).works]
HAS_FMA = llvm.get_host_cpu_features().get("fma", False)

# (1 + e)(1 - e) - 1 is -e * e: exact with one rounding, 0 where the product rounds to 1 first.
CASES = [(dtypes.float32, 2.0**-13, -(2.0**-26)), (dtypes.float64, 2.0**-28, -(2.0**-56))]


def dot(x, y, z):
    return build.add(build.mul(x, y), z)


@pytest.mark.parametrize(("dtype", "little", "once"), CASES, ids=["float32", "float64"])
@pytest.mark.parametrize("device", HOSTS)
def test_contraction_is_by_flag(
    make_program, fill: Fill, read: Read, device: str, dtype: DType, little: float, once: float
) -> None:
    program = make_program([(dot, [dtype, dtype, dtype])], 4, device, name="dot")
    inputs = [fill(device, np.full(4, v), dtype) for v in (1 + little, 1 - little, -1.0)]
    results = {}
    # Twice each: a kernel that is kept for one value of the flag is not one for the other.
    for strict in (1, 0, 1, 0):
        with Context(STRICT_FLOAT=strict):
            out = fill(device, np.full(4, 7.0), dtype)
            compile_program(device, program)([out, *inputs])
            results.setdefault(strict, set()).update(read(out).tolist())
    assert results[1] == {0.0}
    if HAS_FMA and (device == "CPU" or "-march=native" in toolchain().command):
        gcc_or_clang = device == "CPU" or toolchain().name != "tcc"
        assert results[0] == ({once} if gcc_or_clang else {0.0})
    else:
        assert results[0] <= {0.0, once}


@pytest.mark.skipif(not HAS_FMA, reason="this processor has no fused multiply-add")
def test_only_then_the_assembly_has_fused_instructions(make_program) -> None:
    program = make_program([(dot, [dtypes.float32] * 3)], 4, "CPU", name="dot")
    for strict in (1, 0):
        with Context(STRICT_FLOAT=strict):
            source = Device["CPU"].renderer.render(program)
        module = llvm.parse_assembly(source)
        machine = cpu._target_machine(1)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        cpu._optimise(module, machine, 1)
        fused = any(name in machine.emit_assembly(module) for name in ("vfmadd", "fmadd", "fmla"))
        assert fused == (strict == 0)


@pytest.mark.skipif("CLANG" not in HOSTS, reason="no C compiler is installed")
def test_the_c_compiler_is_told_what_the_flag_says() -> None:
    keys = []
    for strict, word in ((1, "-ffp-contract=off"), (0, "-ffp-contract=fast")):
        with Context(STRICT_FLOAT=strict):
            assert word in toolchain().command
            keys.append(Device["CLANG"].compiler.key)
    assert keys[0] != keys[1]
