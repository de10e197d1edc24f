"""Decomposition of indexed kernels: values stay, bit for bit, and what cannot be had is refused."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from decomposed import Array, decomposed, evaluate, every, load, run, same

from tinyref.algebra import semantics
from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.codegen.decompose import SMALL_FLOATS, decompose
from tinyref.dtype import AddressSpace, DType, dtypes, narrow_float64, numpy_dtype, pointer
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import (
    AxisKind,
    TileArg,
)
from tinyref.uops.tiles import TILES, Operand

ALL_OPS = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
WIDE_FLOATS = (dtypes.float32, dtypes.float64)
WIDE_TYPES = (dtypes.bool, *dtypes.ints, *WIDE_FLOATS)
WIDE = frozenset(WIDE_TYPES)
EMULATING = Capabilities(WIDE, ALL_OPS - {"MULACC", "THREEFRY"}, frozenset(SMALL_FLOATS), (1, 2, 4))
CORE = Capabilities(CORE_DTYPES, CORE_OPS)


def hard_floats(dtype: DType, seed: int) -> Array:
    """Random bits of float32 or float64, and every small float's midpoints and their neighbours."""
    word = np.dtype(f"u{dtype.itemsize}")
    random = np.random.default_rng(seed)
    bits = random.integers(0, np.iinfo(word).max, 200_000, word, endpoint=True)
    near = [bits.view(numpy_dtype(dtype))]
    for small in SMALL_FLOATS:
        with np.errstate(invalid="ignore"):
            values = np.unique(every(small).astype(np.float64))
        values = values[np.isfinite(values)]
        # Half a step beyond the largest: the tie between it and what overflows.
        beyond = values[-1] + (values[-1] - values[-2]) / 2
        ends = np.array([-beyond, beyond, values[-1] * 1.0625])
        middles = (values[1:] + values[:-1]) / 2
        with np.errstate(over="ignore"):
            exact = np.concatenate([values, middles, ends]).astype(near[0].dtype)
        near += [exact, np.nextafter(exact, np.inf, dtype=exact.dtype)]
        near += [np.nextafter(exact, -np.inf, dtype=exact.dtype)]
    return np.concatenate(near)


# Small floats


