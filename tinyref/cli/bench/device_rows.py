"""The rows of `tinyref bench`: what a device, its backend and tinyref around them cost."""

from __future__ import annotations

import fnmatch
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tinyref import Tensor, TinyJit
from tinyref.cli.bench import BenchRow, Measured
from tinyref.cli.bench.speed import speed_rows
from tinyref.cli.bench.works import Layers, gelu, seconds_of_call, step_of
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.contract import BatchCompiler
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.kernel import compile_kernels_together, compile_program
from tinyref.schedule import schedule
from tinyref.uops.program import Program
from tinyref.workers.machine import seconds_of_children

COPIED_BYTES = 1 << 24
# Kernels that are compiled in one call.
TOGETHER = 16
CONFORM_SECONDS = 60.0
# Enough kernels for the fuzzer that a few slow ones do not decide the number.
CASES = 40
# Enough calls of a step for the clock, few enough to repeat the row.
REPLAYS = 200
PLAIN_CALLS = 3
# So small that its kernels take no time to speak of: what is measured is the Python around them.
PERCEPTRON = Layers("perceptron", (1, 2, 2), (), (8, 8, 2), 4)

IMPORT = "from tinyref import Tensor"
FIRST_RESULT = f"{IMPORT}; Tensor([1, 2]).sum().item()"


def _milliseconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1e3


def _data(*shape: int) -> Tensor:
    """Return a tensor with memory of its own; the contents do not matter."""
    # Realised at once, so that the kernel that fills it is not among those timed.
    return Tensor.ones(*shape).contiguous().realize()


def _new_gelu(device: str, number: int) -> Program:
    """Return a kernel of 512x512 elements for `device` that no cache has: `number` makes it new."""
    with Context(DEVICE=device):
        output = gelu(_data(512, 512)) * (1.5 + number + os.getpid() / 7)
        (kernel,) = schedule([(output.node, device)]).kernels
    return compile_kernel(kernel.ast, Device[device].capabilities)


def _compile(device: str, repeats: int) -> Iterator[Measured]:
    programs = [_new_gelu(device, number) for number in range(repeats + 1)]
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
        several = [_new_gelu(device, first + number) for number in range(TOGETHER + 1)]
        one = [several.pop()]
        together = functools.partial(compile_kernels_together, device)
        values.append(_milliseconds(functools.partial(together, several)) / TOGETHER)
        alone.append(_milliseconds(functools.partial(together, one)))
    yield Measured(name, unit, values, "one in a call", alone)


def _launch(device: str, repeats: int) -> Iterator[Measured]:
    """Measure a kernel that stores 16 numbers: one, awaited, and 100 of them in a row."""
    with Context(DEVICE=device):
        (item,) = schedule([((_data(16) + 1).node, device)]).kernels
    kernel = compile_program(device, compile_kernel(item.ast, Device[device].capabilities))
    parameters = kernel.program.parameters
    buffers = [Buffer(device, parameter.size, parameter.dtype) for parameter in parameters]
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
    judged_rate(device, 0, 2)
    rates = [judged_rate(device, 100 * number) for number in range(repeats)]
    yield Measured("fuzz", "optimised kernels judged in a second of one core", rates)


def judged_rate(device: str, first: int, count: int = CASES) -> float:
    """Return how many optimised kernels the fuzzer judges in a second of one core.

    It generates and judges the cases of `count` seeds from `first` on, as a campaign does. Raises
    `DeviceError` where a case does not agree: then the time says nothing.
    """
    from tinyref_fuzz.generate.generate import generate
    from tinyref_fuzz.generate.tape import Tape
    from tinyref_fuzz.judge.judge import Judge

    judge = Judge(device)
    optimised = 0
    # The time of this process: other work of the machine is not the fuzzer's cost.
    start = time.process_time()
    for seed in range(first, first + count):
        verdict = judge.verdict(generate(Tape(seed=seed), judge.capabilities))
        if not verdict.agrees:
            raise DeviceError(device, f"fuzz: the case of seed {seed}: {verdict.detail}")
        optimised += verdict.judged
    return optimised / (time.process_time() - start)


def _conform(device: str, repeats: int) -> Iterator[Measured]:
    """Run the suite for a minute: on some devices all of it takes hours."""
    from tinyref_conformance.conform import ConformRequest, conform
    from tinyref_conformance.settings import RunSettings
    from tinyref_conformance.statuses import MEASURED

    with tempfile.TemporaryDirectory(prefix="tinyref-bench-") as folder:
        settings = RunSettings(device, Path(folder), budget=CONFORM_SECONDS)
        report = conform(ConformRequest(settings)).report
    run = sum(report.counts[status] for status in MEASURED)
    rate = run / report.certificate["seconds"]
    yield Measured("conform", "cases a second, with --budget 1m", [rate], note=report.verdict)


# --- replays --------------------------------------------------------------------------------------


def _replay(device: str, repeats: int) -> Iterator[Measured]:
    with Context(DEVICE=device):
        steps = [replay_costs(device) for _ in range(repeats)]
    replayed, plain, kernels = zip(*steps, strict=True)
    yield Measured(
        "jit.replay",
        "us a kernel, Adam step of a small perceptron",
        list(replayed),
        "the same step, called plainly",
        list(plain),
        note=f"{kernels[0]} kernels that take no time to speak of",
    )


def replay_costs(device: str) -> tuple[float, float, int]:
    """Return the microseconds a kernel of a training step, replayed and not, and its kernels."""
    step = step_of(PERCEPTRON, device)
    jitted = TinyJit(step)
    for _ in range(3):
        jitted()
    captured = jitted.captured
    kernels = 0 if captured is None else captured.kernels
    replayed = _seconds_a_call(jitted, REPLAYS)
    plain = _seconds_a_call(step, PLAIN_CALLS)
    return replayed * 1e6 / kernels, plain * 1e6 / kernels, kernels


def _seconds_a_call(call: Callable[[], object], count: int) -> float:
    # The time of this thread leaves out other work of the machine.
    start = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - start) / count


# --- the start of a process -----------------------------------------------------------------------


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


def milliseconds_of_process(code: str, device: str) -> float:
    """Return the processor time of a new Python that runs `code` with this default device."""
    environment = {**os.environ, "TINYREF_DEVICE": device}
    start = seconds_of_children()
    # -P: the folder where the command is started may hold modules with names of the library.
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
    return (seconds_of_children() - start) * 1e3


# --- rows -----------------------------------------------------------------------------------------


_ROWS: dict[str, Callable[[str, int], Iterator[Measured]]] = {
    "compile": _compile,
    "compile.together": _compile_together,
    "launch": _launch,
    "copy": _copy,
    "jit.replay": _replay,
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
