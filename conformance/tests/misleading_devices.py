"""Devices whose faults look like others, in values or in what they say."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.errors import OrderError, TinyrefError, UserError
from tinyref.uops.ops import Ops
from tinyref_conformance.faulty.arithmetic import changed, right
from tinyref_conformance.faulty.device import Array, Call, FaultyDevice, SimulatedKernel


def _is_signed(dtype: DType) -> bool:
    return dtype.is_int and not dtype.is_unsigned


def _unsigned_below(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    first, second = operands
    if _is_signed(sources[0]):
        unsigned = f"u{first.dtype.itemsize}"
        return np.asarray(first.view(unsigned) < second.view(unsigned))
    return right(Ops.CMPLT, dtype, operands, sources)


def _remainder_by(kind: type[np.floating[Any]]) -> Call:
    def wrong(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
        if not dtype.is_int or dtype.bits < 32:
            return right(Ops.MOD, dtype, operands, sources)
        first, second = (operand.astype(kind) for operand in operands)
        with np.errstate(all="ignore"):
            return np.fmod(first, second).astype(operands[0].dtype)

    return wrong


def _narrow(dtype: DType, values: Array) -> Array:
    if dtype.scalar is not dtypes.float64:
        return values
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _wrong_least(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = right(Ops.XOR, dtype, operands, sources)
    if not _is_signed(dtype):
        return value
    is_least = (operands[0] == dtype.minimum) | (operands[1] == dtype.minimum)
    return np.where(is_least, value ^ 1, value).astype(value.dtype)


def _raising(error: Callable[[str], TinyrefError]) -> Callable[[SimulatedKernel], Call]:
    def edit(kernel: SimulatedKernel) -> Call:
        def run(*arguments: Any) -> None:
            raise error(kernel.device)

        return run

    return edit


def _rounded_second(kernel: SimulatedKernel) -> Call:
    healthy = kernel.run

    def run(buffers: Sequence[Any], *rest: Any) -> Any:
        handles = list(buffers)
        if len(handles) > 1:
            first = handles[1].ctypes.data & ~15
            memory = (ctypes.c_uint8 * handles[1].size).from_address(first)
            handles[1] = np.frombuffer(memory, np.uint8)
        return healthy(handles, *rest)

    return run


_calls = itertools.count()


def _flaking(kernel: SimulatedKernel) -> Call:
    healthy = kernel.run

    def run(buffers: Sequence[Any], *rest: Any) -> Any:
        seconds = healthy(buffers, *rest)
        if next(_calls) % 7 == 3:
            buffers[0][:1] ^= 1
        return seconds

    return run


_device = functools.partial(FaultyDevice, module=__name__)
DOUBLES = (Ops.ADD, Ops.MUL, Ops.FDIV, Ops.SQRT, Ops.SUB)
REFUSAL = "launch: the queue takes 16 arguments\ncaused by: no descriptor is left"
DEVICES = (
    _device(
        name="UnsignedCompare",
        sentence="Compares signed integers as unsigned ones.",
        ops={Ops.CMPLT: _unsigned_below},
    ),
    _device(
        name="Float32Remainder",
        sentence="Takes the remainder of integers by way of float32.",
        ops={Ops.MOD: _remainder_by(np.float32)},
    ),
    _device(
        name="Float64Remainder",
        sentence="Takes the remainder of integers by way of float64.",
        ops={Ops.MOD: _remainder_by(np.float64)},
    ),
    _device(
        name="NarrowDoubles",
        sentence="Gives float64 results with the bits of float32.",
        ops={op: changed(op, result=_narrow) for op in DOUBLES},
    ),
    _device(
        name="WrongLeast",
        sentence="Has the least integer wrong in XOR.",
        ops={Ops.XOR: _wrong_least},
    ),
    _device(
        name="RefusedLaunches",
        sentence="Raises at each launch an error that is meant for callers.",
        launch=_raising(lambda device: UserError(REFUSAL)),
    ),
    _device(
        name="Racing",
        sentence="Finds a race in every launch.",
        launch=_raising(lambda device: OrderError(device, "the order of work-items matters")),
    ),
    _device(
        name="RoundedOffset",
        sentence="Passes the offset of the second buffer as a multiple of 16 bytes.",
        launch=_rounded_second,
    ),
    _device(
        name="Flaking",
        sentence="Flips a bit of the output of every seventh launch.",
        launch=_flaking,
    ),
)
globals().update({faulty.name: faulty.backend for faulty in DEVICES})
