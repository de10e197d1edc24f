"""The rows of `tinyref bench`: what a device, its backend and tinyref around them cost."""

from __future__ import annotations

import fnmatch
import functools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tinyref.cli.bench.clock import seconds_of_call
from tinyref.cli.bench.fuzz import judged_cases
from tinyref.cli.bench.programs import data, new_gelu
from tinyref.cli.bench.rows import BenchRow, Measured
from tinyref.cli.bench.speed import peer_of, speed_rows
from tinyref.cli.bench.system import (
    FIRST_RESULT,
    GOAL_OF_A_KERNEL,
    IMPORT,
    chain_costs,
    milliseconds_of_process,
    peak_of_step,
    replay_costs,
    torch_peak_of_step,
)
from tinyref.cli.bench.works import MODELS
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.contract import BatchCompiler
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.runtimes.kernel import compile_kernels_together, compile_program
from tinyref.schedule import schedule

COPIED_BYTES = 1 << 24
# Kernels that are compiled in one call.
TOGETHER = 16
CONFORM_SECONDS = 60.0


def _milliseconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1e3


def _compile(device: str, repeats: int) -> Iterator[Measured]:
    programs = [new_gelu(device, number) for number in range(repeats + 1)]
    with Context(CACHE=0):
        values = [
            _milliseconds(functools.partial(compile_program, device, program))
            for program in programs
        ]
    # The first one starts what all others find started.
    yield Measured("compile", "ms, gelu 512x512, program to loaded kernel", values[1:])


def _compile_together(device: str, repeats: int) -> Iterator[Measured]:
    name, unit = "compile.together", f"ms a kernel, {TOGETHER} in one call"
    if not isinstance(Device[device].compiler, BatchCompiler):
        yield Measured(name, unit, missing="its compiler takes one source at a time")
        return
    values, alone = [], []
    for repeat in range(repeats):
        first = 1000 + 2 * TOGETHER * repeat
        several = [new_gelu(device, first + number) for number in range(TOGETHER + 1)]
        one = [several.pop()]
        together = functools.partial(compile_kernels_together, device)
        values.append(_milliseconds(functools.partial(together, several)) / TOGETHER)
        alone.append(_milliseconds(functools.partial(together, one)))
    yield Measured(name, unit, values, "one in a call", alone)


def _launch(device: str, repeats: int) -> Iterator[Measured]:
    """A kernel that stores 16 numbers, to its end; and many of them, whose ends nobody awaits."""
    with Context(DEVICE=device):
        (item,) = schedule([((data(16) + 1).node, device)]).kernels
    kernel = compile_program(device, compile_kernel(item.ast, Device[device].capabilities))
    buffers = [Buffer(device, each.size, each.dtype) for each in kernel.program.parameters]
    for buffer in buffers:
        buffer.copy_in(memoryview(bytes(buffer.nbytes)))

    def launch() -> None:
        kernel(buffers)
        Device[device].synchronize()

    def launch_many() -> None:
        for _ in range(100):
            kernel(buffers)
        Device[device].synchronize()

    note = "16 elements"
    values = [seconds_of_call(launch) * 1e6 for _ in range(repeats)]
    yield Measured("launch", "us, a launch and its end", values, note=note)
    values = [seconds_of_call(launch_many) * 1e4 for _ in range(repeats)]
    yield Measured("launch.many", "us a launch, 100 in a row", values, note=note)


def _copy(device: str, repeats: int) -> Iterator[Measured]:
    buffer = Buffer(device, COPIED_BYTES, dtypes.uint8)
    host = bytes(COPIED_BYTES)

    def copy_in() -> None:
        buffer.copy_in(memoryview(host))
        Device[device].synchronize()

    for name, act in (("copy.in", copy_in), ("copy.out", buffer.copy_out)):
        values = [COPIED_BYTES / seconds_of_call(act) / 1e9 for _ in range(repeats)]
        yield Measured(name, "GB/s, 16 MiB", values)


