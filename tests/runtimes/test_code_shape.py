"""What LLVM makes of the forms that kernels rely on, at the level that they are compiled at."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest
from elementwise_programs import fill, read

from tinyref.codegen.linearise import linearise
from tinyref.dtype import dtypes
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.runtimes.host import cpu
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program

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
    plain = LlvmRenderer().render(register_block())
    assert plain.count("alloca") == 1 + ROWS * VECTORS


def test_a_scalar_is_spread_once_for_all_its_products() -> None:
    text = optimised(LlvmRenderer().render(register_block()))
    assert text.count("shufflevector") == ROWS
    assert text.count("insertelement") == ROWS
    assert text.count("zeroinitializer\n") >= ROWS


@pytest.mark.parametrize("device", ["CPU", "CLANG"])
def test_two_parameters_may_be_one_buffer(device: str, needs_device: Callable[[str], None]) -> None:
    """Each iteration reads what the iteration before has written: nothing may be read ahead."""
    needs_device(device)
    i = build.counter(number(63), 0, AxisKind.LOOP, INT)
    value = build.load(build.index(build.define_global(1, INT, 64), i))
    target = build.index(build.define_global(0, INT, 64), build.add(i, 1))
    nodes = linearise(build.sink(build.store(target, build.add(value, 2))))
    parameters = (Parameter(0, INT, 64, True, False), Parameter(1, INT, 64, False, True))
    both = fill(device, np.arange(64) * 100 + 7, INT)
    compile_program(device, Program("ahead", nodes, parameters))([both, both])
    assert read(both).tolist() == [7 + 2 * k for k in range(64)]
