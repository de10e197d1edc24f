"""Devices whose faults look like others, in values or in what they say."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.errors import OrderError, UserError
from tinyref.interpret.translate import Override
from tinyref.uops.ops import Ops
from tinyref_conformance.faulty.broken import Array, BrokenBackend, BrokenKernel, right

Change = Callable[[Array], Array]


def _with_operands(op: Ops, of: Callable[[DType], bool], change: Change) -> Override:
    """Return the semantics of `op` on changed operands, where `of` says so of their type."""

    def wrong(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
        if of(sources[0]):
            operands = [change(operand) for operand in operands]
        return right(op, dtype, operands, sources)

    return wrong


def _is_signed(dtype: DType) -> bool:
    return dtype.is_int and not dtype.is_unsigned


def _unsigned_below(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    first, second = operands
    if _is_signed(sources[0]):
        unsigned = f"u{first.dtype.itemsize}"
        return np.asarray(first.view(unsigned) < second.view(unsigned))
    return right(Ops.CMPLT, dtype, operands, sources)


class UnsignedCompare(BrokenBackend):
    """Compares signed integers as unsigned ones."""

    wrong: ClassVar[Mapping[Ops, Override]] = {Ops.CMPLT: _unsigned_below}


def _through(kind: type[np.floating[Any]]) -> Override:
    def wrong(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
        if not dtype.is_int or dtype.bits < 32:
            return right(Ops.MOD, dtype, operands, sources)
        first, second = (operand.astype(kind) for operand in operands)
        with np.errstate(all="ignore"):
            return np.fmod(first, second).astype(operands[0].dtype)

    return wrong


class Float32Remainder(BrokenBackend):
    """Takes the remainder of integers by way of float32."""

    wrong: ClassVar[Mapping[Ops, Override]] = {Ops.MOD: _through(np.float32)}


class Float64Remainder(BrokenBackend):
    """Takes the remainder of integers by way of float64."""

    wrong: ClassVar[Mapping[Ops, Override]] = {Ops.MOD: _through(np.float64)}


def _narrow(op: Ops) -> Override:
    def wrong(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
        found = right(op, dtype, operands, sources)
        if dtype.scalar is not dtypes.float64:
            return found
        with np.errstate(all="ignore"):
            return found.astype(np.float32).astype(np.float64)

    return wrong


class NarrowDoubles(BrokenBackend):
    """Gives float64 results with the bits of float32."""

    wrong: ClassVar[Mapping[Ops, Override]] = {
        op: _narrow(op) for op in (Ops.ADD, Ops.MUL, Ops.FDIV, Ops.SQRT, Ops.SUB)
    }


def _wrong_least(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    found = right(Ops.XOR, dtype, operands, sources)
    if not _is_signed(dtype):
        return found
    is_least = (operands[0] == dtype.minimum) | (operands[1] == dtype.minimum)
    return np.where(is_least, found ^ 1, found).astype(found.dtype)


class WrongLeast(BrokenBackend):
    """Has the least integer wrong in XOR."""

    wrong: ClassVar[Mapping[Ops, Override]] = {Ops.XOR: _wrong_least}


def _coarse_sine(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    found = right(Ops.SIN, dtype, operands, sources)
    (angle,) = operands
    is_small = (np.abs(angle) < 1e-2) & (angle != 0) & np.isfinite(angle)
    return np.where(is_small, found * found.dtype.type(1.001), found).astype(found.dtype)


class CoarseSine(BrokenBackend):
    """Gives the sine of small angles with three digits."""

    wrong: ClassVar[Mapping[Ops, Override]] = {Ops.SIN: _coarse_sine}


class _RefusingKernel(BrokenKernel):
    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        raise UserError("launch: the queue takes 16 arguments\ncaused by: no descriptor is left")


class RefusedLaunches(BrokenBackend):
    """Raises at each launch what is meant for callers."""

    kernel = _RefusingKernel


class _RacingKernel(BrokenKernel):
    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        raise OrderError(self.device, "the order of work-items matters")


class Racing(BrokenBackend):
    """Finds a race in every launch."""

    kernel = _RacingKernel


class _RoundingKernel(BrokenKernel):
    def __call__(self, buffers: Sequence[Any], *rest: Any, **named: Any) -> float | None:
        handles = list(buffers)
        if len(handles) > 1:
            handles[1] = _rounded_down(handles[1])
        return super().__call__(handles, *rest, **named)


def _rounded_down(handle: Any) -> Any:
    """Return the bytes from the multiple of 16 at or before the first one."""
    first = handle.ctypes.data & ~15
    return np.frombuffer((ctypes.c_uint8 * handle.size).from_address(first), np.uint8)


class RoundedOffset(BrokenBackend):
    """Passes the offset of the second buffer as a multiple of 16 bytes."""

    kernel = _RoundingKernel


class _FlakingKernel(BrokenKernel):
    calls = itertools.count()

    def __call__(self, buffers: Sequence[Any], *rest: Any, **named: Any) -> float | None:
        found = super().__call__(buffers, *rest, **named)
        if next(self.calls) % 7 == 3:
            buffers[0][:1] ^= 1
        return found


class Flaking(BrokenBackend):
    """Flips a bit of the output of every seventh launch."""

    kernel = _FlakingKernel
