"""Reductions and products of matrix tiles on whole arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.dtype import dtypes, narrow_float64, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import InputRounding, MatrixTile, Operand

Array = npt.NDArray[Any]


def reduce_values(op: Ops, node: UOp, value: Array, axes: tuple[int, ...]) -> Array:
    """`value` reduced over `axes`, which stay as size 1, in an accumulator that loses nothing."""
    dtype = node.dtype.scalar
    if op is Ops.MAX:
        lowest = np.array(dtype.minimum, value.dtype)
        return np.asarray(np.maximum.reduce(value, axis=axes, keepdims=True, initial=lowest))
    if op not in (Ops.ADD, Ops.MUL):
        raise UserError(f"graph: {op.name} does not reduce")
    if dtype.is_bool:
        return np.asarray((np.any if op is Ops.ADD else np.all)(value, axis=axes, keepdims=True))
    total = np.add if op is Ops.ADD else np.multiply
    if dtype.is_int:
        wrapped = total.reduce(value, axis=axes, keepdims=True, dtype=numpy_dtype(dtype))
        return np.asarray(wrapped)
    wide = np.longdouble if dtype is dtypes.float64 else np.float64
    exact = np.asarray(total.reduce(value.astype(wide), axis=axes, keepdims=True))
    return narrow_float64(exact.astype(np.float64), dtype)


@functools.lru_cache(maxsize=256)
def holders(tile: MatrixTile, operand: Operand) -> tuple[Array, Array]:
    """Row and column of each register of each thread: two arrays [thread, register]."""
    registers = range(tile.layout(operand).registers)
    pairs = [
        [tile.element(operand, thread, register) for register in registers]
        for thread in range(tile.threads)
    ]
    found = np.array(pairs, np.intp)
    return found[..., 0], found[..., 1]


def product(tile: MatrixTile, a: Array, b: Array, c: Array) -> Array:
    """A * B + C of stacks of matrices, k from 0 up, each operation rounded in the type of C."""
    wide = numpy_dtype(tile.dtype_out)
    if tile.rounds_in is InputRounding.TF32:
        a, b = tf32(a), tf32(b)
    total = c.astype(wide)
    for k in range(tile.size("k")):
        total = total + a[..., :, k, None].astype(wide) * b[..., k, None, :].astype(wide)
    return total


def tf32(values: Array) -> Array:
    """float32 with 10 bits of mantissa: to nearest, ties away from zero."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(1 << 12)) >> np.uint32(13) << np.uint32(13)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)
