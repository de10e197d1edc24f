"""Devices that do not wait, or that lie about how long it took; their queues are in `queues.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tinyref.runtimes.driver_checks import check_copy_in
from tinyref.runtimes.host.memory import HostHandle, address_of
from tinyref_conformance.faulty import queues
from tinyref_conformance.faulty.device import (
    Call,
    FaultyDevice,
    Simulated,
    SimulatedKernel,
)
from tinyref_spec.case import Rung


def _late_copy_in(device: Simulated) -> dict[str, Call]:
    def copy_in(handle: HostHandle, source: memoryview) -> None:
        check_copy_in(source, handle.size)
        device.queue.put(functools.partial(device.memory.copy_in, handle, source))

    return {"copy_in": copy_in}


def _early_copy_out(device: Simulated) -> dict[str, Call]:
    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        device.memory.copy_out(destination, handle)
        device.queue.wait()

    return {"copy_out": copy_out}


def _overwriting_free(device: Simulated) -> dict[str, Call]:
    return {"free": lambda handle: handle.fill(0xDD)}


def _early_reuse(device: Simulated) -> dict[str, Call]:
    """Freed memory is for others of its size, and the first copy there waits for nobody."""
    freed: dict[int, list[HostHandle]] = {}
    reused: set[int] = set()

    def allocate(nbytes: int) -> HostHandle:
        if not freed.get(nbytes):
            return device.memory.allocate(nbytes)
        handle = freed[nbytes].pop()
        reused.add(address_of(handle))
        return handle

    def free(handle: HostHandle) -> None:
        freed.setdefault(handle.size, []).append(handle)

    def copy_in(handle: HostHandle, source: memoryview) -> None:
        if address_of(handle) not in reused:
            device.queue.wait()
        reused.discard(address_of(handle))
        device.memory.copy_in(handle, source)

    return {"allocate": allocate, "free": free, "copy_in": copy_in}


def _reports(seconds: float) -> Callable[[SimulatedKernel], Call]:
    """Return the edit by which every launch takes this time."""

    def edit(kernel: SimulatedKernel) -> Call:
        healthy = kernel.run
        return lambda *arguments: None if healthy(*arguments) is None else seconds

    return edit


_queued = functools.partial(
    FaultyDevice,
    clause="device.order",
    rung=Rung.LOOP,
    queue=queues.Postponed,
    healthy="tinyref_conformance.faulty:Queueing",
)

HEALTHY = (
    FaultyDevice(
        name="Queueing",
        sentence="Launches when somebody waits for it, as late as a device may, and is right.",
        queue=queues.Postponed,
    ),
    FaultyDevice(
        name="Threaded",
        sentence="Launches in a thread of its own, and is right.",
        queue=queues.InThread,
    ),
)

FAULTS = (
    _queued(
        name="EarlyReads",
        sentence="Lets the host read before it waits for the launches that write.",
        rung=Rung.STORE,
        memory=_early_copy_out,
    ),
    _queued(
        name="IdleSynchronize",
        sentence="Launches without waiting, as devices do, and synchronize does not wait either.",
        clause="device.wait",
        methods={"synchronize": lambda self: None},
    ),
    _queued(
        name="EarlyEvents",
        sentence="Signals the end of a launch as soon as it is queued.",
        clause="device.wait",
        queue=queues.EarlySignal,
    ),
    _queued(
        name="EarlyCopies",
        sentence="Copies to memory that launches before the copy have still to read.",
        memory=lambda device: {"copy_in": device.memory.copy_in},
    ),
    _queued(
        name="LateSources",
        sentence="Reads the source of a copy when its turn comes, and not when it is called.",
        memory=_late_copy_in,
    ),
    _queued(
        name="EarlyFrees",
        sentence="Gives memory back that launches have still to read: another one writes there.",
        memory=_overwriting_free,
    ),
    _queued(
        name="EarlyFreesBehind",
        sentence="Begins a launch at once, and gives back what those behind it have still to read.",
        queue=queues.FirstAtOnce,
        memory=_overwriting_free,
    ),
    _queued(
        name="EarlyReuse",
        sentence="Gives freed memory to a copy that does not wait for the launches that use it.",
        memory=_early_reuse,
    ),
    _queued(
        name="TwoQueues",
        sentence="Launches into two queues in turn, and neither waits for the other.",
        queue=queues.Several,
    ),
    _queued(
        name="KernelQueues",
        sentence="Has a queue for each kernel: launches of two kernels have no order.",
        queue=queues.OneForEachKernel,
    ),
    _queued(
        name="LostReaders",
        sentence="Lets a launch wait for those that write its memory, not for those that read it.",
        queue=queues.BehindWriters,
    ),
    _queued(
        name="SharedArguments",
        sentence="Keeps the arguments of a kernel in one place, which its next launch overwrites.",
        queue=queues.SharedArguments,
    ),
    FaultyDevice(
        name="ConstantSeconds",
        sentence="Says of every launch that it took a hundredth of a second.",
        clause="device.wait",
        rung=Rung.LOOP,
        launch=_reports(0.01),
    ),
    FaultyDevice(
        name="NegativeSeconds",
        sentence="Subtracts the ends of a launch the wrong way round.",
        clause="device.wait",
        rung=Rung.LOOP,
        launch=_reports(-0.01),
    ),
)
