"""Strict floats: a device and the interpreter agree bit for bit on the same kernel.

Every operation rounds in its own dtype, accumulators included, so nothing is left to choose. A sum
of float16 in float32, rounded once at the end, would be closer to the truth and still wrong here.
"""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes, from_numpy_dtype, numpy_dtype
from tinyref.runtimes.kernel import compile_ast
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.kernels.notation import kernel_of, load, product, total

ROWS, COLUMNS = 3, 257


def kernel(dtype, form: str) -> UOp:
    x, y = (load(slot, dtype, (ROWS, COLUMNS)) for slot in (1, 2))
    if form == "chain":
        value = build.sub(build.mul(build.add(build.mul(x, y), x), y), build.mul(x, x))
        return kernel_of(value, ROWS, COLUMNS)
    if form == "divide":
        value = build.binary(Ops.FDIV, x, build.unary(Ops.SQRT, build.mul(y, y)))
        return kernel_of(value, ROWS, COLUMNS)
    value = total(build.mul(x, y), 1) if form == "dot" else product(x, 1)
    return kernel_of(value, ROWS, 1)


def run(device: str, ast: UOp, inputs: list[np.ndarray], size: int) -> bytes:
    dtype = from_numpy_dtype(inputs[0].dtype)
    output = Buffer(device, size, dtype).allocate()
    buffers = [
        Buffer(device, each.size, dtype).copy_in(each.view(np.uint8).data) for each in inputs
    ]
    compile_ast(device, ast)([output, *buffers], wait=True)
    return bytes(output.copy_out())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("form", ["chain", "divide", "dot", "product"])
@pytest.mark.parametrize("dtype", dtypes.floats, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("device", ["CPU", "CLANG"])
def test_every_operation_rounds_in_its_own_dtype(device, dtype, form, needs_device):
    needs_device(device)
    if not Device[device].capabilities.supports(dtype):
        pytest.skip(f"{device} does not declare {dtype.name}")
    random = np.random.default_rng(7)
    target = numpy_dtype(dtype)
    count = 1 if form == "product" else 2
    inputs = [random.uniform(0.5, 1.5, ROWS * COLUMNS).astype(target) for _ in range(count)]
    ast = kernel(dtype, form)
    size = ROWS if form in ("dot", "product") else ROWS * COLUMNS
    assert run(device, ast, inputs, size) == run("PYTHON", ast, inputs, size)


def test_a_wide_accumulator_would_be_seen():
    random = np.random.default_rng(7)
    values = random.uniform(0.5, 1.5, COLUMNS).astype(np.float16)
    narrow = np.float16(0)
    for value in values:
        narrow = np.float16(narrow + value)
    assert narrow != values.astype(np.float32).sum().astype(np.float16)
