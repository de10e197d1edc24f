"""`tinyref fuzz` as a user meets it: signals, folders, and bad options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tinyref.cli.entry import run
from tinyref.cli.fuzz import resume_command
from tinyref.errors import UserError
from tinyref_fuzz import __main__ as lane
from tinyref_fuzz.campaign.campaign import CampaignRequest
from tinyref_fuzz.campaign.database import Database
from tinyref_fuzz.judge import trial as judging

# A background job of a shell ignores Ctrl-C, and under nohup the end of the terminal. So would a
# process that a test starts there.
LISTENING = """
import signal
from tinyref.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
main()
"""
NOHUP = LISTENING.replace("SIG_DFL", "SIG_IGN")


def tinyref(*words: object) -> int:
    return run(["fuzz", *map(str, words)])


def test_the_resume_command_has_what_the_database_does_not_store(monkeypatch):
    # Flags that are set would come first.
    monkeypatch.delenv("TINYREF_CACHE_DIR", raising=False)
    stored = CampaignRequest(
        "CPU",
        Path("a b"),
        seed=3,
        policy="small",
        kernels=7,
        seconds=5.0,
        corpus=Path("c"),
        timeout=4.5,
        memory=900 << 20,
    )
    assert resume_command(stored) == "tinyref fuzz --device CPU --out 'a b' --resume"
    here = CampaignRequest("CPU", Path("f"), jobs=3)
    assert resume_command(here) == "tinyref fuzz --device CPU --out f --jobs 3 --resume"
    there = CampaignRequest("CPU", Path("f"), cluster="tcp://a:1")
    assert resume_command(there) == (
        "tinyref fuzz --device CPU --out f --cluster tcp://a:1 --resume"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "inf"], "got 'inf', accepted are 90s, 5m, 1.5h"),
        (["--timeout", "30"], "got '30', accepted are 90s, 5m, 1.5h"),
        (["--kernels", "0"], "--kernels"),
        (["--budget", "0s"], "--budget"),
        (["--seed", "-1"], "--seed"),
        (["--jobs", "-1"], "--jobs"),
        (["--jobs", "99999"], "--jobs"),
        (["--memory-limit", "1M"], "got '1M': accepted are sizes from 64M on"),
        (["--policy", "odd"], "policy: 'odd'"),
        (["--device", "GPU9"], "unknown device 'GPU9'"),
        (["--cluster", "tcp://a:1", "--jobs", "2"], "give --jobs or --cluster, not both"),
        (["--resume", "--out", "nowhere"], "resume: there is no campaign in nowhere"),
        (["--out", "a-file"], "out: cannot write to a-file"),
        (["--corpus", "a-file"], "corpus: cannot write to a-file"),
        (["--out", "/proc/no"], "out: cannot write to /proc/no"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(
    words: Sequence[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").touch()
    device = [] if "--device" in words else ["--device", "PYTHON"]
    assert tinyref(*device, *words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = [line for line in output.err.splitlines() if "rror: " in line]
    assert message in line
    assert not list(tmp_path.glob(f"*/{Database.NAME}"))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
def test_a_worker_that_exceeds_its_memory_alone_is_no_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["--device", "PYTHON", "--out", tmp_path, "--kernels", 2, "--jobs", 1]
    assert tinyref(*words, "--memory-limit", "64M") == 2
    assert "before its first case, more than half of its limit of 64 MiB" in capsys.readouterr().err


def judged(folder: Path) -> int:
    try:
        database = Database.open(folder)
    except UserError:
        return 0
    try:
        return database.totals()[0]
    finally:
        database.close()


def started(script: str, words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """Start a campaign in its own process, and wait for its first cases."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, "fuzz", *words, "--out", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LANG": "C", "NO_COLOR": "1", "COLUMNS": "60"},
    )
    while not judged(folder):
        assert process.poll() is None
        time.sleep(0.1)
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([signal.SIGTERM], 143),
        ([signal.SIGHUP], 129),
        ([signal.SIGINT], 130),
        ([signal.SIGINT, signal.SIGINT], 130),
    ],
)
def test_a_signal_ends_a_campaign_and_says_how_to_go_on(
    signals: Sequence[signal.Signals], code: int, tmp_path: Path
):
    words = ["--device", "PYTHON", "--policy", "small", "--kernels", "100000", "--jobs", "2"]
    process = started(LISTENING, words, tmp_path)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.02)
    out, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in err
    if len(signals) == 1:
        command = f"tinyref fuzz --device PYTHON --out {tmp_path} --jobs 2"
        assert err.splitlines()[-2:] == [
            "tinyref: stopped; what was judged and found is kept. Go on with:",
            f"  {command} --resume",
        ]
    assert judged(tmp_path)


@pytest.mark.slow
def test_a_campaign_under_nohup_outlives_its_terminal(tmp_path: Path):
    words = ["--device", "PYTHON", "--policy", "small", "--kernels", "60", "--jobs", "1"]
    process = started(NOHUP, words, tmp_path)
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err.count("stopped")) == (0, 0)
    assert out


# --- the fixed-seed lane --------------------------------------------------------------------------


SMALL = ["--device", "PYTHON", "--policy", "small", "--seed", "5"]


@pytest.mark.long
def test_the_lane_counts_and_exits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert lane.main([*SMALL, "--kernels", "3"]) == 0
    assert "3 kernels, 0 disagree" in capsys.readouterr().out
    monkeypatch.setattr(judging.GuardedMemory, "stray", lambda memory: "injected")
    assert lane.main([*SMALL, "--kernels", "2"]) == 1
    output = capsys.readouterr().out
    assert "kernel 0:\n  fault   PLAIN " in output
    assert "injected" in output
    assert "--kernels 1 --seed 5 --start 1 --policy small" in output
    assert "2 kernels, 2 disagree" in output


def test_the_lane_refuses_bad_options(capsys: pytest.CaptureFixture[str]):
    assert lane.main(["--device", "GPU9"]) == 2
    assert "unknown device 'GPU9'" in capsys.readouterr().err
    assert lane.main(["--device", "PYTHON", "--policy", "odd"]) == 2
    assert "accepted are all" in capsys.readouterr().err
    assert lane.main(["--device", "NPY"]) == 2
    assert "runs no kernels" in capsys.readouterr().err


def test_a_lane_without_kernels_passes_nothing(capsys: pytest.CaptureFixture[str]):
    # A lane that judges nothing must not look like one that agrees.
    assert lane.main([*SMALL, "--kernels", "0"]) == 2
    assert "kernels: got 0, accepted is 1 or more" in capsys.readouterr().err
