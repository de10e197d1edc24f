"""Devices that copy wrongly to another of their kind; copies by the host are right."""

from __future__ import annotations

from typing import ClassVar

from tinyref.runtimes.host.memory import ALIGNMENT, HostAllocator, HostHandle, address_of
from tinyref_conformance.faulty.broken import BrokenBackend
from tinyref_conformance.faulty.waiting import Queueing, WaitingAllocator


def _whole(handle: HostHandle) -> tuple[HostHandle, int]:
    """The memory that a handle is a part of, as it was allocated, and where the part begins."""
    owner: HostHandle = handle if handle.base is None else handle.base
    begin = -address_of(owner) % ALIGNMENT
    return owner[begin:], address_of(handle) - address_of(owner) - begin


class _WithAllocator(BrokenBackend):
    allocator_class: ClassVar[type[HostAllocator]]

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = self.allocator_class(self.name)


class _ShiftingAllocator(HostAllocator):
    """Copies from where `begin` says, of where the source begins in its memory."""

    def begin(self, offset: int) -> int:
        return offset

    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        whole, offset = _whole(source)
        begin = self.begin(offset)
        super().transfer(target, whole[begin : begin + source.size], origin)


class _LosesOffset(_ShiftingAllocator):
    def begin(self, offset: int) -> int:
        return 0


class LostTransferOffset(_WithAllocator):
    """Copies from the beginning of a buffer, whatever part of it is to go to another device."""

    allocator_class = _LosesOffset


class _RoundsOffset(_ShiftingAllocator):
    def begin(self, offset: int) -> int:
        return offset - offset % 4


class RoundedTransferOffset(_WithAllocator):
    """Copies to another device from a multiple of four bytes."""

    allocator_class = _RoundsOffset


class _TakesNeighbour(_ShiftingAllocator):
    def begin(self, offset: int) -> int:
        return offset + 1


class NeighbourTransfer(_WithAllocator):
    """Copies to another device the bytes that begin one further."""

    allocator_class = _TakesNeighbour


class _CopiesWords(HostAllocator):
    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        size = source.size - source.size % 4
        super().transfer(target[:size], source[:size], origin)


class TruncatedTransfer(_WithAllocator):
    """Copies whole words of four bytes to another device, and not the bytes that are left."""

    allocator_class = _CopiesWords


class _CopiesTooMuch(HostAllocator):
    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        (whole, begin), (wide, start) = _whole(target), _whole(source)
        size = source.size + -source.size % 16
        end = min(begin + size, whole.size), min(start + size, wide.size)
        super().transfer(target, source, origin)
        size = min(end[0] - begin, end[1] - start)
        whole[begin : begin + size] = wide[start : start + size]


class RoundedTransferSize(_WithAllocator):
    """Copies multiples of sixteen bytes to another device, over what comes behind."""

    allocator_class = _CopiesTooMuch


class _CopiesBack(HostAllocator):
    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        super().transfer(source, target, origin)


class SwappedTransfer(_WithAllocator):
    """Takes source and target of a copy between devices for each other."""

    allocator_class = _CopiesBack


class _IgnoresOrigin(WaitingAllocator):
    def wait_for(self, origin: HostAllocator) -> None:
        self.queue.wait()


class EarlyTransfer(Queueing):
    """Copies from another device before its launches are done."""

    allocator_class = _IgnoresOrigin


class _IgnoresOwn(WaitingAllocator):
    def wait_for(self, origin: HostAllocator) -> None:
        if isinstance(origin, WaitingAllocator) and origin is not self:
            origin.queue.wait()


class HastyTransfer(Queueing):
    """Copies from another device to memory that its own launches before have still to read."""

    allocator_class = _IgnoresOwn


class _CopiesLater(HostAllocator):
    """Remembers what is to be copied until somebody looks at its memory."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._pending: list[tuple[HostHandle, HostHandle]] = []

    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        self._pending.append((target, source))

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        for target, source in self._pending:
            target[:] = source
        self._pending.clear()
        super().copy_out(destination, handle)


class LateTransfer(_WithAllocator):
    """Copies from another device when the target is looked at, whatever happened meanwhile."""

    allocator_class = _CopiesLater
