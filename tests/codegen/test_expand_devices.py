"""Expanded kernels on the devices of this machine write what their loops write, interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from expand_cases import (
    as_loops,
    at,
    loop,
    numbers,
    program_of,
    reduced,
    run,
    unroll,
    upcast,
    zeros,
)
from hosts import HOSTS, each_device

from tinyref.algebra.simplify import simplify
from tinyref.codegen.expand import expand
from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg

LANES = ((1,), (1, 4), (1, 2, 4, 8, 16))


device = each_device(HOSTS)


def check(device: str, root: UOp, buffers: Sequence[np.ndarray]) -> None:
    """Bit for bit, for every set of widths that the device has."""
    root = simplify(root)
    wanted = run(program_of(as_loops(root)), buffers)
    slots = {node.arg.slot: node for node in root.toposort() if isinstance(node.arg, SlotArg)}
    capabilities = Device[device].capabilities
    for node in slots.values():
        if not capabilities.supports(build.element_type(node)):
            pytest.skip(f"the device does not declare {build.element_type(node).name}")
    for lanes in LANES:
        if not set(lanes) <= set(capabilities.vector_lanes):
            continue
        expanded = expand(root, replace(capabilities, vector_lanes=lanes))
        memories = []
        for slot, values in enumerate(buffers):
            memory = Buffer(device, values.size, build.element_type(slots[slot]))
            memories.append(memory.copy_in(memoryview(values.view(np.uint8))))
        compile_program(device, program_of(expanded, capabilities))(memories)
        for slot, values in enumerate(wanted):
            assert bytes(memories[slot].copy_out()) == values.tobytes(), (lanes, slot)


def products(dtype: DType, rows: int, columns: int, terms: int, stride: int) -> UOp:
    """The product of two 8 x 8 matrices, the second with rows of `stride` elements."""
    i, j, k = loop(8 // rows, 0), loop(8 // columns, 1), reduced(8 // terms, 2)
    u, v, w = upcast(rows, 3), upcast(columns, 4), unroll(terms, 5)
    left = build.define_global(1, dtype, 64)
    right = build.define_global(2, dtype, 8 * stride)
    x = build.load(at(left, (i, rows * 8), (u, 8), (k, terms), w))
    y = build.load(at(right, (k, terms * stride), (w, stride), (j, columns), v))
    out = at(build.define_global(0, dtype, 64), (i, rows * 8), (u, 8), (j, columns), v)
    return build.sink(build.store(out, build.reduce_over(Ops.ADD, build.mul(x, y), k, w)))


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "dtype",
    [dtypes.float32, dtypes.float64, dtypes.int8, dtypes.int32, dtypes.uint64, dtypes.bfloat16],
    ids=lambda dtype: dtype.name,
)
@pytest.mark.parametrize("stride", [8, 9])
def test_matrix_products(device: str, dtype: DType, stride: int) -> None:
    buffers = [zeros(64, dtype), numbers(64, dtype, 1), numbers(8 * stride, dtype, 2)]
    for kinds in ((4, 8, 2), (1, 1, 4), (2, 4, 1), (1, 8, 8)):
        check(device, products(dtype, *kinds, stride), buffers)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "dtype",
    [dtypes.bool, *dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64],
    ids=lambda dtype: dtype.name,
)
def test_gated_and_compared_lanes(device: str, dtype: DType) -> None:
    """out[x] = the larger of a[x] and a[x - 1], with 1 for what a has not, where x is not 5."""
    i, u = loop(2, 0), upcast(8, 1)
    where = simplify(build.add(build.mul(i, 8), u))
    memory = build.define_global(1, dtype, 13)
    inside = build.less(where, 13)
    x = build.load(build.index(memory, where), inside, 1)
    before = simplify(build.sub(where, 1))
    within = build.both(build.less(-1, before), build.less(before, 13))
    y = build.load(build.index(memory, before), within, 1)
    larger = build.where(build.less(x, y), y, x)
    out = build.index(build.define_global(0, dtype, 16), where)
    root = build.sink(build.store(out, larger, build.not_equal(where, 5)))
    check(device, root, [zeros(16, dtype), numbers(13, dtype, 3)])


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX], ids=lambda op: op.name)
@pytest.mark.parametrize(
    "dtype", [dtypes.int16, dtypes.float32, dtypes.uint8], ids=lambda d: d.name
)
def test_reduces(device: str, op: Ops, dtype: DType) -> None:
    i, k, w = loop(3, 0), reduced(2, 1), unroll(16, 2)
    x = build.load(at(build.define_global(1, dtype, 96), (i, 32), (k, 16), w))
    root = build.sink(
        build.store(at(build.define_global(0, dtype, 3), i), build.reduce_over(op, x, k, w))
    )
    values = numbers(96, dtype, 4)
    values = np.where(values == 0, values + 1, values) if op is Ops.MUL else values
    values = np.clip(values, 0, 2) if op is Ops.MUL else values
    check(device, root, [zeros(3, dtype), values.astype(zeros(1, dtype).dtype)])
