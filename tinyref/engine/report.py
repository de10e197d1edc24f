"""Counting the kernels that ran, and telling what DEBUG asks for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from tinyref import config
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.symbolic import describe_shape
from tinyref.codegen.compile import plan_for
from tinyref.device import Device
from tinyref.engine.counters import GlobalCounters
from tinyref.engine.estimate import estimate
from tinyref.engine.search import chosen_opts
from tinyref.engine.watch import active_watcher
from tinyref.formats.text import to_text
from tinyref.optimise.show import print_plan
from tinyref.runtimes.kernel import Kernel
from tinyref.uops.node import UOp
from tinyref.uops.payload import ViewArg


def is_timed() -> bool:
    """Whether kernels are waited for, so that the time they take is known."""
    return config.integer("DEBUG") >= 2 or active_watcher() is not None


def is_told() -> bool:
    """Whether each kernel is reported, by DEBUG or to a watcher."""
    return config.integer("DEBUG") >= 1 or active_watcher() is not None


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
    debug = config.integer("DEBUG")
    if debug >= 1:
        report(_line(ast, kernel, operations, nbytes, seconds))
    if debug >= 2:
        if names:
            report(f"  computes {', '.join(names)}")
        capabilities = Device[kernel.device].capabilities
        print_plan(plan_for(ast, capabilities, chosen_opts(kernel.device, ast)), sys.stderr, "  ")
    if debug >= 3:
        report(to_text(ast).rstrip())
    if debug >= 4:
        report(kernel.source.rstrip())
    if debug >= 5:
        report(to_text(kernel.program.uops).rstrip())


def _line(ast: UOp, kernel: Kernel, operations: int, nbytes: int, seconds: float | None) -> str:
    views = [node.arg for node in ast.toposort() if isinstance(node.arg, ViewArg)]
    shapes = dict.fromkeys(describe_shape(view.tracker.shape) for view in views)
    text = (
        f"kernel {GlobalCounters.kernel_count:>5} {kernel.device:<8} {kernel.name:<24} "
        f"{' '.join(shapes)}  {len(kernel.program.parameters)} buffers"
    )
    if seconds is None:
        return text
    rate = operations / seconds / 1e9 if seconds else 0.0
    return (
        f"{text}  {seconds * 1e3:9.3f} ms  {rate:8.2f} GFLOPS  "
        f"{nbytes:,} bytes  {GlobalCounters.mem_used:,} in use"
    )


def report(line: str) -> None:
    """Prints a line that DEBUG asks for."""
    print(line, file=sys.stderr)  # noqa: T201  DEBUG asks for it
