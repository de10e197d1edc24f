"""`tinyref fuzz`: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
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
def test_a_clean_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert run(["fuzz", "--device", "PYTHON", "--kernels", "6", "--seed", "4", *QUICK]) == 0
    captured = capsys.readouterr()
    assert "fuzzing PYTHON with seed 4, policy small, in fuzz-PYTHON" in captured.err
    first, second, *more = captured.out.splitlines()
    took = time.monotonic() - began
    minutes, of_minute = re.findall(r"PYTHON: 6 kernels judged, all agree, (\d+):(\d\d)", first)[0]
    # Of this command, in a process that is older; rounded.
    assert 60 * int(minutes) + int(of_minute) <= took + 1
    assert second.startswith("seed 4, policy small, ")
    assert more == []
    assert [path.name for path in (tmp_path / "fuzz-PYTHON").iterdir()] == ["campaign.sqlite"]


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
    assert json.loads(Path(file).read_text())["note"].startswith("tinyref fuzz 0.")
    assert max(len(line) for line in out.splitlines() if "replay" not in line) <= 100
    assert run(command) == 1
    assert "between the interpreter and the device: another value" in capsys.readouterr().out
    assert run(["fuzz", "replay", file, "--device", "PYTHON"]) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    capsys.readouterr()
    folder = f"../{Path(file).parts[0]}"
    assert run(["fuzz", "--device", device, "--folder", folder, "--resume"]) == 1
    files = [words[2] for words in replays(capsys.readouterr().out)]
    assert f"../{file}" in files
    assert Path(f"../{file}").exists()


def replays(out: str) -> list[list[str]]:
    """The words of the commands that replay."""
    return [line.split()[2:] for line in out.splitlines() if "tinyref fuzz replay" in line]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--device", "GPU9"], "GPU9"),
        (["--device", "campaign_devices:Missing"], "no driver: install faulty-driver"),
        (["--device", "NPY"], "NPY holds data but runs no kernels"),
        (["--device", "PYTHON", "--folder", ""], "the path is empty"),
        (["--device", "PYTHON", "--corpus="], "the path is empty"),
        (["--device", "PYTHON", "--policy", "odd"], "accepted are all, small"),
        (["--device", "PYTHON", "--resume"], "there is no campaign in fuzz-PYTHON"),
        (["--device", "PYTHON", "--folder", "/dev/null/x"], "cannot write to /dev/null/x"),
        (["--device", "PYTHON", "--cluster", "tcp://h:1", "--jobs", "2"], "not both"),
        (["--device", "PYTHON", "--kernels", "0"], "Invalid value for '--kernels'"),
        (["--device", "PYTHON", "--seconds", "soon"], "Invalid value for '--seconds'"),
        (["--device", "PYTHON", "--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_wrong_usage_is_one_clear_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fuzz", *words]) == 2
    captured = capsys.readouterr()
    assert says in " ".join(captured.err.split())
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_a_cluster_needs_its_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run(["fuzz", "--device", "PYTHON", "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert "pip install '.[cluster]' in a clone of tinyref" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupted_campaign_says_how_to_go_on(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tinyref.cli", "fuzz", "--device", "PYTHON", "--jobs", "1"]
    process = subprocess.Popen(
        [*words, "--kernels", "100000", "--seed", "3", "--folder", "kept"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        # A shell starts its jobs in the background with this signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )
    assert process.stderr is not None
    assert "seed 3" in process.stderr.readline()
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    command = "tinyref fuzz --device PYTHON --folder kept --jobs 1 --resume"
    assert command in err
    assert "Traceback" not in err + out
