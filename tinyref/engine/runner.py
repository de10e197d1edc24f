"""Runs schedules: allocates outputs, compiles kernels, launches them, counts."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from tinyref import config
from tinyref.device import Device
from tinyref.engine.counters import GlobalCounters
from tinyref.engine.estimate import estimate, value_of
from tinyref.errors import DeviceError
from tinyref.lazy.buffers import buffer_of
from tinyref.runtimes.kernel import Kernel, compile_ast
from tinyref.schedule import CopyItem, KernelItem, Schedule, schedule
from tinyref.uops.node import UOp
from tinyref.uops.payload import ViewArg
from tinyref.uops.symbolic import describe_shape


def realize(
    outputs: Sequence[tuple[UOp, str]], live: Iterable[tuple[UOp, str]] = ()
) -> dict[UOp, UOp]:
    """Computes `outputs`, each a node and the device it goes to, and says where they are now.

    `live` are all other graphs that may be computed later: those that read contents which an
    ASSIGN in the outputs overwrites are computed first, as if each line had run at once. The
    result maps each computed node to a view of a BUFFER (see `lazy.graph.backing`): the outputs,
    what was taken from `live`, and every ASSIGN, CONTIGUOUS and COPY on the way. Rewrite each graph
    that holds one of these with `uops.node.substitute`, or an ASSIGN in it would run twice.

    Raises `UserError` for graphs that no order of kernels computes or that the device refuses, and
    `DeviceError`, naming the kernel, when compiling, allocating or launching fails; buffers that
    were complete before that keep their contents.
    """
    planned = schedule(outputs, live)
    run(planned)
    return planned.results


def run(planned: Schedule) -> None:
    """Runs all items of a schedule in order; an intermediate buffer dies after its last user."""
    items = deque(planned.items)
    planned.items.clear()
    while items:
        item = items.popleft()
        if isinstance(item, CopyItem):
            _run_copy(item)
        else:
            _run_kernel(item, planned.bindings)


def _run_copy(item: CopyItem) -> None:
    source = buffer_of(item.source)
    target = buffer_of(item.target)
    try:
        target.copy_in(memoryview(source.copy_out()))
    except MemoryError as error:
        raise DeviceError(target.device, f"copy of {source.nbytes} bytes: {error}") from error
    if config.integer("DEBUG") >= 1:
        _report(f"copy {source.nbytes:>12,} bytes  {source.device} -> {target.device}")


def _run_kernel(item: KernelItem, bindings: Mapping[str, int]) -> None:
    debug = config.integer("DEBUG")
    kernel = compile_ast(item.device, item.ast)
    try:
        buffers = [buffer_of(node).allocate() for node in item.buffers]
        seconds = kernel(buffers, bindings, wait=debug >= 2)
    except DeviceError as error:
        message = f"kernel {kernel.name}: {error.message}"
        raise DeviceError(error.device, message, error.source or kernel.source) from error
    except MemoryError as error:
        message = f"kernel {kernel.name}: out of memory: {error}"
        raise DeviceError(item.device, message, kernel.source) from error
    amount = estimate(item.ast)
    operations = value_of(amount.operations, bindings)
    nbytes = value_of(amount.nbytes, bindings)
    GlobalCounters.kernel_count += 1
    GlobalCounters.global_ops += operations
    GlobalCounters.global_mem += nbytes
    GlobalCounters.time_sum_s += seconds or 0.0
    if debug >= 1:
        _report(_line(item, kernel, operations, nbytes, seconds))


def _line(
    item: KernelItem, kernel: Kernel, operations: int, nbytes: int, seconds: float | None
) -> str:
    views = [node.arg for node in item.ast.toposort() if isinstance(node.arg, ViewArg)]
    shapes = dict.fromkeys(describe_shape(view.tracker.shape) for view in views)
    text = (
        f"kernel {GlobalCounters.kernel_count:>5} {item.device:<8} {kernel.name:<24} "
        f"{' '.join(shapes)}  {len(item.buffers)} buffers"
    )
    if seconds is None:
        return text
    rate = operations / seconds / 1e9 if seconds else 0.0
    return (
        f"{text}  {seconds * 1e3:9.3f} ms  {rate:8.2f} GFLOPS  "
        f"{nbytes:,} bytes  {GlobalCounters.mem_used:,} in use"
    )


def _report(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  DEBUG asks for it


def synchronize() -> None:
    """Returns when every open device has finished its work."""
    for _, backend in Device.opened():
        backend.synchronize()