@pytest.mark.sampled(3)
@pytest.mark.parametrize("small", SMALL_FLOATS, ids=lambda dtype: dtype.name)
def test_float32_narrows_as_ml_dtypes_does(small: DType) -> None:
    values = hard_floats(dtypes.float32, 1)
    got = run(build.cast(load(0, dtypes.float32), small), [values], EMULATING)
    with np.errstate(over="ignore", invalid="ignore"):
        assert same(got, values.astype(numpy_dtype(small)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("small", SMALL_FLOATS, ids=lambda dtype: dtype.name)
def test_float64_narrows_in_one_rounding(small: DType) -> None:
    values = hard_floats(dtypes.float64, 2)
    got = run(build.cast(load(0, dtypes.float64), small), [values], EMULATING)
    assert same(got, narrow_float64(values, small))


@pytest.mark.table
@pytest.mark.sampled(5)
@pytest.mark.parametrize("small", SMALL_FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("integer", dtypes.ints, ids=lambda dtype: dtype.name)
def test_integers_narrow_in_one_rounding(small: DType, integer: DType) -> None:
    width = integer.bits
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**64, 20_000, np.uint64, endpoint=False)
    shifted = bits >> random.integers(0, 64, bits.size, np.uint64)
    ties = [
        (1 << k) + (1 << max(k - j, 0)) + d
        for k in range(width)
        for j in (8, 9, 12)
        for d in (-1, 0, 1)
    ]
    all_bits = np.concatenate([shifted, np.array([tie % 2**64 for tie in ties], np.uint64)])
    values = np.concatenate([all_bits, ~all_bits]).astype(numpy_dtype(integer))
    got = run(build.cast(load(0, integer), small), [values], EMULATING)
    want = semantics.apply(Ops.CAST, small, [values], [integer])
    assert same(got, want)


@pytest.mark.table
@pytest.mark.parametrize("exponent", [24, 32, 38, 39, 53, 54, 62])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_of_every_size_next_to_a_tie_of_bfloat16(exponent: int, sign: int) -> None:
    # Halfway between two neighbours, the lower one even, and one bit next to it.
    tie, step = (1 << exponent) + (1 << exponent - 8), 1 << exponent - 7
    values = np.array([sign * (tie + beside) for beside in (-1, 0, 1)], np.int64)
    got = run(build.cast(load(0, dtypes.int64), dtypes.bfloat16), [values], EMULATING)
    want = [sign * float(1 << exponent)] * 2 + [sign * float((1 << exponent) + step)]
    assert got.astype(np.float64).tolist() == want


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_that_is_large_on_one_side_of_zero_alone(sign: int) -> None:
    value = load(0, dtypes.int32)
    is_kept = build.less(value, 0) if sign < 0 else build.less(0, value)
    # A tie and one more, which float32 loses; and a number that keeps its low bits.
    values = np.array([sign * (2**30 + 2**22 + 1), sign * 77, -sign], np.int32)
    got = run(build.cast(build.where(is_kept, value, 0), dtypes.bfloat16), [values], EMULATING)
    assert got.astype(np.float64).tolist() == [sign * (2**30 + 2**23), sign * 77, 0]


@pytest.mark.table
@pytest.mark.sampled(5)
@pytest.mark.parametrize("small", SMALL_FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("target", [*WIDE_TYPES, *SMALL_FLOATS], ids=lambda dtype: dtype.name)
def test_small_floats_cast_to_every_type(small: DType, target: DType) -> None:
    encodings = every(small)
    got = run(build.cast(load(0, small), target), [encodings], EMULATING)
    want = semantics.apply(Ops.CAST, target, [encodings], [small])
    assert same(got, want)


def pairs(dtype: DType) -> list[Array]:
    """Random pairs of encodings, and pairs of nearby exponents, where sums are hard."""
    random = np.random.default_rng(4)
    x = random.integers(0, 1 << 16, 200_000).astype(np.uint16)
    y = random.integers(0, 1 << 16, 200_000).astype(np.uint16)
    y[::2] = x[::2] ^ random.integers(0, 1 << 12, y[::2].size).astype(np.uint16)
    return [x.view(numpy_dtype(dtype)), y.view(numpy_dtype(dtype))]


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", [Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV])
def test_emulated_arithmetic_is_correctly_rounded(dtype: DType, op: Ops) -> None:
    inputs = pairs(dtype)
    got = run(build.binary(op, load(0, dtype), load(1, dtype)), inputs, EMULATING)
    with np.errstate(all="ignore"):
        wide = semantics.apply(op, dtypes.float64, [x.astype(np.float64) for x in inputs])
    # Exact in float64 except for the quotient, whose float64 is never near enough a tie to matter.
    assert same(got, narrow_float64(wide, dtype))


@pytest.mark.table
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", [Ops.NEG, Ops.RECIP, Ops.SQRT, Ops.TRUNC])
def test_emulated_unary_ops_on_every_encoding(dtype: DType, op: Ops) -> None:
    values = every(dtype)
    got = run(build.unary(op, load(0, dtype)), [values], EMULATING)
    assert same(got, semantics.apply(op, dtype, [values]))


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.name)
def test_emulated_multiply_accumulate_rounds_twice(dtype: DType) -> None:
    x, y = pairs(dtype)
    inputs = [x, y, np.roll(x, 7)]
    operands = tuple(load(slot, dtype) for slot in range(3))
    for ops in (EMULATING.ops, EMULATING.ops | {"MULACC"}):
        device = dataclasses.replace(EMULATING, ops=ops)
        got = run(UOp(Ops.MULACC, dtype, operands), inputs, device)
        assert same(got, semantics.apply(Ops.MULACC, dtype, inputs))


def test_copies_and_selects_keep_the_bits_of_a_nan() -> None:
    values = np.array([0x7C01, 0xFE55, 0x7FFF], np.uint16).view(np.float16)
    x = load(0, dtypes.float16)
    select = build.where(build.not_equal(load(1, dtypes.bool), True), 1.0, x)
    got = evaluate(decomposed(select, EMULATING), [values, np.array([True] * 3)])
    assert got.tolist() == [0x7C01, 0xFE55, 0x7FFF]


def test_emulation_keeps_the_structure_of_memory_and_loops() -> None:
    half = dtypes.float16
    loop = build.counter(8, 0, AxisKind.REDUCE)
    memory = build.define_global(1, half, 8)
    gate = build.less(loop, 5)
    value = build.load(build.index(memory, loop), gate, 1.5)
    largest = build.accumulator("acc", build.const(half, -np.inf), loop)
    update = build.update(largest, build.maximum(largest, value))
    lanes = build.vectorize(value, update)
    out = build.define_global(0, half, 2)
    store = build.store(build.index(out, build.const(dtypes.index, 0)), lanes, gate)
    root = decompose(build.sink(store), EMULATING)
    nodes = root.toposort()
    assert not [node for node in nodes if node.dtype.scalar is half]
    globals_ = [node.dtype for node in nodes if node.op is Ops.DEFINE_GLOBAL]
    assert set(globals_) == {pointer(dtypes.uint16, 2), pointer(dtypes.uint16, 8)}
    (new_load,) = [node for node in nodes if node.op is Ops.LOAD]
    assert new_load.src[1] is build.const(dtypes.uint16, 0x3E00)
    (accumulator,) = [node for node in nodes if node.op is Ops.DEFINE_ACC]
    assert accumulator.src[0] is build.const(dtypes.uint16, 0xFC00)
    assert root.src[0].src[1].dtype is dtypes.uint16.vec(2)


def test_a_reduce_is_an_accumulator_before_its_type_is_emulated() -> None:
    value = build.const(dtypes.float16, 1.5)
    total = build.reduce_over(Ops.ADD, value, build.counter(8, 0, AxisKind.REDUCE))
    with pytest.raises(UserError, match="REDUCE of float16: this type is only emulated here"):
        decompose(total, EMULATING)


def test_a_kernel_without_small_floats_stays_as_it_is() -> None:
    store = build.store(
        build.index(build.define_global(0, dtypes.float32, 1), build.const(dtypes.index, 0)),
        build.add(load(1, dtypes.float32), 1.0),
    )
    assert decompose(build.sink(store), EMULATING) is build.sink(store)


# Divisions

TRAPPING = dataclasses.replace(EMULATING, division_traps=True)


@pytest.mark.table
@pytest.mark.parametrize("dtype", dtypes.ints, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", [Ops.IDIV, Ops.MOD])
def test_guarded_divisions_keep_their_semantics(dtype: DType, op: Ops) -> None:
    low, high = int(dtype.minimum), int(dtype.maximum)
    edges = np.array([low, low + 1, -1 if low else 1, 0, 1, 2, 7, high], numpy_dtype(dtype))
    x, y = (side.ravel() for side in np.meshgrid(edges, edges))
    division = build.binary(op, load(0, dtype), load(1, dtype))
    assert same(run(division, [x, y], TRAPPING), semantics.apply(op, dtype, [x, y]))
    divisors = [n.src[1] for n in decomposed(division, TRAPPING).toposort() if n.op is op]
    safe = evaluate(divisors[0], [x, y])
    assert not (safe == 0).any()
    assert not ((safe == -1) & (x == low) & (low < 0)).any()


def test_divisions_that_cannot_trap_get_no_guard() -> None:
    x = load(0, dtypes.int32)
    for divisor in (build.const(dtypes.int32, 7), build.const(dtypes.int32, -2)):
        division = build.idiv(x, divisor)
        assert decomposed(division, TRAPPING) is division
    small = build.both(x, 255)
    assert decomposed(build.mod(small, -1), TRAPPING) is build.mod(small, -1)
    guarded = decomposed(build.idiv(x, -1), TRAPPING)
    assert guarded is not build.idiv(x, -1)
    division = build.idiv(x, load(1, dtypes.int32))
    assert decomposed(division, EMULATING) is division


# Ops that are missing


def without(*ops: Ops, types: frozenset[DType] = WIDE) -> Capabilities:
    return Capabilities(types, ALL_OPS - {op.name for op in ops})


def specials(dtype: DType) -> Array:
    if not dtype.is_float:
        low, high = int(dtype.minimum), int(dtype.maximum)
        return np.array([low, low + 1, 0, 1, 2, 77, high - 1, high], numpy_dtype(dtype))
    edges = [0.0, 0.3, 0.5, 1.0, 1.7, 8388607.5, 2.0**31, 2.0**52 + 1, 1e30, 1e-40, np.inf]
    return np.array([*edges, *(-edge for edge in edges), np.nan], numpy_dtype(dtype))


@pytest.mark.table
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *itertools.product((Ops.NEG, Ops.SUB, Ops.MULACC, Ops.MAX), (*dtypes.ints, *WIDE_FLOATS)),
        *itertools.product((Ops.TRUNC, Ops.RECIP), WIDE_FLOATS),
    ],
)
def test_missing_ops_become_core_ops(op: Ops, dtype: DType) -> None:
    count = {Ops.SUB: 2, Ops.MAX: 2, Ops.MULACC: 3}.get(op, 1)
    mesh = np.meshgrid(*[specials(dtype)] * count)
    inputs = [side.ravel() for side in mesh]
    value = UOp(op, dtype, tuple(load(slot, dtype) for slot in range(count)))
    device = without(op, Ops.SUB, Ops.NEG)
    assert op not in {node.op for node in decomposed(value, device).toposort()}
    got, want = run(value, inputs, device), semantics.apply(op, dtype, inputs)
    if op is Ops.MAX and dtype.is_float:
        unowed = np.isnan(inputs[0]) | np.isnan(inputs[1]) | (inputs[0] == 0) & (inputs[1] == 0)
        got, want = np.where(unowed, 0, got), np.where(unowed, 0, want)
    assert same(got, want)


def test_missing_truncation_of_small_floats() -> None:
    x = every(dtypes.float16)
    emulated = dataclasses.replace(EMULATING, ops=EMULATING.ops - {"TRUNC"})
    native = without(Ops.TRUNC, types=WIDE | {dtypes.float16})
    for device in (emulated, native):
        got = run(build.unary(Ops.TRUNC, load(0, dtypes.float16)), [x], device)
        with np.errstate(invalid="ignore"):
            assert same(got, np.trunc(x))


# Refusals


def refusal(value: UOp, capabilities: Capabilities) -> str:
    with pytest.raises(UserError) as caught:
        decomposed(value, capabilities)
    return str(caught.value)


def test_an_undeclared_type_is_refused_by_name() -> None:
    message = refusal(build.add(load(0, dtypes.float64), 1.0), CORE)
    assert "the device has no float64: accepted are bool, int32, uint32, float32" in message
    assert "no bfloat16" in refusal(load(0, dtypes.bfloat16), CORE)


def test_an_op_without_a_decomposition_is_refused_by_name() -> None:
    device = dataclasses.replace(CORE, ops=CORE_OPS - {"XOR"})
    value = build.binary(Ops.XOR, load(0, dtypes.int32), load(1, dtypes.int32))
    message = refusal(value, device)
    assert message.startswith("XOR of int32: the device has no such op")
    assert "accepted are ADD, AND, BITCAST" in message


def test_fragments_of_a_declared_tile_are_vectors_that_the_device_has() -> None:
    tile = TILES["nvidia_m16n8k16_float16_float32"]
    types = CORE.dtypes | {dtypes.float16}
    scalar = dataclasses.replace(CORE, dtypes=types, vector_lanes=(1,))
    product = UOp(
        Ops.WMMA,
        tile.fragment(Operand.C),
        tuple(build.const(tile.fragment(operand), 1) for operand in Operand),
        TileArg(tile),
    )
    assert "float16x8: the device has no vectors" in refusal(build.gep(product, 0), scalar)
    declared = dataclasses.replace(scalar, matrix_tiles=(tile,))
    # float16x8 of A, float16x4 of B and float32x4 of C, but no other of these widths.
    assert product in decomposed(build.gep(product, 0), declared).toposort()
    assert "no vectors of 8 lanes" in refusal(build.const(dtypes.float32.vec(8), 1), declared)


def test_local_memory_of_small_floats_keeps_its_space() -> None:
    grouped = dataclasses.replace(EMULATING, has_groups=True)
    local = build.define_local("shared", dtypes.bfloat16, 4)
    value = build.load(build.index(local, build.const(dtypes.index, 0)))
    nodes = decomposed(value, grouped).toposort()
    assert pointer(dtypes.uint16, 4, AddressSpace.LOCAL) in {node.dtype for node in nodes}


def test_deep_graphs_need_no_recursion() -> None:
    value = load(0, dtypes.bfloat16)
    for _ in range(3000):
        value = UOp(Ops.NEG, dtypes.bfloat16, (value,))
    assert len(decomposed(value, EMULATING).toposort()) > 3000


# Vectors


def lanes_of(value: Array) -> Array:
    return value.reshape(4, -1)


def vector_load(slot: int, dtype: DType) -> UOp:
    memory = build.define_global(slot, dtype, 1 << 20)
    return build.load(build.index(memory, build.const(dtypes.index, 0)), lanes=4)


FLOAT_OPS = (
    *((op, 1) for op in (Ops.NEG, Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.EXP2, Ops.LOG2, Ops.SIN)),
    *((op, 2) for op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.POW)),
    *((op, 2) for op in (Ops.CMPLT, Ops.CMPNE)),
    (Ops.MULACC, 3),
)
BARE = Capabilities(WIDE, CORE_OPS, frozenset(SMALL_FLOATS), (1, 2, 4))


