"""Matrix products: exact on integers; on floats within bound, without bias, without noise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.data_kinds import small_and_extreme
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Products, Ulp, accumulation_bound, with_rounding
from tinyref_spec.kernels import notation
from tinyref_spec.kernels.named import matmul, multiplied
from tinyref_spec.kernels.notation import kernel_of, load, shaped
from tinyref_spec.measure import Experiment, measure, run_exact
from tinyref_spec.oracles import Expected, round_to

Shape = tuple[int, int, int]
# Rows, inner length and columns.
SHAPES: tuple[Shape, ...] = (
    (1, 1, 1),
    (2, 3, 4),
    (7, 5, 3),
    (16, 16, 16),
    (1, 64, 9),
    (9, 64, 1),
    (33, 17, 31),
    (32, 32, 32),
)
# Longer than the tiles and blocks of libraries, and no multiple of them.
LONG: tuple[Shape, ...] = ((1, 131, 3), (3, 2053, 2), (16, 33_001, 16))
MANY_RESULTS = 100
# The product to which a part of a matrix of 9 x 13 is added.
RESIDUAL: Shape = (7, 16, 9)
WIDER = (9, 13)
# Enough products for the statistics: at least 1,000 results each.
MEASURED: tuple[Shape, ...] = ((32, 64, 32), (40, 16, 26), (32, 256, 32))
DTYPES = (
    dtypes.float32,
    dtypes.float64,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint8,
)


def accumulator_of(dtype: DType) -> DType:
    """Return the accumulator type of a product of `dtype`: float32 for the 16-bit floats."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def _kernel(shape: Shape, dtype: DType, is_transposed: bool = False) -> UOp:
    rows, inner, columns = shape
    return matmul(rows, columns, inner, dtype, accumulator_of(dtype), dtype, is_transposed)


