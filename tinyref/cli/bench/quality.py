"""How good the code for the CPU is: kernels beside what numpy does, both in one run of a process.

    python -m tinyref.cli.bench.quality NAME REPEATS

prints JSON: numbers of one of `PROGRAMS` and of its peer. It is a process of its own because numpy
reads how many threads it may use when it is imported, and here that is one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyref.algebra.evaluate import launch_grid, value_of
from tinyref.cli.bench.programs import data
from tinyref.config import Context
from tinyref.device import Device
from tinyref.engine.estimate import estimate
from tinyref.errors import UserError
from tinyref.lazy.buffers import buffer_of
from tinyref.runtimes.host.threads import available_cores
from tinyref.runtimes.kernel import compile_ast
from tinyref.schedule import schedule
from tinyref.tensor import Tensor
from tinyref.workers.processes import python_command

ROWS, COLUMNS = 4096, 4096
ELEMENTS = ROWS * COLUMNS
# Runs of which the fastest counts: the others had company.
RUNS = 3
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class QualityProgram:
    """A tensor program, the work in it (flop, or bytes that must move), and what numpy does.

    `peer_work` is the work of the peer; `strict` and `threads` are the flags while it is compiled
    and run, 0 threads standing for as many as there are cores.
    """

    name: str
    build: Callable[[], Tensor]
    work: float
    unit: str
    peer_name: str
    peer: Callable[[], Callable[[], object]]
    peer_work: float
    strict: int = 1
    threads: int = 1


def chain(x: Tensor) -> Tensor:
    """A few operations, each on what the one before gave: memory is the limit, not arithmetic."""
    return ((x * 2 + 1) * x - 0.5).relu()


def _matmul(size: int, strict: int) -> QualityProgram:
    flop = 2.0 * size**3
    return QualityProgram(
        f"quality.matmul.{size}{'' if strict else '.contracted'}",
        lambda: data(size, size) @ data(size, size),
        flop,
        "GFLOP/s, one thread",
        "numpy matmul",
        lambda: _numpy_matmul(size),
        flop,
        strict,
    )


def _numpy_matmul(size: int) -> Callable[[], object]:
    x, y = (np.random.default_rng(0).random((size, size), np.float32) for _ in range(2))
    out = np.empty_like(x)
    return lambda: np.matmul(x, y, out=out)


def _memory(name: str, build: Callable[[], Tensor], nbytes: float) -> Iterator[QualityProgram]:
    """On one thread and on all; a copy is always on one."""
    for threads, suffix, unit in ((1, "", "GB/s, one thread"), (0, ".threads", "GB/s, all cores")):
        full = f"quality.{name}{suffix}"
        yield QualityProgram(
            full, build, nbytes, unit, "numpy copyto", _copy, 8.0 * ELEMENTS, threads=threads
        )


def _copy() -> Callable[[], object]:
    source, target = np.ones(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    return lambda: np.copyto(target, source)


PROGRAMS = (
    *(_matmul(size, strict) for size in (1024, 512) for strict in (1, 0)),
    *_memory("rowsum", lambda: data(ROWS, COLUMNS).sum(1), 4.0 * (ELEMENTS + ROWS)),
    *_memory("softmax", lambda: data(ROWS, COLUMNS).softmax(-1), 8.0 * ELEMENTS),
    *_memory("elementwise", lambda: chain(data(ROWS, COLUMNS)), 8.0 * ELEMENTS),
)


@dataclass
class Comparison:
    """Numbers of a program and of its peer, one pair for each repeat, in the program's unit."""

    unit: str
    values: list[float]
    peer_name: str
    peer_values: list[float]
    note: str


def compare(program: QualityProgram, repeats: int) -> Comparison:
    """Measures `program` beside its peer, in turns, so that both meet the same neighbours."""
    with Context(DEVICE="CPU", STRICT_FLOAT=program.strict, THREADS=program.threads):
        run, note = launcher(program.build())
        peer = program.peer()
        values, peer_values = [], []
        for _ in range(repeats):
            values.append(program.work / fastest(run) / 1e9)
            peer_values.append(program.peer_work / fastest(peer) / 1e9)
    return Comparison(program.unit, values, program.peer_name, peer_values, note)


def scaling(repeats: int) -> Comparison:
    """A matmul on all cores beside one. Raises `UserError` where there is one core alone."""
    cores = available_cores()
    if cores == 1:
        raise UserError("bench: this process may run on one core alone")
    size = 1024
    runs = []
    with ExitStack() as stack:
        for threads in (cores, 1):
            stack.enter_context(Context(DEVICE="CPU", STRICT_FLOAT=0, THREADS=threads))
            run, note = launcher(data(size, size) @ data(size, size))
            runs.append((threads, run, note))
    numbers: dict[int, list[float]] = {cores: [], 1: []}
    for _ in range(repeats):
        for threads, run, _note in runs:
            with Context(THREADS=threads):
                numbers[threads].append(2.0 * size**3 / fastest(run) / 1e9)
    unit = f"GFLOP/s, {cores} threads"
    note = f"matmul {size}, contracted; {runs[0][2]}"
    return Comparison(unit, numbers[cores], "one thread", numbers[1], note)


def launcher(output: Tensor) -> tuple[Callable[[], None], str]:
    """What runs all kernels of `output` once more; how many they are, their bytes, their groups."""
    device = Device.default
    items = schedule([(output.node, device)]).kernels
    launches = []
    for item in items:
        kernel = compile_ast(device, item.ast)
        launches.append((kernel, [buffer_of(node).allocate() for node in item.buffers]))

    def run() -> None:
        for kernel, buffers in launches:
            kernel(buffers)

    groups = max(launch_grid(kernel.program, {})[0] for kernel, _ in launches)
    nbytes = sum(value_of(estimate(item.ast).nbytes, {}) for item in items)
    note = f"{len(items)} kernel{'s' if len(items) > 1 else ''}"
    note += "" if groups == 1 else f" of up to {groups} groups"
    return run, f"{note}, {nbytes / 1e6:,.1f} MB"


def fastest(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs; the first, which touches new memory, is not counted."""
    run()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def measured_apart(name: str, repeats: int) -> Comparison:
    """`compare` of the program `name`, or `scaling`, in a fresh process with one numpy thread.

    Raises `UserError` with its last words when it fails.
    """
    done = subprocess.run(
        python_command("tinyref.cli.bench.quality", name, str(repeats)),
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **ONE_THREAD},
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise UserError(f"bench: {name}: {' '.join(last)}")
    found: dict[str, Any] = json.loads(done.stdout)
    return Comparison(**found)


def verdict(comparison: Comparison) -> str:
    """The note of a row: the ratio of each repeat, best and least, as one run gives it."""
    pairs = zip(comparison.values, comparison.peer_values, strict=True)
    ratios = [value / peer for value, peer in pairs]
    spread = (
        f"ratios {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}"
    )
    return f"{comparison.note}; {spread}"


def main() -> None:
    """Measures what the arguments name and prints it as JSON."""
    name, repeats = sys.argv[1], int(sys.argv[2])
    if name == "threads.scaling":
        found = scaling(repeats)
    else:
        (program,) = [one for one in PROGRAMS if one.name == name]
        found = compare(program, repeats)
    json.dump(vars(found), sys.stdout)


if __name__ == "__main__":
    main()
