"""Worker processes seen from their parent: how they ended is reported as it was."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from running import is_running

from tinyref import processes
from tinyref.messages import Reader, framed
from tinyref.processes import Pool, WorkerProcess, death_in_words

LEAVES = """
import os, subprocess, sys, time
from tinyref.processes import Line
line = Line()
child = subprocess.Popen(["sleep", "1000"])
line.say({"child": child.pid})
os.close(int(sys.argv[2]))
time.sleep(0.1)
os._exit(7)
"""


CHATTERS = """
import os
from tinyref.processes import Line
os.write(1, b"Welcome to the driver\\n\\xff\\x00\\n7\\n")
os.write(1, b'{\\"ready\\": false}\\n')
line = Line()
line.hear()
line.say({"ready": True})
while True:
    os.write(2, b"more and more\\n" * 100)
    line.say(line.hear())
"""

MEDDLES = """
import os, sys, time
from tinyref.processes import Line
line = Line()
for pipe in range(3, 64):
    try:
        {what}
    except OSError:
        pass
line.say({"ready": True})
time.sleep(1000)
"""


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "leaves.py").write_text(LEAVES)
    (tmp_path / "chatters.py").write_text(CHATTERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = Pool("leaves", {}, WorkerProcess)
    yield found
    found.close()


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


def test_what_is_printed_is_no_message_and_long_logs_begin_anew(monkeypatch, pool):
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


@pytest.mark.parametrize(
    ("noise", "count"),
    [
        (b'{"ready": true}\n', 15),
        (b"no newline", 10),
        (b"\xff\x00\x1b[31m\n\n", 7),
    ],
)
def test_what_is_written_between_the_messages_is_told_and_the_worker_not_trusted(
    pool, tmp_path, noise, count
):
    write = f"os.write(pipe, {noise!r})"
    (tmp_path / "meddles.py").write_text(MEDDLES.replace("{what}", write))
    meddling = Pool("meddles", {}, WorkerProcess)
    meddling.environment = pool.environment
    try:
        worker = meddling.start()
        said = []
        while meddling.workers:
            for _, message in meddling.said(60):
                said.append(message)
                if message is None:
                    code = meddling.remove(worker)
        assert said == [None]
        assert worker.ending(code) == (
            f"it wrote {count} bytes to a descriptor that is not its own: "
            f"{noise.strip(bytes([10]))!r}"
        )
    finally:
        meddling.close()


def test_a_worker_whose_pipe_is_closed_by_others_tells_so(pool, tmp_path):
    (tmp_path / "meddles.py").write_text(
        MEDDLES.replace("{what}", "os.close(pipe)").replace("line.say", "time.sleep(9) #")
    )
    meddling = Pool("meddles", {}, WorkerProcess)
    meddling.environment = pool.environment
    try:
        worker = meddling.start()
        assert [message for _, message in meddling.said(60)] == [None]
        code = meddling.remove(worker)
        assert worker.ending(code) == "it closed a descriptor that is not its own"
    finally:
        meddling.close()


def test_a_message_comes_whole_from_any_pieces():
    reader = Reader("mark")
    data = framed("mark", {"a": "x" * 50}) + framed("mark", {"b": [1]})
    pieces = [data[start : start + 7] for start in range(0, len(data), 7)]
    assert [found for piece in pieces for found in reader.feed(piece)] == [
        {"a": "x" * 50},
        {"b": [1]},
    ]
    assert reader.noise_bytes == 0
    # What is no message is reported, however it is cut, and takes no memory.
    assert [reader.feed(b"junk" * 1000) for _ in range(3)] == [[], [], []]
    assert reader.feed(b"\nmark {broken\nmark 7\n") == []
    assert reader.noise_bytes == 12000 + 12 + 6
    assert len(reader.noise) == 200
    assert reader.feed(framed("mark", {"c": 1})) == [{"c": 1}]


def test_time_in_which_others_had_the_processor_is_no_silence(monkeypatch, pool):
    worker = pool.start()
    now, waited = [100.0], [3.0]
    monkeypatch.setattr(processes.time, "monotonic", lambda: now[0])
    assert worker._waiting_seconds() >= 0
    monkeypatch.setattr(WorkerProcess, "_waiting_seconds", lambda self: waited[0])
    worker.note_message()
    now[0], waited[0] = 160.0, 48.0
    assert worker.silence() == 15
    worker.note_message()
    assert worker.silence() == 0
    now[0] = 190.0
    assert worker.silence() == 30


def test_a_worker_that_is_gone_waits_for_nothing(pool):
    worker = pool.start()
    pool.remove(worker)
    assert worker._waiting_seconds() == 0


def test_a_message_that_is_no_json_is_noise():
    reader = Reader("mark")
    foreign = [b"[" * 100_000, b"9" * 100_000, b"\xff\xfe", b"{", b"[]", b'"\x1b[2J"']
    for text in foreign:
        assert reader.feed(b"mark " + text + b"\n") == []
    assert reader.feed(framed("mark", {"a": 1})) == [{"a": 1}]
    assert reader.noise_bytes == sum(len(text) + 5 for text in foreign)
