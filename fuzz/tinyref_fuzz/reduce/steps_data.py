"""Steps on the data: zeros but for few elements, small integers, and the mode that is exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tinyref_fuzz.generate.equivalent.transformation import written_slots
from tinyref_fuzz.reduce.measure import data_cost
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.kernel_case import Array, Case, Mode

# Counting goes up to this, so that sums stay small.
_PERIOD = 4


def exact_mode(search: Search) -> None:
    """The data as they are in the mode that owes exact results; else rounded to small integers."""
    if search.case.mode is Mode.EXACT:
        return
    rounded = tuple(_small_integers(buffer) for buffer in search.case.buffers)
    if not search.offer(replace, mode=Mode.EXACT):
        search.offer(replace, mode=Mode.EXACT, buffers=rounded)
        search.offer(replace, mode=Mode.FLOAT)


def _small_integers(buffer: Array) -> Array:
    if buffer.dtype.kind == "b":
        return buffer
    with np.errstate(all="ignore"):
        values = np.nan_to_num(buffer.astype(np.float64), nan=1, posinf=3, neginf=-3)
        return np.clip(np.round(values), -3 if buffer.dtype.kind != "u" else 0, 3).astype(
            buffer.dtype
        )


def simpler_data(search: Search) -> None:
    """All buffers at once, then each: zeros, ones, counted; then zeros for what is not needed."""
    for number in range(len(_kinds(search.case.buffers[0]))) if search.case.buffers else ():
        if search.offer(_all_as, number):
            break
    for slot in range(len(search.case.buffers)):
        for new in _kinds(search.case.buffers[slot]):
            if search.offer(_with, slot, new):
                break
        _sparser(search, slot)
        _smaller_values(search, slot)


def _kinds(buffer: Array) -> list[Array]:
    count = np.arange(buffer.size)
    kinds = [np.zeros(buffer.size), np.ones(buffer.size), count % _PERIOD, count % 2]
    return [each.astype(buffer.dtype) for each in kinds]


def _with(case: Case, slot: int, content: Array) -> Case:
    return replace(case, buffers=(*case.buffers[:slot], content, *case.buffers[slot + 1 :]))


def _all_as(case: Case, number: int) -> Case:
    written = written_slots(case.ast)
    buffers = tuple(
        buffer if slot in written else _kinds(buffer)[number]
        for slot, buffer in enumerate(case.buffers)
    )
    return replace(case, buffers=buffers)


def _sparser(search: Search, slot: int) -> None:
    """Zeros in halves, quarters, ... of the elements that are not zero, as in delta debugging."""
    size = len(_places(search.case.buffers[slot]))
    while size >= 1:
        start = 0
        while start < len(_places(search.case.buffers[slot])):
            places = _places(search.case.buffers[slot])[start : start + size]
            content = search.case.buffers[slot].copy()
            content[places] = np.zeros((), content.dtype)
            if not search.offer(_with, slot, content):
                start += size
        size //= 2


def _places(buffer: Array) -> list[int]:
    """Where the buffer is not zero."""
    return [int(at) for at in np.flatnonzero(buffer != np.zeros((), buffer.dtype))]


def _smaller_values(search: Search, slot: int) -> None:
    """1 or 2 for each of a few elements that are left."""
    places = _places(search.case.buffers[slot])
    for at in places if len(places) <= 8 else ():
        for content in _simpler_at(search.case.buffers[slot], at):
            if search.offer(_with, slot, content):
                break


def _simpler_at(buffer: Array, at: int) -> Iterator[Array]:
    for number in (1, 2, 3, -1):
        with np.errstate(all="ignore"):
            content = buffer.copy()
            content[at] = np.array(number).astype(buffer.dtype)
        if data_cost(content) < data_cost(buffer):
            yield content
