"""Reduces of 4,096 elements in every type: in one loop, and divided among groups.

The data reveal a wrong identity, a maximum that begins with 0, a partial result of another type, a
lost last element, or a comparison that drops NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.conditions import BY_NAME
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernels.notation import Sketch
from tinyref_spec.measure import Experiment, measure
from tinyref_spec.oracles import Expected, round_to

COUNT = 4096
# More work-items than a subgroup has.
ITEMS = 64
GROUPED = {"group": f"GROUP(1, {ITEMS})", "grouptop": f"GROUPTOP(1, {ITEMS})"}
REDUCES = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}


def _few(dtype: DType, filling: float, others: Sequence[float], seed: int) -> Array:
    """Return a row of one number except at 64 indices: each partial sum is exact."""
    row = np.full(COUNT, filling).astype(numpy_dtype(dtype))
    positions = np.random.default_rng(seed).choice(COUNT, 64, replace=False)
    row[positions] = np.resize(others, 64)
    return row


def _float_rows(op: Ops, dtype: DType) -> list[Array]:
    """Return rows of floats: all negative, all equal, random, all NaN, one NaN at the end."""
    nan, least = np.full(COUNT, np.nan), np.full(COUNT, -1.0)
    if op is Ops.ADD:
        # Zeros of either sign keep a sum exact in every order.
        rows = [_few(dtype, -0.0, [-1], 1), np.full(COUNT, -0.0), _few(dtype, 0.0, [-2, 1, 3], 2)]
    elif op is Ops.MUL:
        rows = [np.append(least[1:], -2.0), least, _few(dtype, 1.0, [-1, 2, -0.5, 1], 3)]
    else:
        numbers = np.random.default_rng(4).integers(2, 100, COUNT)
        rows = [-1.0 * numbers, least, numbers - 50.0]
    rows += [nan, np.append(least[1:], np.nan)]
    return [row.astype(numpy_dtype(dtype)) for row in rows]


def _integer_rows(op: Ops, dtype: DType) -> list[Array]:
    """Return rows of integers: above half of the range, all equal, random, a large last one."""
    random = samples.random_bits(dtype, COUNT, 5)
    top = (1 << (dtype.bits - 1)) if dtype.is_unsigned else int(dtype.minimum)
    high = random | np.array(top, numpy_dtype(dtype))
    last = np.full(COUNT, 1, numpy_dtype(dtype))
    last[-1] = dtype.maximum
    rows = [high, np.full_like(random, int(dtype.maximum) // 3), random, last]
    # An even factor would make a product zero.
    return [row | row.dtype.type(1) for row in rows] if op is Ops.MUL else rows


def _rows(op: Ops, dtype: DType) -> Array:
    if dtype.is_bool:
        last = np.arange(COUNT) == COUNT - 1
        return np.stack([~last & last, last, ~last, last | ~last])
    make = _float_rows if dtype.is_float else _integer_rows
    return np.stack(make(op, dtype))


def _expected(op: Ops, dtype: DType, data: Array) -> Expected:
    wide = data.astype(np.float64) if dtype.is_float else data
    values = REDUCES[op].reduce(wide, axis=1, dtype=wide.dtype)
    if not dtype.is_float:
        return Expected(values)
    if op is not Ops.MAX:
        return Expected(round_to(values, dtype))
    # A maximum with a NaN may give either operand: the identity, or the number.
    numbers = np.where(np.isnan(wide), -np.inf, wide).max(axis=1)
    return Expected(round_to(values, dtype), alternatives=(round_to(numbers, dtype),))


def _kernel(dtype: DType, ops: Sequence[Ops], data: Sequence[Array]) -> UOp:
    sketch = Sketch(outputs=len(ops))
    for op, rows in zip(ops, data, strict=True):
        sketch.store(build.reduce(op, sketch.input(dtype, *rows.shape), (1,)), len(rows), 1)
    return build.sink(*sketch.stores)


def _measure(
    dtype: DType, ops: Sequence[Ops], opts: str, case_id: str, device: DeviceUnderTest
) -> Measurement:
    data = [_rows(op, dtype) for op in ops]
    kernel = _kernel(dtype, ops, data)
    with np.errstate(all="ignore"):
        expected = [_expected(op, dtype, rows) for op, rows in zip(ops, data, strict=True)]
    # The order decides the sign of a zero sum or maximum, but not of a zero product.
    rules = [Ulp(0, signed_zero=op is Ops.MUL) for op in ops]
    inputs = [*[None] * len(ops), *(rows.reshape(-1) for rows in data)]
    runnable = Optimised(kernel, parse_opts(opts)) if opts else kernel
    return measure(device, Experiment(case_id, runnable, inputs, expected, rules))


def _ops_of(dtype: DType) -> tuple[Ops, ...]:
    return (Ops.MAX,) if dtype.is_bool else tuple(REDUCES)


def _all_reduces(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Measure all reduces in one kernel; one that fails is run alone, to be named."""
    together = _measure(dtype, _ops_of(dtype), "", case_id, device)
    if together.passed:
        return together
    for op in _ops_of(dtype):
        alone = _measure(dtype, (op,), "", case_id, device)
        if not alone.passed:
            alone.message = f"REDUCE {op.name}: {alone.message}"
            return alone
    return together


def _grouped_checks(dtype: DType) -> list[Check]:
    return [
        Check(f"{op.name.lower()}:{name}", functools.partial(_measure, dtype, (op,), opts))
        for op in _ops_of(dtype)
        for name, opts in GROUPED.items()
    ]


def rows() -> Iterator[Row]:
    """Yield a row for each type: one loop, and one for groups."""
    clauses = ("isa.reduce", "isa.reduce.add", "isa.reduce.mul", "isa.reduce.max")
    for dtype in (dtypes.bool, *dtypes.ints, *dtypes.floats):
        words = f"Reduces of {COUNT:,} {dtype.name}, all negative, all equal, random, with NaN"
        yield make_row(
            f"kernel.long_reduce.{dtype.name}",
            f"{words}, in one loop.",
            clauses=(*clauses, "kernel.accumulator"),
            rung=Rung.LOOP,
            op="REDUCE",
            dtype=dtype,
            checks={"loop": functools.partial(_all_reduces, dtype)},
            advice=BY_NAME["loop"].advice,
        )
        yield make_row(
            f"kernel.grouped_reduce.{dtype.name}",
            f"{words}, in parts by {ITEMS} work-items of a group.",
            clauses=(*clauses, "kernel.opt.group", "kernel.opt.grouptop", "kernel.barrier"),
            rung=Rung.OPTIMISED,
            op="REDUCE",
            dtype=dtype,
            features=("grid", "groups", f"group:{ITEMS}x1x1", f"shared:{ITEMS * 8}"),
            checks=functools.partial(_grouped_checks, dtype),
            advice="look at the type of shared partial results, the identity with which they "
            "begin, and barriers in groups above the subgroup size",
        )
