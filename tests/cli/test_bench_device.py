"""`tinyref bench`: what is measured of any backend, and what is refused."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tinyref.cli.app import app
from tinyref.cli.bench.device import matching_rows
from tinyref.cli.bench.rows import Measured
from tinyref.cli.bench.system import milliseconds_of_process
from tinyref.errors import UserError

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


def test_a_compiler_of_single_sources_is_said_to_be_that() -> None:
    (found,) = rows_of("CPU", "compile.together")
    assert found.missing == "its compiler takes one source at a time"


@pytest.mark.long
def test_a_backend_that_is_not_installed_is_measured(mine: str, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    arguments = ["bench", "--device", mine, "--row", "copy", "--repeats", "1", "--json", str(file)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    numbers = json.loads(file.read_text())
    assert numbers["device"] == mine
    assert [row["name"] for row in numbers["rows"]] == ["copy.in", "copy.out"]


def test_a_glob_that_matches_no_row_is_refused_with_all_names() -> None:
    with pytest.raises(UserError, match=r"no row matches 'lower': .* compile, compile.together, l"):
        matching_rows("CPU", "lower")


@pytest.mark.long
def test_a_fresh_process_is_timed() -> None:
    started = milliseconds_of_process("pass", "CPU")
    assert 0 < started < milliseconds_of_process("sum(range(20_000_000))", "CPU")


@pytest.mark.long
def test_the_start_of_a_process_is_measured_on_the_device() -> None:
    found = {row.name: row for row in rows_of("PYTHON", "start")}
    assert list(found) == ["start.import", "start.first"]
    assert found["start.import"].median < found["start.first"].median
    assert found["start.first"].peer_name == "import numpy"


@pytest.mark.parametrize("device", ["NULL", "NPY"])
def test_a_device_without_values_is_refused(device: str) -> None:
    done = CliRunner().invoke(app, ["bench", "--device", device, "--row", "launch"])
    assert isinstance(done.exception, UserError)
    assert f"device: {device} " in str(done.exception)
