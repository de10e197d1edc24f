"""Reports of what the engine does: to counters, DEBUG, traces and watchers."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from tinyref import config
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.symbolic import describe_shape
from tinyref.capabilities import reason_without_values
from tinyref.codegen.compile import plan_for
from tinyref.device import Buffer, Device
from tinyref.engine.accounting import GlobalCounters, estimate
from tinyref.errors import DeviceError
from tinyref.formats.text import to_text
from tinyref.lazy.shards import Place
from tinyref.optimise.opt import Opt
from tinyref.optimise.plan import print_plan
from tinyref.profile import active_trace
from tinyref.runtimes.kernel import Kernel
from tinyref.schedule import Schedule
from tinyref.uops.node import UOp
from tinyref.uops.payload import ViewArg


class Watcher(Protocol):
    """Observer of the engine, called in the order of events; it makes kernels wait and be timed."""

    def scheduled(self, outputs: Sequence[tuple[UOp, Place]], planned: Schedule) -> None:
        """Called before `outputs` are computed; `planned` is emptied while it runs."""
        ...

    def ran(
        self, ast: UOp, kernel: Kernel, bindings: Mapping[str, int], seconds: float | None
    ) -> None:
        """Called after a kernel, of the last schedule or of a captured function, ran."""
        ...

    def copied(self, target: Buffer, source: Buffer, seconds: float) -> None:
        """Called after a copy, in the same way."""
        ...


_watcher: ContextVar[Watcher | None] = ContextVar("tinyref_watcher", default=None)


def active_watcher() -> Watcher | None:
    """Return the watcher of this thread, if any."""
    return _watcher.get()


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Report everything that the engine does in this block and thread to `watcher`."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def is_timed() -> bool:
    """Return True if the engine waits for kernels to measure their time."""
    return config.integer("DEBUG") >= 2 or _is_observed()


def is_told() -> bool:
    """Return True if each kernel is reported, by DEBUG, in a trace or to a watcher."""
    return config.integer("DEBUG") >= 1 or _is_observed()


def _is_observed() -> bool:
    return active_watcher() is not None or bool(config.text("PROFILE"))


def report_kernel(
    ast: UOp,
    kernel: Kernel,
    bindings: Mapping[str, int],
    seconds: float | None,
    names: Sequence[str] = (),
    lines: Sequence[str] = (),
) -> None:
    """Add a kernel that ran to the totals, and print as much about it as DEBUG asks for.

    names: the user's functions that it computes. lines: the lines of their calls.
    """
    amount = estimate(ast)
    operations = value_of(amount.operations, bindings)
    nbytes = value_of(amount.nbytes, bindings)
    GlobalCounters.kernel_count += 1
    GlobalCounters.global_ops += operations
    GlobalCounters.global_mem += nbytes
    GlobalCounters.time_sum_s += seconds or 0.0
    watcher = active_watcher()
    if watcher is not None:
        watcher.ran(ast, kernel, bindings, seconds)
    work = Work(operations, nbytes, seconds)
    _trace_kernel(ast, kernel, work, names, lines)
    debug = config.integer("DEBUG")
    if debug >= 1:
        report(kernel_line(ast, kernel, work, names))
    if debug >= 3:
        capabilities = Device[kernel.device].capabilities
        print_plan(plan_for(ast, capabilities, chosen_opts(kernel.device, ast)), sys.stderr, "  ")
        report(to_text(ast).rstrip())
    if debug >= 4:
        report(kernel.source.rstrip())
    if debug >= 5:
        report(to_text(kernel.program.uops).rstrip())


def copy_buffer(target: Buffer, source: Buffer) -> None:
    """Copy all bytes of `source` to `target` of the same size. Errors name the copy."""
    what = f"copy of {source.nbytes} bytes from {source.device}"
    start = time.perf_counter()
    try:
        target.copy_from(source)
    except DeviceError as error:
        raise DeviceError(error.device, f"{what}: {error.message}", error.source) from error
    except MemoryError as error:
        raise DeviceError(target.device, f"{what}: out of memory: {error}") from error
    end = time.perf_counter()
    trace = active_trace()
    if trace is not None:
        name = f"copy from {source.device} to {target.device}"
        trace.add(target.device, "copy", name, end, end - start, bytes=source.nbytes)
    watcher = active_watcher()
    if watcher is not None:
        watcher.copied(target, source, end - start)


@dataclass(frozen=True)
class Work:
    """The work of one launch of a kernel; `seconds` is None if it was not timed."""

    operations: int
    nbytes: int
    seconds: float | None

    @property
    def gflops(self) -> float:
        """Return 10^9 operations a second."""
        return self.operations / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbytes(self) -> float:
        """Return 10^9 bytes a second that the kernel reads and writes."""
        return self.nbytes / self.seconds / 1e9 if self.seconds else 0.0


def _trace_kernel(
    ast: UOp, kernel: Kernel, work: Work, names: Sequence[str], lines: Sequence[str]
) -> None:
    trace = active_trace()
    if trace is None or work.seconds is None:
        return
    facts = {
        **{
            "computes": ", ".join(names),
            "shapes": " ".join(_shapes(ast)),
            "from": ", ".join(lines),
        },
        **{"operations": work.operations, "bytes": work.nbytes},
        **{"GFLOP/s": round(work.gflops, 3), "GB/s": round(work.gbytes, 3)},
    }
    trace.add(kernel.device, "kernel", kernel.name, time.perf_counter(), work.seconds, **facts)


# The line of a kernel fits in a terminal of this width.
LINE_WIDTH = 100
_NAME_WIDTH = 20


def kernel_line(ast: UOp, kernel: Kernel, work: Work, names: Sequence[str]) -> str:
    """Return one line of at most `LINE_WIDTH` characters; a long description is cut."""
    computes = " ".join((", ".join(names), *_shapes(ast))).strip()
    head = f"kernel {GlobalCounters.kernel_count:>5} {kernel.device:<8} "
    head += f"{_cut(kernel.name, _NAME_WIDTH):<{_NAME_WIDTH}} "
    tail = ""
    if work.seconds is not None:
        tail = f" {work.seconds * 1e3:8.3f} ms {work.gflops:6.1f} GFLOP/s {work.gbytes:5.1f} GB/s"
    room = max(LINE_WIDTH - len(head) - len(tail), 1)
    return f"{head}{_cut(computes, room):<{room if tail else 0}}{tail}"


def _shapes(ast: UOp) -> list[str]:
    """Return the shapes that a kernel reads and writes, each once."""
    views = [node.arg for node in ast.toposort() if isinstance(node.arg, ViewArg)]
    return list(dict.fromkeys(describe_shape(view.tracker.shape) for view in views))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def report(line: str) -> None:
    """Print a line that DEBUG asks for."""
    print(line, file=sys.stderr)  # noqa: T201  DEBUG asks for it


def chosen_opts(device: str, ast: UOp) -> tuple[Opt, ...] | None:
    """Return the Opts of `ast` in a schedule: `best_opts` if BEAM is set and NOOPT is not.

    None leaves the choice to `plan_for`, also on devices that run no kernels or take no time.
    Raises `UserError` as `Plan.of` does.
    """
    if config.integer("BEAM") <= 0 or config.integer("NOOPT"):
        return None
    declared = Device[device].capabilities
    is_idle = reason_without_values(declared.ops, declared.keeps_values) is not None
    if is_idle:
        return None
    from tinyref.engine.search import best_opts

    return best_opts(device, ast)
