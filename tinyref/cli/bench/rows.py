"""The rows of `tinyref bench`: how each is measured, and against which peer."""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tinyref import __version__
from tinyref.capabilities import reason_without_values
from tinyref.cli.bench.clock import seconds_of_call
from tinyref.config import Context
from tinyref.device import Device
from tinyref.errors import TinyrefError, UserError
from tinyref.probe import probe
from tinyref.runtimes.host.description import host_machine, processor_name
from tinyref.workers.machine import usable_cores
from tinyref.workers.processes import python_command

MATMUL = 64
SIN = 256


@dataclass
class Measured:
    """One line of the table. `missing` says what the row needs that is not here.

    goal: what the median should be at most, None where nothing is asked for.
    """

    name: str
    unit: str
    values: list[float] = field(default_factory=list)
    peer_name: str = ""
    peer_values: list[float] = field(default_factory=list)
    note: str = ""
    missing: str = ""
    goal: float | None = None

    @property
    def meets_goal(self) -> bool:
        """Whether the median is what it should be."""
        return self.goal is None or self.median <= self.goal

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def peer_median(self) -> float:
        return statistics.median(self.peer_values)

    @property
    def ratio(self) -> float:
        """Of the medians, this to the peer, both of this run."""
        return self.median / self.peer_median

    def to_json(self) -> dict[str, Any]:
        if self.missing:
            return {"name": self.name, "missing": self.missing}
        found: dict[str, Any] = {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "values": self.values,
        }
        if self.peer_name:
            peer = {"name": self.peer_name, "median": self.peer_median, "values": self.peer_values}
            found |= {"peer": peer, "ratio": self.ratio}
        if self.goal is not None:
            found |= {"goal": self.goal, "meets_goal": self.meets_goal}
        return found | ({"note": self.note} if self.note else {})


@dataclass(frozen=True)
class BenchRow:
    """A name, or the common head of several, and what measures it."""

    name: str
    run: Callable[[int], Iterator[Measured]]


def measure(row: BenchRow, repeats: int) -> Iterator[Measured]:
    """The lines of a row; what the machine lacks is said, not skipped."""
    try:
        yield from row.run(repeats)
    except TinyrefError as error:
        yield Measured(row.name, "", missing=str(error).partition("\n")[0])


def matching_rows(glob: str) -> list[BenchRow]:
    """The rows that match. Raises `UserError` naming all rows when none does."""
    from tinyref.cli.bench.speed import speed_rows

    rows = [*ROWS, *speed_rows("CPU")]
    found = [row for row in rows if fnmatch.fnmatchcase(row.name, glob)]
    if not found:
        names = ", ".join(row.name for row in rows)
        raise UserError(f"bench: no row matches {glob!r}: accepted are globs of {names}")
    return found


# Lowering


