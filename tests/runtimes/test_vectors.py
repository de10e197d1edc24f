"""Vectors on the devices that declare them: every lane is what the scalar would be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from elementwise_programs import fill, read
from hosts import HOSTS, each_device

from tinyref.codegen.decompose import decompose, storage_dtype
from tinyref.device import Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program

VECTOR_DEVICES = [name for name in HOSTS if max(Device[name].capabilities.vector_lanes) > 1]
COUNT = 64


device = each_device(VECTOR_DEVICES)


def needs(device: str, dtype: DType) -> None:
    if not Device[device].capabilities.supports(dtype):
        pytest.skip(f"{device} does not declare {dtype.name}")


def vector_kernel(
    lanes: int,
    sources: list[DType],
    expression: Callable[..., UOp],
    gate: Callable[[UOp], UOp] | None = None,
) -> UOp:
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
    return build.sink(build.store(build.index(out, position), value, condition))


def vector_program(
    device: str,
    lanes: int,
    sources: list[DType],
    expression: Callable[..., UOp],
    gate: Callable[[UOp], UOp] | None = None,
) -> Program:
    """The program of `vector_kernel`, of what the device supports."""
    kernel = vector_kernel(lanes, sources, expression, gate)
    root = decompose(kernel, Device[device].capabilities)
    nodes = [node for node in root.toposort() if node.op is not Ops.SINK]
    opened = next(node for node in nodes if node.op is Ops.RANGE)
    result = kernel.src[0].src[1].dtype.scalar
    parameters = [Parameter(0, storage_dtype(result), COUNT, True, False)]
    parameters += [
        Parameter(slot, storage_dtype(dtype), COUNT, False, True)
        for slot, dtype in enumerate(sources, 1)
    ]
    end = build.close(opened)
    return Program("vectors", (*nodes, end), tuple(parameters))


def small_numbers(dtype: DType) -> np.ndarray:
    values = np.arange(COUNT) % 13 - (0 if dtype.is_unsigned or dtype.is_bool else 6)
    return values.astype(numpy_dtype(dtype))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", [*dtypes.ints, *dtypes.floats], ids=lambda dtype: dtype.name)
def test_arithmetic_of_lanes(device: str, dtype: DType, lanes: int) -> None:
    needs(device, dtype)
    x, y = small_numbers(dtype), small_numbers(dtype)[::-1]

    def expression(a: UOp, b: UOp) -> UOp:
        return build.maximum(build.add(build.mul(a, b), a), build.where(build.less(a, b), a, b))

    program = vector_program(device, lanes, [dtype, dtype], expression)
    out = fill(device, np.zeros(COUNT), dtype)
    compile_program(device, program)([out, fill(device, x, dtype), fill(device, y, dtype)])
    want = np.maximum(x * y + x, np.where(x < y, x, y))
    assert (read(out) == want).all()


@pytest.mark.sampled(11)
@pytest.mark.parametrize("source", dtypes.all, ids=lambda dtype: dtype.name)
def test_casts_of_lanes(device: str, source: DType) -> None:
    needs(device, source)
    values = np.abs(small_numbers(source).astype(np.float64)).astype(numpy_dtype(source))
    for target in filter(Device[device].capabilities.supports, dtypes.all):
        program = vector_program(device, 4, [source], lambda x, to=target: build.cast(x, to))
        out = fill(device, np.zeros(COUNT), target)
        compile_program(device, program)([out, fill(device, values, source)])
        want = values.astype(np.float64)
        want = want != 0 if target.is_bool else want
        assert (read(out) == want.astype(numpy_dtype(target))).all(), target


@pytest.mark.parametrize(
    "dtype", [dtypes.bool, dtypes.int16, dtypes.bfloat16, dtypes.float64], ids=lambda d: d.name
)
def test_lanes_are_taken_and_put_together(device: str, dtype: DType) -> None:
    needs(device, dtype)

    def expression(x: UOp) -> UOp:
        low, high = build.gep(x, 1, 0), build.gep(x, 2)
        return build.vectorize(build.gep(low, 0), high, build.gep(low, 1), build.gep(x, 3))

    values = np.random.default_rng(1).integers(0, 2, COUNT).astype(numpy_dtype(dtype))
    out = fill(device, np.zeros(COUNT), dtype)
    program = vector_program(device, 4, [dtype], expression)
    compile_program(device, program)([out, fill(device, values, dtype)])
    assert (read(out).reshape(-1, 4) == values.reshape(-1, 4)[:, [1, 2, 0, 3]]).all()


def test_a_scalar_is_taken_as_often_as_asked(device: str) -> None:
    def expression(x: UOp) -> UOp:
        lane = build.gep(build.gep(x, 1), 0)
        return build.gep(lane, 0, 0, 0, 0)

    out = fill(device, np.zeros(COUNT), dtypes.int32)
    program = vector_program(device, 4, [dtypes.int32], expression)
    compile_program(device, program)([out, fill(device, np.arange(COUNT), dtypes.int32)])
    assert read(out).tolist() == [4 * (i // 4) + 1 for i in range(COUNT)]


@pytest.mark.parametrize("dtype", [dtypes.bool, dtypes.float16, dtypes.int32], ids=lambda d: d.name)
def test_gated_lanes_go_as_one(device: str, dtype: DType) -> None:
    program = vector_program(device, 4, [dtype], lambda x: x, lambda i: build.less(i, 3))
    values = np.ones(COUNT).astype(numpy_dtype(dtype))
    out = fill(device, np.zeros(COUNT), dtype)
    compile_program(device, program)([out, fill(device, values, dtype)])
    assert read(out).astype(int).tolist() == [1] * 12 + [0] * (COUNT - 12)


def test_vectors_of_functions_and_bits(device: str) -> None:
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
def test_vectors_start_at_any_element(device: str, lanes: int) -> None:
    """A buffer that starts inside another is aligned to its elements, no better."""
    program = vector_program(device, lanes, [dtypes.float32], lambda x: build.add(x, 1.0))
    whole = fill(device, np.arange(3 * COUNT), dtypes.float32)
    source = whole.view(4, COUNT, dtypes.float32)
    target = whole.view(4 * (COUNT + 3), COUNT, dtypes.float32)
    compile_program(device, program)([target, source])
    assert read(whole)[COUNT + 3 : 2 * COUNT + 3].tolist() == [i + 2.0 for i in range(COUNT)]


FAR = {
    dtypes.int8: [-128, 127, -128, 127, 0, -128, 127, 0, -1, 99, 127],
    dtypes.uint8: [0, 255, 0, 255, 0, 0, 128, 0, 0, 99, 255],
    dtypes.int16: [-32768, 32767, -32768, 32767, 0, -129, 128, 0, -1, 99, 32767],
    dtypes.uint16: [0, 65535, 0, 65535, 0, 0, 128, 0, 0, 99, 65535],
    dtypes.int32: [-(2**31), 2**31 - 1, -(2**31), 2**31 - 1, 0, -129, 128, 0, -1, 99, 2**31 - 1],
    dtypes.uint32: [0, 2**32 - 1, 0, 2**32 - 1, 0, 0, 128, 0, 0, 99, 3_000_000_000],
    dtypes.int64: [
        -(2**63),
        2**63 - 1,
        -(2**63),
        2**63 - 1,
        0,
        -129,
        128,
        0,
        -1,
        99,
        3_000_000_000,
    ],
    dtypes.uint64: [0, 2**64 - 1, 0, 2**64 - 1, 0, 0, 128, 0, 0, 99, 3_000_000_000],
}


# Narrow ones may be right by an instruction for the wide ones of either kind.
SIGNED = (dtypes.int32, dtypes.int64, dtypes.int16, dtypes.int8)
UNSIGNED = (dtypes.uint32, dtypes.uint64, dtypes.uint16, dtypes.uint8)
FLOAT_LANES = [(dtypes.float32, 16), (dtypes.float64, 2)]


def saturates(device: str, target: DType, source: DType, lanes: int) -> None:
    far = [-np.inf, np.inf, -1e30, 1e30, np.nan, -129.5, 128.5, -0.5, -1.5, 99.9, 3e9]
    values = np.resize(np.array(far), COUNT)
    program = vector_program(device, lanes, [source], lambda x: build.cast(x, target))
    out = fill(device, np.zeros(COUNT), target)
    compile_program(device, program)([out, fill(device, values, source)])
    assert [int(value) for value in read(out)] == np.resize(
        np.array(FAR[target], dtype=object), COUNT
    ).tolist()


# Devices have other instructions for either kind.
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("source", "lanes"), FLOAT_LANES)
@pytest.mark.parametrize("target", SIGNED, ids=lambda d: d.name)
def test_lanes_out_of_range_saturate(device: str, target: DType, source: DType, lanes: int) -> None:
    saturates(device, target, source, lanes)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("source", "lanes"), FLOAT_LANES)
@pytest.mark.parametrize("target", UNSIGNED, ids=lambda d: d.name)
def test_unsigned_lanes_out_of_range_saturate(
    device: str, target: DType, source: DType, lanes: int
) -> None:
    saturates(device, target, source, lanes)


NAN = float("nan")


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float32, dtypes.float64], ids=str)
def test_special_floats_in_lanes(device: str, dtype: DType) -> None:
    """MAX and WHERE take one of their sides whole: NaN, the sign of zero, the bits."""
    needs(device, dtype)
    x = np.resize(np.array([NAN, 1.0, -0.0, 0.0, -1.5, np.inf, -np.inf, 2.0]), COUNT)
    y = np.resize(np.array([1.0, NAN, 0.0, -0.0, -2.5, 1.0, 1.0, 2.5]), COUNT)

    def expression(a: UOp, b: UOp) -> UOp:
        larger = build.maximum(a, b)
        other = build.where(build.not_equal(a, b), build.unary(Ops.NEG, a), b)
        return build.where(build.less(other, larger), other, larger)

    program = vector_program(device, 8, [dtype, dtype], expression)
    out = fill(device, np.zeros(COUNT), dtype)
    compile_program(device, program)([out, fill(device, x, dtype), fill(device, y, dtype)])
    got = read(out)[:8].astype(np.float64)
    # MAX(NaN, 1) and MAX(1, NaN) are the first side: no comparison with NaN holds.
    want = [NAN, -1.0, -0.0, 0.0, -1.5, -np.inf, 1.0, -2.0]
    assert [repr(float(value)) for value in got] == [repr(value) for value in want]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "dtype",
    [dtypes.int8, dtypes.uint16, dtypes.int32, dtypes.uint64],
    ids=lambda dtype: dtype.name,
)
def test_integers_in_lanes_wrap_and_shift(device: str, dtype: DType) -> None:
    low, high, bits = int(dtype.minimum), int(dtype.maximum), dtype.bits
    x = np.resize(np.array([low, high, 1, 3], dtype=numpy_dtype(dtype)), COUNT)
    expressions: list[Callable[[UOp], UOp]] = [
        lambda a: build.add(a, a),
        lambda a: build.mul(a, 3),
        lambda a: build.sub(a, high),
        lambda a: build.unary(Ops.NEG, a),
        lambda a: build.binary(Ops.SHL, a, bits + 1),
        lambda a: build.binary(Ops.SHR, a, bits - 1),
        lambda a: build.binary(Ops.SHR, a, build.cast(build.less(a, 2), dtypes.uint8)),
        lambda a: build.maximum(a, 2),
    ]
    signed = not dtype.is_unsigned
    want = [
        [wrapped(2 * v, dtype) for v in (low, high, 1, 3)],
        [wrapped(3 * v, dtype) for v in (low, high, 1, 3)],
        [wrapped(v - high, dtype) for v in (low, high, 1, 3)],
        [wrapped(-v, dtype) for v in (low, high, 1, 3)],
        [wrapped(2 * v, dtype) for v in (low, high, 1, 3)],
        [-1 if signed else 0, 0 if signed else 1, 0, 0],
        [low // 2, high, 0, 3],
        [max(low, 2), high, 2, 3],
    ]
    for expression, values in zip(expressions, want, strict=True):
        program = vector_program(device, 4, [dtype], expression)
        out = fill(device, np.zeros(COUNT), dtype)
        compile_program(device, program)([out, fill(device, x, dtype)])
        assert [int(value) for value in read(out)[:4]] == values


def wrapped(value: int, dtype: DType) -> int:
    low = int(dtype.minimum)
    return (value - low) % 2**dtype.bits + low


def test_bools_in_lanes(device: str) -> None:
    def expression(a: UOp, b: UOp) -> UOp:
        exclusive = build.not_equal(a, b)
        below = build.less(a, b)
        return build.where(build.either(exclusive, a), below, build.logical_not(build.both(a, b)))

    program = vector_program(device, 4, [dtypes.bool, dtypes.bool], expression)
    out = fill(device, np.zeros(COUNT), dtypes.bool)
    # Any byte but 0 is true in memory.
    x = fill(device, np.resize([0, 0, 2, 255], COUNT), dtypes.uint8)
    y = fill(device, np.resize([0, 1, 0, 4], COUNT), dtypes.uint8)
    inputs = [x.view(0, COUNT, dtypes.bool), y.view(0, COUNT, dtypes.bool)]
    compile_program(device, program)([out, *inputs])
    raw = np.frombuffer(out.copy_out(), np.uint8)
    assert raw[:4].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_a_device_without_such_vectors_refuses_them(lanes: int) -> None:
    only_fours = replace(Device["CPU"].capabilities, vector_lanes=(1, 4))
    with pytest.raises(UserError, match=f"the device has no vectors of {lanes} lanes"):
        decompose(vector_kernel(lanes, [dtypes.float32], lambda x: x), only_fours)
    taken = decompose(vector_kernel(4, [dtypes.float32], lambda x: x), only_fours)
    assert dtypes.float32.vec(4) in {node.dtype for node in taken.toposort()}
