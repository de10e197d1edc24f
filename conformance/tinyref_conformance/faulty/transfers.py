"""Devices that copy wrongly to another of their kind; copies by the host are right."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tinyref.runtimes.host.memory import ALIGNMENT, HostAllocator, HostHandle, address_of
from tinyref_conformance.faulty.device import Call, FaultyDevice, Simulated, SimulatedMemory
from tinyref_conformance.faulty.queues import Postponed
from tinyref_spec.case import Rung

Edit = Callable[[Simulated], dict[str, Call]]


def allocation_of(handle: HostHandle) -> tuple[HostHandle, int]:
    """Return the whole allocation that a handle is part of, and the offset in it."""
    owner: HostHandle = handle if handle.base is None else handle.base
    begin = -address_of(owner) % ALIGNMENT
    return owner[begin:], address_of(handle) - address_of(owner) - begin


def _copied(transfer: Callable[[HostHandle, HostHandle], None]) -> Edit:
    """Return the edit that copies another way; it waits for nobody."""
    return lambda device: {"transfer": lambda target, source, origin: transfer(target, source)}


def _copy_from_words(target: HostHandle, source: HostHandle) -> None:
    whole, offset = allocation_of(source)
    target[:] = whole[offset - offset % 4 :][: source.size]


def _copy_too_much(target: HostHandle, source: HostHandle) -> None:
    (whole, begin), (wide, start) = allocation_of(target), allocation_of(source)
    size = source.size + -source.size % 16
    size = min(size, whole.size - begin, wide.size - start)
    target[:] = source
    whole[begin : begin + size] = wide[start : start + size]


def _copy(target: HostHandle, source: HostHandle) -> None:
    target[:] = source


def _waits(for_own: bool, for_other: bool) -> Edit:
    """Return the edit that waits for the launches of one of the two devices."""

    def edit(device: Simulated) -> dict[str, Call]:
        def transfer(target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
            if for_own:
                device.queue.wait()
            if for_other and isinstance(origin, SimulatedMemory) and origin is not device.allocator:
                origin.queue.wait()
            target[:] = source

        return {"transfer": transfer}

    return edit


def _late(device: Simulated) -> dict[str, Call]:
    pending: list[tuple[HostHandle, HostHandle]] = []

    def transfer(target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        pending.append((target, source))

    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        for target, source in pending:
            target[:] = source
        pending.clear()
        device.memory.copy_out(destination, handle)

    return {"transfer": transfer, "copy_out": copy_out}


_faulty = functools.partial(FaultyDevice, clause="system.transfer", rung=Rung.JIT)
_queued = functools.partial(_faulty, healthy="tinyref_conformance.faulty:Queueing", queue=Postponed)

FAULTS = (
    _faulty(
        name="RoundedTransferOffset",
        sentence="Copies to another device from a multiple of four bytes.",
        memory=_copied(_copy_from_words),
    ),
    _faulty(
        name="RoundedTransferSize",
        sentence="Copies multiples of sixteen bytes to another device, over what comes behind.",
        clause="memory.red_zone",
        memory=_copied(_copy_too_much),
    ),
    _faulty(
        name="LateTransfer",
        sentence="Copies from another device when the target is looked at.",
        memory=_late,
    ),
    _queued(
        name="EarlyTransfer",
        sentence="Copies from another device before its launches are done.",
        memory=_waits(for_own=True, for_other=False),
    ),
    _queued(
        name="HastyTransfer",
        sentence="Copies from another device to memory that its own launches have still to read.",
        memory=_waits(for_own=False, for_other=True),
    ),
    _queued(
        name="LostEvents",
        sentence="Copies from another device without a wait for what either has still to do.",
        clause="system.shard",
        memory=_copied(_copy),
    ),
)
