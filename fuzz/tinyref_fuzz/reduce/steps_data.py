"""Steps on the data: row-major loads, and zeros except for few elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyref.algebra.shapes import positions_of
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref_fuzz.reduce.kernel import Fresh, loads_of_written, values_of
from tinyref_fuzz.reduce.measure import read_slots
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.delta_debugging import ddmin
from tinyref_spec.kernel_case import Array, KernelCase

# Counting goes up to this, so that sums stay small.
_PERIOD = 4


def plain_loads(search: Search) -> None:
    """Every load row-major, of a buffer of its own that holds the same values."""
    fixed = loads_of_written(search.case.ast)
    for load in search.case.ast.toposort():
        if load.op is Ops.LOAD and load not in fixed and not positions_of(load.src[0]):
            search.offer(_as_plain, load)


def _as_plain(case: KernelCase, load: UOp) -> KernelCase:
    fresh = Fresh(case)
    plain, content = fresh.holding(load, values_of(case, (load,))[load])
    return fresh.with_kernel(substitute(case.ast, {load: plain}), content)


def simpler_data(search: Search) -> None:
    """Each buffer as zeros, ones or counted numbers; then zeros for what is not needed."""
    for slot in read_slots(search.case):
        for new in _kinds(search.case.buffers[slot]):
            if search.offer(_with, slot, new):
                break
        _sparser(search, slot)


def _kinds(buffer: Array) -> list[Array]:
    count = np.arange(buffer.size)
    kinds = [np.zeros(buffer.size), np.ones(buffer.size), count % 2, count % _PERIOD]
    return [each.astype(buffer.dtype) for each in kinds]


def _with(case: KernelCase, slot: int, content: Array) -> KernelCase:
    return replace(case, buffers=(*case.buffers[:slot], content, *case.buffers[slot + 1 :]))


def _sparser(search: Search, slot: int) -> None:
    """Zeros for all elements that are not needed, by delta debugging."""

    def attempt(places: Sequence[int]) -> list[int] | None:
        content = np.zeros_like(search.case.buffers[slot])
        content[list(places)] = search.case.buffers[slot][list(places)]
        return list(places) if search.offer(_with, slot, content) else None

    ddmin(_places(search.case.buffers[slot]), attempt)


def _places(buffer: Array) -> list[int]:
    """Where the buffer is not zero."""
    return [int(at) for at in np.flatnonzero(buffer != np.zeros((), buffer.dtype))]
