"""A program run as it is defined: one work-item after the other, each op by the spec's reference.

The interpreter runs all work-items at once and takes what an op means from the op table; this one
shares neither. It is slow and sees no race: it says whose value is right where the interpreter and
another disagree on a small program.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra.evaluate import bound_value
from tinyref.dtype import ImageDType, PtrDType, numpy_dtype
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg, SpecialArg, VarArg
from tinyref_fuzz.judge.oracles.reference import expected, signature_of

# Lanes of a value; a memory with a position for an address.
Lanes = npt.NDArray[Any]
Extents = tuple[int, int, int]
# Reduced cases take some thousand.
MAX_STEPS = 100_000
_OPENERS = {Ops.END: Ops.RANGE, Ops.ENDIF: Ops.IF}


class NotScalarError(Exception):
    """A program that is not run here: tiles, images, words; or one that takes too long."""


def run_scalar(
    uops: Sequence[UOp],
    buffers: Mapping[int, Lanes],
    bindings: Mapping[str, int],
    grid: Extents,
    group: Extents,
) -> dict[int, Lanes]:
    """What every slot holds after the program `uops`; `buffers` stay as they are.

    Raises `NotScalarError`, and `IndexError` for an access outside of a memory.
    """
    run = _Run(uops, {slot: np.array(held) for slot, held in buffers.items()}, bindings)
    with np.errstate(all="ignore"):
        for place in itertools.product(*map(range, reversed(grid))):
            run.local.clear()
            items = [
                run.work_item({"group": place[::-1], "item": item[::-1]})
                for item in itertools.product(*map(range, reversed(group)))
            ]
            # Each goes on to its next barrier.
            while items:
                items = [item for item in items if next(item, None) is not None]
    return run.buffers


class _Run:
    def __init__(
        self, uops: Sequence[UOp], buffers: dict[int, Lanes], bindings: Mapping[str, int]
    ) -> None:
        self.uops = uops
        self.buffers = buffers
        self.bindings = bindings
        self.local: dict[UOp, Lanes] = {}
        self.steps = 0
        self.known: dict[tuple[object, ...], Lanes] = {}
        # Where a loop or a branch ends, and where it began.
        self.other_end: dict[int, int] = {}
        opened: list[int] = []
        for at, node in enumerate(uops):
            if node.op in _OPENERS.values():
                opened.append(at)
            elif node.op in _OPENERS:
                start = opened.pop()
                self.other_end[start], self.other_end[at] = at, start

    def work_item(self, places: Mapping[str, Sequence[int]]) -> Iterator[bool]:
        """One work-item, up to the end; yields at each barrier."""
        values: dict[UOp, Lanes] = {}
        at = 0
        while at < len(self.uops):
            node = self.uops[at]
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise NotScalarError(f"more than {MAX_STEPS} steps")
            if node.op is Ops.BARRIER:
                yield True
            elif node.op in (Ops.RANGE, Ops.IF):
                values[node] = np.zeros(1, numpy_dtype(node.dtype) if node.dtype.is_int else bool)
                if values[_holder(node.src[0])][0] <= 0:
                    at = self.other_end[at]
            elif node.op is Ops.END:
                loop = node.src[0]
                values[loop] = values[loop] + np.ones(1, values[loop].dtype)
                if values[loop][0] < values[_holder(loop.src[0])][0]:
                    at = self.other_end[at]
            elif node.op not in (Ops.ENDIF, Ops.INDEX, Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL):
                self._step(node, values, places)
            at += 1

    def _step(
        self, node: UOp, values: dict[UOp, Lanes], places: Mapping[str, Sequence[int]]
    ) -> None:
        arg = node.arg
        if node.op in ALU:
            values[node] = self._apply(node, [values[_holder(source)] for source in node.src])
        elif isinstance(arg, ConstArg):
            values[node] = np.full(node.dtype.lanes, arg.value, numpy_dtype(node.dtype.scalar))
        elif isinstance(arg, VarArg):
            values[node] = np.full(1, bound_value(arg, self.bindings), numpy_dtype(node.dtype))
        elif isinstance(arg, SpecialArg):
            values[node] = np.full(1, places[arg.scope][arg.dim], numpy_dtype(node.dtype))
        elif isinstance(arg, GepArg):
            values[node] = values[_holder(node.src[0])][list(arg.lanes)]
        elif node.op is Ops.VECTORIZE:
            values[node] = np.concatenate([values[_holder(source)] for source in node.src])
        elif node.op is Ops.DEFINE_ACC:
            values[node] = values[_holder(node.src[0])]
        elif node.op is Ops.UPDATE_ACC:
            values[_holder(node)] = values[_holder(node.src[1])]
        elif node.op is Ops.LOAD:
            values[node] = self._load(node, values)
        elif node.op is Ops.STORE and len(node.src) < 4:
            self._store(node, values)
        else:
            raise NotScalarError(node.op.name)

    def _apply(self, node: UOp, operands: list[Lanes]) -> Lanes:
        lanes = max(operand.size for operand in operands)
        operands = [np.broadcast_to(operand, lanes) for operand in operands]
        key = (signature_of(node), *(operand.tobytes() for operand in operands))
        if key not in self.known:
            owed = expected(signature_of(node), operands)
            if owed is None:
                raise NotScalarError(f"{node.op.name} has no reference")
            self.known[key] = owed.values
        return self.known[key]

    def _load(self, node: UOp, values: Mapping[UOp, Lanes]) -> Lanes:
        if len(node.src) == 3 and not values[_holder(node.src[2])][0]:
            return np.broadcast_to(values[_holder(node.src[1])], node.dtype.lanes)
        held, begin = self._address(node.src[0], values)
        return self._span(held, begin, node.dtype.lanes).copy()

    def _store(self, node: UOp, values: Mapping[UOp, Lanes]) -> None:
        if len(node.src) == 3 and not values[_holder(node.src[2])][0]:
            return
        held, begin = self._address(node.src[0], values)
        self._span(held, begin, node.src[1].dtype.lanes)[:] = values[_holder(node.src[1])]

    def _address(self, index: UOp, values: Mapping[UOp, Lanes]) -> tuple[Lanes, int]:
        """The memory that an INDEX points into, and the element."""
        memory = index.src[0]
        dtype = memory.dtype
        if isinstance(dtype, ImageDType) or not isinstance(dtype, PtrDType):
            raise NotScalarError(f"memory of {dtype.name}")
        wanted, begin = numpy_dtype(dtype.base), int(values[_holder(index.src[1])][0])
        if isinstance(memory.arg, SlotArg):
            held = self.buffers[memory.arg.slot]
            if held.dtype.itemsize != wanted.itemsize:
                raise NotScalarError(f"{held.dtype} in words")
            return held.view(wanted), begin
        return self.local.setdefault(memory, np.zeros(dtype.size, wanted)), begin

    def _span(self, held: Lanes, begin: int, lanes: int) -> Lanes:
        if not 0 <= begin <= held.size - lanes:
            raise IndexError(f"element {begin} of {held.size}")
        return held[begin : begin + lanes]


def _holder(node: UOp) -> UOp:
    """Who has the value of a source: of an UPDATE_ACC the accumulator, with what came last."""
    while node.op is Ops.UPDATE_ACC:
        node = node.src[0]
    return node
