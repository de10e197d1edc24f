"""Functions of inputs that are not contiguous: with a stride, an offset, or backwards.

Libraries of vector functions take a pointer and a stride; ignoring either of them gives functions
of other elements.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec import oracles, samples
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Ulp, ulp_limit
from tinyref_spec.kernels.notation import kernel_of, load, shaped
from tinyref_spec.measure import Experiment, measure

FUNCTIONS = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.RECIP)
DTYPES = (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64)
# Elements between two inputs, elements before the first one, and True if it goes backwards.
STEPS: dict[str, tuple[int, int, bool]] = {
    "stride": (3, 1, False),
    "every_second": (2, 0, False),
    "backwards": (1, 0, True),
    "stride_backwards": (2, 5, True),
}
COUNT = 17
# The forms of the quick profile: for other types than float32, and for float32.
QUICK = (("stride_backwards",), ("stride", "every_second", "backwards"))


def _view(step: int, before: int, is_reversed: bool) -> ShapeTracker:
    whole = shaped(before + COUNT * step).shrink(((before, before + COUNT * step),))
    if is_reversed:
        whole = whole.flip((0,))
    rows = whole.reshape((COUNT, step)).shrink(((0, COUNT), (0, 1)))
    return rows.reshape((COUNT,))


def _measure(form: str, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    step, before, is_reversed = STEPS[form]
    size = before + COUNT * step
    # All functions give numbers for positive operands.
    data = np.abs(samples.moderate(dtype, size, step))
    taken = data[before:][::-1] if is_reversed else data[before:]
    operands = [np.ascontiguousarray(taken[::step])]
    x = load(1, dtype, _view(step, before, is_reversed), size)
    # A kernel for each function, because a library has a call for each.
    for op in FUNCTIONS:
        kernel = kernel_of(build.unary(op, x), COUNT)
        expected = oracles.evaluate(op.name, dtype, operands)
        rule = Ulp(ulp_limit(op.name, dtype))
        measured = measure(device, Experiment(case_id, kernel, [None, data], [expected], [rule]))
        if not measured.passed:
            measured.message = f"{op.name}: {measured.message}"
            return measured
    return measured


def _checks(dtype: DType) -> list[Check]:
    return [
        Check(
            name,
            functools.partial(_measure, name, dtype),
            full_only=name not in QUICK[dtype is dtypes.float32],
        )
        for name in STEPS
    ]


def rows() -> Iterator[Row]:
    """Yield a row for each type."""
    for dtype in DTYPES:
        yield make_row(
            f"kernel.strided.{dtype.name}",
            f"Functions of {dtype.name} inputs with a stride, an offset, or in reverse.",
            clauses=("kernel.view", *(f"isa.{op.name.lower()}" for op in FUNCTIONS)),
            rung=Rung.ALU,
            op="VIEW",
            dtype=dtype,
            error_rule="As the functions of contiguous elements.",
            checks=functools.partial(_checks, dtype),
            advice="look at the stride and the offset that a function of many elements is called "
            "with",
        )
