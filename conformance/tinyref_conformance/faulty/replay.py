"""Devices that repeat launches wrongly: prepared ones, and those of command lists."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinyref.contract import Handle, Launch
from tinyref.runtimes.kernel import LaunchesInARow, RepeatedCall
from tinyref.runtimes.python import Extents
from tinyref_conformance.faulty.device import FaultyDevice, SimulatedKernel
from tinyref_conformance.faulty.queues import Postponed
from tinyref_spec.case import Rung


class _KeepsPointers(RepeatedCall):
    def rebind(self, place: int, handle: Handle) -> None:
        return


class _KeepsViews(RepeatedCall):
    """Takes another part of the same memory for the part that it has."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bases: dict[int, int] = {}

    def rebind(self, place: int, handle: Handle) -> None:
        base = id(handle.base)
        if self._bases.get(place) != base:
            self._bases[place] = base
            super().rebind(place, handle)


class _KeepsVariables(RepeatedCall):
    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        return


class _KeepsListVariables(LaunchesInARow):
    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        return


class _RebindsOnce(LaunchesInARow):
    def __init__(self, launches: Sequence[Launch]) -> None:
        super().__init__(launches)
        self._rebound: set[tuple[int, int]] = set()

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        if (launch, place) not in self._rebound:
            self._rebound.add((launch, place))
            super().rebind(launch, place, handle)


class _CountsInBytes(LaunchesInARow):
    """Numbers its launches with a byte."""

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        super().rebind(launch % 256, place, handle)


class _Unordered(LaunchesInARow):
    def __call__(self) -> None:
        for launch in reversed(self._launches):
            launch()


class _Hasty(LaunchesInARow):
    """Runs its launches at once, whatever is queued."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        kernels = [launch.kernel for launch in launches]
        self._kernels = [kernel for kernel in kernels if isinstance(kernel, SimulatedKernel)]
        pairs = zip(launches, self._kernels, strict=True)
        super().__init__([replace(launch, kernel=kernel.run) for launch, kernel in pairs])


class _ReadsArgumentsLate(_Hasty):
    def __call__(self) -> None:
        self._kernels[0].owner.queue.put(super().__call__)


_faulty = functools.partial(FaultyDevice, clause="system.jit", rung=Rung.JIT)
_queued = functools.partial(
    _faulty,
    clause="system.jit.flight",
    healthy="tinyref_conformance.faulty:Queueing",
    queue=Postponed,
)

FAULTS = (
    _faulty(
        name="StalePointers",
        sentence="Repeats a prepared launch on the buffers that it had first.",
        prepared=_KeepsPointers,
    ),
    _faulty(
        name="StaleViews",
        sentence="Repeats a prepared launch on the part of a buffer that it had before.",
        prepared=_KeepsViews,
    ),
    _faulty(
        name="StaleVariables",
        sentence="Repeats a prepared launch with the values of variables that it had first.",
        clause="system.symbolic",
        prepared=_KeepsVariables,
    ),
    _faulty(
        name="StaleListVariables",
        sentence="Launches a recorded list with the values of variables at its recording.",
        clause="system.jit.flight",
        commands=_KeepsListVariables,
    ),
    _faulty(
        name="SingleUpdate",
        sentence="Gives an argument of a recorded list another buffer once, and never again.",
        commands=_RebindsOnce,
    ),
    _faulty(
        name="ListOfBytes",
        sentence="Gives another buffer to the launch of a list whose number has the same low byte.",
        commands=_CountsInBytes,
    ),
    _faulty(
        name="UnorderedList",
        sentence="Loses the order of a recorded list: no launch waits for the one before it.",
        clause="system.kernels",
        commands=_Unordered,
    ),
    _queued(
        name="HastyList",
        sentence="Launches a recorded list before the launches that are queued.",
        commands=_Hasty,
    ),
    _queued(
        name="LateArguments",
        sentence="Launches a queued list with what is bound when its turn comes.",
        commands=_ReadsArgumentsLate,
    ),
)
