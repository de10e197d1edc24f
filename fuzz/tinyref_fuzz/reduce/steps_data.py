"""Reduce the data: row-major loads, and zeros except for few elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyref.algebra.shapes import positions_of
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref_fuzz.reduce.kernel import NewBuffer, loads_of_written, values_of
from tinyref_fuzz.reduce.measure import read_slots
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.delta_debugging import ddmin
from tinyref_spec.kernel_case import Array, KernelCase

# Period of counted numbers, so that sums stay small.
_PERIOD = 4


def plain_loads(search: Search) -> None:
    """Make every load row-major, from its own buffer with the same values."""
    fixed = loads_of_written(search.case.ast)
    for load in search.case.ast.toposort():
        if load.op is Ops.LOAD and load not in fixed and not positions_of(load.src[0]):
            search.offer(_as_plain, load)


def _as_plain(case: KernelCase, load: UOp) -> KernelCase:
    new = NewBuffer(case)
    plain, content = new.holding(load, values_of(case, (load,))[load])
    return new.with_kernel(substitute(case.ast, {load: plain}), content)


def simpler_data(search: Search) -> None:
    """Replace each buffer by zeros, ones or counted numbers, and other elements by zeros."""
    for slot in read_slots(search.case):
        for new in _kinds(search.case.buffers[slot]):
            if search.offer(_with, slot, new):
                break
        _sparser(search, slot)


def _kinds(buffer: Array) -> list[Array]:
    count = np.arange(buffer.size)
    kinds = [np.zeros(buffer.size), np.ones(buffer.size), count % 2, count % _PERIOD]
    return [kind.astype(buffer.dtype) for kind in kinds]


def _with(case: KernelCase, slot: int, content: Array) -> KernelCase:
    return replace(case, buffers=(*case.buffers[:slot], content, *case.buffers[slot + 1 :]))


def _sparser(search: Search, slot: int) -> None:
    """Replace elements that are not needed by zeros, by delta debugging."""

    def attempt(positions: Sequence[int]) -> list[int] | None:
        content = np.zeros_like(search.case.buffers[slot])
        content[list(positions)] = search.case.buffers[slot][list(positions)]
        return list(positions) if search.offer(_with, slot, content) else None

    ddmin(_nonzero_positions(search.case.buffers[slot]), attempt)


def _nonzero_positions(buffer: Array) -> list[int]:
    """Return the positions where the buffer is not zero."""
    return [int(at) for at in np.flatnonzero(buffer != np.zeros((), buffer.dtype))]
