"""Devices that launch rightly once, and wrongly when a launch is repeated with other arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from tinyref.contract import Handle, Launch, Launchable
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.runtimes.launch import LaunchesInARow, RepeatedCall
from tinyref.runtimes.python import Extents
from tinyref_conformance.faulty.broken import BrokenBackend, BrokenKernel
from tinyref_conformance.faulty.waiting import (
    Queue,
    QueuedKernel,
    Queueing,
    WaitingAllocator,
)


class _KeepsPointers(RepeatedCall):
    def rebind(self, place: int, handle: Handle) -> None:
        return


class _KeepsVariables(RepeatedCall):
    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        return


class _PreparingKernel(BrokenKernel):
    """A kernel that prepares its own launches."""

    launch: ClassVar[type[RepeatedCall]]

    def prepare(self, *arguments: Any) -> RepeatedCall:
        return self.launch(self, *arguments)


class _StalePointerKernel(_PreparingKernel):
    launch = _KeepsPointers


class _StaleVariableKernel(_PreparingKernel):
    launch = _KeepsVariables


class StalePointers(BrokenBackend):
    """Repeats a prepared launch on the buffers that it had first, whatever it is given since."""

    kernel = _StalePointerKernel


class StaleVariables(BrokenBackend):
    """Repeats a prepared launch with the values of variables that it had first."""

    kernel = _StaleVariableKernel


# --- command lists --------------------------------------------------------------------------------


class _Recording(BrokenBackend):
    """Records launches; the faults are those of the lists."""

    commands: ClassVar[type[LaunchesInARow]]

    def record(self, launches: Sequence[Launch]) -> LaunchesInARow:
        return self.commands(launches)


class _KeepsRecordedPointers(LaunchesInARow):
    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        return


class StaleListPointers(_Recording):
    """Launches a recorded list on the buffers with which it was recorded."""

    commands = _KeepsRecordedPointers


class _KeepsRecordedVariables(LaunchesInARow):
    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        return


class StaleListVariables(_Recording):
    """Launches a recorded list with the values of variables with which it was recorded."""

    commands = _KeepsRecordedVariables


class _RebindsOnce(LaunchesInARow):
    def __init__(self, launches: Sequence[Launch]) -> None:
        super().__init__(launches)
        self._rebound: set[tuple[int, int]] = set()

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        if (launch, place) not in self._rebound:
            self._rebound.add((launch, place))
            super().rebind(launch, place, handle)


class SingleUpdate(_Recording):
    """Gives an argument of a recorded list another buffer once, and never again."""

    commands = _RebindsOnce


class _Unordered(LaunchesInARow):
    def __call__(self) -> None:
        for launch in reversed(self._launches):
            launch()


class UnorderedList(_Recording):
    """Loses the order of a recorded list: no launch waits for the one before it."""

    commands = _Unordered


class _LosesLast(LaunchesInARow):
    def __call__(self) -> None:
        for launch in self._launches[:-1]:
            launch()


class TruncatedList(_Recording):
    """Launches all of a recorded list but its last kernel."""

    commands = _LosesLast


class _AtOnce(LaunchesInARow):
    """Launches whose kernels run at once."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        super().__init__([replace(each, kernel=_at_once(each.kernel)) for each in launches])


def _at_once(kernel: Launchable) -> Launchable:
    return kernel.at_once if isinstance(kernel, QueuedKernel) else kernel


class HastyList(Queueing):
    """Launches a recorded list before the launches that are queued."""

    def record(self, launches: Sequence[Launch]) -> LaunchesInARow:
        return _AtOnce(launches)


class _IgnoresQueues(WaitingAllocator):
    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        target[:] = source


class LostEvents(Queueing):
    """Copies from another device without a wait for what either has still to do."""

    allocator_class = _IgnoresQueues


class _ReadsArgumentsLate(_AtOnce):
    def __init__(self, launches: Sequence[Launch], queue: Queue) -> None:
        super().__init__(launches)
        self._queue = queue

    def __call__(self) -> None:
        self._queue.put(super().__call__)


class LateArguments(Queueing):
    """Launches a queued list with what is bound when its turn comes, not when it was called."""

    def record(self, launches: Sequence[Launch]) -> LaunchesInARow:
        return _ReadsArgumentsLate(launches, self.queue)
