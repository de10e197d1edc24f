"""Every op and dtype on the compiled host devices, bit for bit against the op table's semantics."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from elementwise_programs import run_cases

from tinyref.algebra import semantics
from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import DType, Kind, dtypes, numpy_dtype
from tinyref.runtimes.host.clang import COMPILERS
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


def runner(device: str, compiler: str) -> object:
    missing = bool(compiler) and shutil.which(compiler) is None
    skip = pytest.mark.skipif(missing, reason=f"the compiler {compiler} is not installed")
    return pytest.param((device, compiler), id=f"{device}-{compiler}".rstrip("-"), marks=skip)


RUNNERS = [runner("CPU", ""), *(runner("CLANG", compiler) for compiler in COMPILERS)]


@pytest.fixture(params=RUNNERS)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    name, compiler = request.param
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
    with np.errstate(invalid="ignore"):
        found: np.ndarray = values != values
        return found


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
        wrong = owed & (bits(got) != bits(want)) & ~(is_nan(got) & is_nan(want))
        if limit and wrong.any():
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


Case = tuple[Callable[..., UOp], list[np.ndarray], list[DType], np.ndarray, np.ndarray, int]


def supported(device: str, types: Sequence[DType]) -> list[DType]:
    """Those of `types` that the device declares; what it does not must be refused elsewhere."""
    return [dtype for dtype in types if Device[device].capabilities.supports(dtype)]


def case(op: Ops, result: DType, sources: list[DType], owed: np.ndarray | None = None) -> Case:
    """`op` on every combination of special values, with what the semantics say of it."""
    inputs = grid(*sources)
    want = semantics.apply(op, result, inputs, sources)
    if owed is None:
        owed = owed_by(op, sources[0], inputs)
    limit = ULP_LIMITS[op][result.bits > 16] if op in ULP_LIMITS else 0
    return (lambda *x: UOp(op, result, x)), inputs, sources, want, owed, limit


def run_and_check(device: str, cases: list[Case]) -> None:
    """Runs all cases in one kernel: a C compiler takes long to start."""
    typed = [
        (expression, list(zip(inputs, sources, strict=True)))
        for expression, inputs, sources, *_ in cases
    ]
    for got, (_, inputs, _, want, owed, limit) in zip(run_cases(typed, device), cases, strict=True):
        check(got, want, owed, inputs, limit)


BINARY_CASES = (
    *((op, NUMBERS) for op in (Ops.ADD, Ops.SUB, Ops.MUL)),
    *((op, (dtypes.bool, *NUMBERS)) for op in (Ops.MAX, Ops.CMPLT, Ops.CMPNE)),
    *((op, dtypes.ints) for op in (Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR)),
    *((op, (dtypes.bool, *dtypes.ints)) for op in (Ops.AND, Ops.OR, Ops.XOR)),
    *((op, FLOATS) for op in (Ops.FDIV, Ops.POW)),
)
UNARY_CASES = (
    (Ops.NEG, NUMBERS),
    *((op, FLOATS) for op in (Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC)),
)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("op", "types"), BINARY_CASES)
def test_binary_ops(device: str, op: Ops, types: Sequence[DType]) -> None:
    compares = op in (Ops.CMPLT, Ops.CMPNE)
    cases = [
        case(op, dtypes.bool if compares else dtype, [dtype, dtype])
        for dtype in supported(device, types)
    ]
    run_and_check(device, cases)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("op", "types"), UNARY_CASES)
def test_unary_ops(device: str, op: Ops, types: Sequence[DType]) -> None:
    run_and_check(device, [case(op, dtype, [dtype]) for dtype in supported(device, types)])


def test_multiply_accumulate_rounds_twice(device: str) -> None:
    types = supported(device, NUMBERS)
    run_and_check(device, [case(Ops.MULACC, dtype, [dtype] * 3) for dtype in types])


def test_where_selects_bits(device: str) -> None:
    types = supported(device, dtypes.all)
    cases = [case(Ops.WHERE, dtype, [dtypes.bool, dtype, dtype]) for dtype in types]
    run_and_check(device, cases)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("source", dtypes.all, ids=lambda dtype: dtype.name)
def test_casts(device: str, source: DType) -> None:
    if source not in supported(device, dtypes.all):
        pytest.skip(f"the device does not declare {source.name}")
    values = specials(source)
    cases = []
    for target in supported(device, dtypes.all):
        owed = np.ones(values.shape, bool)
        if source.is_float and target.is_int:
            with np.errstate(invalid="ignore"):
                whole = np.trunc(values.astype(np.float64))
            owed = (whole >= int(target.minimum)) & (whole < float(int(target.maximum) + 1))
        if source is not target:
            cases.append(case(Ops.CAST, target, [source], owed))
    run_and_check(device, cases)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_bitcasts(device: str, size: int) -> None:
    types = [dtype for dtype in supported(device, dtypes.all) if dtype.itemsize == size]
    raw = np.random.default_rng(1).integers(0, 256, 800, np.uint8)
    pairs = [(x, y) for x in types for y in types if dtypes.bool not in (x, y)]
    cases = [
        (
            (lambda x, target=target: UOp(Ops.BITCAST, target, (x,))),
            [(raw.view(numpy_dtype(source)), source)],
        )
        for source, target in pairs
    ]
    for got, (source, _) in zip(run_cases(cases, device), pairs, strict=True):
        values = raw.view(numpy_dtype(source))
        # A float that is only copied may still lose the payload of a NaN on some hosts.
        quiet = ~is_nan(values) & ~is_nan(got)
        assert (bits(got) == bits(values))[quiet].all()
        assert (is_nan(got) == is_nan(values.view(got.dtype))).all()


def test_threefry_gives_the_published_words(device: str) -> None:
    # Known answers of the authors' library, Random123: counter and key of zeros, and of ones.
    words = np.array([0, 0xFFFFFFFFFFFFFFFF], np.uint64)
    dtype = dtypes.uint64
    expression = lambda c, k: UOp(Ops.THREEFRY, dtype, (c, k))  # noqa: E731
    (got,) = run_cases([(expression, [(words, dtype), (words, dtype)])], device)
    assert [int(value) & 0xFFFFFFFF for value in got] == [0x6B200159, 0x1CB996FC]
    assert [int(value) >> 32 for value in got] == [0x99BA4EFE, 0xBB002BE7]


@pytest.mark.parametrize("op", [Ops.IDIV, Ops.MOD])
def test_division_does_not_trap(device: str, op: Ops) -> None:
    cases = []
    for dtype in dtypes.ints:
        low = int(dtype.minimum)
        x = np.array([low, 7, 0, low], numpy_dtype(dtype))
        y = np.array([0, 0, 0, -1 if low else 1], numpy_dtype(dtype))
        expression = lambda a, b, dtype=dtype: UOp(op, dtype, (a, b))  # noqa: E731
        cases.append((expression, [(x, dtype), (y, dtype)]))
    for got, (_, [(x, _), _]) in zip(run_cases(cases, device), cases, strict=True):
        quotients = [0, 0, 0, x[0]] if op is Ops.IDIV else [0, 0, 0, 0]
        assert got.tolist() == quotients


def test_the_check_sees_a_wrong_bit() -> None:
    want = np.array([1.0, -0.0, np.nan], np.float32)
    owed = np.ones(3, bool)
    check(want.copy(), want, owed, [want])
    for wrong in ([1.0000001, -0.0, np.nan], [1.0, 0.0, np.nan], [1.0, -0.0, 2.0]):
        with pytest.raises(pytest.fail.Exception):
            check(np.array(wrong, np.float32), want, owed, [want])


def every(dtype: DType) -> np.ndarray:
    return np.arange(1 << 16).astype(f"u{dtype.itemsize}").view(numpy_dtype(dtype))


def random_bits(dtype: DType, count: int = 1 << 16) -> np.ndarray:
    raw = np.random.default_rng(7).integers(0, 256, count * dtype.itemsize, np.uint8)
    return raw.view(numpy_dtype(dtype))


def magnitudes(dtype: DType) -> np.ndarray:
    """Integers of every length in bits, floats that narrower types can hold, both signs."""
    if not dtype.is_float:
        shifts = (
            np.random.default_rng(8).integers(0, dtype.bits, 1 << 16).astype(f"u{dtype.itemsize}")
        )
        positive = random_bits(dtype).view(shifts.dtype) >> shifts
        return np.concatenate([positive, ~positive]).view(numpy_dtype(dtype))
    exponents = np.random.default_rng(9).uniform(-60, 60, 1 << 16)
    signs = np.where(np.arange(1 << 16) % 2, -1.0, 1.0)
    return (signs * 2.0**exponents).astype(numpy_dtype(dtype))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("source", dtypes.all[1:], ids=lambda dtype: dtype.name)
def test_casts_of_many_values(device: str, source: DType) -> None:
    if source not in supported(device, dtypes.all):
        pytest.skip(f"the device does not declare {source.name}")
    arrays = [every(source)] if source.bits <= 16 else [random_bits(source), magnitudes(source)]
    values = np.concatenate(arrays)
    cases = []
    for target in supported(device, dtypes.all):
        want = semantics.apply(Ops.CAST, target, [values], [source])
        owed = np.ones(values.shape, bool)
        if source.is_float and target.is_int:
            with np.errstate(invalid="ignore"):
                whole = np.trunc(values.astype(np.float64))
            owed = (whole >= int(target.minimum)) & (whole < float(int(target.maximum) + 1))
        expression = lambda x, target=target: UOp(Ops.CAST, target, (x,))  # noqa: E731
        if source is not target:
            cases.append((expression, [values], [source], want, owed, 0))
    run_and_check(device, cases)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.CMPLT])
def test_float_ops_on_many_values(device: str, op: Ops) -> None:
    cases = []
    for dtype in supported(device, FLOATS):
        x = random_bits(dtype)
        near = x.view(f"u{dtype.itemsize}") ^ (
            random_bits(dtype)[::-1].view(f"u{dtype.itemsize}") >> 4
        )
        inputs = [x, near.view(numpy_dtype(dtype))]
        result = dtypes.bool if op is Ops.CMPLT else dtype
        want = semantics.apply(op, result, inputs, [dtype, dtype])
        expression = lambda a, b, result=result: UOp(op, result, (a, b))  # noqa: E731
        cases.append((expression, inputs, [dtype, dtype], want, np.ones(x.shape, bool), 0))
    run_and_check(device, cases)
