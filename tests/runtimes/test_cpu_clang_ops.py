"""Every op and dtype on the compiled host devices, bit for bit against the op table's meanings."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import DType, Kind, dtypes, numpy_dtype
from tinyref.uops import meanings
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

FLOATS = dtypes.floats
NUMBERS = (*dtypes.ints, *FLOATS)
# Limits of semantics.md for functions that are not correctly rounded.
ULP_LIMITS = {
    Ops.EXP2: (2, 3),
    Ops.LOG2: (2, 3),
    Ops.SIN: (2, 4),
    Ops.POW: (4, 16),
}
RUNNERS = ("CPU", "CLANG gcc", "CLANG clang", "CLANG tcc")


@pytest.fixture(params=RUNNERS)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    name, _, compiler = request.param.partition(" ")
    if compiler and shutil.which(compiler) is None:
        pytest.skip(f"the compiler {compiler} is not installed")
    with Context(CC=compiler):
        yield name


def specials(dtype: DType) -> np.ndarray:
    """Limits, neighbours of limits, and for floats zeros, infinities, NaN and subnormals."""
    if dtype.is_bool:
        return np.array([False, True])
    numpy = numpy_dtype(dtype)
    if not dtype.is_float:
        low, high = int(dtype.minimum), int(dtype.maximum)
        near = {low, low + 1, high - 1, high, high // 2 + 1, high // 3, 0, 1, 2, 3, 5, 7, 100}
        if low < 0:
            near |= {-1, -2, -3, -7, -100, low // 3}
        return np.array(sorted(near), numpy)
    tiny = 2.0 ** (2 - 2 ** (dtype.exponent_bits - 1))
    ulp = 2.0**-dtype.mantissa_bits
    largest = (2 - ulp) * 2.0 ** (2 ** (dtype.exponent_bits - 1) - 1)
    positive = [0.0, 1.0, 1 + ulp, 1 - ulp / 2, 1.5, 0.1, 3.0, 100.7, 255.5, 1e4, np.inf]
    positive += [tiny, tiny * ulp, tiny * (1 - ulp), tiny * (1 + ulp), largest, largest / 2]
    positive += [2.0**15, 2.0**16 if largest > 2.0**16 else 2.0**14]
    both = [*positive, *(-value for value in positive), np.nan]
    with np.errstate(over="ignore"):
        return np.array(both, np.float64).astype(numpy)


def grid(*types: DType) -> list[np.ndarray]:
    """Every combination of the special values, as flat arrays."""
    columns = [specials(dtype) for dtype in types]
    mesh = np.meshgrid(*[np.arange(column.size) for column in columns], indexing="ij")
    return [column[index.ravel()] for column, index in zip(columns, mesh, strict=True)]


def bits(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)


def is_nan(values: np.ndarray) -> np.ndarray:
    return values != values


def distance(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Steps between floats of one type; 0 for two NaNs, huge for one; the zeros are one apart."""
    width = got.dtype.itemsize * 8
    sign = 1 << (width - 1)

    def ordered(values: np.ndarray) -> np.ndarray:
        pattern = bits(values).astype(object)
        return np.where(pattern >= sign, sign - pattern - 1, pattern)

    steps = np.abs(ordered(got) - ordered(want))
    steps = np.where(is_nan(got) & is_nan(want), 0, steps)
    return np.where(is_nan(got) != is_nan(want), 1 << width, steps)


def check(
    got: np.ndarray, want: np.ndarray, owed: np.ndarray, inputs: list[np.ndarray], limit: int = 0
) -> None:
    """`got` is `want` wherever a value is owed: same bits, or at most `limit` steps apart."""
    assert got.dtype == want.dtype
    assert owed.any()
    if want.dtype.kind == "f" or want.dtype.kind == "V":
        wrong = owed & (distance(got, want) > limit)
    else:
        wrong = owed & (bits(got) != bits(want))
    for place in np.flatnonzero(wrong)[:1]:
        given = [column[place] for column in inputs]
        pytest.fail(f"{given} gives {got[place]}, expected {want[place]}; {wrong.sum()} wrong")


