"""Rows of tensors on two to four devices: NAME, NAME:1 or the second one named, and others.

Data are small integers, so every result is exact in every order of additions. Other operations on
such tensors are launches on each device and copies between them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.config import Context
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, judge_pairs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest

DTYPES = (dtypes.float32, dtypes.int32)


# Row i, column j of the data is 10 i + j. These are the sums and the largest elements of its
# columns, with as many rows as there are devices, and with one more.
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
    """Launch before and after the copies of each call, without a wait."""
    from tinyref import Tensor, TinyJit

    devices = device.several(count)

    def pairs() -> Iterator[tuple[str, object, object]]:
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

            for call, (sums, largest) in enumerate([step(x) for _ in range(RING_CALLS)]):
                for name in devices:
                    where = f"of {rows} rows on {name}, call {call}"
                    expected = [2 * (element + call * rows) for element in SUMS[rows]]
                    yield f"sum {where}", sums.shard((name,)).numpy(), expected
                    expected = [2 * (element + call) for element in LARGEST[rows]]
                    yield f"max {where}", largest.shard((name,)).numpy(), expected

    with Context(RING=ring, JIT=jit):
        return judge_pairs(pairs())


def _rounded(ring: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check sums of three numbers that round: one of the three orders, the same on each device.

    The device may choose the order of each element: a ring may have several.
    """
    from tinyref import Tensor

    devices = device.several(3)
    terms = np.random.default_rng(8).normal(size=(3, 60)).astype(np.float32)
    terms *= np.float32(10.0) ** np.arange(-3, 3, dtype=np.float32).repeat(10)[::-1]
    x, y, z = terms
    orders = np.stack([(x + y) + z, (y + z) + x, (z + x) + y])
    with Context(RING=ring):
        total = Tensor(terms, device=device.name).shard(devices, 0).sum(0).realize()
        copies = [total.shard((name,)).numpy() for name in devices]
    is_order = orders == copies[0]
    if not is_order.any(axis=0).all():
        first = int(np.flatnonzero(~is_order.any(axis=0))[0])
        message = f"element {first} is {copies[0][first]!r}, which is the sum in no order"
        return Measurement(False, message, compared=copies[0].size)
    measured = judge_pairs(
        (f"the sum on {name}", copy, copies[0]) for name, copy in zip(devices, copies, strict=True)
    )
    counts = ", ".join(f"{count}" for count in is_order.sum(axis=1))
    measured.observed = f"sums that agree with (a+b)+c, (b+c)+a, (c+a)+b: {counts} of {x.size}"
    return measured


def _ring_checks(dtype: DType) -> list[Check]:
    ways = {"ring": (2, 0), "ring.replay": (2, 1), "naive.replay": (0, 1)}
    rounded = [
        Check(f"rounded:{name}", functools.partial(_rounded, ring))
        for name, ring in (("ring", 2), ("naive", 0))
        if dtype is dtypes.float32
    ]
    return rounded + [
        Check(
            f"{way}:{count}",
            functools.partial(_ring, count, *flags, dtype),
            full_only=(way, count) not in QUICK_RINGS[dtype],
        )
        for way, flags in ways.items()
        for count in (2, 3, 4)
    ]


def rows() -> Iterator[Row]:
    """Yield rows of tensors on several devices."""
    for dtype in DTYPES:
        yield make_row(
            f"system.shard.ring.{dtype.name}",
            f"On several devices, {dtype.name}: sums and maxima over the cut axis of two, three "
            "and four devices, between launches.",
            clauses=("system.shard", "tensor.multi", "tensor.copy"),
            rung=Rung.JIT,
            op="shard",
            dtype=dtype,
            uses=(dtype, dtypes.bool, dtypes.int32),
            features=("second",),
            checks=functools.partial(_ring_checks, dtype),
            advice="look at copies between devices first, and at what they wait for; then at the "
            "order of launches on each device",
        )
