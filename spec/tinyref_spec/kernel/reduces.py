"""Reduces: sums, products and maxima over any axes, alone and among other operations."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.conditions import BY_NAME
from tinyref_spec.data_kinds import MAX_EXACT, DataKind, kinds_of, small_and_extreme
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Bounded, Ulp, accumulation_bound, with_rounding
from tinyref_spec.kernel.opt_kernels import subject_of
from tinyref_spec.kernels.named import reduction
from tinyref_spec.measure import Experiment, measure, run_exact
from tinyref_spec.oracles import Expected, round_to

INT = dtypes.int32
Axes = tuple[int, ...]
Shape = tuple[int, ...]

SHAPES: tuple[tuple[Shape, Axes], ...] = (
    ((64,), (0,)),
    ((7, 13), (1,)),
    ((7, 13), (0,)),
    ((7, 13), (0, 1)),
    ((3, 4, 5), (0, 2)),
    ((3, 4, 5), (1,)),
    ((1, 33), (1,)),
    ((33, 1), (1,)),
    ((1000,), (0,)),
    ((2, 3, 2, 3), (1, 3)),
)
REDUCED = {
    "add": (*dtypes.ints, *dtypes.floats),
    "max": (dtypes.bool, *dtypes.ints, *dtypes.floats),
    "mul": (dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.float32, dtypes.float64),
}
OPS = {"add": Ops.ADD, "max": Ops.MAX, "mul": Ops.MUL}


def _name(shape: Shape, axes: Axes) -> str:
    return f"{'x'.join(map(str, shape))}_over_{'_'.join(map(str, axes))}"


def _kind_of(op: str, dtype: DType, shape: Shape, axes: Axes) -> DataKind | None:
    """Return the data kind of a line of `SHAPES`: those of the table in turn, or ordinary numbers.

    The first line has ordinary numbers, and so has a sum that is too long to be exact in any order.
    """
    number = SHAPES.index((shape, axes))
    if not number or int(np.prod(shape)) > MAX_EXACT:
        return None
    # The first one is ordinary, so that every other line has the first kinds too.
    kinds = (None, *kinds_of(dtype, op))
    return kinds[(number - 1) % len(kinds)]


def _exact_values(op: str, dtype: DType, shape: Shape, seed: int) -> Array:
    """Return small integers whose sums are exact in any order, or factors of an exact product."""
    count = int(np.prod(shape))
    if op == "max":
        return samples.moderate(dtype, count, seed)
    if op == "add":
        return samples.small_integers(dtype, count, seed, 1 if dtype.itemsize == 2 else 4)
    values = np.ones(count, dtype=numpy_dtype(dtype))
    positions = np.random.default_rng(seed).choice(count, min(count, 5), replace=False)
    values[positions] = 2
    return values


def _wide_reduce(op: str, data: Array, axes: Axes) -> Array:
    """Reduce Python integers, or floats in float64: exact for the data of `_exact_values`."""
    if data.dtype.kind in "iub":
        values = data.astype(object)
        function = {"add": np.add, "mul": np.multiply, "max": np.maximum}[op]
        return np.asarray(function.reduce(values, axis=axes, keepdims=True))
    values = data.astype(np.float64)
    if op == "add":
        return np.asarray(values.sum(axis=axes, keepdims=True))
    if op == "mul":
        return np.asarray(values.prod(axis=axes, keepdims=True))
    return np.asarray(values.max(axis=axes, keepdims=True))


def _to_dtype(wide: Array, dtype: DType) -> Array:
    if dtype.is_float:
        return round_to(wide.astype(np.float64), dtype)
    if dtype.is_bool:
        return wide.astype(np.bool_)
    mask = (1 << dtype.bits) - 1
    unsigned = np.array([int(value) & mask for value in wide.ravel()], f"uint{dtype.bits}")
    return unsigned.view(numpy_dtype(dtype)).reshape(wide.shape)


def _run(
    op: str, dtype: DType, shape: Shape, axes: Axes, case_id: str, device: DeviceUnderTest
) -> Measurement:
    kind = _kind_of(op, dtype, shape, axes)
    data = _exact_values(op, dtype, shape, 7)
    if kind is not None and (device.capabilities.keeps_subnormals or not kind.subnormal):
        data = kind.array(dtype, data.size)
    with np.errstate(all="ignore"):
        wide = _wide_reduce(op, data.reshape(shape), axes)
    expected = Expected(_to_dtype(wide, dtype).reshape(-1))
    kernel = reduction(OPS[op], dtype, shape, *axes)
    # The order decides the sign of a zero sum or maximum, but not of a zero product.
    rule = Ulp(0, signed_zero=op == "mul")
    return measure(device, Experiment(case_id, kernel, [None, data], [expected], [rule]))


def _wrapping(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that sums of integers wrap."""
    data = samples.random_bits(dtype, 96, 3)
    expected = _to_dtype(_wide_reduce("add", data.reshape(4, 24), (1,)), dtype)
    return run_exact(
        case_id, device, reduction(Ops.ADD, dtype, (4, 24), 1), [None, data], [expected]
    )