def owed_by(op: Ops, dtype: DType, inputs: list[np.ndarray]) -> np.ndarray:
    """Where semantics.md specifies the value."""
    everywhere = np.ones(inputs[0].shape, bool)
    if op in (Ops.IDIV, Ops.MOD):
        overflows = (inputs[1] == -1) & (inputs[0] == int(dtype.minimum))
        return (inputs[1] != 0) & ~(overflows & (dtype.kind is Kind.SIGNED))
    if op is Ops.MAX and dtype.is_float:
        zeros = (inputs[0] == 0) & (inputs[1] == 0)
        return ~(is_nan(inputs[0]) | is_nan(inputs[1]) | zeros)
    if op in (Ops.SHL, Ops.SHR):
        return (inputs[1] >= 0) & (inputs[1] < dtype.bits)
    return everywhere


def needs(device: str, *types: DType) -> None:
    for dtype in types:
        if not Device[device].capabilities.supports(dtype):
            pytest.skip(f"the device does not declare {dtype.name}")


def arithmetic_cases() -> Iterator[tuple[Ops, DType]]:
    for op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.CMPLT, Ops.CMPNE, Ops.MAX):
        yield from ((op, dtype) for dtype in NUMBERS)
    for op in (Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR):
        yield from ((op, dtype) for dtype in dtypes.ints)
    for op in (Ops.AND, Ops.OR, Ops.XOR):
        yield from ((op, dtype) for dtype in (dtypes.bool, *dtypes.ints))
    for op in (Ops.MAX, Ops.CMPLT, Ops.CMPNE):
        yield op, dtypes.bool
    for op in (Ops.FDIV, Ops.POW):
        yield from ((op, dtype) for dtype in FLOATS)


@pytest.mark.parametrize(
    ("op", "dtype"), arithmetic_cases(), ids=lambda value: getattr(value, "name", None)
)
def test_binary_ops(run: Callable[..., np.ndarray], device: str, op: Ops, dtype: DType) -> None:
    needs(device, dtype)
    inputs = grid(dtype, dtype)
    result = dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else dtype
    got = run(lambda x, y: UOp(op, result, (x, y)), [(x, dtype) for x in inputs], device)
    want = meanings.apply(op, result, inputs, [dtype, dtype])
    limit = ULP_LIMITS[op][dtype.bits > 16] if op in ULP_LIMITS else 0
    check(got, want, owed_by(op, dtype, inputs), inputs, limit)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(
    "op", [Ops.NEG, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC]
)
def test_unary_ops(run: Callable[..., np.ndarray], device: str, op: Ops, dtype: DType) -> None:
    needs(device, dtype)
    inputs = grid(dtype)
    got = run(lambda x: UOp(op, dtype, (x,)), [(inputs[0], dtype)], device)
    want = meanings.apply(op, dtype, inputs, [dtype])
    limit = ULP_LIMITS[op][dtype.bits > 16] if op in ULP_LIMITS else 0
    check(got, want, owed_by(op, dtype, inputs), inputs, limit)


