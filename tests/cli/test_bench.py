"""Test `tinyref bench`: measurements of a backend and of the host, its table, refusals."""

from __future__ import annotations

import functools
import json
import os
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tinyref import Tensor, TinyJit
from tinyref.cli.app import app
from tinyref.cli.bench import (
    BenchRow,
    Measured,
    _print_groups,
    device_rows,
    host,
    speed,
    table,
    works,
)
from tinyref.cli.bench.device_rows import matching_rows, milliseconds_of_process
from tinyref.cli.bench.speed import Variant
from tinyref.cli.bench.table import end_text, head_text, row_text, table_rows
from tinyref.cli.bench.works import chained
from tinyref.config import Context
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.machine import FIXED, problem_of
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
    return [result for row in matching_rows(device, glob) for result in row.run(repeats)]


def test_a_device_has_numbers_of_compiler_launches_and_copies() -> None:
    results = {row.name: row for row in rows_of("CPU", "[lc]*[eyh]", 2)}
    assert list(results) == ["compile", "launch", "launch.many", "copy.in", "copy.out"]
    for result in results.values():
        assert len(result.values) == 2
        assert all(0 < value < 1e6 for value in result.values)


def test_a_compiler_of_many_sources_is_compared_with_itself(mine: str) -> None:
    (result,) = rows_of(mine, "compile.together")
    # 16 kernels share 200 ms, or one kernel takes them alone.
    assert result.median < 100
    assert result.peer_median >= 200
    assert result.ratio < 0.75
    (single,) = rows_of("CPU", "compile.together")
    assert single.missing == "its compiler takes one source at a time"


@pytest.mark.long
def test_a_backend_that_is_not_installed_is_measured(mine: str, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    arguments = [
        "bench",
        "--device",
        mine,
        "--query",
        "copy",
        "--repeats",
        "1",
        "--json",
        str(file),
    ]
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
    rows = {row.name: row for row in rows_of("PYTHON", "start")}
    assert list(rows) == ["start.import", "start.first"]
    assert rows["start.import"].median < rows["start.first"].median
    assert rows["start.first"].peer_name == "import numpy"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--query", "lower"], "no row matches 'lower': accepted are globs of compile, compile.t"),
        (["--device", "NULL", "--query", "launch"], "device: NULL "),
        (["--device", "NPY", "--query", "launch"], "device: NPY "),
        (["--table", "--query", "op.nothing"], "no row of the table matches 'op.nothing'"),
        (
            ["--table", "--device", "PYTHON"],
            "--table measures the device CPU: leave out --device PYTHON",
        ),
        (
            ["--machine", "--device", "PYTHON"],
            "--machine measures the host: leave out --device PYTHON",
        ),
    ],
)
def test_what_is_refused(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["bench", *arguments])
    assert isinstance(done.exception, UserError)
    assert words in str(done.exception)


# --- replays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", [1, 12])
def test_a_chain_has_the_stated_number_of_kernels(kernels: int) -> None:
    # If they were one kernel, computed at its end, the rows of launches would be wrong.
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


@pytest.mark.long
def test_a_replay_is_compared_with_plain_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_rows, "REPLAYS", 2)
    (result,) = rows_of("CPU", "jit.*", 2)
    assert (result.name, result.peer_name) == ("jit.replay", "the same step, called plainly")
    assert len(result.values) == len(result.peer_values) == 2


# --- the host -------------------------------------------------------------------------------------


def test_every_output_of_the_kernel_reads_all_bytes_within_one_loop() -> None:
    length = 128 << 10
    ast = host.reading(4 * length)
    rows = host.READ_ELEMENTS // length
    elements = np.arange(length, dtype=np.float32) % 3
    contents = {0: np.zeros(rows, np.float32), 1: elements, 2: np.arange(rows, dtype=np.float32)}
    (sums,) = evaluate(ast, contents).values()
    # 0 + 1 + 2 for each three elements; two elements remain: 0 and 1.
    assert sums.tolist() == [131071.0 * row for row in range(32)]
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
        machine = description.host_machine()
    assert machine is not FIXED
    assert problem_of(machine) is None
    assert [level.size for level in machine.levels] == [32 << 10, 1 << 20]
    assert machine.origin.startswith(description.processor_name())
    (file,) = tmp_path.glob("machine-*.json")
    assert f"Kept in {file}" in done.output


# --- the table ------------------------------------------------------------------------------------


def test_the_table_as_it_is_printed() -> None:
    lines = [
        Measured("op.gelu.threads", "ms", [2.0, 9.0, 1.0], "torch 2.13", [1.0]),
        Measured("op.sort.threads", "ms", missing="it is wrong"),
        Measured("op.softmax.threads", "ms", [800.0], "torch 2.13", [100.0]),
        Measured("op.cumsum.threads", "ms", [3.0], note="no peer"),
    ]
    variant = Variant(".threads")
    texts = [row_text(variant, line) for line in lines]
    text = "\n".join((head_text(variant), *texts, end_text(variant, lines)))
    title, _, *rows = (" ".join(row.split()) for row in text.splitlines())
    assert title == "all threads, strict floats, milliseconds of time:"
    assert rows[0] == "| work | ours | torch | ratio | note |"
    assert set(rows[1]) == {"|", "-"}
    assert rows[2:] == [
        "| op.gelu | 2 | 1 | 2 | |",
        "| op.sort | - | - | - | it is wrong |",
        "| op.softmax | 800 | 100 | 8 | |",
        "| op.cumsum | 3 | - | - | no peer |",
        "| geometric mean | | | 4 | 2 rows |",
    ]


def test_a_run_that_is_cut_off_has_printed_each_row_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(repeats: int) -> Iterator[Measured]:
        raise KeyboardInterrupt

    done = BenchRow("op.gelu", lambda repeats: iter([Measured("op.gelu", "ms", [2.0])]))
    with pytest.raises(KeyboardInterrupt):
        _print_groups([(Variant(""), [done, BenchRow("op.sort", stop)])], table, 1)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split() == ["|", "op.gelu", "|", "2", "|", "-", "|", "-", "|", "|"]


def test_it_has_twelve_works_in_all_variants_and_networks_on_one_thread() -> None:
    assert [len(works) for _, works in table_rows("net.*")] == [15, 15, 0, 0]
    rows = list(table_rows("*"))
    variants = [(variant.threads, variant.strict) for variant, _ in rows]
    assert variants == [(1, 1), (1, 0), (0, 1), (0, 0)]
    assert [len(works) for _, works in rows] == [27, 27, 12, 12]
    assert [row.name for _, rows in table_rows("op.g*") for row in rows] == [
        "op.gelu",
        "op.gelu.contracted",
        "op.gelu.threads",
        "op.gelu.threads.contracted",
    ]


@pytest.mark.long
def test_the_table_of_one_work_is_printed_and_written(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    file = tmp_path / "numbers.json"
    arguments = ["bench", "--table", "--query", "op.gelu", "--repeats", "1", "--json", str(file)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.output.count("| op.gelu ") == 4
    numbers = json.loads(file.read_text())
    assert numbers["schema"] == "tinyref.bench.works"
    assert [row["name"] for row in numbers["rows"]][-1] == "op.gelu.threads.contracted"
    assert numbers["rows"][0]["peer"]["name"].startswith("torch ")


def test_a_wait_is_no_processor_time() -> None:
    assert works.clock_of(1) is time.process_time
    assert works.clock_of(0) is time.perf_counter
    ticks = iter(range(100))
    assert works.seconds_of_call(lambda: None, lambda: float(next(ticks))) == 1.0
