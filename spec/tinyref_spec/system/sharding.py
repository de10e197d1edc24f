"""Rows of tensors on two devices, NAME and NAME:1 or the one that was named: as on one of them.

Data are small integers, so every result is exact in every order of additions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyref.config import Context
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec import samples
from tinyref_spec.bits import Array, to_bits
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest

# Neither size divides by the number of devices.
SHAPE = (7, 5)
AXES = (None, 0, 1)
DTYPES = (dtypes.float32, dtypes.int32)


@dataclass(frozen=True)
class Program:
    """What is computed of x and y, both of `SHAPE`, and the same of arrays."""

    sentence: str
    run: Callable[[Any, Any], Any]
    expected: Callable[[Array, Array], Array]


def _assign(x: Any, y: Any) -> Any:
    target = (x + 0).contiguous().realize()
    target.assign(target * 2 + y).realize()
    target += 1
    return target


PROGRAMS: dict[str, Program] = {
    "sum": Program(
        "Sums over each axis and over both.",
        lambda x, y: x.sum(0, keepdim=True) * y + x.sum(1, keepdim=True) + x.sum(),
        lambda x, y: x.sum(0, keepdims=True) * y + x.sum(1, keepdims=True) + x.sum(),
    ),
    "matmul": Program(
        "A product whose factors are cut along rows or columns.",
        lambda x, y: x @ y.T,
        lambda x, y: x @ y.T,
    ),
    "moved": Program(
        "Other shapes and orders of the axes.",
        lambda x, y: (x.T.reshape(5, 7, 1).flip(0) + y.reshape(1, 7, 5)[:, :, ::-1]).reshape(-1),
        lambda x, y: (x.T.reshape(5, 7, 1)[::-1] + y.reshape(1, 7, 5)[:, :, ::-1]).reshape(-1),
    ),
    "assign": Program(
        "New elements in the memory of each device.", _assign, lambda x, y: x * 2 + y + 1
    ),
}


def _values(dtype: DType) -> tuple[Array, Array]:
    count = SHAPE[0] * SHAPE[1]
    x, y = (samples.small_integers(dtype, count, seed, 3).reshape(SHAPE) for seed in (1, 2))
    return x, y


def _same(found: Array, expected: Array, what: str) -> Measurement:
    """Compares shapes, types and bits."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        have, want = f"{found.dtype} {found.shape}", f"{expected.dtype} {expected.shape}"
        return Measurement(False, f"{what}: is {have}, expected {want}", compared=1)
    wrong = np.flatnonzero(to_bits(found.reshape(-1)) != to_bits(expected.reshape(-1)))
    if not wrong.size:
        return Measurement(True, compared=expected.size)
    first = int(wrong[0])
    got, want = found.reshape(-1)[first], expected.reshape(-1)[first]
    return Measurement(
        False, f"{what}: element {first} is {got!r}, expected {want!r}", compared=expected.size
    )


def _run(
    program: Program,
    dtype: DType,
    axes: tuple[int | None, int | None],
    case_id: str,
    device: DeviceUnderTest,
) -> Measurement:
    """The program on tensors that are cut along these axes, or not."""
    from tinyref import Tensor

    arrays = _values(dtype)
    devices = (device.name, device.second)
    x, y = (
        Tensor(array, device=device.name).shard(devices, axis)
        for array, axis in zip(arrays, axes, strict=True)
    )
    expected = np.asarray(program.expected(*arrays)).astype(numpy_dtype(dtype))
    # An addition of zeros may turn one zero into the other.
    found = program.run(x, y).numpy() + 0
    return _same(found, expected + 0, f"cut along {axes[0]} and {axes[1]}")


