"""`tinyref bench --machine`: what is measured, shown and kept."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tinyref.cli.app import app
from tinyref.cli.bench import machine
from tinyref.config import Context
from tinyref.device import Device
from tinyref.interpret.evaluate import evaluate
from tinyref.machine import FIXED, MemoryLevel, problem_of
from tinyref.optimise.plan import Plan
from tinyref.runtimes.host import description


def test_every_output_of_the_kernel_reads_all_bytes() -> None:
    length = 128 << 10
    ast = machine.reading(4 * length)
    rows = machine.READ_ELEMENTS // length
    elements = np.arange(length, dtype=np.float32) % 3
    factors = np.arange(rows, dtype=np.float32)
    contents = {0: np.zeros(rows, np.float32), 1: elements, 2: factors}
    (found,) = evaluate(ast, contents).values()
    # 0 + 1 + 2 for each three elements, of which two are left over: 0 and 1.
    assert found.tolist() == [131071.0 * row for row in range(32)]


def test_the_sum_stays_within_the_loop_over_outputs() -> None:
    plan = Plan.of(machine.reading(64 << 10), Device["CPU"].capabilities)
    assert [axis.kind.value for axis in plan.axes] == ["global", "reduce"]


@pytest.mark.long
def test_a_measured_host_is_kept_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SIZES", (32 << 10, 1 << 20))
    monkeypatch.setattr(machine, "SHARED_LAUNCHES", 3)
    monkeypatch.setenv("TINYREF_CACHE_DIR", str(tmp_path))
    with Context(CACHE_DIR=str(tmp_path)):
        done = CliRunner().invoke(app, ["bench", "--machine", "--repeats", "1"])
        assert done.exit_code == 0, done.output
        found = description.host_machine()
    assert found is not FIXED
    assert problem_of(found) is None
    assert [level.size for level in found.levels] == [32 << 10, 1 << 20]
    assert found.origin.startswith(description.processor_name())
    assert "reading 1,024 KiB" in done.output
    assert "microseconds" in done.output
    assert f"Kept in {description_path(tmp_path)}" in done.output


def description_path(folder: Path) -> Path:
    (found,) = folder.glob("machine-*.json")
    return found


def test_lines_have_the_host_beside_the_fixed_description() -> None:
    measured = dataclasses.replace(
        FIXED, operations_per_ns=35.5, levels=(MemoryLevel(32 << 10, 140.0),), thread_ns=50_000.0
    )
    assert machine.machine_lines(measured) == [
        "machine                                        here      fixed  unit",
        "operations                                     35.5         64  a nanosecond, one thread",
        "reading 32 KiB                                  140        128  bytes a nanosecond",
        "small cache                                      32         32  KiB",
        "waking threads                                   50       32.8  microseconds",
    ]


def test_it_is_of_the_host_alone() -> None:
    done = CliRunner().invoke(app, ["bench", "--machine", "--device", "PYTHON"])
    assert done.exit_code != 0
    assert "takes no --device, got PYTHON" in str(done.exception) + done.output
