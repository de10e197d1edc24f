"""Test the output and the exit codes of `tinyref fuzz`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tinyref.cli.entry import run

DEVICES = Path(__file__).parents[2] / "fuzz" / "tests"
QUICK = ["--policy", "small", "--jobs", "1"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    path = os.pathsep.join([str(DEVICES), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(str(DEVICES))


@pytest.mark.long
def test_findings_come_with_a_table_and_reproducers_that_work_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = "campaign_devices:Wrong"
    words = ["fuzz", "--device", device, "--kernels", "8", "--seed", "11", *QUICK]
    assert run(words) == 1
    out = capsys.readouterr().out
    assert f"{device}: 8 kernels judged, " in out
    assert "#  found  nodes  opts  stage   cause" in out
    (command, *_) = replays(out)
    file = command[2]
    assert json.loads(Path(file).read_text())["note"].partition("; tinyref fuzz 0.")[1]
    assert max(len(line) for line in out.splitlines() if "replay" not in line) <= 100
    assert run(command) == 1
    assert "between the interpreter and the device: another value" in capsys.readouterr().out
    assert run(["fuzz", "replay", file, "--device", "PYTHON"]) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    capsys.readouterr()
    folder = f"../{Path(file).parts[0]}"
    assert run(["fuzz", "--device", device, "--out", folder, "--resume"]) == 1
    files = [words[2] for words in replays(capsys.readouterr().out)]
    assert f"../{file}" in files
    assert Path(f"../{file}").exists()


def replays(out: str) -> list[list[str]]:
    """Return the words of the commands that replay."""
    return [line.split()[2:] for line in out.splitlines() if "tinyref fuzz replay" in line]


def test_a_cluster_needs_its_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run(["fuzz", "--device", "PYTHON", "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert "pip install '.[cluster]' in a clone of tinyref" in capsys.readouterr().err
