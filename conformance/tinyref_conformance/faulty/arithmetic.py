"""Devices that calculate wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import ml_dtypes
import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.interpret.translate import Override
from tinyref.uops.ops import ALU, Ops
from tinyref_conformance.faulty.broken import Array, BrokenBackend, right

_FLOAT_ARITHMETIC = (
    *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.RECIP, Ops.SQRT, Ops.MULACC, Ops.MAX, Ops.NEG),
)


def _around(
    op: Ops, change: Callable[[DType, Array], Array], before: bool, after: bool
) -> Override:
    """The semantics of `op` with float operands, results, or both sent through `change`."""

    def wrong(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
        if before:
            pairs = zip(sources, operands, strict=True)
            operands = [change(source, operand) for source, operand in pairs]
        result = right(op, dtype, operands, sources)
        return change(dtype, result) if after else result

    return wrong


def to_tf32(values: Array) -> Array:
    """float32 rounded to 10 mantissa bits, to nearest even; infinities and NaN stay."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    even = (bits >> np.uint32(13)) & np.uint32(1)
    rounded = (bits + np.uint32(0xFFF) + even) & np.uint32(0xFFFFE000)
    return np.asarray(np.where(np.isfinite(values), rounded.view(np.float32), values))


def _tf32(dtype: DType, values: Array) -> Array:
    return to_tf32(values) if dtype.scalar is dtypes.float32 else values


class Tf32Rounding(BrokenBackend):
    """Multiplies float32 the way a matrix unit does, on inputs rounded to 10 mantissa bits."""

    wrong: ClassVar[Mapping[Ops, Override]] = {
        op: _around(op, _tf32, before=True, after=False) for op in (Ops.MUL, Ops.MULACC)
    }


def flush(values: Array) -> Array:
    """Subnormals become zero of the same sign."""
    tiny = np.abs(values) < np.finfo(values.dtype).tiny
    return np.asarray(np.where(tiny, np.copysign(np.zeros_like(values), values), values))


def _flush_float32(dtype: DType, values: Array) -> Array:
    return flush(values) if dtype.scalar is dtypes.float32 else values


class FlushedSubnormals(BrokenBackend):
    """Flushes float32 subnormals to zero, going in and coming out, and declares to keep them."""

    wrong: ClassVar[Mapping[Ops, Override]] = {
        op: _around(op, _flush_float32, before=True, after=True) for op in _FLOAT_ARITHMETIC
    }


def _without_negative_zero(dtype: DType, values: Array) -> Array:
    if not dtype.scalar.is_float:
        return values
    return np.where(values == 0, np.zeros_like(values), values)


class LostNegativeZero(BrokenBackend):
    """Gives +0 for every result that is -0."""

    wrong: ClassVar[Mapping[Ops, Override]] = {
        op: _around(op, _without_negative_zero, before=False, after=True)
        for op in sorted(ALU - {Ops.BITCAST}, key=lambda op: op.name)
    }


def _floor_divide(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    quotient = right(Ops.IDIV, dtype, operands, sources)
    if dtype.is_unsigned:
        return quotient
    dividend, divisor = operands
    remainder = right(Ops.MOD, dtype, operands, sources)
    is_lower = (remainder != 0) & ((remainder < 0) != (divisor < 0)) & (dividend == dividend)
    return np.asarray(quotient - is_lower.astype(quotient.dtype))


class FloorDivision(BrokenBackend):
    """Divides integers towards minus infinity instead of towards zero."""

    wrong: ClassVar[Mapping[Ops, Override]] = {Ops.IDIV: _floor_divide}


def _truncating_cast(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    (values,) = operands
    if dtype.scalar is not dtypes.bfloat16 or sources[0].scalar is not dtypes.float32:
        return right(Ops.CAST, dtype, operands, sources)
    bits = np.ascontiguousarray(values).view(np.uint32) >> np.uint32(16)
    chopped = bits.astype(np.uint16).view(ml_dtypes.bfloat16).reshape(values.shape)
    return np.where(np.isnan(values), values.astype(ml_dtypes.bfloat16), chopped)


class TruncatedBfloat16(BrokenBackend):
    """Casts float32 to bfloat16 by dropping the low half of its bits, without rounding."""

    wrong: ClassVar[Mapping[Ops, Override]] = {Ops.CAST: _truncating_cast}
