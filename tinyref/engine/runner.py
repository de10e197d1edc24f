"""Runs schedules: allocates outputs, compiles kernels, launches them, counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from tinyref import config
from tinyref.codegen.compile import kernel_name
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.engine.capture import Recorder, Step, active_recorder, copy_buffer
from tinyref.engine.chosen import chosen_opts
from tinyref.engine.interrupts import InterruptsHeld
from tinyref.engine.report import is_timed, report, report_kernel
from tinyref.engine.watch import active_watcher
from tinyref.errors import DeviceError, words_of
from tinyref.lazy.buffers import (
    assigned_buffer,
    buffer_of,
    has_memory,
    lost_buffer_like,
    set_buffer,
)
from tinyref.lazy.shards import Place
from tinyref.profile import span
from tinyref.runtimes.kernel import Kernel, compile_ast
from tinyref.schedule import CopyItem, Item, KernelItem, Schedule, schedule
from tinyref.schedule.items import Lifetime, buffers_of, plan_arena, temporaries, written_by
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg


class RealizeError(DeviceError):
    """A schedule broke off: `completed` maps what was computed before to its view of a BUFFER.

    An ASSIGN that is among them has run and must not run again.
    """

    def __init__(
        self,
        device: str,
        message: str,
        source: str = "",
        completed: Mapping[UOp, UOp] | None = None,
    ) -> None:
        super().__init__(device, message, source)
        self.completed = dict(completed or {})

    def __reduce__(self) -> tuple[type[RealizeError], tuple[str, str, str]]:
        # Nodes do not pickle, and mean nothing in another process.
        return RealizeError, (self.device, self.message, self.source)


@dataclass
class Outcome:
    """The results of a schedule that broke off: rewrite the graphs by `results`.

    results: the views of BUFFERs that hold what was computed. A BUFFER that an ASSIGN has
    overwritten, or may have, maps to one whose contents are lost.
    failed: the nodes that need the item which failed, itself included.
    """

    results: dict[UOp, UOp] = field(default_factory=dict)
    failed: set[UOp] = field(default_factory=set)


def realize(
    outputs: Sequence[tuple[UOp, Place]],
    live: Iterable[tuple[UOp, Place]] = (),
    outcome: Outcome | None = None,
    held: Iterable[UOp] | None = None,
) -> dict[UOp, UOp]:
    """Computes `outputs`, each a node and the device it goes to, and says where they are now.

    `live` are all other graphs that may be computed later: those that read contents which an
    ASSIGN in the outputs overwrites are computed first, as if each line had run at once. The
    result maps each computed node to a view of a BUFFER (see `lazy.graph.backing`): the outputs,
    what was taken from `live`, and every ASSIGN, CONTIGUOUS and COPY on the way, of which those in
    no graph of `held` are left out (None: in any case they are there). A constant maps to itself.
    Rewrite each graph that holds one of these, or an ASSIGN in it would run twice.

    Raises `UserError` for graphs that no order of kernels computes or that the device refuses, and
    `DeviceError`, naming the kernel, when compiling fails, both before anything has run. When
    allocating, launching or copying fails, `RealizeError` says what was computed before that. Then,
    and after an interrupt too, `outcome` says the same, and what is lost.
    """
    with span("schedule", f"schedule of {len(outputs)}"):
        planned = schedule(outputs, live, held)
    watcher = active_watcher()
    if watcher is not None:
        watcher.scheduled(outputs, planned)
    run(planned, outcome)
    return planned.results


def run(planned: Schedule, outcome: Outcome | None = None) -> None:
    """Runs all items of a schedule in order; an intermediate buffer dies after its last user.

    Compiles all kernels before it runs the first. Raises, and fills `outcome`, as `realize` does;
    the items are gone afterwards.
    """
    outcome = Outcome() if outcome is None else outcome
    items = _compile_items(planned, outcome)
    if config.integer("MEMORY_PLAN"):
        _share_memory(planned)
    planned.items.clear()
    # Filled as it goes, so that it is known after an interrupt at any time.
    completed = outcome.results
    recorder = active_recorder()
    if recorder is not None:
        recorder.constraints.update(dict.fromkeys(planned.constraints))
    # Whether the first item may have written something.
    is_begun = False
    try:
        while items:
            item, kernel = items[0]
            step = None if recorder is None else _step_of(item, kernel, planned, recorder)
            buffers = _allocate(item, kernel)
            with InterruptsHeld() if _assigns(item) else nullcontext():
                is_begun = True
                seconds = _run_item(item, kernel, buffers, planned.bindings)
                completed.update({node: planned.results[node] for node in item.completes})
                is_begun = False
                items.popleft()
            if recorder is not None and step is not None:
                recorder.steps.append(step)
            _report_item(item, kernel, buffers, planned.bindings, seconds)
    except BaseException as error:
        found = dict(completed)
        # Without this graphs would read what was overwritten, so the next interrupt waits.
        with InterruptsHeld():
            outcome.failed.update(_needing_first([item for item, _ in items]))
            begun = items[0][0].completes if is_begun and items else ()
            completed.update(lost_contents(planned.results, found, begun, words_of(error)))
        if isinstance(error, DeviceError):
            raise RealizeError(error.device, error.message, error.source, found) from error
        raise


def _compile_items(planned: Schedule, outcome: Outcome) -> deque[tuple[Item, Kernel | None]]:
    compiled: deque[tuple[Item, Kernel | None]] = deque()
    try:
        for item in planned.items:
            compiled.append((item, _compile_item(item)))
    except BaseException:
        outcome.failed.update(_needing_first(planned.items[len(compiled) :]))
        raise
    return compiled


def _needing_first(items: Sequence[Item]) -> list[UOp]:
    """Return the nodes that the first item completes, and those that need its results."""
    written: set[UOp] = set()
    nodes: list[UOp] = []
    for item in items:
        if item is items[0] or not written.isdisjoint(buffers_of(item)):
            written.update(written_by(item))
            nodes += item.completes
    return nodes


def lost_contents(
    results: Mapping[UOp, UOp], completed: Iterable[UOp], begun: Sequence[UOp], why: str
) -> dict[UOp, UOp]:
    """Map BUFFERs that were overwritten, and what shows them, to BUFFERs whose contents are lost.

    begun: the nodes of an item that broke off, which may have written a part of its BUFFERs.
    """
    unsure = {
        assigned_buffer(node): lost_buffer_like(
            assigned_buffer(node), f"were being assigned to: {why}"
        )
        for node in begun
        if node.op is Ops.ASSIGN
    }
    overwritten = {assigned_buffer(node) for node in completed if node.op is Ops.ASSIGN}
    text = f"were assigned to before all was computed from them: {why}"
    lost = {buffer: lost_buffer_like(buffer, text) for buffer in overwritten - unsure.keys()}
    shown = [*completed, *(node for node in begun if node.op is Ops.ASSIGN)]
    views = {node: substitute(results[node], unsure) for node in shown} if unsure else {}
    return {**lost, **unsure, **views}


def _assigns(item: Item) -> bool:
    return any(node.op is Ops.ASSIGN for node in item.completes)


def _share_memory(planned: Schedule) -> None:
    """Gives the intermediate buffers of a schedule their places in one arena for each device."""
    by_device: dict[str, dict[UOp, Lifetime]] = {}
    for node, lifetime in temporaries(planned.items, planned.results).items():
        if not isinstance(node.arg, BufferArg) or has_memory(node):
            continue
        # Each copy to a file is that file.
        if Device.runs_kernels(node.arg.device):
            by_device.setdefault(node.arg.device, {})[node] = lifetime
    for device, lifetimes in by_device.items():
        alignment = Device[device].capabilities.view_alignment
        arena = plan_arena(list(lifetimes.values()), alignment)
        whole = Buffer(device, arena.nbytes, dtypes.uint8)
        for node, offset in zip(lifetimes, arena.offsets, strict=True):
            if isinstance(node.arg, BufferArg):
                set_buffer(node, whole.view(offset, node.arg.size, node.dtype))


def _compile_item(item: Item) -> Kernel | None:
    if isinstance(item, CopyItem):
        return None
    try:
        return compile_ast(item.device, item.ast, chosen_opts(item.device, item.ast))
    except DeviceError as error:
        message = f"kernel {kernel_name(item.ast)}: {error.message}"
        raise DeviceError(error.device, message, error.source) from error


def _step_of(
    item: Item, kernel: Kernel | None, planned: Schedule, recorder: Recorder
) -> Step | None:
    if isinstance(item, CopyItem):
        return recorder.copy_step(item)
    return None if kernel is None else recorder.kernel_step(item, kernel, planned.bindings)


def _allocate(item: Item, kernel: Kernel | None) -> list[Buffer]:
    """The memory that an item touches, what it writes first; a copy allocates for itself."""
    if kernel is None:
        return [buffer_of(node) for node in buffers_of(item)]
    try:
        return [buffer_of(node).allocate() for node in buffers_of(item)]
    except (DeviceError, MemoryError) as error:
        raise _error_of(kernel, error) from error


def _run_item(
    item: Item, kernel: Kernel | None, buffers: Sequence[Buffer], bindings: Mapping[str, int]
) -> float | None:
    if kernel is not None:
        return _run_kernel(kernel, buffers, bindings)
    copy_buffer(*buffers)
    return None


def _run_kernel(
    kernel: Kernel, buffers: Sequence[Buffer], bindings: Mapping[str, int]
) -> float | None:
    try:
        return kernel(buffers, bindings, wait=is_timed())
    except (DeviceError, MemoryError) as error:
        raise _error_of(kernel, error) from error


def _error_of(kernel: Kernel, error: DeviceError | MemoryError) -> DeviceError:
    """The same error, which says of what kernel it is."""
    if isinstance(error, DeviceError):
        message = f"kernel {kernel.name}: {error.message}"
        return DeviceError(error.device, message, error.source or kernel.source)
    message = f"kernel {kernel.name}: out of memory: {error}"
    return DeviceError(kernel.device, message, kernel.source)


def _report_item(
    item: Item,
    kernel: Kernel | None,
    buffers: Sequence[Buffer],
    bindings: Mapping[str, int],
    seconds: float | None,
) -> None:
    if isinstance(item, KernelItem) and kernel is not None:
        report_kernel(item.ast, kernel, bindings, seconds, item.names)
    elif config.integer("DEBUG") >= 1:
        target, source = buffers
        report(f"copy {source.nbytes:,} bytes {source.device} -> {target.device}")


def synchronize() -> None:
    """Returns when every open device has finished its work."""
    for _, backend in Device.opened():
        backend.synchronize()
