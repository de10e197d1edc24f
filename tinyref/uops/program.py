"""A program: the nodes of one kernel in a legal order, and what a launch of it needs."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.dtype import DType
from tinyref.uops.node import UOp


@dataclass(frozen=True)
class Parameter:
    """A buffer argument of a kernel: `size` elements of `dtype`, at position `slot`."""

    slot: int
    dtype: DType
    size: int
    is_written: bool
    is_read: bool


@dataclass(frozen=True)
class Program:
    """A kernel as renderers and the interpreter take it.

    uops: sources before users, every RANGE closed by its END, every IF by its ENDIF.
    parameters: buffers by slot. variables: DEFINE_VARs in the order of their names, passed after
    the buffers as 32-bit integers. grid, group: extents of the launch, symbolic ones as nodes.
    """

    name: str
    uops: tuple[UOp, ...]
    parameters: tuple[Parameter, ...]
    variables: tuple[UOp, ...] = ()
    grid: tuple[int | UOp, int | UOp, int | UOp] = (1, 1, 1)
    group: tuple[int, int, int] = (1, 1, 1)
