"""Running schedules: allocate outputs, compile kernels, launch them, count."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType

from tinyref import config
from tinyref.codegen.compile import kernel_name
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.engine.capture import active_recorder
from tinyref.engine.report import (
    active_watcher,
    chosen_opts,
    copy_buffer,
    is_timed,
    report,
    report_kernel,
)
from tinyref.errors import DeviceError
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


class InterruptsHeld:
    """A block that delays an interrupt until its end: `with InterruptsHeld(): ...`.

    It protects assignments in place: after an interrupted launch the contents are unknown. A
    second interrupt is not delayed. Only the main thread gets interrupts; a handler that the
    program has set itself stays active.
    """

    def __enter__(self) -> None:
        self._is_pending = self._holds = False
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, self._hold)
            self._holds = before is signal.default_int_handler
            if not self._holds:
                signal.signal(signal.SIGINT, before)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._is_pending:
            # It may arrive while the block is entered or left, when `__exit__` is not called.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.default_int_handler(number, frame)
        self._is_pending = True

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._holds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._is_pending and not isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt from error


def realize(
    outputs: Sequence[tuple[UOp, Place]],
    live: Iterable[tuple[UOp, Place]] = (),
    held: Iterable[UOp] | None = None,
) -> dict[UOp, UOp]:
    """Compute `outputs`, each a node and its target device, and return where the results are.

    `live` are all other graphs that may be computed later. Those that read contents which an
    ASSIGN in the outputs overwrites are computed first, as if every line had run at once.

    The result maps each computed node (outputs, nodes of `live`, every ASSIGN, CONTIGUOUS and COPY
    on the way) to a view of a BUFFER: see `lazy.graph.backing`. With `held`, it omits those
    of them that are in none of its graphs. A constant maps to itself. Rewrite each graph that
    contains one of these nodes: otherwise an ASSIGN in it would run twice.

    Raises `UserError` for graphs that no order of kernels computes or that the device refuses.
    Raises `DeviceError` with the kernel if compiling fails. Nothing has run after these errors.
    Raises `DeviceError` too if allocating, launching or copying fails.
    """
    schedule_run = ScheduleRun(outputs, live, held)
    schedule_run.compile()
    schedule_run.run()
    return schedule_run.results


class ScheduleRun:
    """A schedule and its progress; an intermediate buffer is freed after its last user.

    results: as `realize` returns them.
    assigns: True if an item overwrites a BUFFER.
    """

    def __init__(
        self,
        outputs: Sequence[tuple[UOp, Place]],
        live: Iterable[tuple[UOp, Place]],
        held: Iterable[UOp] | None,
    ) -> None:
        with span("schedule", f"schedule of {len(outputs)}"):
            planned = schedule(outputs, live, held)
        watcher = active_watcher()
        if watcher is not None:
            watcher.scheduled(outputs, planned)
        self.results = planned.results
        self.assigns = any(_assigned_by(item) for item in planned.items)
        # The ASSIGNs that have run, and those of the current item.
        self._completed: list[UOp] = []
        self._begun: list[UOp] = []
        self._planned = planned
        self._waiting = deque(planned.items)
        self._kernels: deque[Kernel | None] = deque()
        self._is_compiled = False

    def compile(self) -> None:
        """Compile all kernels. Raises as `realize` does."""
        for item in self._waiting:
            self._kernels.append(_compile_item(item))
        if config.integer("MEMORY_PLAN"):
            _share_memory(self._planned)
        self._planned.items.clear()
        self._is_compiled = True

    def run(self) -> None:
        """Run all items in order. Raises as `realize` does."""
        bindings = self._planned.bindings
        recorder = active_recorder()
        if recorder is not None:
            recorder.constraints.update(dict.fromkeys(self._planned.constraints))
        while self._waiting:
            item, kernel = self._waiting[0], self._kernels[0]
            step = None if recorder is None else recorder.step(item, kernel, bindings)
            buffers = _allocate(item, kernel)
            self._begun = _assigned_by(item)
            seconds = _run_item(item, kernel, buffers, bindings)
            self._completed += self._begun
            self._begun = []
            self._waiting.popleft()
            self._kernels.popleft()
            if recorder is not None and step is not None:
                recorder.steps.append(step)
            _report_item(item, kernel, buffers, bindings, seconds)

    def failed(self) -> list[UOp]:
        """Return the nodes of the item that failed, and those that need its results."""
        items = list(self._waiting)[0 if self._is_compiled else len(self._kernels) :]
        written: set[UOp] = set()
        nodes: list[UOp] = []
        for item in items:
            if item is items[0] or not written.isdisjoint(buffers_of(item)):
                written.update(written_by(item))
                nodes += item.completes
        return nodes

    def remains(self, why: str) -> dict[UOp, UOp]:
        """Return what becomes of nodes after an error, to rewrite all graphs.

        An ASSIGN that has run becomes its result and must not run again. The former contents of
        its BUFFER are lost, also the results of earlier ASSIGNs to it. If an ASSIGN was running,
        the contents of its BUFFER are lost.
        """
        if not self._waiting:
            return self.results
        text = f"were being assigned to: {why}"
        assigned = (*self._completed, *self._begun)
        lost = {buffer: lost_buffer_like(buffer, text) for buffer in map(assigned_buffer, assigned)}
        last = {assigned_buffer(node): node for node in assigned}
        valid = set(last.values()).difference(self._begun)
        results = {
            node: self.results[node] if node in valid else substitute(self.results[node], lost)
            for node in assigned
        }
        return {**lost, **results}


def _assigned_by(item: Item) -> list[UOp]:
    return [node for node in item.completes if node.op is Ops.ASSIGN]


def _share_memory(planned: Schedule) -> None:
    """Put the intermediate buffers of a schedule into one arena for each device."""
    by_device: dict[str, dict[UOp, Lifetime]] = {}
    for node, lifetime in temporaries(planned.items, planned.results).items():
        if not isinstance(node.arg, BufferArg) or has_memory(node):
            continue
        # Buffers of files stay: every copy to a file is that file.
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


def _allocate(item: Item, kernel: Kernel | None) -> list[Buffer]:
    """Return the memory of an item, written buffers first; copies allocate their own."""
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
    """Return the same error, with the name of the kernel."""
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
        report_kernel(item.ast, kernel, bindings, seconds, item.names, item.lines)
    elif config.integer("DEBUG") >= 1:
        target, source = buffers
        report(f"copy {source.nbytes:,} bytes {source.device} -> {target.device}")


def synchronize() -> None:
    """Return when every open device has finished its work."""
    for _, backend in Device.opened():
        backend.synchronize()
