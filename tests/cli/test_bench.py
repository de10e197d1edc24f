"""`tinyref bench`: what is measured of any backend and of the host, its table, and refusals."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tinyref import Tensor, TinyJit
from tinyref.cli.app import app
from tinyref.cli.bench import Measured, _line, device_rows, host, speed, table, works
from tinyref.cli.bench.device_rows import LiveStorages, matching_rows, milliseconds_of_process
from tinyref.cli.bench.speed import ON_HOST, peer_of
from tinyref.cli.bench.table import COLD_BEFORE, WorkLine, mean_cells, measured_alone, table_text
from tinyref.cli.bench.works import MODELS, SMALL_MODELS, WORKS, Alone, chained
from tinyref.config import Context
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.machine import FIXED, MemoryLevel, problem_of
from tinyref.optimise.plan import Plan
from tinyref.runtimes.host import description

# --- rows of a device -----------------------------------------------------------------------------

VENDORS = """
    import time
    from tinyref.runtimes.python import TextBackend, TextCompiler

    class Compiler(TextCompiler):
        def compile(self, source):
            time.sleep(0.2)
            return super().compile(source)

        def compile_many(self, sources):
            time.sleep(0.2)
            return [source.encode() for source in sources]

    class Mine(TextBackend):
        @property
        def compiler(self):
            return Compiler()
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "benched_backend.py").write_text(textwrap.dedent(VENDORS))
    monkeypatch.syspath_prepend(str(tmp_path))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    sys.modules.pop("benched_backend", None)
    return "benched_backend:Mine"


def rows_of(device: str, glob: str, repeats: int = 1) -> Sequence[Measured]:
    return [found for row in matching_rows(device, glob) for found in row.run(repeats)]


def test_a_device_has_numbers_of_compiler_launches_and_copies() -> None:
    found = {each.name: each for each in rows_of("CPU", "[lc]*[eyh]", 2)}
    assert list(found) == ["compile", "launch", "launch.many", "copy.in", "copy.out"]
    for each in found.values():
        assert len(each.values) == 2
        assert all(0 < value < 1e6 for value in each.values)


def test_a_compiler_of_many_sources_is_compared_with_itself(mine: str) -> None:
    (found,) = rows_of(mine, "compile.together")
    # 16 kernels share 200 ms, or one has them alone.
    assert found.median < 100
    assert found.peer_median >= 200
    assert found.ratio < 0.75
    (single,) = rows_of("CPU", "compile.together")
    assert single.missing == "its compiler takes one source at a time"


