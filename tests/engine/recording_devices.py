"""A vendor's device that records launches, and notes its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tinyref.contract import CommandList, Handle, Launch
from tinyref.errors import DeviceError
from tinyref.runtimes.kernel import LaunchesInARow
from tinyref.runtimes.python import InterpretedKernel, TextBackend


class NotedList(LaunchesInARow):
    """A list that notes its calls; it fails when it is called if the device is told to."""

    def __init__(self, launches: Sequence[Launch], notes: list[str]) -> None:
        super().__init__(launches)
        self._notes = notes

    def __call__(self) -> None:
        self._notes.append(f"call {len(self._launches)}")
        first, *others = self._launches
        first()
        if RecordingBackend.fails:
            raise DeviceError("recording", "launch 1 of the list: an illegal address")
        for launch in others:
            launch()

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        self._notes.append(f"rebind {launch} {place}")
        super().rebind(launch, place, handle)

    def vary(self, launch: int, grid: tuple[int, int, int], variables: Sequence[int]) -> None:
        self._notes.append(f"vary {launch} {list(variables)}")
        super().vary(launch, grid, variables)


class RecordingBackend(TextBackend):
    """Device that records every list, unless it must offer none."""

    notes: ClassVar[list[str]] = []
    fails: ClassVar[bool] = False
    offers: ClassVar[bool] = True

    def record(self, launches: Sequence[Launch]) -> CommandList | None:
        assert all(type(launch.kernel) is InterpretedKernel for launch in launches)
        if not self.offers:
            return None
        self.notes.append(f"record {len(launches)}")
        return NotedList(launches, self.notes)


class WrongBackend(TextBackend):
    """Device that returns an object that is no list."""

    def record(self, launches: Sequence[Launch]) -> CommandList | None:
        return 7  # type: ignore[return-value]