def _fuzz(device: str, repeats: int) -> Iterator[Measured]:
    judged_cases(device, 0, 2)
    found = [judged_cases(device, 100 * number) for number in range(repeats)]
    unit = "optimised kernels judged in a second of one core"
    yield Measured("fuzz", unit, [each.rate for each in found])


def _conform(device: str, repeats: int) -> Iterator[Measured]:
    """As far as a minute comes: on some devices all of it takes hours."""
    from tinyref_conformance.conform import ConformRequest, conform
    from tinyref_conformance.settings import RunSettings
    from tinyref_conformance.statuses import MEASURED

    with tempfile.TemporaryDirectory(prefix="tinyref-bench-") as folder:
        settings = RunSettings(device, Path(folder), budget=CONFORM_SECONDS)
        report = conform(ConformRequest(settings)).report
    run = sum(report.counts[status] for status in MEASURED)
    rate = run / report.certificate["seconds"]
    yield Measured("conform", "cases a second, with --budget 1m", [rate], note=report.verdict)


def _replay(device: str, repeats: int) -> Iterator[Measured]:
    with Context(DEVICE=device):
        steps = [replay_costs() for _ in range(repeats)]
        chains = [chain_costs() for _ in range(repeats)]
    replayed, plain, kernels = zip(*steps, strict=True)
    yield Measured(
        "jit.replay",
        "us a kernel, Adam step of a small perceptron",
        list(replayed),
        "the same step, called plainly",
        list(plain),
        note=f"{kernels[0]} kernels that take no time to speak of",
        goal=GOAL_OF_A_KERNEL,
    )
    replayed, plain, in_lists, singly = zip(*chains, strict=True)
    unit = "us a call of one kernel"
    yield Measured("jit.replay.call", unit, list(replayed), "the same, called plainly", list(plain))
    unit = "us for each further kernel of a call"
    yield Measured("jit.replay.kernel", unit, list(in_lists), "launched one by one", list(singly))


def _memory_step(device: str, repeats: int) -> Iterator[Measured]:
    """Compare memory with torch on the processor: the bytes of a plan are equal everywhere."""
    peer = peer_of("CPU")
    # The count is the same each time: two runs show it.
    runs = range(min(repeats, 2))
    for layers in MODELS:
        row = Measured(
            f"memory.step.{layers.name.removeprefix('model.')}",
            "MiB at the peak of a step of Adam, weights and inputs too",
            [peak_of_step(layers, device) for _ in runs],
            note="" if peer.module else "no peer: torch is not installed",
        )
        if peer.module:
            row.peer_name = peer.name
            row.peer_values = [torch_peak_of_step(layers, peer) for _ in runs]
        yield row


def _start(device: str, repeats: int) -> Iterator[Measured]:
    for name, code in (("start.import", IMPORT), ("start.first", FIRST_RESULT)):
        yield Measured(
            name,
            "ms of processor time, a new process",
            [milliseconds_of_process(code, device) for _ in range(repeats)],
            "import numpy",
            [milliseconds_of_process("import numpy", device) for _ in range(repeats)],
            note=code,
        )


_ROWS: dict[str, Callable[[str, int], Iterator[Measured]]] = {
    "compile": _compile,
    "compile.together": _compile_together,
    "launch": _launch,
    "copy": _copy,
    "jit.replay": _replay,
    "memory.step": _memory_step,
    "start": _start,
    "fuzz": _fuzz,
    "conform": _conform,
}


def matching_rows(device: str, glob: str) -> list[BenchRow]:
    """Return the rows of a device that match. Raise `UserError` naming all rows if none does."""
    rows = [BenchRow(name, functools.partial(run, device)) for name, run in _ROWS.items()]
    rows += speed_rows(device)
    matches = [row for row in rows if fnmatch.fnmatchcase(row.name, glob)]
    if not matches:
        names = ", ".join(row.name for row in rows)
        raise UserError(f"bench: no row matches {glob!r}: accepted are globs of {names}")
    return matches