@pytest.mark.long
def test_a_backend_that_is_not_installed_is_measured(mine: str, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    arguments = ["bench", "--device", mine, "--row", "copy", "--repeats", "1", "--json", str(file)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    numbers = json.loads(file.read_text())
    assert (numbers["schema"], numbers["version"]) == ("tinyref.bench", 1)
    assert numbers["device"] == mine
    assert {"cores", "processor", "surroundings", "load_average"} <= set(numbers)
    assert [row["name"] for row in numbers["rows"]] == ["copy.in", "copy.out"]
    assert numbers["rows"][0]["median"] > 0


@pytest.mark.long
def test_the_start_of_a_process_is_measured_on_the_device() -> None:
    assert milliseconds_of_process("pass", "CPU") > 0
    found = {row.name: row for row in rows_of("PYTHON", "start")}
    assert list(found) == ["start.import", "start.first"]
    assert found["start.import"].median < found["start.first"].median
    assert found["start.first"].peer_name == "import numpy"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--row", "lower"], "no row matches 'lower': accepted are globs of compile, compile.t"),
        (["--device", "NULL", "--row", "launch"], "device: NULL "),
        (["--device", "NPY", "--row", "launch"], "device: NPY "),
        (["--table", "--row", "op.nothing"], "no row of the table matches 'op.nothing'"),
        (["--table", "--device", "PYTHON"], "--table is of the device CPU, and takes no --device"),
        (["--machine", "--device", "PYTHON"], "takes no --device, got PYTHON"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["bench", *arguments])
    assert isinstance(done.exception, UserError)
    assert words in str(done.exception)


# --- replays and memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", [1, 12])
def test_a_chain_is_as_many_kernels_as_it_says(kernels: int) -> None:
    """Were they one kernel, as a chain that is computed at its end, rows of launches would lie."""
    jitted = TinyJit(functools.partial(chained, kernels=kernels))
    for number in range(3):
        assert jitted(Tensor(np.float32([number]))).tolist() == [number + kernels]
    assert jitted.captured is not None
    assert jitted.captured.kernels == kernels


@pytest.mark.long
def test_the_row_of_launches_measures_that_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(x: Tensor, kernels: int) -> Tensor:
        asked.append(kernels)
        return (x + 1).realize()

    monkeypatch.setattr(speed, "chained", note)
    (row,) = matching_rows("CPU", "op.launches")
    list(row.run(1))
    assert asked == [100, 100]


def test_the_cost_of_a_kernel_is_what_more_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 us a call, and 0.5 us a kernel in a list, 2 us one launched for itself; 400 us plainly."""

    def microseconds(kernels: int, jit: int = 1) -> float:
        return {0: 400.0, 1: 50 + 0.5 * kernels, 2: 50 + 2.0 * kernels}[jit]

    monkeypatch.setattr(device_rows, "_chain_microseconds", microseconds)
    assert device_rows.chain_costs() == (50.5, 400.0, 0.5, 2.0)


@pytest.mark.long
def test_a_replay_has_three_rows_and_a_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_rows, "REPLAYS", 2)
    found = {each.name: each for each in rows_of("CPU", "jit.*", 2)}
    assert list(found) == ["jit.replay", "jit.replay.call", "jit.replay.kernel"]
    assert all(len(each.values) == len(each.peer_values) == 2 for each in found.values())
    assert [each.goal for each in found.values()] == [3.0, None, None]
    assert found["jit.replay.call"].peer_name == "the same, called plainly"
    assert found["jit.replay.kernel"].peer_name == "launched one by one"


@pytest.mark.parametrize(("values", "word"), [([2.0, 3.0, 9.0], "met"), ([3.5], "missed")])
def test_a_goal_is_met_by_the_median(values: list[float], word: str) -> None:
    found = Measured("jit.replay", "us a kernel", values, goal=3.0)
    assert found.to_json()["goal"] == 3.0
    assert found.to_json()["meets_goal"] is (word == "met")
    assert _line(found).endswith(f"us a kernel; goal 3, {word}")
    without = dataclasses.replace(found, goal=None)
    assert "goal" not in without.to_json()
    assert "goal" not in _line(without)


# 206 weights, each with its gradient and two means of Adam; 100 pixels and 4 labels.
LEAST_OF_MLP = (4 * 206 + 104) * 4


def test_the_peak_of_a_step_holds_weights_and_means() -> None:
    """What is between is at most as much again for so small a network."""
    peak = device_rows.peak_of_step(SMALL_MODELS[0]) * 2**20
    assert LEAST_OF_MLP <= peak <= 2 * LEAST_OF_MLP


@pytest.mark.long
def test_the_peak_of_torch_is_that_of_its_storages() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    live = LiveStorages()
    with live.watched(torch):
        start = torch.from_numpy(np.zeros(1000, np.float32))
        view = (start + 1).view(10, 100)
        again = view * 2
        del view
        assert (live.now, live.peak) == (8000, 12_000)
        del start, again
    assert live.now == 0
    peak = device_rows.torch_peak_of_step(SMALL_MODELS[0], peer_of("CPU")) * 2**20
    assert LEAST_OF_MLP <= peak <= 2 * LEAST_OF_MLP


# --- the host -------------------------------------------------------------------------------------


def test_every_output_of_the_kernel_reads_all_bytes_within_one_loop() -> None:
    length = 128 << 10
    ast = host.reading(4 * length)
    rows = host.READ_ELEMENTS // length
    elements = np.arange(length, dtype=np.float32) % 3
    contents = {0: np.zeros(rows, np.float32), 1: elements, 2: np.arange(rows, dtype=np.float32)}
    (found,) = evaluate(ast, contents).values()
    # 0 + 1 + 2 for each three elements, of which two are left over: 0 and 1.
    assert found.tolist() == [131071.0 * row for row in range(32)]
    plan = Plan.of(ast, Device["CPU"].capabilities)
    assert [axis.kind.value for axis in plan.axes] == ["global", "reduce"]


@pytest.mark.long
def test_a_measured_host_is_kept_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "SIZES", (32 << 10, 1 << 20))
    monkeypatch.setattr(host, "SHARED_LAUNCHES", 3)
    monkeypatch.setenv("TINYREF_CACHE_DIR", str(tmp_path))
    with Context(CACHE_DIR=str(tmp_path)):
        done = CliRunner().invoke(app, ["bench", "--machine", "--repeats", "1"])
        assert done.exit_code == 0, done.output
        found = description.host_machine()
    assert found is not FIXED
    assert problem_of(found) is None
    assert [level.size for level in found.levels] == [32 << 10, 1 << 20]
    assert found.origin.startswith(description.processor_name())
    (file,) = tmp_path.glob("machine-*.json")
    assert f"Kept in {file}" in done.output


def test_lines_have_the_host_beside_the_fixed_description() -> None:
    measured = dataclasses.replace(
        FIXED, operations_per_ns=35.5, levels=(MemoryLevel(32 << 10, 140.0),), thread_ns=50_000.0
    )
    assert host.machine_lines(measured) == [
        "machine                                        here      fixed  unit",
        "operations                                     35.5         64  a nanosecond, one thread",
        "reading 32 KiB                                  140        128  bytes a nanosecond",
        "small cache                                      32         32  KiB",
        "waking threads                                   50       32.8  microseconds",
    ]


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.table
@pytest.mark.parametrize(
    ("ours", "cold", "before", "goals"),
    [
        (3.0, 10.0, None, ()),
        (3.1, 10.0, None, ("above 3",)),
        # Before it was 31 to 89.
        (1.0, 34.0, None, ()),
        (1.0, 35.0, None, ("cold above 0.35 of its",)),
        (4.0, 90.0, None, ("above 3", "cold above 0.35 of its")),
        # In turns with an earlier version, what both take beside tinygrad does not matter.
        (1.0, 105.0, 100.0, ()),
        (1.0, 106.0, 100.0, ("cold 1.06 of before",)),
    ],
)
def test_goals_of_a_row(
    ours: float, cold: float, before: float | None, goals: tuple[str, ...]
) -> None:
    line = WorkLine(
        "op.gelu", "", ours, 1.0, cold=cold, tinygrad_cold=100.0, before=before, now=cold
    )
    assert line.broken_goals == goals


def test_the_table_as_it_is_printed() -> None:
    lines = [
        WorkLine(
            "op.gelu", "", 2.0, 1.0, cold=40.0, no_tinygrad="tinygrad 0.10.3 is not installed"
        ),
        WorkLine("op.sort", "", missing="it is wrong"),
        WorkLine("op.cumsum", "", 3.0, before=20.0, now=15.0),
    ]
    text = table_text(ON_HOST[0], lines)
    assert len({len(row) for row in text.splitlines() if row.startswith("|")}) == 1
    title, _, *rows, _, note = (" ".join(row.split()) for row in text.splitlines())
    assert title == "one thread, strict floats, milliseconds of processor time:"
    assert rows[0] == (
        "| work | ours | torch | ratio | tinygrad | ours cold | its cold | before | now | goals |"
    )
    assert set(rows[1]) == {"|", "-"}
    assert rows[2:] == [
        "| op.gelu | 2 | 1 | 2 | - | 40 | - | - | - | met |",
        "| op.sort | - | - | - | - | - | - | - | - | it is wrong |",
        "| op.cumsum | 3 | - | - | - | - | - | 20 | 15 | - |",
        "| geometric mean | | | 2 | | | | | | above 1.5, of 1 rows |",
    ]
    assert note == "tinygrad has no times: tinygrad 0.10.3 is not installed"
    two = [
        WorkLine("op.gelu", "", ours=2.0, torch=1.0),
        WorkLine("op.sort", "", ours=8.0, torch=8.0),
    ]
    assert mean_cells(two)[3] == "1.4"
    assert mean_cells(two)[-1] == "met, of 2 rows"


def test_it_has_the_twelve_works_and_all_variants() -> None:
    measured = {work.name for work in WORKS if work.host} | {layers.name for layers in MODELS}
    assert len(COLD_BEFORE) == 12
    assert set(COLD_BEFORE) <= measured
    assert [(each.threads, each.strict) for each in ON_HOST] == [(1, 1), (1, 0), (0, 1), (0, 0)]


def test_a_python_that_does_not_run_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(works.TINYGRAD_PYTHON, "/nowhere/python")
    with pytest.raises(works.UnavailableError, match="TINYGRAD_PYTHON is /nowhere/python, which "):
        works.library("tinygrad")
    assert measured_alone("/nowhere/python", "tinyref", "op.gelu", ON_HOST[0], 0) == Alone(
        missing="/nowhere/python does not run: No such file or directory"
    )
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho 'ModuleNotFoundError: No module named tinyref' >&2\nexit 1\n"
    )
    python.chmod(0o755)
    found = measured_alone(str(python), "tinyref", "op.gelu", ON_HOST[0], 0)
    words = f"tinyref of {python}: ModuleNotFoundError: No module named tinyref"
    assert found.missing == words
    # What one process lacks all lack.
    assert table.first_call([Alone(9.0), found]) == (None, words)
    assert table.first_call([Alone(9.0), Alone(8.0)]) == (8.0, "")
    line = WorkLine("op.gelu", "", 3.0, no_before=words)
    assert table_text(ON_HOST[0], [line]).endswith(f"the earlier version has no times: {words}")


@pytest.mark.long
def test_a_work_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured_alone(sys.executable, "tinyref", "op.cumsum", ON_HOST[0], 1)
    assert not found.missing
    assert found.cold > found.steady[0] > 0
    wrong = measured_alone(sys.executable, "tinyref", "op.nothing", ON_HOST[0], 1)
    assert "no work op.nothing: accepted are" in wrong.missing
    steady = Measured("op.cumsum", "ms", [3.0])
    monkeypatch.setattr(table, "measure_named", lambda *_: steady)
    line = table._line("op.cumsum", ON_HOST[0], Alone(missing="none"), sys.executable, 1)
    assert line.before == line.now == line.cold
    assert (line.ours, line.no_tinygrad, line.no_before) == (3.0, "none", "")


def test_a_wait_is_no_processor_time() -> None:
    assert works.clock_of(1) is time.process_time
    assert works.clock_of(0) is time.perf_counter
    ticks = iter(range(100))
    assert works.seconds_of_call(lambda: None, lambda: float(next(ticks))) == 1.0
