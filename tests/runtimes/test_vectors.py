"""Vectors on the devices that declare them: every lane is what the scalar would be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.decompose import decompose, storage_dtype
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program

VECTOR_DEVICES = [
    name
    for name in ("CPU", "CLANG")
    if Device.availability(name).works and max(Device[name].capabilities.vector_lanes) > 1
]
COUNT = 64
Fill = Callable[..., Buffer]
Read = Callable[[Buffer], np.ndarray]


@pytest.fixture(params=VECTOR_DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def vector_program(
    device: str,
    lanes: int,
    sources: list[DType],
    expression: Callable[..., UOp],
    gate: Callable[[UOp], UOp] | None = None,
) -> Program:
    """out[i:i+lanes] = expression(in0[i:i+lanes], ...) for every multiple i of `lanes`."""
    counter = build.counter(
        build.const(dtypes.int32, COUNT // lanes), 0, AxisKind.LOOP, dtypes.int32
    )
    position = build.mul(counter, lanes)
    condition = gate(counter) if gate else None
    loads = []
    for slot, dtype in enumerate(sources, 1):
        address = build.index(build.define_global(slot, dtype, COUNT), position)
        alternative = build.const(dtype.vec(lanes), 1)
        loads.append(build.load(address, condition, alternative, lanes))
    value = expression(*loads)
    out = build.define_global(0, value.dtype.scalar, COUNT)
    store = build.store(build.index(out, position), value, condition)
    root = decompose(build.sink(store), Device[device].capabilities)
    nodes = [node for node in root.toposort() if node.op is not Ops.SINK]
    opened = next(node for node in nodes if node.op is Ops.RANGE)
    parameters = [Parameter(0, storage_dtype(value.dtype.scalar), COUNT, True, False)]
    parameters += [
        Parameter(slot, storage_dtype(dtype), COUNT, False, True)
        for slot, dtype in enumerate(sources, 1)
    ]
    end = UOp(Ops.END, dtypes.void, (opened,))
    return Program("vectors", (*nodes, end), tuple(parameters))


def small_numbers(dtype: DType) -> np.ndarray:
    values = np.arange(COUNT) % 13 - (0 if dtype.is_unsigned or dtype.is_bool else 6)
    return values.astype(numpy_dtype(dtype))


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", [*dtypes.ints, *dtypes.floats], ids=lambda dtype: dtype.name)
def test_arithmetic_of_lanes(fill: Fill, read: Read, device: str, dtype: DType, lanes: int) -> None:
    x, y = small_numbers(dtype), small_numbers(dtype)[::-1]

    def expression(a: UOp, b: UOp) -> UOp:
        return build.maximum(build.add(build.mul(a, b), a), build.where(build.less(a, b), a, b))

    program = vector_program(device, lanes, [dtype, dtype], expression)
    out = fill(device, np.zeros(COUNT), dtype)
    compile_program(device, program)([out, fill(device, x, dtype), fill(device, y, dtype)])
    want = np.maximum(x * y + x, np.where(x < y, x, y))
    assert (read(out) == want).all()


@pytest.mark.parametrize("source", dtypes.all, ids=lambda dtype: dtype.name)
def test_casts_of_lanes(fill: Fill, read: Read, device: str, source: DType) -> None:
    values = np.abs(small_numbers(source).astype(np.float64)).astype(numpy_dtype(source))
    for target in dtypes.all:
        program = vector_program(device, 4, [source], lambda x, to=target: build.cast(x, to))
        out = fill(device, np.zeros(COUNT), target)
        compile_program(device, program)([out, fill(device, values, source)])
        want = values.astype(np.float64)
        want = want != 0 if target.is_bool else want
        assert (read(out) == want.astype(numpy_dtype(target))).all(), target


@pytest.mark.parametrize(
    "dtype", [dtypes.bool, dtypes.int16, dtypes.bfloat16, dtypes.float64], ids=lambda d: d.name
)
def test_lanes_are_taken_and_put_together(
    fill: Fill, read: Read, device: str, dtype: DType
) -> None:
    def expression(x: UOp) -> UOp:
        low, high = build.gep(x, 1, 0), build.gep(x, 2)
        return build.vectorize(build.gep(low, 0), high, build.gep(low, 1), build.gep(x, 3))

    values = np.random.default_rng(1).integers(0, 2, COUNT).astype(numpy_dtype(dtype))
    out = fill(device, np.zeros(COUNT), dtype)
    program = vector_program(device, 4, [dtype], expression)
    compile_program(device, program)([out, fill(device, values, dtype)])
    assert (read(out).reshape(-1, 4) == values.reshape(-1, 4)[:, [1, 2, 0, 3]]).all()


def test_a_scalar_is_taken_as_often_as_asked(fill: Fill, read: Read, device: str) -> None:
    def expression(x: UOp) -> UOp:
        lane = build.gep(build.gep(x, 1), 0)
        return build.gep(lane, 0, 0, 0, 0)

    out = fill(device, np.zeros(COUNT), dtypes.int32)
    program = vector_program(device, 4, [dtypes.int32], expression)
    compile_program(device, program)([out, fill(device, np.arange(COUNT), dtypes.int32)])
    assert read(out).tolist() == [4 * (i // 4) + 1 for i in range(COUNT)]


@pytest.mark.parametrize("dtype", [dtypes.bool, dtypes.float16, dtypes.int32], ids=lambda d: d.name)
def test_gated_lanes_go_as_one(fill: Fill, read: Read, device: str, dtype: DType) -> None:
    program = vector_program(device, 4, [dtype], lambda x: x, lambda i: build.less(i, 3))
    values = np.ones(COUNT).astype(numpy_dtype(dtype))
    out = fill(device, np.zeros(COUNT), dtype)
    compile_program(device, program)([out, fill(device, values, dtype)])
    assert read(out).astype(int).tolist() == [1] * 12 + [0] * (COUNT - 12)


def test_vectors_of_functions_and_bits(fill: Fill, read: Read, device: str) -> None:
    values = np.linspace(-3, 3, COUNT).astype(np.float32)

    def expression(x: UOp) -> UOp:
        sine = build.unary(Ops.SIN, x)
        mask = build.const(dtypes.uint32.vec(8), 0x80000000)
        return build.bitcast(build.either(build.bitcast(sine, dtypes.uint32), mask), dtypes.float32)

    out = fill(device, np.zeros(COUNT), dtypes.float32)
    program = vector_program(device, 8, [dtypes.float32], expression)
    compile_program(device, program)([out, fill(device, values, dtypes.float32)])
    assert np.abs(read(out) + np.abs(np.sin(values.astype(np.float64)))).max() < 1e-6


@pytest.mark.parametrize("lanes", [2, 16])
def test_vectors_start_at_any_element(fill: Fill, read: Read, device: str, lanes: int) -> None:
    """A buffer that starts inside another is aligned to its elements, no better."""
    program = vector_program(device, lanes, [dtypes.float32], lambda x: build.add(x, 1.0))
    whole = fill(device, np.arange(3 * COUNT), dtypes.float32)
    source = whole.view(4, COUNT, dtypes.float32)
    target = whole.view(4 * (COUNT + 3), COUNT, dtypes.float32)
    compile_program(device, program)([target, source])
    assert read(whole)[COUNT + 3 : 2 * COUNT + 3].tolist() == [i + 2.0 for i in range(COUNT)]


def test_a_device_without_vectors_refuses_them() -> None:
    for name in ("CPU", "CLANG"):
        if not Device.availability(name).works:
            continue
        for lanes in (2, 4, 8, 16):
            if lanes in Device[name].capabilities.vector_lanes:
                continue
            with pytest.raises(UserError, match=f"no vectors of {lanes} lanes"):
                vector_program(name, lanes, [dtypes.float32], lambda x: x)
