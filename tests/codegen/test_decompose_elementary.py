"""EXP2, LOG2, SIN, POW, FDIV and SQRT of basic operations: special cases, errors, sizes, lanes.

The largest errors seen, in ULPs of float32 and of float64: EXP2 1.07 and 1.05, LOG2 1.10 and 1.25,
SIN 1.86 and 1.30, POW 1.16 and 1.04. Those of float32 but POW are of every fifth float there is,
those of float64 of some ten thousand where they are largest; every 16-bit result is within 0.51.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from decomposed import (
    Array,
    decomposed,
    double_ulps,
    edges,
    evaluate,
    every,
    load,
    random_bits,
    run,
    same,
    size,
    small_ulps,
    ulps,
)

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.codegen.decompose import SMALL_FLOATS, polynomials
from tinyref.codegen.decompose.elementary import two_over_pi
from tinyref.codegen.decompose.formats import FLOAT32, FLOAT64
from tinyref.config import Context
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops

ELEMENTARY = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW)
WIDE = frozenset({dtypes.bool, *dtypes.ints, dtypes.float32, dtypes.float64})
BASIC_OPS = frozenset(op.name for op in ALU if op not in ELEMENTARY) | {"LOAD", "STORE"}
BASIC = Capabilities(WIDE, BASIC_OPS, frozenset(SMALL_FLOATS), (1, 2, 4, 8, 16))
BARE = dataclasses.replace(BASIC, ops=BASIC_OPS - {"FDIV", "RECIP", "SQRT"})
HALVES = dataclasses.replace(BARE, dtypes=WIDE | {dtypes.float16, dtypes.bfloat16})
# The core has no type of 64 bits, so that products of words are made of halves.
CORE = Capabilities(CORE_DTYPES, CORE_OPS | {"SUB", "FDIV"})
LEAST = Capabilities(CORE_DTYPES, CORE_OPS)

NUMPY: dict[Ops, Callable[..., Array]] = {
    Ops.EXP2: np.exp2,
    Ops.LOG2: np.log2,
    Ops.SIN: np.sin,
    Ops.POW: np.power,
    Ops.SQRT: np.sqrt,
    Ops.RECIP: np.reciprocal,
}
LIMITS = {
    Ops.EXP2: (1.1, 1.1),
    Ops.LOG2: (1.1, 1.1),
    Ops.SIN: (1.9, 1.7),
    Ops.POW: (1.3, 1.1),
}


def call(op: Ops, dtype: DType, lanes: int = 1) -> UOp:
    count = 2 if op in (Ops.POW, Ops.FDIV) else 1
    sources = tuple(load(slot, dtype, lanes) for slot in range(count))
    return UOp(op, dtype.vec(lanes), sources)


def reference(op: Ops, inputs: list[Array]) -> Array:
    """Return the values in float64: right to a few of its ULPs, so to 2^-28 of float32's."""
    with np.errstate(all="ignore"):
        return NUMPY[op](*(x.astype(np.float64) for x in inputs))


def samples(op: Ops, count: int) -> list[Array]:
    """Random bits, edges, and where the function is neither 0 nor infinite."""
    random = np.random.default_rng(7)
    anything = [random_bits(dtypes.float32, count, 1), edges(dtypes.float32)]
    if op is Ops.EXP2:
        usual = [random.uniform(-151, 129, count), random.uniform(-1, 1, count)]
    elif op is Ops.LOG2:
        usual = [random.uniform(0.5, 2, count), 1 + random.uniform(-1, 1, count) * 1e-4]
    else:
        near_zeros = np.arange(1, count) * (np.pi / 2)
        usual = [random.uniform(-4, 4, count), near_zeros]
    return [single(*anything, *usual)]


def single(*parts: Array) -> Array:
    """Join the parts in one array of float32; NaNs with a payload must not warn."""
    with np.errstate(invalid="ignore"):
        return np.concatenate(parts).astype(np.float32)