def _all_reduced(ring: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """A float sum over the cut axis: the same bits on both devices, and near the exact sum."""
    from tinyref import Tensor

    values = np.random.default_rng(ring).standard_normal((6, 40)).astype(np.float32)
    devices = (device.name, device.second)
    with Context(RING=ring):
        result = Tensor(values, device=device.name).shard(devices, 0).sum(0)
        pieces = [result.shard((name,)).numpy() for name in devices]
    found = _same(pieces[1], pieces[0], "on the second device")
    bound = 6 * 2.0**-24 * np.abs(values.astype(np.float64)).sum(0)
    error = np.abs(pieces[0] - values.astype(np.float64).sum(0))
    if found.passed and bool((error > bound).any()):
        return Measurement(False, f"the sum errs by {error.max()}", compared=error.size)
    return found


# Row i, column j of `_counted` is 10 i + j; the sums and the largest elements of its columns, with
# as many rows as there are devices, and with one row more.
SUMS = {
    2: (10, 12, 14, 16, 18, 20, 22),
    3: (30, 33, 36, 39, 42, 45, 48),
    4: (60, 64, 68, 72, 76, 80, 84),
    5: (100, 105, 110, 115, 120, 125, 130),
}
LARGEST = {
    2: (10, 11, 12, 13, 14, 15, 16),
    3: (20, 21, 22, 23, 24, 25, 26),
    4: (30, 31, 32, 33, 34, 35, 36),
    5: (40, 41, 42, 43, 44, 45, 46),
}
RING_CALLS = 4
QUICK_RINGS = {
    dtypes.float32: {("ring.replay", 3)},
    dtypes.int32: {("ring", 2), ("ring.replay", 4)},
}


def _ring(
    count: int, ring: int, jit: int, dtype: DType, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Launches come before and after the copies of each call, and nobody waits between."""
    from tinyref import Tensor, TinyJit

    devices = device.several(count)
    found = Measurement(True, compared=0)
    with Context(RING=ring, JIT=jit):
        for rows in (count, count + 1):
            counted = [[10 * row + column for column in range(7)] for row in range(rows)]
            whole = Tensor(np.array(counted, numpy_dtype(dtype)), device=device.name)
            x = whole.shard(devices, 0).contiguous().realize()

            @TinyJit
            def step(x: Tensor) -> list[Tensor]:
                doubled = (x * 2).contiguous().realize()
                results = [doubled.sum(0).realize(), doubled.max(0).realize()]
                x.assign(x + 1).realize()
                return results

            results = [step(x) for _ in range(RING_CALLS)]
            for call, pair in enumerate(results):
                wanted = (
                    [2 * (element + call * rows) for element in SUMS[rows]],
                    [2 * (element + call) for element in LARGEST[rows]],
                )
                for what, result, expected in zip(("sum", "max"), pair, wanted, strict=True):
                    for name in devices:
                        there = result.shard((name,)).numpy()
                        numbers = np.array(expected, numpy_dtype(dtype))
                        label = f"{what} of {rows} rows on {name}, call {call}"
                        found = _same(there, numbers, label)
                        if not found.passed:
                            return found
    return found


def _measure_moves(axis: int | None, case_id: str, device: DeviceUnderTest) -> Measurement:
    """To several devices and back to each of them, random bits."""
    from tinyref import Tensor

    values = samples.random_bits(dtypes.int32, 35, 3).reshape(SHAPE)
    there = Tensor(values, device=device.name).shard((device.name, device.second), axis)
    for name in (device.name, device.second):
        found = _same(there.to(name).numpy(), values, f"back on {name}")
        if not found.passed:
            return found
    return found


def _checks(program: Program, dtype: DType) -> list[Check]:
    return [
        Check(
            f"{first}_{second}".lower(),
            functools.partial(_run, program, dtype, (first, second)),
            full_only=first is not None and second is not None and first != second,
        )
        for first in AXES
        for second in AXES
        if (first, second) != (None, None)
    ]


def _ring_checks(dtype: DType) -> list[Check]:
    ways = {"ring": (2, 0), "ring.replay": (2, 1), "naive.replay": (0, 1)}
    return [
        Check(
            f"{way}:{count}",
            functools.partial(_ring, count, *flags, dtype),
            full_only=(way, count) not in QUICK_RINGS[dtype],
        )
        for way, flags in ways.items()
        for count in (2, 3, 4)
    ]


def _row(name: str, dtype: DType, sentence: str, make: Callable[[], list[Check]]) -> Row:
    return make_row(
        f"system.shard.{name}.{dtype.name}",
        f"On two devices, {dtype.name}: {sentence}",
        clauses=("system.shard", "tensor.multi", "tensor.copy"),
        rung=Rung.JIT,
        op="shard",
        dtype=dtype,
        uses=(dtype, dtypes.bool, dtypes.int32),
        features=("second",),
        checks=make,
    )


def rows() -> Iterator[Row]:
    """Rows of tensors on several devices."""
    for dtype in DTYPES:
        for name, program in PROGRAMS.items():
            make = functools.partial(_checks, program, dtype)
            yield _row(name, dtype, program.sentence, make)
    yield _row(
        "all_reduce",
        dtypes.float32,
        "A sum is the same bits on every device, summed in a ring or not.",
        lambda: [
            Check("naive", functools.partial(_all_reduced, 0)),
            Check("ring", functools.partial(_all_reduced, 2)),
        ],
    )
    for dtype in DTYPES:
        yield _row(
            "ring",
            dtype,
            "Sums and maxima over the cut axis of two, three and four devices, between launches.",
            functools.partial(_ring_checks, dtype),
        )
    yield _row(
        "moved_back",
        dtypes.int32,
        "Elements come back from several devices as they went.",
        lambda: [
            Check(str(axis).lower(), functools.partial(_measure_moves, axis)) for axis in AXES
        ],
    )
