"""Worker processes seen from their parent: how they ended is told as it was."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tinyref.processes import Pool, WorkerProcess, death_in_words

LEAVES = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
os.close(1)
time.sleep(0.1)
sys.exit(7)
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "leaves.py").write_text(LEAVES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = Pool("leaves", {}, WorkerProcess)
    yield found
    found.close()


def is_running(pid: int) -> bool:
    """Whether the process is there, and no zombie that nobody has buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_worker_that_leaves_tells_its_code_and_leaves_nothing_behind(pool):
    worker = pool.start()
    child = None
    while child is None:
        assert pool.wait(60)
        (child,) = worker.read()
    assert pool.wait(60)
    assert worker.read() is None
    assert is_running(child)
    assert pool.remove(worker) == 7
    assert worker.killed_for == ""
    while is_running(child):
        time.sleep(0.01)


def test_a_worker_that_is_killed_tells_for_what(pool):
    worker = pool.start()
    worker.kill("time")
    worker.kill("memory")
    assert death_in_words(pool.remove(worker)) == "killed by SIGKILL (Killed)"
    assert worker.killed_for == "time"
    assert pool.workers == []