def _lowering(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.programs import PROGRAMS

    passes = []
    peers: list[float] = []
    absent = ""
    for _ in range(repeats):
        # In turns, so that what else the machine does is shared fairly.
        passes.append(_lowering_pass())
        peer, absent = _peer_pass()
        peers += [] if absent else [peer]
    unit = "ms a kernel, tensor graph to source"
    totals = [_mean(found) for found in passes]
    kernels = sum(int(times["kernels"]) for times in passes[0].values())
    note = f"{len(passes[0])} of {len(PROGRAMS)} programs, {kernels} kernels"
    if absent:
        yield Measured("lower.mean", unit, totals, note=f"{note}; no peer: {absent}")
    else:
        yield Measured("lower.mean", unit, totals, "tinygrad 0.10.3", peers, note)
    for program in PROGRAMS:
        if program.missing:
            yield Measured(f"lower.{program.name}", unit, missing=", ".join(program.missing))
            continue
        found = [times[program.name] for times in passes]
        count = int(found[0]["kernels"])
        values = [_cost(times) / max(count, 1) for times in found]
        yield Measured(f"lower.{program.name}", unit, values, note=f"{count} kernels")


def _lowering_pass() -> Mapping[str, Mapping[str, float]]:
    found: Mapping[str, Mapping[str, float]] = json.loads(
        _output_of_process("tinyref.cli.bench.programs")
    )
    return found


def _peer_pass() -> tuple[float, str]:
    """Milliseconds a kernel that the peer takes, or why it cannot be asked."""
    try:
        text = _output_of_process("tinyref.cli.bench.peer")
    except UserError as error:
        return 0.0, str(error)
    if text.startswith("missing"):
        return 0.0, text.removeprefix("missing ")
    found = json.loads(text)
    kernels = sum(times["kernels"] for times in found.values())
    return sum(times["ms"] for times in found.values()) / max(kernels, 1), ""


def _output_of_process(module: str) -> str:
    """What a fresh process prints that runs `module`."""
    done = subprocess.run(python_command(module), check=False, capture_output=True, text=True)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise UserError(f"bench: lowering does not run: {' '.join(last)}")
    return done.stdout


def _cost(times: Mapping[str, float]) -> float:
    """Milliseconds of a whole program."""
    return times["schedule"] + times["kernels"] * (times["lower"] + times["render"])


def _mean(found: Mapping[str, Mapping[str, float]]) -> float:
    kernels = sum(times["kernels"] for times in found.values())
    return sum(_cost(times) for times in found.values()) / max(kernels, 1)


def _growth(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.programs import GROWTH_SIZES, GROWTHS, time_growth

    device = Device.default
    for name, make in GROWTHS.items():
        time_growth(make, GROWTH_SIZES[0], repeats, device)
        sizes: list[float] = []
        medians: list[float] = []
        for count in GROWTH_SIZES:
            found = [time_growth(make, count, salt, device) for salt in range(repeats)]
            row = f"lower.growth.{name}.{count}"
            values = [taken for _, taken in found]
            note = f"{found[0][0]:,} nodes"
            yield Measured(row, "ms, kernel AST to source", values, note=note)
            sizes.append(found[0][0])
            medians.append(statistics.median(values))
        slope = float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])
        note = "1 is linear"
        yield Measured(f"lower.growth.{name}", "exponent of nodes", [slope], note=note)


def _schedule_growth(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.schedules import SCHEDULE_GROWTHS, SCHEDULE_SIZES, time_schedule

    for name, make in SCHEDULE_GROWTHS.items():
        time_schedule(make, SCHEDULE_SIZES[0])
        sizes: list[float] = []
        medians: list[float] = []
        for count in SCHEDULE_SIZES:
            found = [time_schedule(make, count) for _ in range(repeats)]
            values = [taken for *_, taken in found]
            nodes, kernels, _ = found[0]
            note = f"{nodes:,} nodes, {kernels:,} kernels"
            row = f"schedule.growth.{name}.{count}"
            yield Measured(row, "ms, tensor graph to kernels", values, note=note)
            sizes.append(nodes)
            medians.append(statistics.median(values))
        slope = float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])
        note = "1 is linear"
        yield Measured(f"schedule.growth.{name}", "exponent of nodes", [slope], note=note)


def _chain(repeats: int) -> Iterator[Measured]:
    """Chains of elementwise functions from tensors to numbers, for each node."""
    from tinyref.cli.bench.schedules import CHAIN_SIZES, time_chain

    time_chain(CHAIN_SIZES[0], 0)
    medians: list[float] = []
    for number, count in enumerate(CHAIN_SIZES, 1):
        values = [time_chain(count, number * repeats + salt) for salt in range(repeats)]
        yield Measured(f"realize.chain.{count}", "s, build, compile and run", values)
        medians.append(statistics.median(values))
    slope = float(np.polyfit(np.log(CHAIN_SIZES), np.log(medians), 1)[0])
    yield Measured("realize.chain", "exponent of nodes", [slope], note="1 is linear")


# The interpreter


def _interpreter_matmul(repeats: int) -> Iterator[Measured]:
    """As it is made for the interpreter, and as for the CPU: vectors, unrolled lanes, loops."""
    from tinyref.cli.bench.programs import data

    with Context(DEVICE="PYTHON"):
        output = data(MATMUL, MATMUL) @ data(MATMUL, MATMUL)
    x = np.ones((MATMUL, MATMUL), np.float32)
    work = MATMUL**3 / 1e6
    for name, device in (("interpreter.matmul", "PYTHON"), ("interpreter.matmul.CPU", "CPU")):
        run = _interpreter_call(output, device)
        yield Measured(
            name,
            "million multiply-adds a second",
            [work / seconds_of_call(run) for _ in range(repeats)],
            "numpy matmul",
            [work / seconds_of_call(lambda: x @ x) for _ in range(repeats)],
            note=f"{MATMUL}^3 float32, the program for {device}, sanitizer on",
        )


