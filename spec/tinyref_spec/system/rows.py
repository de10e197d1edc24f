"""Rows of the level `system`: faults that only show in many kernels in a row.

All numbers are small integers, exact in float32 in any order, so every comparison is exact; numpy
computes the expected values from the same integers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, Run, judge_pairs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.samples import integers
from tinyref_spec.system import replays, sharding, transfers

EXACT = "Equal in every bit: small integers."


# --- symbolic shapes ----------------------------------------------------------------------------


def _symbolic(jit: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Use one kernel for all sizes: sums, products, and a moving window."""
    from tinyref import Tensor, TinyJit, Variable
    from tinyref.uops.node import UOp

    whole = integers(4, 6)
    x = Tensor(whole, device=device.name).realize()
    n = Variable("n", 1, 6)

    @TinyJit
    def forms(size: UOp) -> list[Tensor]:
        part = x[:, :size]
        return [part.sum(1), part @ part.T, x[:, size - 1 : size] * 2, part.max(0) + 1]

    def pairs() -> Iterator[tuple[str, object, object]]:
        for size in (4, 1, 6, 3, 5):
            part = whole[:, :size]
            expected = [part.sum(1), part @ part.T, whole[:, size - 1 : size] * 2, part.max(0) + 1]
            for number, form in enumerate(forms(n.bind(size))):
                yield f"form {number} for n = {size}", form.numpy(), expected[number]

    with Context(JIT=jit):
        return judge_pairs(pairs())


# --- many kernels -------------------------------------------------------------------------------


def _many_kernels(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run kernels that each read what the one before wrote."""
    from tinyref import Tensor

    kernels = count // 8 if device.capabilities.is_interpreted else count
    x = Tensor(integers(2, 8), device=device.name).realize()
    expected = integers(2, 8)
    for number in range(kernels):
        x = (x + number % 3).contiguous()
        expected = expected + np.float32(number % 3)
    return judge_pairs([(f"{kernels} kernels", x.numpy(), expected)])


def _large(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Write and read every element of a large buffer."""
    from tinyref import Tensor

    size = count // 64 if device.capabilities.is_interpreted else count
    numbers = (np.arange(size, dtype=np.int64) % 251).astype(np.int32)
    x = Tensor(numbers, device=device.name)
    back = (x + 1).flip(0).numpy()
    return judge_pairs([("all elements, turned around", back, (numbers + 1)[::-1])])


_REPLAYED = "look at what a replay takes from its call: buffers, variables, the order of launches"


SYMBOLIC: dict[str, Run] = {
    "forms": functools.partial(_symbolic, 0),
    "forms.replay": functools.partial(_symbolic, 1),
}
_USED = (dtypes.float32, dtypes.int32, dtypes.bool)


def rows() -> Iterator[Row]:
    """Yield rows, from single kernels in sequence to whole captured steps."""
    yield make_row(
        "system.kernels.int32",
        "Many kernels in a row, and buffers of many megabytes.",
        clauses=("system.kernels", "tensor.buffer"),
        rung=Rung.JIT,
        op="kernels",
        dtype=dtypes.int32,
        uses=_USED,
        error_rule=EXACT,
        checks=lambda: [
            Check("row:80", functools.partial(_many_kernels, 80)),
            Check("row:800", functools.partial(_many_kernels, 800), full_only=True),
            Check("large:1000000", functools.partial(_large, 1_000_000)),
            Check("large:20000000", functools.partial(_large, 20_000_000), full_only=True),
        ],
    )
    # Before replays, which may copy as well.
    yield from transfers.rows()
    yield make_row(
        "system.symbolic.float32",
        "Kernels with symbolic sizes serve all values of the variables.",
        clauses=("system.symbolic", "tensor.bind"),
        rung=Rung.JIT,
        op="symbolic",
        dtype=dtypes.float32,
        uses=_USED,
        error_rule=EXACT,
        checks=SYMBOLIC,
    )
    yield make_row(
        "system.jit.float32",
        "A captured function is replayed on other inputs, and its state advances.",
        clauses=("system.jit", "system.jit.flight", "system.jit.state", "tensor.assign"),
        rung=Rung.JIT,
        op="jit",
        dtype=dtypes.float32,
        uses=_USED,
        error_rule=EXACT,
        checks=replays.CHECKS,
        advice=_REPLAYED,
    )
    yield from sharding.rows()