def _exact(
    shape: Shape, dtype: DType, is_transposed: bool, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Multiply small integers: every order of summing gives the same bits."""
    rows, inner, columns = shape
    limit = 1 if inner > 100 else 3
    a = small_and_extreme(dtype, rows * inner, 1, limit)
    b = small_and_extreme(dtype, inner * columns, 2, limit)
    right = b.reshape(columns, inner).T if is_transposed else b.reshape(inner, columns)
    kernel = _kernel(shape, dtype, is_transposed)
    left = a.reshape(rows, inner)
    expected = Expected(
        _exact_product(left, right, dtype).reshape(-1), half_steps=_half_steps(left, right, dtype)
    )
    return measure(device, Experiment(case_id, kernel, [None, a, b], [expected], [Ulp(0)]))


def _residual(
    dtype: DType, first: tuple[int, int], case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Add a part of a wider matrix to a product: its row stride is larger than its rows.

    first: the row and the column at which the part begins.
    """
    (rows, inner, columns), (height, width) = RESIDUAL, WIDER
    a, b, c = (
        samples.small_integers(dtype, size, seed, 3)
        for seed, size in enumerate((rows * inner, inner * columns, height * width), 1)
    )
    within = accumulator_of(dtype)
    row, column = first
    part = shaped(height, width).shrink(((row, row + rows), (column, column + columns)))
    sizes = (rows, columns, inner)
    value = multiplied(
        load(1, dtype, notation.left(*sizes)), load(2, dtype, notation.right(*sizes)), 2, within
    )
    added = load(3, dtype, part.reshape((rows, columns, 1)), height * width)
    value = build.add(value, build.cast(added, within))
    kernel = kernel_of(build.cast(value, dtype), rows, columns, 1)
    added_part = c.reshape(height, width)[row : row + rows, column : column + columns]
    # A @ B + C is one product of [A, I] and B over C.
    left = np.hstack([a.reshape(rows, inner), np.eye(rows, dtype=a.dtype)])
    second = np.vstack([b.reshape(inner, columns), added_part])
    expected = _exact_product(left, second, dtype)
    return run_exact(case_id, device, kernel, [None, a, b, c], [expected])


def _exact_product(a: Array, b: Array, dtype: DType) -> Array:
    """Return the product of two matrices of small integers, rounded or wrapped once at the end."""
    wide = np.float64 if dtype.is_float else np.int64
    total = a.astype(wide) @ b.astype(wide)
    return round_to(total, dtype) if dtype.is_float else total.astype(numpy_dtype(dtype))


def _long(shape: Shape, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Multiply zeros and ones: sums of thousands, which are rounded once, at the end."""
    rows, inner, columns = shape
    if device.capabilities.is_interpreted and rows * columns > MANY_RESULTS:
        # Simulators take 15 s for 256 results.
        rows, columns = 1, 2
    generator = np.random.default_rng(inner)
    a, b = (generator.integers(0, 2, size) for size in ((rows, inner), (inner, columns)))
    # The last products have an effect.
    a[:, -1], b[-1, :] = 1, 1
    left, right = (array.astype(numpy_dtype(dtype)) for array in (a, b))
    expected = Expected(
        _exact_product(a, b, dtype).reshape(-1), half_steps=_half_steps(left, right, dtype)
    )
    kernel = _kernel((rows, inner, columns), dtype)
    inputs = [None, left.reshape(-1), right.reshape(-1)]
    return measure(device, Experiment(case_id, kernel, inputs, [expected], [Ulp(0)]))


def _half_steps(a: Array, b: Array, dtype: DType) -> Callable[[], Array] | None:
    """Return a function for the product with sums in `dtype`, if the row needs more precision."""

    def compute() -> Array:
        total = np.zeros((a.shape[0], b.shape[1]), numpy_dtype(dtype))
        for step in range(a.shape[1]):
            total = total + a[:, step, None] * b[None, step]
        return total.reshape(-1)

    return None if accumulator_of(dtype) is dtype else compute


def expected_product(a: Array, b: Array, dtype: DType) -> tuple[Expected, Array, Products]:
    """Return reference, norm and rule of the float product a @ b (2-D) with output `dtype`."""
    accumulator = accumulator_of(dtype)
    length = a.shape[1]
    left, right = a.astype(np.float64), b.astype(np.float64)
    if dtype is dtypes.float64:
        # 64 bits of mantissa on some machines: the reference errs less than the bound.
        wide = np.asarray((left.astype(np.longdouble) @ right.astype(np.longdouble)), np.float64)
    else:
        wide = left @ right
    magnitude = np.abs(left) @ np.abs(right)
    bound = accumulation_bound(magnitude, length, accumulator, dtype)
    norm = np.sqrt((left * left) @ (right * right))
    expected = Expected(
        round_to(wide, dtype).reshape(-1),
        tolerance=with_rounding(wide, bound, dtype).reshape(-1),
        wide=wide.reshape(-1),
        half_steps=_half_steps(a, b, dtype),
    )
    return expected, norm.reshape(-1), Products(length, accumulator, dtype)


def _measure_products(
    shape: Shape, dtype: DType, kind: str, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Measure over 1,000 products: each within bound; bias and variance fit correct rounding."""
    rows, inner, columns = shape
    generator = np.random.default_rng([rows, inner, kind == "positive"])
    a = generator.standard_normal((rows, inner))
    b = generator.standard_normal((inner, columns))
    if kind == "positive":
        # Errors of one sign do not cancel: rounding towards zero shows as bias.
        a, b = np.abs(a), np.abs(b)
    left, right = a.astype(numpy_dtype(dtype)), b.astype(numpy_dtype(dtype))
    expected, norm, rule = expected_product(left, right, dtype)
    experiment = Experiment(
        case_id,
        _kernel(shape, dtype),
        [None, left.reshape(-1), right.reshape(-1)],
        [expected],
        [rule],
        norms=[norm],
    )
    return measure(device, experiment)


def _checks(dtype: DType) -> list[Check]:
    checks = []
    for shape in SHAPES:
        name = "x".join(map(str, shape))
        checks.append(Check(f"exact.{name}", functools.partial(_exact, shape, dtype, False)))
    for shape in LONG:
        name = "x".join(map(str, shape))
        checks.append(Check(f"long.{name}", functools.partial(_long, shape, dtype)))
    checks.append(Check("residual", functools.partial(_residual, dtype, (1, 2))))
    checks.append(Check("residual.first", functools.partial(_residual, dtype, (0, 0))))
    checks.append(Check("transposed.9x8x7", functools.partial(_exact, (9, 8, 7), dtype, True)))
    if dtype.is_float:
        for shape in MEASURED:
            for kind in ("signed", "positive"):
                name = "x".join(map(str, shape))
                run = functools.partial(_measure_products, shape, dtype, kind)
                checks.append(Check(f"{kind}.{name}", run, full_only=shape[1] > 100))
    return checks


def rows() -> Iterator[Row]:
    """Yield rows of matrix products."""
    for dtype in DTYPES:
        length = max(shape[1] for shape in MEASURED)
        rule = Products(length, accumulator_of(dtype), dtype).sentence
        yield make_row(
            f"kernel.matmul.{dtype.name}",
            f"Matrix products of {dtype.name}: exact on small integers, accurate on floats.",
            clauses=("kernel.matmul", "isa.reduce", "kernel.matmul.statistics"),
            rung=Rung.MATMUL,
            op="MATMUL",
            dtype=dtype,
            uses=(dtype, accumulator_of(dtype)),
            error_rule=rule if dtype.is_float else "Exact.",
            checks=functools.partial(_checks, dtype),
        )
