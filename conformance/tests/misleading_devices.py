"""Devices whose faults look like others, in values or in what they say."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_conformance.faulty.arithmetic import right
from tinyref_conformance.faulty.device import Array, Call, FaultyDevice, SimulatedKernel
from tinyref_conformance.faulty.programs import each_node


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


def _restored(kernel: SimulatedKernel, is_lost: Callable[[int, int], Array]) -> Call:
    """Return a launch that loses bytes of outputs whose elements have 1 or 2 bytes.

    is_lost: tells from the address and the size of an output which of its bytes.
    """
    healthy = kernel.run

    def run(buffers: Sequence[Any], *rest: Any) -> Any:
        old = [buffer.copy() for buffer in buffers]
        seconds = healthy(buffers, *rest)
        for before, buffer, parameter in zip(old, buffers, kernel.program.parameters, strict=True):
            if parameter.is_written and parameter.dtype.itemsize < 4:
                lost = is_lost(buffer.ctypes.data, buffer.size)
                buffer[lost] = before[lost]
        return seconds

    return run


def _bytes_of_words(address: int, size: int) -> Array:
    """Return the bytes behind the first element of each word, of elements of 1 byte."""
    return np.asarray((address + np.arange(size)) % 4 != 0)


def _all_off_word(address: int, size: int) -> Array:
    return np.full(size, address % 4 != 0)


def _rounded_steps(node: UOp) -> tuple[UOp, ...]:
    """Round each sum and product of float32 to float16."""
    if node.op not in (Ops.ADD, Ops.MUL) or node.dtype.scalar is not dtypes.float32:
        return (node,)
    half = dtypes.float16 if node.dtype.lanes == 1 else dtypes.float16.vec(node.dtype.lanes)
    rounded = UOp(Ops.CAST, half, (node,))
    return (node, rounded, UOp(Ops.CAST, node.dtype, (rounded,)))


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
    _device(
        name="FirstBytes",
        sentence="Stores a byte to an address that is a multiple of 4, and to no other one.",
        launch=functools.partial(_restored, is_lost=_bytes_of_words),
    ),
    _device(
        name="LostOffWord",
        sentence="Does not fill a buffer of 1 or 2 bytes that begins at no multiple of 4.",
        launch=functools.partial(_restored, is_lost=_all_off_word),
    ),
    _device(
        name="HalfSteps",
        sentence="Adds products of float16 in float16.",
        program=each_node(_rounded_steps),
    ),
)
globals().update({faulty.name: faulty.backend for faulty in DEVICES})