def power_samples(count: int) -> list[Array]:
    random = np.random.default_rng(8)
    x = [random_bits(dtypes.float32, count, 1), np.abs(random_bits(dtypes.float32, count, 2))]
    x += [random.uniform(0.9, 1.1, count)]
    y = [random_bits(dtypes.float32, count, 3), random.uniform(-5, 5, count)]
    y += [random.uniform(-1000, 1000, count)]
    ends = edges(dtypes.float32)[::7]
    wholes = np.array([3, -3, 2.0**23 + 1, -(2.0**23 + 1), 2.0**24 + 2, 2.0**23 - 0.5], np.float32)
    mesh = np.meshgrid(np.concatenate([ends, wholes, -wholes]), np.concatenate([ends, wholes]))
    return [
        single(*x, mesh[0].ravel()),
        single(*y, mesh[1].ravel()),
    ]


def inputs_of(op: Ops, count: int) -> list[Array]:
    return power_samples(count) if op is Ops.POW else samples(op, count)


# Values


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", ELEMENTARY)
def test_float32_is_within_its_limit(op: Ops) -> None:
    inputs = inputs_of(op, 100_000)
    got = run(call(op, dtypes.float32), inputs, BASIC)
    want = reference(op, inputs)
    assert float(ulps(got, want).max()) <= LIMITS[op][0]
    # A zero has the sign of the reference too.
    zeros = (got == 0) & (want == 0)
    assert (np.signbit(got[zeros]) == np.signbit(want[zeros])).all()


def double_samples(op: Ops) -> list[Array]:
    random = np.random.default_rng(9)
    anything = random_bits(dtypes.float64, 400, 10)
    anything = anything[np.isfinite(anything)]
    if op is Ops.EXP2:
        return [np.concatenate([random.uniform(-1075, 1024, 800), random.uniform(-1, 1, 400)])]
    if op is Ops.LOG2:
        near = [random.uniform(0.5, 2, 300), 1 + random.uniform(-1, 1, 300) * 1e-8]
        return [np.concatenate([np.abs(anything), *near, np.array([5e-324, 1e-310])])]
    if op is Ops.SIN:
        # The double nearest to a multiple of pi / 2: Kahan, "Minimizing q*m-n", 1983.
        hard = 6381956970095103 * 2.0 ** np.arange(797, 801)
        near = [random.uniform(-4, 4, 300), np.arange(1, 300) * (np.pi / 2), hard]
        return [np.concatenate([anything, *near, np.array([1.7976931348623157e308])])]
    x = [np.abs(anything), random.uniform(0.5, 2, 300), random.uniform(0.99, 1.01, 300)]
    y = [random.uniform(-3, 3, anything.size), random.uniform(-1000, 1000, 300)]
    y += [random.uniform(-70000, 70000, 300)]
    return [np.concatenate(x), np.concatenate(y)]


EXACT: dict[Ops, Callable[..., mpmath.mpf]] = {
    Ops.EXP2: lambda x: mpmath.power(2, x),
    Ops.LOG2: lambda x: mpmath.log(x, 2),
    Ops.POW: mpmath.power,
}


def exact_sine(x: mpmath.mpf) -> mpmath.mpf:
    with mpmath.workdps(400):
        return mpmath.sin(x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", ELEMENTARY)
def test_float64_is_within_its_limit(op: Ops) -> None:
    inputs = double_samples(op)
    got = run(call(op, dtypes.float64), inputs, BASIC)
    errors = double_ulps(got, EXACT.get(op, exact_sine), *inputs)
    assert float(errors.max()) <= LIMITS[op][1]


@pytest.mark.parametrize(
    ("op", "limit"),
    [(Ops.EXP2, 0.51), (Ops.LOG2, 0.51), (Ops.SIN, 0.51), (Ops.SQRT, 0.5), (Ops.RECIP, 0.5)],
)
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("device", [BARE, HALVES], ids=["emulated", "native"])
def test_every_16_bit_value(op: Ops, limit: float, dtype: DType, device: Capabilities) -> None:
    values = every(dtype)
    got = run(call(op, dtype), [values], device)
    errors = small_ulps(got, reference(op, [values]), dtype)
    assert float(errors.max()) <= limit


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.name)
def test_16_bit_powers(dtype: DType) -> None:
    random = np.random.default_rng(11)
    x, y = (random.integers(0, 1 << 16, 200_000).astype(np.uint16) for _ in range(2))
    inputs = [x.view(numpy_dtype(dtype)), y.view(numpy_dtype(dtype))]
    got = run(call(Ops.POW, dtype), inputs, BASIC)
    assert float(small_ulps(got, reference(Ops.POW, inputs), dtype).max()) <= 0.51


# The same bits everywhere


