"""Devices whose faults look like others, in values or in what they say."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyref.dtype import DType
from tinyref.uops.ops import Ops
from tinyref_conformance.faulty.arithmetic import right
from tinyref_conformance.faulty.device import Array, Call, FaultyDevice, SimulatedKernel


def _is_signed(dtype: DType) -> bool:
    return dtype.is_int and not dtype.is_unsigned


def _unsigned_below(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    first, second = operands
    if _is_signed(sources[0]):
        unsigned = f"u{first.dtype.itemsize}"
        return np.asarray(first.view(unsigned) < second.view(unsigned))
    return right(Ops.CMPLT, dtype, operands, sources)


def _float32_remainder(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    if not dtype.is_int or dtype.bits < 32:
        return right(Ops.MOD, dtype, operands, sources)
    first, second = (operand.astype(np.float32) for operand in operands)
    with np.errstate(all="ignore"):
        return np.fmod(first, second).astype(operands[0].dtype)


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


_device = functools.partial(FaultyDevice, module=__name__)
DEVICES = (
    _device(
        name="UnsignedCompare",
        sentence="Compares signed integers as unsigned ones.",
        ops={Ops.CMPLT: _unsigned_below},
    ),
    _device(
        name="Float32Remainder",
        sentence="Takes the remainder of integers by way of float32.",
        ops={Ops.MOD: _float32_remainder},
    ),
    _device(
        name="RoundedOffset",
        sentence="Passes the offset of the second buffer as a multiple of 16 bytes.",
        launch=_rounded_second,
    ),
)
globals().update({faulty.name: faulty.backend for faulty in DEVICES})