@pytest.mark.table
@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("device", [EMULATING, BARE], ids=["emulating", "bare"])
@pytest.mark.parametrize(("op", "count"), FLOAT_OPS)
def test_every_op_takes_vectors_of_small_floats(
    op: Ops, count: int, dtype: DType, device: Capabilities
) -> None:
    random = np.random.default_rng(5)
    inputs = [random.integers(0, 1 << 16, 512).astype(np.uint16) for _ in range(count)]
    inputs = [x.view(numpy_dtype(dtype)) for x in inputs]
    result = dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else dtype
    scalars = tuple(load(slot, dtype) for slot in range(count))
    want = run(UOp(op, result, scalars), inputs, device)
    vectors = tuple(vector_load(slot, dtype) for slot in range(count))
    value = UOp(op, result.vec(4), vectors)
    got = run(value, [lanes_of(x) for x in inputs], device)
    assert same(got.ravel(), want)
    assert {node.dtype.lanes for node in decomposed(value, device).toposort()} <= {1, 4}


@pytest.mark.table
@pytest.mark.sampled(5)
@pytest.mark.parametrize("small", SMALL_FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("other", [*WIDE_TYPES, *SMALL_FLOATS], ids=lambda dtype: dtype.name)
def test_casts_take_vectors_of_small_floats(small: DType, other: DType) -> None:
    for have, want in ((small, other), (other, small)):
        if have.is_bool:
            values = np.arange(64) % 2 == 0
        else:
            values = np.arange(256).astype(np.uint8 if have.itemsize == 1 else np.int16)
            wide = values.astype(numpy_dtype(have)) if have.itemsize > 2 else values
            values = wide.view(numpy_dtype(have)) if wide.dtype.itemsize == have.itemsize else wide
        scalar = run(build.cast(load(0, have), want), [values], EMULATING)
        vector = build.cast(vector_load(0, have), want)
        assert same(run(vector, [lanes_of(values)], EMULATING).ravel(), scalar)


def test_selects_and_bits_of_vectors_of_small_floats() -> None:
    values = every(dtypes.bfloat16)
    flags = np.arange(values.size) % 3 == 0
    x = vector_load(0, dtypes.bfloat16)
    chosen = build.where(vector_load(1, dtypes.bool), x, 1.5)
    got = run(chosen, [lanes_of(values), lanes_of(flags)], EMULATING)
    want = np.where(flags, values, np.array(1.5, values.dtype))
    assert same(got.ravel(), want)
    bits = build.bitcast(x, dtypes.int16)
    assert (run(bits, [lanes_of(values)], EMULATING).ravel() == values.view(np.int16)).all()