@pytest.mark.parametrize("op", ELEMENTARY)
def test_products_of_half_words_give_the_same_bits(op: Ops) -> None:
    inputs = inputs_of(op, 20_000)
    value = call(op, dtypes.float32)
    ops = {node.op.name for node in decomposed(value, CORE).toposort() if node.op in ALU}
    assert ops <= CORE.ops
    assert same(run(value, inputs, CORE), run(value, inputs, BASIC))


@pytest.mark.parametrize("op", [*ELEMENTARY, Ops.FDIV, Ops.SQRT])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda dtype: dtype.name)
def test_lanes_of_vectors_are_scalars(op: Ops, dtype: DType) -> None:
    value = call(op, dtype, 4)
    inputs = [random_bits(dtype, 4000, slot).reshape(4, -1) for slot in range(len(value.src))]
    vector = run(value, inputs, BARE)
    for lane in range(4):
        scalar = run(call(op, dtype), [x[lane] for x in inputs], BARE)
        assert same(vector[lane], scalar)


# Choice


def test_an_op_of_the_device_stays_unless_the_flag_decomposes_it() -> None:
    has_all = dataclasses.replace(BASIC, ops=BASIC.ops | {op.name for op in ELEMENTARY})
    for op in ELEMENTARY:
        value = call(op, dtypes.float32)
        assert decomposed(value, has_all) is value
        with Context(TRANSCENDENTAL=1):
            assert decomposed(value, has_all) is decomposed(value, BASIC)


def test_float64_functions_need_the_words_of_float64() -> None:
    types = CORE_DTYPES | {dtypes.float64}
    device = dataclasses.replace(CORE, dtypes=types)
    with pytest.raises(UserError, match="SIN of float64: the device has no such op"):
        decomposed(call(Ops.SIN, dtypes.float64), device)


@pytest.mark.parametrize(
    ("op", "most"), [(Ops.EXP2, 30), (Ops.LOG2, 44), (Ops.SIN, 115), (Ops.POW, 256)]
)
def test_sizes_stay_what_they_are(op: Ops, most: int) -> None:
    assert size(decomposed(call(op, dtypes.float32), BASIC)) <= most


INF, NAN = float("inf"), float("nan")


@pytest.mark.table
@pytest.mark.parametrize(
    ("op", "dtype", "inputs", "results"),
    [
        # The smallest subnormal, the largest, the smallest normal.
        (Ops.LOG2, dtypes.float32, [2.0**-149, 2.0**-127, 2.0**-126], [-149, -127, -126]),
        (Ops.LOG2, dtypes.float64, [2.0**-1074, 2.0**-1023, 2.0**-1022], [-1074, -1023, -1022]),
        (Ops.LOG2, dtypes.float32, [1, 2, 0, -1, INF, NAN], [0, 1, -INF, NAN, INF, NAN]),
        (Ops.LOG2, dtypes.float16, [2.0**-24, 2.0**15, 0], [-24, 15, -INF]),
        (Ops.EXP2, dtypes.float32, [-149, -126, 127, 128], [2.0**-149, 2.0**-126, 2.0**127, INF]),
        (Ops.EXP2, dtypes.float32, [-151, -INF, INF, NAN], [0, 0, INF, NAN]),
        (Ops.EXP2, dtypes.float64, [-1074, -1022, 1023], [2.0**-1074, 2.0**-1022, 2.0**1023]),
        (Ops.EXP2, dtypes.float64, [-1076, 1024, 128], [0, INF, 2.0**128]),
        (Ops.EXP2, dtypes.float16, [-24, 15, 16], [2.0**-24, 2.0**15, INF]),
        (Ops.SIN, dtypes.float32, [0, 2.0**-149, INF, NAN], [0, 2.0**-149, NAN, NAN]),
        (Ops.SIN, dtypes.float64, [0, 2.0**-1074, -INF], [0, 2.0**-1074, NAN]),
    ],
)
def test_values_that_are_exact(
    op: Ops, dtype: DType, inputs: list[float], results: list[float]
) -> None:
    got = run(call(op, dtype), [np.array(inputs, numpy_dtype(dtype))], BASIC)
    assert np.array_equal(got, np.array(results, numpy_dtype(dtype)), equal_nan=True)


# Constants