@pytest.mark.parametrize("dtype", dtypes.ints, ids=lambda dtype: dtype.name)
def test_integer_negation_wraps(run: Callable[..., np.ndarray], device: str, dtype: DType) -> None:
    inputs = grid(dtype)
    got = run(lambda x: UOp(Ops.NEG, dtype, (x,)), [(inputs[0], dtype)], device)
    want = meanings.apply(Ops.NEG, dtype, inputs, [dtype])
    check(got, want, owed_by(Ops.NEG, dtype, inputs), inputs)


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
def test_multiply_accumulate_rounds_twice(
    run: Callable[..., np.ndarray], device: str, dtype: DType
) -> None:
    needs(device, dtype)
    inputs = grid(dtype, dtype, dtype)
    got = run(
        lambda x, y, z: UOp(Ops.MULACC, dtype, (x, y, z)), [(x, dtype) for x in inputs], device
    )
    want = meanings.apply(Ops.MULACC, dtype, inputs, [dtype] * 3)
    check(got, want, np.ones(got.shape, bool), inputs)


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_where_selects_bits(run: Callable[..., np.ndarray], device: str, dtype: DType) -> None:
    needs(device, dtype)
    inputs = grid(dtypes.bool, dtype, dtype)
    types = [dtypes.bool, dtype, dtype]
    got = run(
        lambda c, x, y: UOp(Ops.WHERE, dtype, (c, x, y)),
        list(zip(inputs, types, strict=True)),
        device,
    )
    want = np.where(*inputs)
    check(got, want, np.ones(got.shape, bool), inputs)


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in itertools.product(dtypes.all, dtypes.all) if pair[0] is not pair[1]],
    ids=lambda dtype: dtype.name,
)
def test_casts(run: Callable[..., np.ndarray], device: str, source: DType, target: DType) -> None:
    needs(device, source, target)
    inputs = grid(source)
    got = run(lambda x: UOp(Ops.CAST, target, (x,)), [(inputs[0], source)], device)
    want = meanings.apply(Ops.CAST, target, inputs, [source])
    owed = np.ones(got.shape, bool)
    if source.is_float and target.is_int:
        with np.errstate(invalid="ignore"):
            whole = np.trunc(inputs[0].astype(np.float64))
        owed = (whole >= int(target.minimum)) & (whole < float(int(target.maximum) + 1))
    check(got, want, owed, inputs)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pair
        for pair in itertools.product(dtypes.all, dtypes.all)
        if pair[0].itemsize == pair[1].itemsize and dtypes.bool not in pair
    ],
    ids=lambda dtype: dtype.name,
)
def test_bitcasts(
    run: Callable[..., np.ndarray], device: str, source: DType, target: DType
) -> None:
    needs(device, source, target)
    values = np.random.default_rng(1).integers(0, 256, 800, np.uint8).view(numpy_dtype(source))
    got = run(lambda x: UOp(Ops.BITCAST, target, (x,)), [(values, source)], device)
    # A float that is only copied may still lose the payload of a signalling NaN on some hosts.
    quiet = ~is_nan(values) & ~is_nan(values.view(got.dtype))
    assert (bits(got) == bits(values))[quiet].all()
    assert (is_nan(got) == is_nan(values.view(got.dtype))).all()


def test_threefry_gives_the_published_words(run: Callable[..., np.ndarray], device: str) -> None:
    # Known answers of the authors' library, Random123: counter and key of zeros, and of ones.
    ones = 0xFFFFFFFFFFFFFFFF
    counters = np.array([0, ones], np.uint64)
    keys = np.array([0, ones], np.uint64)
    word = dtypes.uint64
    got = run(
        lambda c, k: UOp(Ops.THREEFRY, word, (c, k)), [(counters, word), (keys, word)], device
    )
    assert [int(value) & 0xFFFFFFFF for value in got] == [0x6B200159, 0x1CB996FC]
    assert [int(value) >> 32 for value in got] == [0x99BA4EFE, 0xBB002BE7]


@pytest.mark.parametrize("dtype", dtypes.ints, ids=lambda dtype: dtype.name)
def test_division_by_zero_does_not_trap(
    run: Callable[..., np.ndarray], device: str, dtype: DType
) -> None:
    low = int(dtype.minimum)
    x = np.array([low, 7, 0, low], numpy_dtype(dtype))
    y = np.array([0, 0, 0, -1 if low else 1], numpy_dtype(dtype))
    for op in (Ops.IDIV, Ops.MOD):
        run(lambda a, b, op=op: UOp(op, dtype, (a, b)), [(x, dtype), (y, dtype)], device)
