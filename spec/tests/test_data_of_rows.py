"""Rows of kernels that reduce, compare, select or cast what they load have data that show faults.

And each row of kernels has a case in which no buffer begins where vectors are aligned. Each row of
the quick suite is asked for its kernels and data by a device that computes nothing.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pytest

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_spec import catalogue, samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import (
    DeviceUnderTest,
    Inputs,
    Optimised,
    Runnable,
    slots_of,
)
from tinyref_spec.kernel import reduces

ASKED = frozenset({Ops.REDUCE, Ops.CMPLT, Ops.CMPNE, Ops.WHERE, Ops.CAST, Ops.MAX})
# Rows that have other data for a reason.
EXEMPT = {
    "kernel.form.int32": "kernel.kinds.int32 is the same with such data: which one fails tells why",
    "kernel.opt.*.any": "a bool has no other values, and of equal ones a maximum shows nothing",
    "kernel.*_reduce.bool": "some rows of the buffer are all false or all true",
    "kernel.program.lanes.bool": "a bool has no other values",
    "kernel.program.barriers": "who of a group writes is asked, by a 1 among zeros",
    "kernel.program.unused": "which of the parameters are read is asked",
    "kernel.regression.*": "the data with which the fault was found",
}


class Noting(DeviceUnderTest):
    """Computes nothing: notes what it is given, and gives zeros."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.noted: list[tuple[Runnable, Inputs]] = []
        self.begins: list[bool] = []

    def forms(self, kernel: Runnable) -> tuple[str, ...]:
        return ()

    def program(self, kernel: Runnable) -> Program:
        # All cases fail: without a program none is described at length.
        raise UserError("nothing is compiled")

    def source(self, kernel: Runnable) -> str:
        return ""

    def run(self, kernel: Runnable, inputs: Inputs, *rest: object) -> list[Array]:
        self.noted.append((kernel, inputs))
        self.begins.append(self.all_unaligned)
        slots = [slot for slot in slots_of(kernel) if slot.is_written]
        return [np.zeros(slot.size, numpy_dtype(slot.dtype)) for slot in slots]


def is_asked(kernel: Runnable) -> bool:
    """Return True if it reduces, compares, selects or casts anything that it loads."""
    if isinstance(kernel, Optimised):
        kernel = kernel.ast
    nodes = kernel.uops if isinstance(kernel, Program) else tuple(kernel.toposort())
    loaded: set[UOp] = set()
    for node in nodes:
        if node.op is Ops.LOAD or not loaded.isdisjoint(node.src):
            loaded.add(node)
    return any(node.op in ASKED and node in loaded for node in nodes)


def is_telling(dtype: DType, values: Array) -> bool:
    """Return True if the values of a buffer can show faults: see `data_kinds.KINDS`.

    These are repeated numbers, a negative zero, a NaN, a subnormal number, an integer. A large
    float that others cancel counts too: then the last bits of the sum matter.
    """
    if values.size > 1 and bool((values == values[0]).all()):
        return True
    if dtype.is_bool:
        return False
    if dtype.is_int:
        high = int(dtype.maximum) // 2
        return any(abs(int(value)) >= high for value in (values.min(), values.max()))
    wide = values.astype(np.float64)
    is_special = np.isnan(wide) | (np.signbit(wide) & (wide == 0))
    is_special |= (np.abs(wide) < 2.0 ** (1 - samples.bias(dtype))) & (wide != 0)
    return bool(is_special.any() or (np.abs(wide) >= 2.0 ** (dtype.mantissa_bits - 6)).any())


def rows_without(query: str) -> Mapping[str, set[str]]:
    """Return the types of data of each row that needs telling data and has none."""
    device = Noting("PYTHON")
    types: dict[str, set[str]] = defaultdict(set)
    telling: set[str] = set()
    for case in catalogue.cases(Profile.QUICK, query):
        device.noted.clear()
        # Zeros are no result.
        with contextlib.suppress(Exception):
            case.run(device)
        for kernel, inputs in device.noted:
            if not is_asked(kernel):
                continue
            for slot in slots_of(kernel):
                values = inputs[slot.number]
                if values is None or not np.size(values):
                    continue
                types[case.row].add(slot.dtype.name)
                if is_telling(slot.dtype, np.asarray(values).reshape(-1)):
                    telling.add(case.row)
    return {row: kinds for row, kinds in types.items() if row not in telling}


def aligned_rows(name: str, query: str) -> list[str]:
    """Return the required rows with launches that have no completely unaligned launch."""
    device = Noting(name)
    begins: dict[str, list[bool]] = defaultdict(list)
    for case in catalogue.cases(Profile.QUICK, query):
        if case.needs.unmet(device.capabilities):
            continue
        device.begins.clear()
        with contextlib.suppress(Exception):
            case.run(device)
        begins[case.row] += device.begins
    return [row for row, aligned in begins.items() if aligned and not any(aligned)]


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (dtypes.int32, [1, 2, -3], False),
        (dtypes.int32, [1, 2**31 - 1], True),
        (dtypes.int32, [5, 5], True),
        (dtypes.uint8, [1, 126], False),
        (dtypes.uint8, [1, 127], True),
        (dtypes.float32, [0.0, 1.0, -2.5], False),
        (dtypes.float32, [-0.0, 1.0], True),
        (dtypes.float32, [1.0, float("nan")], True),
        (dtypes.float32, [1.0, 2.0**-127], True),
        (dtypes.float32, [2.0**17, 1.0], True),
        (dtypes.bool, [True, False], False),
    ],
)
def test_telling_data(dtype: DType, values: list[float], expected: bool) -> None:
    assert is_telling(dtype, np.array(values, numpy_dtype(dtype))) is expected


def test_a_row_without_such_data_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = "kernel.reduce.add.int32"
    shapes = f"{row}.*_over_*"
    assert rows_without(shapes) == {}
    monkeypatch.setattr(reduces, "kinds_of", lambda *given: ())
    assert rows_without(shapes) == {row: {"int32"}}


@pytest.mark.long
def test_rows_of_kernels_have_data_that_show_faults() -> None:
    rows = rows_without("kernel")
    unexplained = {
        row: sorted(types)
        for row, types in rows.items()
        if not any(fnmatch.fnmatchcase(row, pattern) for pattern in EXEMPT)
    }
    assert unexplained == {}
    needless = [pattern for pattern in EXEMPT if not fnmatch.filter(rows, pattern)]
    assert needless == []


def test_a_row_whose_buffers_are_not_all_unaligned_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = "kernel.reduce.add.int32"
    assert aligned_rows("PYTHON", query) == []
    monkeypatch.setattr(Noting, "all_unaligned", property(lambda _: False, lambda *_: None))
    assert aligned_rows("PYTHON", query) == [query]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PYTHON", "CPU", "GPU_EMU"])
def test_rows_of_kernels_have_a_case_in_which_no_buffer_is_aligned(name: str) -> None:
    assert aligned_rows(name, "kernel") == []
