"""Counting the kernels that ran, and telling what DEBUG asks for."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinyref import config
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.symbolic import describe_shape
from tinyref.codegen.compile import plan_for
from tinyref.device import Device
from tinyref.engine.chosen import chosen_opts
from tinyref.engine.counters import GlobalCounters
from tinyref.engine.estimate import estimate
from tinyref.engine.watch import active_watcher
from tinyref.formats.text import to_text
from tinyref.optimise.plan import print_plan
from tinyref.profile import active_trace
from tinyref.runtimes.kernel import Kernel
from tinyref.uops.node import UOp
from tinyref.uops.payload import ViewArg


def is_timed() -> bool:
    """Whether kernels are waited for, so that the time they take is known."""
    return config.integer("DEBUG") >= 2 or _is_observed()


def is_told() -> bool:
    """Whether each kernel is reported, by DEBUG, in a trace or to a watcher."""
    return config.integer("DEBUG") >= 1 or _is_observed()


def _is_observed() -> bool:
    return active_watcher() is not None or bool(config.text("PROFILE"))


def report_kernel(
    ast: UOp,
    kernel: Kernel,
    bindings: Mapping[str, int],
    seconds: float | None,
    names: Sequence[str] = (),
) -> None:
    """Adds a kernel that ran to the totals, and prints about it as much as DEBUG says.

    `names` are the user's functions that it computes.
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
    _trace_kernel(kernel, work, names)
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


@dataclass(frozen=True)
class Work:
    """What one launch of a kernel came to; `seconds` is None where it was not waited for."""

    operations: int
    nbytes: int
    seconds: float | None

    @property
    def gflops(self) -> float:
        """10^9 operations a second."""
        return self.operations / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbytes(self) -> float:
        """10^9 bytes a second, of those that the kernel reads and writes."""
        return self.nbytes / self.seconds / 1e9 if self.seconds else 0.0


def _trace_kernel(kernel: Kernel, work: Work, names: Sequence[str]) -> None:
    trace = active_trace()
    if trace is None or work.seconds is None:
        return
    facts = {
        **{"computes": ", ".join(names), "operations": work.operations, "bytes": work.nbytes},
        **{"GFLOP/s": round(work.gflops, 3), "GB/s": round(work.gbytes, 3)},
    }
    trace.add(kernel.device, "kernel", kernel.name, time.perf_counter(), work.seconds, **facts)


# A line for a kernel is as wide as a terminal shows.
LINE_WIDTH = 100
_NAME_WIDTH = 20


def kernel_line(ast: UOp, kernel: Kernel, work: Work, names: Sequence[str]) -> str:
    """One line of at most `LINE_WIDTH` characters; what it computes is cut where it is too long."""
    views = [node.arg for node in ast.toposort() if isinstance(node.arg, ViewArg)]
    shapes = dict.fromkeys(describe_shape(view.tracker.shape) for view in views)
    computes = " ".join((", ".join(names), *shapes)).strip()
    head = f"kernel {GlobalCounters.kernel_count:>5} {kernel.device:<8} "
    head += f"{_cut(kernel.name, _NAME_WIDTH):<{_NAME_WIDTH}} "
    tail = ""
    if work.seconds is not None:
        tail = f" {work.seconds * 1e3:8.3f} ms {work.gflops:6.1f} GFLOP/s {work.gbytes:5.1f} GB/s"
    room = max(LINE_WIDTH - len(head) - len(tail), 1)
    return f"{head}{_cut(computes, room):<{room if tail else 0}}{tail}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def report(line: str) -> None:
    """Prints a line that DEBUG asks for."""
    print(line, file=sys.stderr)  # noqa: T201  DEBUG asks for it
