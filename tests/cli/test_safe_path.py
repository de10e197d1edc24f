"""Test that a command imports nothing by accident from the folder in which it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Names of Python's library and of our dependencies; some command imports each of them.
NAMES = ("typing", "random", "queue", "json", "selectors", "sqlite3", "secrets", "numpy", "typer")
SHADOW = """
import pathlib
pathlib.Path({marker!r}).write_text(__name__)
raise ImportError("the wrong " + __name__)
"""
SIBLING = "FACTOR = 3\n"
PROGRAM = """
import helper
from tinyref import Tensor
print((Tensor([1, 2]) * helper.FACTOR).realize().numpy())
"""
BACKEND = """
import helper
from tinyref.runtimes.python import TextBackend
class Mine(TextBackend):
    title = f"mine {helper.FACTOR}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    for name in NAMES:
        text = SHADOW.format(marker=str(tmp_path / "imported"))
        (here / f"{name}.py").write_text(text)
    (here / "helper.py").write_text(SIBLING)
    (here / "train.py").write_text(PROGRAM)
    (here / "backend.py").write_text(BACKEND)
    return here


def ran(folder: Path, *arguments: str, module: str = "tinyref", **flags: str) -> str:
    """Return the output of a command that starts in the folder and succeeds."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env={**os.environ, **flags, "TINYREF_CACHE_DIR": str(folder.parent / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    marker = folder.parent / "imported"
    assert not marker.exists(), f"imported {marker.read_text()}: {done.stderr}"
    assert done.returncode == 0, done.stderr
    return done.stdout


CASE = "isa.binary.add.int32.special:0"


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["conform", "--device", "backend:Mine", "--query", CASE, "--jobs", "1"], "report: "),
        (["fuzz", "--device", "backend:Mine", "--kernels", "2", "--jobs", "1"], "2 kernels"),
        (["bench", "--query", "jit.replay", "--repeats", "1"], "jit.replay"),
        (["explain", "train.py", "--out", "t.html", "--device", "PYTHON"], "[3 6]"),
        (["explain", "Tensor([2, 3]) * 2", "--device", "backend:Mine"], "[4 6]"),
        (["fuzz", "harvest", "train.py", "--device", "PYTHON"], "wrote train-kernels.json: 1"),
        (["devices", "backend:Mine", "PYTHON"], "mine 3"),
        (["spec", "list", "-q", "isa.binary.add.int32"], "isa.binary.add.int32"),
        (["--version"], "tinyref 0"),
        (["config"], "OPEN_SECONDS"),
        (["bench", "--query", "start", "--repeats", "1"], "start.first"),
    ],
)
def test_no_command_imports_from_the_folder_where_it_is_started(
    folder: Path, arguments: list[str], says: str
) -> None:
    assert says in ran(folder, *arguments)


@pytest.mark.slow
def test_a_search_imports_nothing_from_there_either(folder: Path) -> None:
    flags = {"TINYREF_BEAM": "1", "TINYREF_DEBUG": "1"}
    arguments = ["explain", "Tensor.ones(64, 64).contiguous().sum(1)", "--device", "PYTHON"]
    assert "64" in ran(folder, *arguments, **flags)


@pytest.mark.slow
def test_a_case_on_file_is_judged_where_it_lies(folder: Path) -> None:
    case = Path(__file__).parents[2] / "spec/tinyref_spec/regressions/sum-of-an-empty-sum.json"
    (folder / "case.json").write_text(case.read_text())
    assert "all agree" in ran(folder, "fuzz", "replay", "case.json", "--device", "PYTHON")


@pytest.mark.slow
def test_a_score_imports_nothing_from_there_either(folder: Path) -> None:
    fault = "max-of-lanes-as-sum"  # The answer comes in a second, so no speed goal is missed.
    arguments = ["fuzz", "score", "--query", fault, "--seeds", "1", "--budget", "10s"]
    ran(folder, *arguments, "--examine", "0s", "--further", "0s")


@pytest.mark.long
def test_the_older_name_of_the_command_is_as_careful(folder: Path) -> None:
    assert ran(folder, "--version", module="tinyref.cli").startswith("tinyref 0")


def test_the_names_are_shadows_indeed(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import queue"], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert (folder.parent / "imported").read_text() == "queue"
