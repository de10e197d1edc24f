"""A product and a sum become one operation only where the flag STRICT_FLOAT is 0."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest
from elementwise_programs import elementwise, fill, read, run_cases
from hosts import HOSTS

from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.runtimes.host import cpu
from tinyref.runtimes.host.clang import toolchain
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.ops import Ops

HAS_FMA = llvm.get_host_cpu_features().get("fma", False)

# (1 + e)(1 - e) - 1 is -e * e: exact with one rounding, 0 where the product rounds to 1 first.
CASES = [(dtypes.float32, 2.0**-13, -(2.0**-26)), (dtypes.float64, 2.0**-28, -(2.0**-56))]


def dot(x, y, z):
    return build.add(build.mul(x, y), z)


@pytest.mark.parametrize(("dtype", "little", "once"), CASES, ids=["float32", "float64"])
@pytest.mark.parametrize("device", HOSTS)
def test_contraction_is_by_flag(device: str, dtype: DType, little: float, once: float) -> None:
    program = elementwise([(dot, [dtype, dtype, dtype])], 4, device, name="dot")
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
def test_only_then_the_assembly_has_fused_instructions() -> None:
    program = elementwise([(dot, [dtypes.float32] * 3)], 4, "CPU", name="dot")
    for strict in (1, 0):
        with Context(STRICT_FLOAT=strict):
            source = Device["CPU"].renderer.render(program)
        module = llvm.parse_assembly(source)
        machine = cpu._target_machine(1)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        cpu.run_cheap_passes(module, machine)
        fused = any(name in machine.emit_assembly(module) for name in ("vfmadd", "fmadd", "fmla"))
        assert fused == (strict == 0)


@pytest.mark.long
@pytest.mark.skipif("CLANG" not in HOSTS, reason="no C compiler is installed")
def test_the_c_compiler_is_told_what_the_flag_says() -> None:
    keys = []
    for strict, word in ((1, "-ffp-contract=off"), (0, "-ffp-contract=fast")):
        with Context(STRICT_FLOAT=strict):
            assert word in toolchain().command
            keys.append(Device["CLANG"].compiler.key)
    assert keys[0] != keys[1]


REFERENCES = {Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin}


@pytest.mark.parametrize("op", REFERENCES, ids=lambda op: op.name)
@pytest.mark.parametrize("device", HOSTS)
def test_functions_made_of_products_and_sums_stay_right(device: str, op: Ops) -> None:
    """Their reductions lean on how products round: one rounding less must not hurt them."""
    random = np.random.default_rng(5)
    x = np.concatenate([random.uniform(-120, 120, 4000), np.exp(random.uniform(-60, 60, 4000))])
    x = (np.abs(x) if op is Ops.LOG2 else x).astype(np.float32)
    with Context(STRICT_FLOAT=0, TRANSCENDENTAL=1), np.errstate(all="ignore"):
        (got,) = run_cases([(lambda value: build.unary(op, value), [(x, dtypes.float32)])], device)
        want = REFERENCES[op](x.astype(np.float64))
        normal = (np.abs(want) > 2.0**-126) & (np.abs(want) < 2.0**127)
        distance = np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(want.astype("f4")))
    assert normal.sum() > 3000
    assert float(distance[normal].max()) < 2


@pytest.mark.parametrize("device", HOSTS)
@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint64], ids=lambda dtype: dtype.name)
def test_divisions_stay_exact(device: str, dtype: DType) -> None:
    random = np.random.default_rng(6)
    kind = numpy_dtype(dtype)
    x = random.integers(0, int(dtype.maximum), 4000, dtype=kind, endpoint=True)
    y = (x >> random.integers(1, dtype.bits, 4000).astype(kind)) | kind.type(1)
    cases = [
        (build.idiv, [(x, dtype), (y, dtype)]),
        (lambda a: build.mod(a, 7), [(x, dtype)]),
    ]
    with Context(STRICT_FLOAT=0):
        quotient, rest = run_cases(cases, device)
    assert (quotient == x // y).all()
    assert (rest == x % kind.type(7)).all()
