"""`tinyref bench --machine`: the description of this host, measured by kernels of the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from tinyref.cli.bench.works import seconds_of_call
from tinyref.config import Context
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.machine import FIXED, Machine, MemoryLevel
from tinyref.optimise.heuristics_loops import operations_of
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.runtimes.host.description import processor_name
from tinyref.runtimes.kernel import compile_ast
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.workers.machine import usable_cores
from tinyref_spec.kernels import named
from tinyref_spec.kernels.notation import kernel_of, load, shaped, total

DEVICE = "CPU"
# Bytes that are read again and again, from what a small cache holds to what only memory does.
SIZES = (32 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20, 128 << 20)
# Each size is read until this many elements are.
READ_ELEMENTS = 1 << 22
# A product whose operands fit in a small cache, and one that is long enough for threads.
SMALL_PRODUCT, SHARED_PRODUCT = 64, 256
# Waking threads takes a system call at least.
LEAST_THREAD_NS = 1000.0
# Launches on threads; the fastest counts, because others shared the machine.
SHARED_LAUNCHES = 200
F32 = dtypes.float32


def measure_machine(repeats: int, progress: Callable[[str], None] = lambda text: None) -> Machine:
    """Measure this host; each number is the best of `repeats` measurements."""
    with Context(DEVICE=DEVICE, MACHINE=0, THREADS=1, NOOPT=0, STRICT_FLOAT=1):
        progress("operations")
        product = named.matmul(*(SMALL_PRODUCT,) * 3, F32)
        operations = operations_of(Plan.of(product, Device[DEVICE].capabilities))
        rate = operations / nanoseconds_of(product, repeats)
        levels = []
        for size in SIZES:
            progress(f"reading {size >> 10:,} KiB")
            levels.append(MemoryLevel(size, _read_rate(size, repeats)))
    progress("threads")
    origin = f"{processor_name()}, {time.strftime('%Y-%m-%d', time.gmtime())}"
    return Machine(origin, rate, tuple(levels), _thread_ns(repeats))


def reading(size: int) -> UOp:
    """Return a kernel that sums `size` bytes for each output, times a factor of that output."""
    length = size // F32.itemsize
    rows = max(1, READ_ELEMENTS // length)
    elements = load(1, F32, shaped(1, length).expand((rows, length)))
    # With equal factors the sum would be computed once.
    factors = load(2, F32, shaped(rows, 1).expand((rows, length)))
    return kernel_of(total(build.mul(elements, factors), 1), rows, 1)


def _read_rate(size: int, repeats: int) -> float:
    """Return the bytes a nanosecond, with four vectors at a time along the summed axis."""
    ast = reading(size)
    plan = Plan.of(ast, Device[DEVICE].capabilities)
    number = len(plan.axes) - 1
    opts = (Opt(OptOp.UNROLL, number, 16), Opt(OptOp.UNROLL, number, 4))
    rows = max(1, READ_ELEMENTS // (size // F32.itemsize))
    return rows * size / nanoseconds_of(ast, repeats, opts)


def _thread_ns(repeats: int) -> float:
    """Return the time that a product on all cores takes beyond its share of the time of one."""
    cores = usable_cores()
    if cores == 1:
        return FIXED.thread_ns
    product = named.matmul(*(SHARED_PRODUCT,) * 3, F32)
    fastest = []
    for threads in (1, cores):
        with Context(DEVICE=DEVICE, MACHINE=0, THREADS=threads, NOOPT=0, STRICT_FLOAT=1):
            launch = launch_of(product)
            fastest.append(min(_seconds(launch) for _ in range(repeats * SHARED_LAUNCHES)) * 1e9)
    alone, shared = fastest
    return max(LEAST_THREAD_NS, shared - alone / cores)


def _seconds(launch: Callable[[], object]) -> float:
    start = time.perf_counter()
    launch()
    return time.perf_counter() - start


def nanoseconds_of(ast: UOp, repeats: int, opts: Sequence[Opt] | None = None) -> float:
    """Return the time of a launch of `ast` on one thread: the least of `repeats`."""
    launch = launch_of(ast, opts)
    return min(seconds_of_call(launch, time.process_time) for _ in range(repeats)) * 1e9


def launch_of(ast: UOp, opts: Sequence[Opt] | None = None) -> Callable[[], object]:
    """Return a function that launches the kernel of `ast` on memory that holds ones."""
    kernel = compile_ast(DEVICE, ast, opts)
    buffers = []
    for parameter in kernel.program.parameters:
        buffer = Buffer(DEVICE, parameter.size, F32).allocate()
        buffers.append(buffer.copy_in(np.ones(parameter.size, np.float32).data))
    return lambda: kernel(buffers)


def machine_lines(machine: Machine) -> list[str]:
    """Return a line for each number of the description, with the fixed one."""
    lines = [f"{'machine':40} {'here':>10} {'fixed':>10}  unit"]

    def add(name: str, here: float, fixed: float, unit: str) -> None:
        lines.append(f"{name:40} {here:>10,.3g} {fixed:>10,.3g}  {unit}")

    add(
        "operations", machine.operations_per_ns, FIXED.operations_per_ns, "a nanosecond, one thread"
    )
    for level in machine.levels:
        name = f"reading {level.size >> 10:,} KiB"
        add(name, level.bytes_per_ns, FIXED.bytes_per_ns(level.size), "bytes a nanosecond")
    add("small cache", machine.small_cache / 1024, FIXED.small_cache / 1024, "KiB")
    add("waking threads", machine.thread_ns / 1000, FIXED.thread_ns / 1000, "microseconds")
    return lines
