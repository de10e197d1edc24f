"""Integers that a device lacks: pairs of words equal to numpy's, and literals at the ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from decomposed import Array, same
from kernel_cases import run_program

from tinyref.algebra import semantics
from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.decompose import SMALL_FLOATS, decompose
from tinyref.codegen.decompose.small_integers import SMALL_INTEGERS
from tinyref.device import Buffer, Device
from tinyref.dtype import ConstType, DType, dtypes, from_numpy_dtype, numpy_dtype
from tinyref.errors import UserError
from tinyref.optimise.opt import parse_opts
from tinyref.runtimes.host.cpu import CpuBackend
from tinyref.runtimes.kernel import compile_ast
from tinyref.uops import build
from tinyref.uops.build import skip_after
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import AxisKind, LocalArg
from tinyref.uops.program import scalar_of
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store

WIDE = (dtypes.int64, dtypes.uint64)
TYPES = frozenset({*dtypes.all}) - set(WIDE)
OPS = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
WORDS = Capabilities(TYPES, OPS - {"THREEFRY"}, frozenset(WIDE))
VECTORS = dataclasses.replace(WORDS, vector_lanes=(1, 2, 4, 8, 16))
CORE = Capabilities(CORE_DTYPES, CORE_OPS, frozenset(WIDE))
DEVICES = pytest.mark.parametrize(
    "device", [WORDS, VECTORS, CORE], ids=["words", "vectors", "core"]
)
BOTH = pytest.mark.parametrize("dtype", WIDE, ids=lambda dtype: dtype.name)


def run(
    value: Callable[..., UOp], inputs: Sequence[Array], result: DType, device: Capabilities
) -> Array:
    """Return the output of a kernel that computes `value` from the loads of `inputs`."""
    size = inputs[0].size
    view = shaped(size)
    types = [from_numpy_dtype(x.dtype) for x in inputs]
    loads = [load(slot + 1, dtype, view) for slot, dtype in enumerate(types)]
    ast = build.sink(store(0, value(*loads), view))
    program = compile_kernel(ast, device)
    used = {scalar_of(node.dtype) for node in program.uops} - {dtypes.void, dtypes.index}
    assert used <= device.dtypes | (set(WIDE) if device is CORE else set())
    out = np.zeros(size, numpy_dtype(result))
    run_program(program, [out, *inputs])
    return out


def integers(dtype: DType, count: int, seed: int) -> Array:
    """Return edges of both words, and random bits of every length; a multiple of 16 of them."""
    random = np.random.default_rng(seed)
    ends = [0, 1, 2, 3, 7, 10, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33 - 1]
    ends += [2**63 - 1, 2**63, 2**63 + 1, 2**62, 2**53 + 1, 10**18, 0xFFFFFFFF00000000]
    ends += [-x % 2**64 for x in ends]
    bits = random.integers(0, 2**64, count - len(ends), np.uint64)
    shifted = bits >> random.integers(0, 64, bits.size, np.uint64)
    actual = np.concatenate([np.array(ends, np.uint64), shifted])
    actual[1::3] = np.uint64(0) - actual[1::3]
    random.shuffle(actual)
    return actual.view(numpy_dtype(dtype))


def operands(dtype: DType) -> list[Array]:
    """Return pairs of edges, pairs of random bits, and equal or nearly equal pairs."""
    x, y = integers(dtype, 1024, 1), integers(dtype, 1024, 2)
    y[::16] = x[::16]
    y[1::16] = x[1::16] + y.dtype.type(1)
    return [x, y]


@pytest.mark.table
@pytest.mark.sampled(5)
@DEVICES
@BOTH
@pytest.mark.parametrize(
    "op", [Ops.ADD, Ops.SUB, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.AND, Ops.OR, Ops.XOR, Ops.MAX]
)
def test_binary_operations_wrap_as_numpy_does(op: Ops, dtype: DType, device: Capabilities) -> None:
    inputs = operands(dtype)
    got = run(lambda x, y: build.binary(op, x, y), inputs, dtype, device)
    want = semantics.apply(op, dtype, inputs)
    wrong = np.flatnonzero(got != want)
    assert not wrong.size, [(x[wrong[0]], got[wrong[0]], want[wrong[0]]) for x in inputs]


@BOTH
def test_division_of_many_random_pairs(dtype: DType) -> None:
    random = np.random.default_rng(3)
    x, y = integers(dtype, 1 << 17, 4), integers(dtype, 1 << 17, 5)
    # A quotient is easily one off at multiples and their neighbours.
    factor = integers(dtype, 1 << 17, 6) >> x.dtype.type(40)
    x[::2] = y[::2] * factor[::2] + random.integers(-1, 2, x[::2].size).astype(x.dtype)
    for op in (Ops.IDIV, Ops.MOD):
        got = run(lambda a, b, op=op: build.binary(op, a, b), [x, y], dtype, WORDS)
        assert (got == semantics.apply(op, dtype, [x, y])).all()


@pytest.mark.table
@BOTH
@pytest.mark.parametrize("op", [Ops.SHL, Ops.SHR])
def test_shifts_by_every_count(op: Ops, dtype: DType) -> None:
    x = integers(dtype, 1024, 7)
    count = (np.arange(1024) % 64).astype(x.dtype)
    want = semantics.apply(op, dtype, [x, count])
    assert (run(lambda a, b: build.binary(op, a, b), [x, count], dtype, VECTORS) == want).all()
    small = count.astype(np.uint32)
    got = run(lambda a, b: UOp(op, a.dtype, (a, b)), [x, small], dtype, WORDS)
    assert (got == want).all()
    for by in (0, 1, 31, 32, 33, 63):
        got = run(lambda a, by=by: build.binary(op, a, by), [x], dtype, WORDS)
        assert (got == semantics.apply(op, dtype, [x, np.full_like(x, by)])).all()


@pytest.mark.table
@pytest.mark.sampled(7)
@DEVICES
@BOTH
@pytest.mark.parametrize("other", dtypes.all, ids=lambda dtype: dtype.name)
def test_casts_to_every_type(other: DType, dtype: DType, device: Capabilities) -> None:
    if other not in device.dtypes | device.emulated:
        return
    x = integers(dtype, 1024, 9)
    # Ties and their neighbours of every float, at every exponent.
    ties = [
        (1 << k) + (1 << max(k - j, 0)) + d
        for k in range(63)
        for j in (8, 9, 11, 12, 24, 25)
        for d in (-1, 0, 1)
    ]
    x = np.concatenate([x, np.array(ties[:1024], np.uint64).view(x.dtype)])
    got = run(lambda a: build.cast(a, other), [x], other, device)
    assert same(got, semantics.apply(Ops.CAST, other, [x], [dtype]))


@pytest.mark.table
@pytest.mark.sampled(7)
@DEVICES
@BOTH
@pytest.mark.parametrize("other", dtypes.all, ids=lambda dtype: dtype.name)
def test_casts_from_every_type(other: DType, dtype: DType, device: Capabilities) -> None:
    if other not in device.dtypes | device.emulated:
        return
    random = np.random.default_rng(10)
    if other.is_float:
        low = 0.0 if dtype.is_unsigned else -1.0
        sizes = np.exp2(random.uniform(-2, 62.9, 1024)) * np.sign(random.uniform(low, 1, 1024))
        with np.errstate(over="ignore"):
            x = sizes.astype(numpy_dtype(other))
        x = np.where(np.isfinite(x.astype(np.float64)), x, x.dtype.type(1)).astype(x.dtype)
    else:
        bits = random.integers(0, 2**64, 1024, np.uint64)
        x = (bits % 2 == 1) if other.is_bool else bits.astype(numpy_dtype(other))
    got = run(lambda a: build.cast(a, dtype), [x], dtype, device)
    assert (got == semantics.apply(Ops.CAST, dtype, [x], [other])).all()


@pytest.mark.table
@DEVICES
def test_masked_loads_give_both_words_of_the_alternative(device: Capabilities) -> None:
    x = integers(dtypes.int64, 40, 12)
    padded = shaped(40).pad(((8, 16),))
    view = shaped(64)
    gated = build.valid(padded)
    value = build.where(gated, load(1, dtypes.int64, padded), -5)
    out = np.zeros(64, np.int64)
    run_program(compile_kernel(build.sink(store(0, value, view)), device), [out, x])
    assert (out == np.pad(x, (8, 16), constant_values=-5)).all()


def test_threefry_gives_the_published_words() -> None:
    counter = np.full(16, 0x85A308D3_243F6A88, np.uint64)
    key = np.full(16, 0x03707344_13198A2E, np.uint64)
    for device in (WORDS, VECTORS, CORE):
        value = run(
            lambda c, k: UOp(Ops.THREEFRY, c.dtype, (c, k)), [counter, key], dtypes.uint64, device
        )
        assert (value == 0x483DF7A0_C4923A9C).all()


def test_the_bits_of_a_float64_are_refused() -> None:
    x = np.zeros(16)
    with pytest.raises(UserError, match="BITCAST of float64 to int64: 64-bit integers are pairs"):
        run(lambda a: build.bitcast(a, dtypes.int64), [x], dtypes.int64, WORDS)


class NarrowCpu(CpuBackend):
    """The host processor as if it had no 64-bit integers."""

    @property
    def capabilities(self) -> Capabilities:
        own = super().capabilities
        wide = frozenset(WIDE)
        return dataclasses.replace(own, dtypes=own.dtypes - wide, emulated=own.emulated | wide)


def test_buffers_hold_two_words_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Device._open, "CPU", NarrowCpu())
    x, y = operands(dtypes.int64)
    view = shaped(x.size)
    loads = [load(slot, dtypes.int64, view) for slot in (1, 2)]
    value = build.add(build.mul(*loads), build.idiv(*loads))
    kernel = compile_ast(
        "CPU",
        build.sink(
            store(0, value, view),
        ),
    )
    buffers = [Buffer("CPU", x.size, dtypes.int64)]
    buffers += [
        Buffer("CPU", x.size, dtypes.int64).copy_in(memoryview(v).cast("B")) for v in (x, y)
    ]
    assert [p.size for p in kernel.program.parameters] == [2048] * 3
    kernel(buffers, wait=True)
    want = x * y + semantics.apply(Ops.IDIV, dtypes.int64, [x, y])
    assert (np.frombuffer(buffers[0].copy_out(), np.int64) == want).all()
    short = Buffer("CPU", 1000, dtypes.int64)
    with pytest.raises(UserError, match="has 1000 elements, the kernel reaches 1024"):
        kernel([short, *buffers[1:]])


def test_neither_word_of_an_accumulator_is_written_before_both_are_known() -> None:
    start = build.const(dtypes.int64, 1)
    loop = build.counter(8, 0, AxisKind.REDUCE)
    old = build.accumulator("acc0", start, loop)
    update = build.update(old, build.mul(old, 3))
    out = build.define_global(0, dtypes.int64, 1)
    root = build.sink(build.store(build.index(out, build.const(dtypes.index, 0)), update))
    updates = [n for n in decompose(root, WORDS).toposort() if n.op is Ops.UPDATE_ACC]
    assert {skip_after(n.src[0]).arg for n in updates} == {
        LocalArg("acc0_low"),
        LocalArg("acc0_high"),
    }
    values = {n.src[1] for n in updates}
    for item in updates:
        waits = set(item.src[0].src[1:])
        assert waits | {item.src[1]} == values


def test_an_index_beyond_int32_needs_an_int64_that_is_no_pair() -> None:
    x = load(1, dtypes.int32, (1 << 32,))
    with pytest.raises(UserError, match="needs int64, which the device lacks"):
        compile_kernel(kernel_of(x, 1 << 32), WORDS)


@pytest.mark.table
@DEVICES
@pytest.mark.parametrize("opts", ["", "UPCAST(0, 4)"])
@BOTH
def test_rows_may_be_chosen_by_pairs(dtype: DType, opts: str, device: Capabilities) -> None:
    """Use a position that a comparison bounds; the words alone do not show the range."""
    if opts and device is not VECTORS:
        pytest.skip("has no vectors")
    indices = load(2, dtype, (8,))
    memory = build.define_global(1, dtypes.int32, 28)
    # Of four rows of seven numbers the second, and in it the number that is asked for.
    row = shaped(4, 7).shrink(((1, 2), (0, 7))).expand((8, 7))
    chosen = build.load(build.view(memory, row, indices))
    ast = kernel_of(chosen, 8)
    program = compile_kernel(ast, device, opts=parse_opts(opts))
    table = np.arange(28, dtype=np.int32)
    asked = np.array([0, 6, 7, 3, 2**32, 2**63 - 1, 5, -1], np.object_) % 2**64
    numbers = asked.astype(np.uint64).view(numpy_dtype(dtype))
    out = np.zeros(8, np.int32)
    run_program(program, [out, table, numbers])
    assert out.tolist() == [7, 13, 0, 10, 0, 0, 12, 0]


@pytest.mark.parametrize(
    "dtype", [*WIDE, dtypes.bfloat16, dtypes.float16], ids=lambda dtype: dtype.name
)
def test_emulated_values_are_shared_in_every_iteration_of_a_loop(dtype: DType) -> None:
    """Place a barrier after a value: the next iteration must not write before all have read."""
    own = Device["PYTHON"].capabilities
    device = dataclasses.replace(own, dtypes=own.dtypes - {dtype}, emulated=frozenset({dtype}))
    terms = load(1, dtype, (3, 4))
    total = build.reduce(Ops.MAX, build.reduce(Ops.ADD, terms, (1,)), (0,))
    ast = kernel_of(total, 1, 1)
    program = compile_kernel(ast, device, opts=parse_opts("GROUP(1, 2)"))
    assert sum(node.op is Ops.BARRIER for node in program.uops) == 2
    out = np.zeros(1, numpy_dtype(dtype))
    run_program(program, [out, np.arange(12).astype(numpy_dtype(dtype))])
    assert out[0] == 8 + 9 + 10 + 11


BARE = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32})
SMALL = frozenset(SMALL_INTEGERS)
DEVICE = Capabilities(BARE, WORDS.ops, SMALL | {*WIDE, *SMALL_FLOATS}, stored_in_words=SMALL)
i8, u8, i16, u16 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16
i32, u32, i64, u64 = dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64
f8, f16, bf16, f32 = dtypes.fp8e5m2, dtypes.float16, dtypes.bfloat16, dtypes.float32

# --- nodes of types that a device lacks -----------------------------------------------------------

# What is computed, the types and values of its operands, the type and values of the result.
Case = tuple[
    Callable[..., UOp], Sequence[tuple[DType, Sequence[ConstType]]], DType, Sequence[ConstType]
]


def binary(op: Ops) -> Callable[..., UOp]:
    return lambda x, y: build.binary(op, x, y)


def cast(dtype: DType) -> Callable[..., UOp]:
    return lambda x: build.cast(x, dtype)


def bitcast(dtype: DType) -> Callable[..., UOp]:
    return lambda x: build.bitcast(x, dtype)


CASES: list[Case] = [
    (cast(f16), [(i64, [2049, 2051, -(2**40)])], f16, [2048.0, 2052.0, float("-inf")]),
    (cast(i64), [(f16, [-2.5, 65504.0])], i64, [-2, 65504]),
    (cast(u64), [(i8, [-1, 127])], u64, [2**64 - 1, 127]),
    (binary(Ops.ADD), [(i8, [127, -128]), (i8, [1, -1])], i8, [-128, 127]),
    (binary(Ops.MUL), [(u8, [255, 16]), (u8, [255, 16])], u8, [1, 0]),
    (binary(Ops.SHL), [(i16, [1, 3]), (i16, [15, 14])], i16, [-(2**15), -(2**14)]),
    (binary(Ops.SHR), [(i16, [-4, 5]), (i16, [1, 1])], i16, [-2, 2]),
    (binary(Ops.CMPLT), [(i8, [-1, 1]), (i8, [0, 0])], dtypes.bool, [True, False]),
    (cast(i8), [(i32, [128, 255, -129])], i8, [-128, -1, 127]),
    (cast(i8), [(u8, [128, 127])], i8, [-128, 127]),
    (cast(u16), [(i8, [-1, 5])], u16, [65535, 5]),
    (cast(i32), [(i8, [-1, 5])], i32, [-1, 5]),
    (cast(i8), [(f32, [-1.5, 100.9])], i8, [-1, 100]),
    (cast(u8), [(f32, [255.0, 1.5])], u8, [255, 1]),
    (cast(i16), [(dtypes.bool, [True, False])], i16, [1, 0]),
    (bitcast(i8), [(u8, [255, 127])], i8, [-1, 127]),
    (bitcast(u16), [(i16, [-1, 1])], u16, [65535, 1]),
    (bitcast(f8), [(u8, [0x3C, 0xC0])], f8, [1.0, -2.0]),
    (bitcast(i8), [(f8, [1.0, -2.0])], i8, [0x3C, -64]),
    (bitcast(u16), [(f16, [1.0, -2.0])], u16, [0x3C00, 0xC000]),
    (bitcast(bf16), [(i16, [0x3F80, -0x4000])], bf16, [1.0, -2.0]),
]


@pytest.mark.table
@pytest.mark.parametrize(("value", "operands", "result", "expected"), CASES)
def test_nodes(
    value: Callable[..., UOp],
    operands: Sequence[tuple[DType, Sequence[ConstType]]],
    result: DType,
    expected: Sequence[ConstType],
) -> None:
    arguments = [np.array(values).astype(numpy_dtype(dtype)) for dtype, values in operands]
    out = run(value, arguments, result, DEVICE)
    assert out.astype(np.float64 if result.is_float else out.dtype).tolist() == list(expected)
