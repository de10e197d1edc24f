"""Worker processes seen from their parent: how they ended is told as it was."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tinyref import processes
from tinyref.processes import Pool, WorkerProcess, death_in_words

LEAVES = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
print('{"child": %d}' % child.pid, flush=True)
os.close(1)
time.sleep(0.1)
sys.exit(7)
"""


CHATTERS = """
import os, sys
os.write(1, b"Welcome to the driver\\n\\xff\\x00\\n7\\n")
os.write(1, b'{\\"ready\\": true}\\n')
sys.stdin.readline()
while True:
    os.write(2, b"more and more\\n" * 100)
    line = sys.stdin.readline()
    os.write(1, line.encode())
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "leaves.py").write_text(LEAVES)
    (tmp_path / "chatters.py").write_text(CHATTERS)
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
        for message in worker.read():
            child = message["child"]
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


def messages(pool: Pool) -> list[dict]:
    found = []
    while not found:
        assert pool.wait(60)
        found = pool.workers[0].read()
    return found


def test_lines_that_are_no_messages_are_skipped_and_long_logs_begin_anew(monkeypatch, pool):
    monkeypatch.setattr(processes, "LOG_MOST_BYTES", 2000)
    chattering = Pool("chatters", {}, WorkerProcess)
    chattering.environment = pool.environment
    try:
        worker = chattering.start()
        assert messages(chattering) == [{"ready": True}]
        for number in range(5):
            worker.send({"number": number})
            assert messages(chattering) == [{"number": number}]
            worker.trim_log()
            # What comes after is at the beginning, with no hole before it.
            assert worker.log.stat().st_size <= 2000
        assert set(worker.log_tail().split("\n")) <= {"", "more and more"}
    finally:
        chattering.close()


def test_time_in_which_others_had_the_processor_is_no_silence(monkeypatch, pool):
    worker = pool.start()
    now, waited = [100.0], [3.0]
    monkeypatch.setattr(processes.time, "monotonic", lambda: now[0])
    assert worker._waiting_seconds() >= 0
    monkeypatch.setattr(WorkerProcess, "_waiting_seconds", lambda self: waited[0])
    worker.heard()
    now[0], waited[0] = 160.0, 48.0
    assert worker.silence() == 15
    worker.heard()
    assert worker.silence() == 0
    now[0] = 190.0
    assert worker.silence() == 30


def test_a_worker_that_is_gone_waits_for_nothing(pool):
    worker = pool.start()
    pool.remove(worker)
    assert worker._waiting_seconds() == 0
