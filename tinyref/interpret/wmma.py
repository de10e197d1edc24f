"""WMMA of the interpreter: gathers fragments of all lanes, multiplies matrices, returns fragments.

The work-items of a group, in launch order (dimension 0 fastest), are divided into subgroups. A
subgroup has the number of threads of the tile. The products of all subgroups of all groups that run
now are computed together; the subgroups are the last axis of every matrix here.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.dtype import numpy_dtype
from tinyref.formats.text import node_text
from tinyref.interpret.lanes import Fault, LaneMachine, SanitizerError
from tinyref.uops.node import UOp
from tinyref.uops.tiles import InputRounding, MatrixTile, Operand

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]


@functools.lru_cache(maxsize=512)
def holders(tile: MatrixTile, operand: Operand) -> Indices:
    """Return the holder of each element: [copy, row, column] -> thread * registers + register."""
    layout = tile.layout(operand)
    rows, columns = tile.shape(operand)
    by_element: list[list[int]] = [[] for _ in range(rows * columns)]
    for number in range(layout.threads * layout.registers):
        row, column = tile.element(operand, *divmod(number, layout.registers))
        by_element[row * columns + column].append(number)
    return np.array(by_element, dtype=np.intp).T.reshape(layout.copies, rows, columns)


@functools.lru_cache(maxsize=512)
def elements(tile: MatrixTile) -> Indices:
    """Return the element of each register of D.

    The index is thread * registers + register, the value is row * columns + column.
    """
    layout = tile.c
    columns = tile.shape(Operand.C)[1]
    numbers = []
    for number in range(layout.threads * layout.registers):
        row, column = tile.element(Operand.C, *divmod(number, layout.registers))
        numbers.append(row * columns + column)
    return np.array(numbers, dtype=np.intp)


def round_to_tf32(values: Array) -> Array:
    """Round float32 to 10 mantissa bits, to nearest, ties away from zero; NaN and inf stay."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)


def multiply(tile: MatrixTile, a: Array, b: Array, c: Array) -> Array:
    """Return A * B + C for matrices with the same axes after the first two.

    Products are added to C in the type of C, k from 0 up, each product and each sum rounded.
    """
    if tile.rounds_in is InputRounding.TF32:
        a, b = round_to_tf32(a), round_to_tf32(b)
    wide = numpy_dtype(tile.dtype_out)
    a, b = a.astype(wide), b.astype(wide)
    for k in range(tile.size("k")):
        c = c + a[:, None, k] * b[None, k]
    return c


def wmma(machine: LaneMachine, node: UOp, tile: MatrixTile, a: Array, b: Array, c: Array) -> Array:
    """Compute the fragments of D from the fragments of A, B and C, for all lanes that run now.

    Raises `SanitizerError` if a group is no whole number of subgroups. The sanitizer also checks
    that whole subgroups arrive, and that threads agree in the elements that they all hold.
    """
    if machine.group_size % tile.threads:
        raise SanitizerError(
            Fault.TILE,
            node_text(node),
            f"a group of {machine.group_size} work-items is no whole number of subgroups of "
            f"{tile.threads}",
        )
    arriving = _arriving(machine, node, tile) if machine.mask is not None else None
    matrices = [
        _gather(machine, node, tile, operand, value, arriving)
        for operand, value in zip(Operand, (a, b, c), strict=True)
    ]
    product = multiply(tile, *matrices)
    subgroups = product.shape[-1]
    result = product.reshape(-1, subgroups)[elements(tile)].T
    if machine.hooks.tile is not None:
        shape = (subgroups, tile.threads, tile.c.registers)
        result = machine.hooks.tile(tile, result.reshape(shape)).reshape(subgroups, -1)
    width = (tile.c.registers,) if tile.c.registers > 1 else ()
    return result.reshape(*machine.lanes, *width)


def _arriving(machine: LaneMachine, node: UOp, tile: MatrixTile) -> Array:
    """Return the subgroups that arrive under a mask; the sanitizer reports part of a subgroup."""
    mask = np.broadcast_to(machine.mask, machine.lanes).reshape(-1, tile.threads)  # type: ignore[arg-type]
    arriving = np.asarray(mask.any(axis=1))
    missing = arriving[:, None] & ~mask
    if machine.sanitize and missing.any():
        raise SanitizerError(
            Fault.TILE,
            node_text(node),
            f"not every one of the {tile.threads} work-items of a subgroup arrives; one is missing",
            work_item=_who(machine, int(np.flatnonzero(missing.reshape(-1))[0])),
        )
    return arriving


def _who(machine: LaneMachine, lane: int) -> str:
    items = np.broadcast_to(machine.items, machine.lanes).reshape(-1)
    return machine.name_item(int(items[lane]))


def _gather(
    machine: LaneMachine,
    node: UOp,
    tile: MatrixTile,
    operand: Operand,
    value: Array,
    arriving: Array | None,
) -> Array:
    """Return the matrix [row, column, subgroup] of an operand."""
    layout = tile.layout(operand)
    registers = layout.registers
    lanes = (*machine.lanes, registers) if registers > 1 else machine.lanes
    subgroups = math.prod(machine.lanes) // layout.threads
    fragments = np.broadcast_to(value, lanes).reshape(subgroups, layout.threads * registers)
    copies = np.ascontiguousarray(fragments.T)[holders(tile, operand)]
    if machine.sanitize:
        _check_copies(machine, node, tile, operand, copies, arriving)
    return np.asarray(copies[0])


def _check_copies(
    machine: LaneMachine,
    node: UOp,
    tile: MatrixTile,
    operand: Operand,
    copies: Array,
    arriving: Array | None,
) -> None:
    # Bits are compared, so a NaN equals itself.
    bits = copies.view(f"u{copies.dtype.itemsize}")
    differs = (bits[1:] != bits[:1]) if arriving is None else (bits[1:] != bits[:1]) & arriving
    if not differs.any():
        return
    copy, row, column, subgroup = (int(x[0]) for x in np.nonzero(differs))
    number = int(holders(tile, operand)[copy + 1, row, column])
    thread = number // tile.layout(operand).registers
    raise SanitizerError(
        Fault.TILE,
        node_text(node),
        f"the work-items that hold element ({row}, {column}) of {operand.value} differ in it",
        work_item=_who(machine, subgroup * tile.threads + thread),
    )
