"""Ranges of numbers, computed where they are used: start + i * step over the numbers i of IOTA."""

from __future__ import annotations

import math

import numpy as np

from tinyref.dtype import ConstType, DType, dtypes
from tinyref.errors import UserError, argument_error
from tinyref.lazy import graph
from tinyref.tensor import literals
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


def arange_node(start: ConstType, stop: ConstType, step: ConstType, dtype: DType | None) -> UOp:
    """The node of `Tensor.arange`, of shape (count,) with count = ceil((stop - start) / step).

    Integers are exact in every integer `dtype`; a float bound makes every element a float, which
    is start + i * step rounded in float32, or in float64 for that `dtype`, and then cast. Raises
    `UserError` for a step of 0, bounds that are not finite, and numbers that do not fit `dtype`.
    """
    first, last, by = (
        _number(value, name) for value, name in ((start, "start"), (stop, "stop"), (step, "step"))
    )
    if by == 0:
        raise UserError("arange: step is 0: accepted is any other number")
    if isinstance(first, int) and isinstance(last, int) and isinstance(by, int):
        count = max(0, -((first - last) // by))
        return _integers(first, by, count, dtype or dtypes.default_int)
    count = max(0, math.ceil((last - first) / by))
    target = dtype or dtypes.default_float
    wide = target if target is dtypes.float64 else dtypes.float32
    return graph.cast(_steps(graph.cast(graph.iota(count), wide), first, by), target)


def _number(value: ConstType, name: str) -> int | float:
    if isinstance(value, np.generic):
        value = value.item()
    if not literals.is_scalar(value) or not math.isfinite(value):
        raise argument_error(
            value, int | float, f"arange: {name} is {value!r}, accepted is a finite number"
        )
    return value


def _integers(start: int, step: int, count: int, target: DType) -> UOp:
    """Wrapping arithmetic in the type itself is exact, as all results fit."""
    ends = (start, start + step * (count - 1)) if count else ()
    for value in ends:
        literals.check_fits(value, target)
    computed = target
    if not target.is_int:
        is_small = all(dtypes.int32.minimum <= end <= dtypes.int32.maximum for end in ends)
        computed = dtypes.int32 if is_small else dtypes.int64
    return graph.cast(_steps(graph.cast(graph.iota(count), computed), start, step), target)


def _steps(numbers: UOp, start: ConstType, step: ConstType) -> UOp:
    """start + i * step, in the type of the numbers i."""
    by, first = (graph.constant(value, numbers.dtype) for value in (step, start))
    scaled = graph.alu(Ops.MUL, numbers, by)
    return scaled if start == 0 else graph.alu(Ops.ADD, scaled, first)
