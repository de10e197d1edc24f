"""Kernels of IOTA: the numbers of elements through a view, without any memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec import samples
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Run, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store
from tinyref_spec.measure import run_exact

# The numbers through a view. The rows of views ask for the same positions, of loads.
LITERALS: dict[str, tuple[ShapeTracker, list[int]]] = {
    "plain": (shaped(5), [0, 1, 2, 3, 4]),
    "one": (shaped(1), [0]),
    "padded": (shaped(3).pad(((2, 1),)), [0, 0, 0, 1, 2, 0]),
    "flipped": (shaped(4).flip((0,)), [3, 2, 1, 0]),
    "part": (shaped(9).shrink(((3, 7),)), [3, 4, 5, 6]),
    "repeated": (shaped(1, 3).expand((2, 3)), [0, 1, 2, 0, 1, 2]),
    "transposed": (shaped(2, 3).permute((1, 0)), [0, 3, 1, 4, 2, 5]),
    "last": (
        shaped(2**31 - 1).shrink(((2**31 - 3, 2**31 - 1),)),
        [2147483645, 2147483646],
    ),
}


def _literal(name: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    tracker, expected = LITERALS[name]
    kernel = kernel_of(build.iota(tracker), *tracker.shape)
    return run_exact(case_id, device, kernel, [None], [np.array(expected, np.int32)])


def _symbolic(value: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store the first n numbers in reverse; the rest of the output stays."""
    tracker = shaped(build.variable("n", 1, 64))
    kernel = build.sink(store(0, build.iota(tracker.flip((0,))), tracker))
    old = samples.small_integers(dtypes.int32, 64, 5, 100)
    expected = old.copy()
    expected[:value] = [value - 1 - index for index in range(value)]
    return run_exact(case_id, device, kernel, [old], [expected], {"n": value})


def _weighted_sum(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Compute the sum of i * x[i]: a loop over the numbers."""
    numbers = build.iota(shaped(6))
    total = build.reduce(Ops.ADD, build.mul(load(1, dtypes.int32, (6,)), numbers), (0,))
    data = np.array([9, 1, 0, -2, 5, 2**31 - 1], np.int32)
    return run_exact(
        case_id,
        device,
        kernel_of(total, 1),
        [None, data],
        # 1 + 0 - 6 + 20 + 5 * (2**31 - 1), which wraps
        [np.array([10 - 2**31], np.int32)],
    )


def _triangle(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store 1 if the row is at least the column: a mask without memory."""
    rows = build.iota(shaped(3, 1).expand((3, 3)))
    columns = build.iota(shaped(1, 3).expand((3, 3)))
    value = build.where(build.less(rows, columns), build.const(dtypes.int32, 0), 1)
    expected = [np.array([1, 0, 0, 1, 1, 0, 1, 1, 1], np.int32)]
    return run_exact(case_id, device, kernel_of(value, 3, 3), [None], expected)


def _row(name: str, sentence: str, rung: Rung, checks: dict[str, Run]) -> Row:
    return make_row(
        f"kernel.iota.{name}.int32",
        sentence,
        clauses=("kernel.iota", "kernel.index"),
        rung=rung,
        op="IOTA",
        dtype=dtypes.int32,
        checks=checks,
    )


def rows() -> Iterator[Row]:
    """Yield rows of kernels of IOTA."""
    yield _row(
        "literal",
        "IOTA gives the numbers of elements.",
        Rung.GATE,
        {name: functools.partial(_literal, name) for name in LITERALS},
    )
    yield _row(
        "used",
        "Masks and sums use the numbers as they use loads; a symbolic size sets their count.",
        Rung.LOOP,
        {
            "weighted_sum": _weighted_sum,
            "triangle": _triangle,
            **{f"n:{value}": functools.partial(_symbolic, value) for value in (1, 63, 64)},
        },
    )