def test_constants_are_those_of_mpmath() -> None:
    bits = polynomials.TWO_OVER_PI_BITS
    with mpmath.workprec(bits + 64):
        assert int(mpmath.floor(mpmath.ldexp(2 / mpmath.pi, bits))) == polynomials.TWO_OVER_PI
    # 2/pi = 0.A2F9836E 4E441529 FC2757D1 ...: Payne and Hanek's digits.
    assert polynomials.TWO_OVER_PI >> (bits - 96) == 0xA2F9836E4E441529FC2757D1
    # The first word has 24 zeros before the point, the second one starts with the bit 2^-9.
    assert two_over_pi(FLOAT32)[1] == (polynomials.TWO_OVER_PI >> (bits - 32 - 8)) & 0xFFFFFFFF
    assert len(two_over_pi(FLOAT64)) * 64 <= bits
    for dtype, digits in ((dtypes.float32, 12), (dtypes.float64, 26)):
        high, low = polynomials.PI[dtype]
        assert math.frexp(high)[0] * 2**digits == int(math.frexp(high)[0] * 2**digits)
        with mpmath.workdps(50):
            assert abs(mpmath.pi - high - low) < mpmath.mpf(2) ** -(digits + dtype.mantissa_bits)
            for split, value in (
                (polynomials.THIRD, mpmath.mpf(1) / 3),
                (polynomials.TWO_OVER_LN_2, 2 / mpmath.log(2)),
            ):
                first, second = split[dtype]
                assert abs(value - first - second) < mpmath.mpf(2) ** -(2 * dtype.mantissa_bits)


def test_sines_where_floats_are_reassociated() -> None:
    device = dataclasses.replace(BASIC, reassociates_floats=True)
    inputs = samples(Ops.SIN, 50_000)
    inputs = [np.concatenate([inputs[0], np.linspace(0.7, 2.1, 20_000, dtype=np.float32)])]
    got = run(call(Ops.SIN, dtypes.float32), inputs, device)
    assert float(ulps(got, reference(Ops.SIN, inputs)).max()) <= LIMITS[Ops.SIN][0]


# FDIV, RECIP and SQRT: the bits of IEEE 754 division and roots

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
    got = run(call(Ops.FDIV, dtype), [x, y], BARE)
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
    got = run(call(Ops.RECIP, dtype), [x], BARE)
    with np.errstate(all="ignore"):
        assert same(got, numpy_dtype(dtype).type(1) / x)


@FORMATS
def test_roots_are_correctly_rounded(dtype: DType) -> None:
    kind = numpy_dtype(dtype).type
    y = np.random.default_rng(5).uniform(1, 2, 50_000).astype(kind)
    near = [np.nextafter(y * y, kind(9)), np.nextafter(y * y, kind(0))]
    x = np.concatenate([random_bits(dtype, 100_000, 6), edges(dtype), y * y, *near])
    got = run(call(Ops.SQRT, dtype), [x], BARE)
    with np.errstate(all="ignore"):
        assert same(got, np.sqrt(x))


@pytest.mark.slow
def test_every_float32_root_of_two_octaves() -> None:
    """Test two octaves: all other numbers differ from these by a power of four."""
    x = np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(np.float32)
    assert same(run(call(Ops.SQRT, dtypes.float32), [x], BARE), np.sqrt(x))


@pytest.mark.parametrize("op", [Ops.FDIV, Ops.SQRT])
def test_the_core_is_enough_for_float32(op: Ops) -> None:
    x, y = quotient_samples(dtypes.float32)
    value = decomposed(call(op, dtypes.float32), LEAST)
    assert {node.op.name for node in value.toposort() if node.op in ALU} <= CORE_OPS
    assert {node.dtype for node in value.toposort() if node.op in ALU} <= CORE_DTYPES
    with np.errstate(all="ignore"):
        want = x / y if op is Ops.FDIV else np.sqrt(x)
    assert same(evaluate(value, [x, y]), want)


def test_floats_that_are_not_strict_divide_by_the_reciprocal_that_there_is() -> None:
    device = dataclasses.replace(BARE, ops=BARE.ops | {"RECIP"})
    value = call(Ops.FDIV, dtypes.float32)
    exact = {node.op for node in decomposed(value, device).toposort()}
    assert not {Ops.RECIP, Ops.FDIV} & exact
    with Context(STRICT_FLOAT=0):
        ops = {node.op for node in decomposed(value, device).toposort()}
    assert Ops.RECIP in ops
    assert Ops.FDIV not in ops