def _interpreter_sin(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.programs import data

    with Context(DEVICE="PYTHON"):
        run = _interpreter_call(data(SIN, SIN).sin())
    x = np.ones((SIN, SIN), np.float32)
    work = SIN**2 / 1e6
    yield Measured(
        "interpreter.sin",
        "million sines a second",
        [work / seconds_of_call(run) for _ in range(repeats)],
        "numpy sin",
        [work / seconds_of_call(lambda: np.sin(x)) for _ in range(repeats)],
        note=f"{SIN}^2 float32, sanitizer on",
    )


def _interpreter_call(output: Any, device: str = "PYTHON") -> Callable[[], None]:
    """Interprets the one kernel of `output` as compiled for `device`, on arrays of its own."""
    from tinyref.codegen.compile import compile_kernel
    from tinyref.dtype import numpy_dtype
    from tinyref.interpret import Interpreter
    from tinyref.schedule import schedule

    (kernel,) = schedule([(output.node, "PYTHON")]).kernels
    program = compile_kernel(kernel.ast, Device[device].capabilities)
    buffers = [np.ones(found.size, numpy_dtype(found.dtype)) for found in program.parameters]
    interpreter = Interpreter(program)
    return lambda: interpreter.run(buffers)


# Cold compiles


def _cold_compiles(repeats: int) -> Iterator[Measured]:
    for found in probe(Device.names()):
        device, name = found.name, f"compile.{found.name}"
        if found.capabilities is None:
            yield Measured(name, "", missing=found.reason.partition("\n")[0])
        elif reason := _reason_without_values(found.capabilities):
            yield Measured(name, "", missing=f"the device {reason}")
        else:
            values = [_cold_compile(device, number) for number in range(repeats + 1)][1:]
            yield Measured(name, "ms, gelu 512x512, program to loaded kernel", values)


def _reason_without_values(declared: Mapping[str, Any]) -> str | None:
    return reason_without_values(declared["ops"], declared["keeps_values"])


def _cold_compile(device: str, number: int) -> float:
    """Milliseconds."""
    from tinyref.cli.bench.programs import new_gelu
    from tinyref.runtimes.kernel import compile_program

    with Context(CACHE=0):
        program = new_gelu(device, number)
        start = time.perf_counter()
        compile_program(device, program)
        return (time.perf_counter() - start) * 1e3


# Quality of the code for the CPU


# Named here, so that only measuring them imports what they need.
QUALITY = (
    *(f"quality.matmul.{size}{suffix}" for size in (1024, 512) for suffix in ("", ".contracted")),
    *(
        f"quality.{name}{suffix}"
        for name in ("rowsum", "softmax", "elementwise")
        for suffix in ("", ".threads")
    ),
    "threads.scaling",
)


def _quality(name: str, repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.quality import measured_apart, verdict

    found = measured_apart(name, repeats)
    yield Measured(
        name, found.unit, found.values, found.peer_name, found.peer_values, note=verdict(found)
    )


# Whole steps of training


def _replay(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.system import GOAL_OF_A_KERNEL, chain_costs, replay_costs

    found = [replay_costs() for _ in range(repeats)]
    yield Measured(
        "jit.replay",
        "us a kernel, Adam step of a small perceptron",
        [replayed for replayed, _, _ in found],
        "the same step, called plainly",
        [plain for _, plain, _ in found],
        note=f"{found[0][2]} kernels that take no time to speak of",
        goal=GOAL_OF_A_KERNEL,
    )
    ones, plain_ones, in_lists, singly = zip(*(chain_costs() for _ in range(repeats)), strict=True)
    yield Measured(
        *("jit.replay.call", "us a call of one kernel", list(ones)),
        *("the same, called plainly", list(plain_ones)),
    )
    yield Measured(
        *("jit.replay.kernel", "us for each further kernel of a call", list(in_lists)),
        *("launched one by one", list(singly)),
    )


def _memory_plan(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.system import peak_bytes

    # What is counted is the same each time: two runs show it.
    runs = range(min(repeats, 2))
    for name, jit, peer in (
        ("memory.plan.replay", 1, "a buffer for each intermediate result"),
        ("memory.plan.realize", 0, "buffers that are freed after their last use"),
    ):
        yield Measured(
            name,
            "MiB at the peak of a step of a convolutional network",
            [peak_bytes(1, jit) for _ in runs],
            peer,
            [peak_bytes(0, jit) for _ in runs],
        )


def _memory_step(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.speed import peer_of
    from tinyref.cli.bench.system import peak_of_step, torch_peak_of_step
    from tinyref.cli.bench.works import MODELS

    peer = peer_of("CPU")
    for layers in MODELS:
        found = Measured(
            f"memory.step.{layers.name.removeprefix('model.')}",
            "MiB at the peak of a step of Adam, weights and inputs too",
            [peak_of_step(layers) for _ in range(min(repeats, 2))],
            note="" if peer.module else "no peer: torch is not installed",
        )
        if peer.module:
            found.peer_name = peer.name
            found.peer_values = [torch_peak_of_step(layers, peer) for _ in found.values]
        yield found


# A fresh process


def _memory_shapes(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.fresh import SHAPES, resident_after

    # It takes some three minutes.
    del repeats
    note = f"limit 300, after {SHAPES:,} different shapes"
    yield Measured("memory.shapes", "MiB resident at most", [resident_after(SHAPES)], note=note)


def _start(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.fresh import FIRST_RESULT, IMPORT, milliseconds_of

    for name, code in (("start.import", IMPORT), ("start.first", FIRST_RESULT)):
        yield Measured(
            name,
            "ms of processor time, a new process",
            [milliseconds_of(code) for _ in range(repeats)],
            "import numpy",
            [milliseconds_of("import numpy") for _ in range(repeats)],
            note=code,
        )


# Readers of files


def _readers(repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.readers import seconds_a_megabyte

    found = [seconds_a_megabyte() for _ in range(repeats)]
    for name in found[0]:
        values = [each[name] for each in found]
        yield Measured(f"readers.{name}", "s a MB of little but headers", values, note="limit 2 s")


# Conformance


def _conformance(repeats: int) -> Iterator[Measured]:
    from tinyref_conformance.conform import Request, conform
    from tinyref_conformance.settings import Settings

    values = []
    # It takes most of a minute: twice shows whether the first was a fluke.
    for _ in range(min(repeats, 2)):
        with tempfile.TemporaryDirectory(prefix="tinyref-bench-") as folder:
            report = conform(Request(Settings("CPU", Path(folder)))).report
        values.append(report.certificate["seconds"])
    note = f"{report.certificate['cases_planned']:,} cases, {report.verdict}"
    yield Measured("conform.CPU", "s, quick profile", values, note=note)


# The fuzzer


def _fuzz(name: str, device: str, repeats: int) -> Iterator[Measured]:
    from tinyref.cli.bench.fuzz import judged_cases

    judged_cases(device, 0, 2)
    found = [judged_cases(device, 100 * number) for number in range(repeats)]
    cases = sum(each.cases for each in found)
    yield Measured(
        name,
        "optimised kernels judged in a second of one core",
        [each.rate for each in found],
        note=f"{sum(each.optimised for each in found)} of {cases} cases, generated and judged",
    )


ROWS = (
    BenchRow("lower", _lowering),
    BenchRow("lower.growth", _growth),
    BenchRow("schedule.growth", _schedule_growth),
    BenchRow("realize.chain", _chain),
    BenchRow("interpreter.matmul", _interpreter_matmul),
    BenchRow("interpreter.sin", _interpreter_sin),
    BenchRow("compile", _cold_compiles),
    *(BenchRow(name, functools.partial(_quality, name)) for name in QUALITY),
    BenchRow("jit.replay", _replay),
    BenchRow("memory.plan", _memory_plan),
    BenchRow("memory.step", _memory_step),
    BenchRow("memory.shapes", _memory_shapes),
    BenchRow("start", _start),
    BenchRow("readers", _readers),
    BenchRow("conform.CPU", _conformance),
    BenchRow("fuzz.python", functools.partial(_fuzz, "fuzz.python", "PYTHON")),
    BenchRow("fuzz.cpu", functools.partial(_fuzz, "fuzz.cpu", "CPU")),
)


def facts() -> dict[str, Any]:
    """Versions and the machine, without which the numbers mean nothing."""
    from tinyref_conformance.certificate import surroundings

    try:
        load = list(os.getloadavg())
    except OSError:
        load = []
    return {
        "tinyref": __version__,
        "surroundings": surroundings(),
        "cores": usable_cores(),
        "processor": processor_name(),
        "machine": host_machine().to_json(),
        "load_average": load,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