def _measure_float_sums(
    dtype: DType, seed: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Compare sums of floats of any sign: within n*u*sum|x| and one rounding."""
    # Few elements if the unit is large, so that the bound is small compared with the sum.
    length = 250 if dtype.itemsize > 2 else 16
    shape = (8, length)
    data = samples.moderate(dtype, 8 * length, seed)
    wide = data.astype(np.float64).reshape(shape)
    sums = wide.sum(axis=1)
    bound = accumulation_bound(np.abs(wide).sum(axis=1), length, dtype, dtype)
    if dtype is dtypes.float64:
        # The reference rounds too.
        bound = 2 * bound
    expected = Expected(
        round_to(sums, dtype), tolerance=with_rounding(sums, bound, dtype), wide=sums
    )
    kernel = reduction(Ops.ADD, dtype, shape, 1)
    return measure(device, Experiment(case_id, kernel, [None, data], [expected], [Bounded()]))


def _special(
    op: str, dtype: DType, number: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Reduce infinities, NaN and the smallest values."""
    values, result = SPECIAL_REDUCES[op][number]
    data = np.array(values, dtype=numpy_dtype(dtype))
    expected = np.array([result], dtype=numpy_dtype(dtype))
    return run_exact(
        case_id, device, reduction(OPS[op], dtype, (len(values),), 0), [None, data], [expected]
    )


def _empty(op: str, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Reduce nothing, which gives the identity."""
    identity = {"add": 0, "mul": 1, "max": dtype.minimum}[op]
    expected = np.full(3, identity, dtype=numpy_dtype(dtype))
    nothing = np.zeros(0, dtype=numpy_dtype(dtype))
    return run_exact(
        case_id, device, reduction(OPS[op], dtype, (3, 0), 1), [None, nothing], [expected]
    )


INF = float("inf")
NAN = float("nan")
SPECIAL_REDUCES: dict[str, tuple[tuple[tuple[float, ...], float], ...]] = {
    "add": (
        ((1.0, INF, 2.0), INF),
        ((INF, -INF, 1.0), NAN),
        ((1.0, NAN, 2.0), NAN),
        ((-INF, 1.0, 1.0), -INF),
        ((1.0, -1.0, 0.0), 0.0),
    ),
    "max": (
        ((-INF, -INF, -INF), -INF),
        ((-5.0, -3.0, -4.0), -3.0),
        ((-INF, -1.0, -2.0), -1.0),
        ((1.0, INF, 2.0), INF),
        ((-1.0, -7.0, -1.5), -1.0),
    ),
    "mul": (
        ((2.0, 0.0, 3.0), 0.0),
        ((INF, 0.0, 1.0), NAN),
        ((-2.0, 3.0, -1.0), 6.0),
        ((2.0, NAN, 3.0), NAN),
        ((INF, -1.0, 2.0), -INF),
    ),
}


def _checks(op: str, dtype: DType) -> list[Check]:
    checks = [
        Check(_name(shape, axes), functools.partial(_run, op, dtype, shape, axes))
        for shape, axes in SHAPES
    ]
    checks.append(Check("empty", functools.partial(_empty, op, dtype)))
    if op == "add" and dtype.is_int:
        checks.append(Check("wraps", functools.partial(_wrapping, dtype)))
    if op == "add" and dtype.is_float:
        checks += [
            Check(f"bound:{seed}", functools.partial(_measure_float_sums, dtype, seed))
            for seed in (1, 2)
        ]
    if dtype.is_float:
        checks += [
            Check(f"special:{number}", functools.partial(_special, op, dtype, number))
            for number in range(len(SPECIAL_REDUCES[op]))
        ]
    return checks


# Kernels of the rows of optimisations; here each runs as it is written.
FORMS = (
    "masked_sum",
    "reduce_outputs",
    "two_lengths",
    "nested",
    "nested_sums",
    "repeated_nested",
    "softmax",
)


def _form(kernel: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that the kernel gives what the evaluator of ASTs gives."""
    return subject_of(kernel, INT).measure(None, case_id, device)


def _symbolic(length: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Sum the first n elements."""
    extent = build.variable("n", 1, 64)
    kernel = reduction(Ops.ADD, dtypes.int32, (extent,), 0)
    data = small_and_extreme(dtypes.int32, 64, 9, 100)
    expected = np.array([data[:length].sum()]).astype(np.int32)
    return run_exact(case_id, device, kernel, [None, data], [expected], {"n": length})


def rows() -> Iterator[Row]:
    """Yield rows of kernels with reduces."""
    for op, accepted in REDUCED.items():
        for dtype in accepted:
            yield make_row(
                f"kernel.reduce.{op}.{dtype.name}",
                f"REDUCE {op.upper()} of {dtype.name} over one axis, several axes, all of them.",
                clauses=("isa.reduce", f"isa.reduce.{op}", "kernel.accumulator", "kernel.range"),
                rung=Rung.LOOP,
                op="REDUCE",
                dtype=dtype,
                error_rule=f"{Ulp(0).sentence} Sums of floats: {Bounded().sentence}",
                checks=functools.partial(_checks, op, dtype),
                advice=BY_NAME["loop"].advice,
            )
    yield make_row(
        "kernel.reduce.form.int32",
        "Several reduces in one kernel, also nested or one of another; padded or repeated inputs.",
        clauses=("isa.reduce", "kernel.accumulator"),
        rung=Rung.LOOP,
        op="REDUCE",
        dtype=dtypes.int32,
        checks={name: functools.partial(_form, name) for name in FORMS},
        advice=BY_NAME["loop"].advice,
    )
    yield make_row(
        "kernel.reduce.symbolic.int32",
        "A sum over a symbolic number of elements.",
        clauses=("isa.reduce", "kernel.variable"),
        rung=Rung.LOOP,
        op="REDUCE",
        dtype=dtypes.int32,
        checks={f"n:{n}": functools.partial(_symbolic, n) for n in (1, 7, 63, 64)},
        advice=BY_NAME["loop"].advice,
    )
