"""FDIV, RECIP and SQRT of basic operations: the bits of IEEE 754 division and roots."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from decomposed import Array, decomposed, edges, evaluate, every, load, random_bits, run, same

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.codegen.decompose import SMALL_FLOATS, elementary
from tinyref.config import Context
from tinyref.dtype import DType, dtypes, narrow_float64, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops

ROUNDED = frozenset({"FDIV", "RECIP", "SQRT"})
WIDE = frozenset({dtypes.bool, *dtypes.ints, dtypes.float32, dtypes.float64})
OPS = frozenset(op.name for op in ALU) - ROUNDED | {"LOAD", "STORE"}
BARE = Capabilities(WIDE, OPS, frozenset(SMALL_FLOATS), (1, 2, 4))
CORE = Capabilities(CORE_DTYPES, CORE_OPS)
FORMATS = pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.float64], ids=lambda dtype: dtype.name
)


def quotient_samples(dtype: DType) -> tuple[Array, Array]:
    """Random bits, all pairs of edges, and quotients that lie next to ties and to floats."""
    kind = numpy_dtype(dtype).type
    random = np.random.default_rng(1)
    x, y = (random.uniform(0.5, 4, 60_000).astype(kind) for _ in range(2))
    ends = np.meshgrid(edges(dtype)[::7], edges(dtype)[::5])
    with np.errstate(all="ignore"):
        products = [x * y, np.nextafter(x * y, kind(9)), np.nextafter(x * y, kind(0))]
        tiny = [x * y * kind(np.finfo(kind).tiny)]
    left = [random_bits(dtype, 100_000, 2), x, ends[0].ravel(), *products, *tiny]
    right = [random_bits(dtype, 100_000, 3), y, ends[1].ravel(), y, y, y, y]
    return np.concatenate(left), np.concatenate(right)


@pytest.mark.sampled(2)
@FORMATS
def test_quotients_are_correctly_rounded(dtype: DType) -> None:
    x, y = quotient_samples(dtype)
    got = run(build.binary(Ops.FDIV, load(0, dtype), load(1, dtype)), [x, y], BARE)
    with np.errstate(all="ignore"):
        want = x / y
    assert same(got, want)
    # The samples have what is hard: subnormal results, overflow, and every special case.
    size = np.abs(want)
    assert ((size > 0) & (size < np.finfo(size.dtype).tiny)).sum() > 1000
    assert np.isinf(want).sum() > 100
    assert np.isnan(want).sum() > 10


@FORMATS
def test_reciprocals_are_correctly_rounded(dtype: DType) -> None:
    x = np.concatenate([random_bits(dtype, 100_000, 4), edges(dtype)])
    got = run(build.unary(Ops.RECIP, load(0, dtype)), [x], BARE)
    with np.errstate(all="ignore"):
        assert same(got, numpy_dtype(dtype).type(1) / x)


@FORMATS
def test_roots_are_correctly_rounded(dtype: DType) -> None:
    kind = numpy_dtype(dtype).type
    y = np.random.default_rng(5).uniform(1, 2, 50_000).astype(kind)
    near = [np.nextafter(y * y, kind(9)), np.nextafter(y * y, kind(0))]
    x = np.concatenate([random_bits(dtype, 100_000, 6), edges(dtype), y * y, *near])
    got = run(build.unary(Ops.SQRT, load(0, dtype)), [x], BARE)
    with np.errstate(all="ignore"):
        assert same(got, np.sqrt(x))


@pytest.mark.slow
def test_every_float32_root_of_two_octaves() -> None:
    """The others differ from these by a power of four."""
    x = np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(np.float32)
    assert same(run(build.unary(Ops.SQRT, load(0, dtypes.float32)), [x], BARE), np.sqrt(x))


@pytest.mark.parametrize("op", [Ops.FDIV, Ops.SQRT])
def test_the_core_is_enough_for_float32(op: Ops) -> None:
    x, y = quotient_samples(dtypes.float32)
    sources = (load(0, dtypes.float32), load(1, dtypes.float32))[: 2 if op is Ops.FDIV else 1]
    value = decomposed(UOp(op, dtypes.float32, sources), CORE)
    assert {node.op.name for node in value.toposort() if node.op in ALU} <= CORE_OPS
    assert {node.dtype for node in value.toposort() if node.op in ALU} <= CORE_DTYPES
    with np.errstate(all="ignore"):
        want = x / y if op is Ops.FDIV else np.sqrt(x)
    assert same(evaluate(value, [x, y]), want)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", [Ops.RECIP, Ops.SQRT])
def test_every_16_bit_value(op: Ops, dtype: DType) -> None:
    values = every(dtype)
    got = run(build.unary(op, load(0, dtype)), [values], BARE)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        want = narrow_float64(np.sqrt(wide) if op is Ops.SQRT else 1 / wide, dtype)
    assert same(got, want)


@pytest.mark.parametrize(
    "dtype", [dtypes.float16, dtypes.float32, dtypes.float64], ids=lambda dtype: dtype.name
)
def test_lanes_of_vectors_are_scalars(dtype: DType) -> None:
    x, y = (random_bits(dtype, 4000, seed).reshape(4, -1) for seed in (7, 8))
    for op in (Ops.FDIV, Ops.SQRT):
        count = 2 if op is Ops.FDIV else 1
        sources = tuple(load(slot, dtype, 4) for slot in range(count))
        vector = run(UOp(op, dtype.vec(4), sources), [x, y], BARE)
        for lane in range(4):
            sources = tuple(load(slot, dtype) for slot in range(count))
            scalar = run(UOp(op, dtype, sources), [x[lane], y[lane]], BARE)
            assert same(vector[lane], scalar)


def test_floats_that_are_not_strict_divide_by_the_reciprocal_that_there_is() -> None:
    device = dataclasses.replace(BARE, ops=OPS | {"RECIP"})
    value = build.binary(Ops.FDIV, load(0, dtypes.float32), load(1, dtypes.float32))
    exact = {node.op for node in decomposed(value, device).toposort()}
    assert not {Ops.RECIP, Ops.FDIV} & exact
    with Context(STRICT_FLOAT=0):
        ops = {node.op for node in decomposed(value, device).toposort()}
    assert Ops.RECIP in ops
    assert Ops.FDIV not in ops


def test_a_remainder_that_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(x: object, y: object) -> UOp:
        return build.const(dtypes.bool, False)

    monkeypatch.setattr(elementary, "not_equal", never)
    x, y = quotient_samples(dtypes.float32)
    value = build.binary(Ops.FDIV, load(0, dtypes.float32), load(1, dtypes.float32))
    got = run(value, [x, y], BARE)
    with np.errstate(all="ignore"):
        assert not same(got, x / y)
