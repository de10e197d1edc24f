"""Test worker processes from their parent, which reports exactly how they ended."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from running import is_running

from tinyref.workers import processes
from tinyref.workers.messages import MessageReader, frame
from tinyref.workers.processes import Cause, Death, Limits, Pool, WorkerProcess

LEAVES = """
import os, subprocess, sys, time
from tinyref.workers.processes import Channel
channel = Channel()
child = subprocess.Popen(["sleep", "1000"])
channel.send({"child": child.pid})
os.close(int(sys.argv[2]))
time.sleep(0.1)
os._exit(7)
"""

LEAVES_FILES = """
import pathlib, tempfile, time
from tinyref.workers.processes import Channel
folder = tempfile.mkdtemp()
(pathlib.Path(folder) / "log").write_text("left")
Channel().send({"folder": folder})
time.sleep(1000)
"""


CHATTERS = """
import os
from tinyref.workers.processes import Channel
os.write(1, b"Welcome to the driver\\n\\xff\\x00\\n7\\n")
os.write(1, b'{\\"ready\\": false}\\n')
channel = Channel()
channel.receive()
channel.send({"ready": True})
while True:
    os.write(2, b"more and more\\n" * 100)
    channel.send(channel.receive())
"""

MEDDLES = """
import os, sys, time
from tinyref.workers.processes import Channel
channel = Channel()
for pipe in range(3, 1024):
    try:
        {what}
    except OSError:
        pass
channel.send({"ready": True})
time.sleep(1000)
"""


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a pool of workers that run a program."""
    pools = []
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(text: str, **configuration: str) -> Pool[WorkerProcess]:
        name = f"program{len(pools)}"
        (tmp_path / f"{name}.py").write_text(text)
        pools.append(Pool(name, configuration, WorkerProcess))
        return pools[-1]

    yield run
    for pool in pools:
        pool.close()


@pytest.fixture
def pool(running):
    return running(LEAVES)


def test_a_worker_that_leaves_tells_its_code_and_leaves_nothing_behind(pool):
    worker = pool.start()
    (child,) = [message["child"] for message in messages(pool)]
    assert is_running(child)
    (death,) = messages(pool)
    assert death.cause is Cause.EXIT
    assert death.words == "the worker left with exit code 7"
    assert worker.killed_for is None
    assert pool.workers == []
    while is_running(child):
        time.sleep(0.01)


def test_temporary_files_of_a_worker_go_with_it(running):
    pool = running(LEAVES_FILES)
    worker = pool.start()
    (folder,) = [Path(message["folder"]) for message in messages(pool)]
    assert (folder / "log").read_text() == "left"
    worker.kill(Cause.DISMISSED)
    pool.remove(worker)
    assert not folder.exists()


def test_a_worker_that_is_killed_tells_for_what(pool, monkeypatch):
    worker = pool.start()
    worker.limit(Limits(memory=3 << 20))
    worker.kill(Cause.MEMORY)
    worker.kill(Cause.DISMISSED)
    death = pool.remove(worker)
    assert (death.cause, death.words) == (Cause.MEMORY, "the worker held over 3 MiB")
    assert pool.workers == []
    # Others, and the system for its memory.
    words = "killed by SIGKILL (Killed)"
    for kills, told in (
        (0, words),
        (1 << 60, f"out of memory: {words} by the system, as it held 5 MiB"),
    ):
        worker = pool.start()
        monkeypatch.setattr(processes, "memory_kills", lambda kills=kills: kills)
        worker.held = 5 << 20
        worker.signal_group(signal.SIGKILL)
        death = pool.remove(worker)
        assert (death.cause, death.words) == (Cause.OTHERS, told)


@pytest.mark.parametrize(
    ("limits", "cause", "words"),
    [
        (Limits(0.3), Cause.TIMEOUT, "no end within 0.3 s"),
        (Limits(0.3, awaited="answer"), Cause.TIMEOUT, "no answer within 0.3 s"),
        (Limits(600.0, 1 << 20), Cause.MEMORY, "the worker held over 1 MiB"),
    ],
)
def test_a_worker_over_its_limits_ends_and_a_hang_leaves_its_stack(running, limits, cause, words):
    pool = running(CHATTERS)
    worker = pool.start()
    assert messages(pool) == [{"ready": True}]
    worker.limit(limits)
    (death,) = messages(pool)
    assert (death.cause, death.words) == (cause, words)
    assert ("Fatal Python error: Aborted" in death.log) is (cause is Cause.TIMEOUT)
    assert death.detail.startswith(f"{words}\n")


DEAF = """
import signal, time
from tinyref.workers.processes import Channel
channel = Channel()
signal.signal(signal.SIGABRT, signal.SIG_IGN)
channel.send({"ready": True})
time.sleep(1000)
"""


def test_a_worker_that_survives_the_first_signal_ends_by_the_second(running, monkeypatch):
    monkeypatch.setattr(processes, "LAST_WORDS_SECONDS", 0.2)
    pool = running(DEAF)
    worker = pool.start()
    assert messages(pool) == [{"ready": True}]
    worker.limit(Limits(0.1))
    (death,) = messages(pool)
    assert (death.cause, death.words) == (Cause.TIMEOUT, "no end within 0.1 s")
    assert worker.process.returncode == -signal.SIGKILL


def messages(pool: Pool) -> list[dict | Death]:
    """Return the next messages, or the death of a worker."""
    events = []
    end = time.monotonic() + 60
    while not events and time.monotonic() < end:
        events = [event for _, event in pool.events(0.1)]
    return events


def test_what_is_printed_is_no_message_and_long_logs_begin_again(monkeypatch, running):
    monkeypatch.setattr(processes, "MAX_LOG_BYTES", 2000)
    pool = running(CHATTERS)
    worker = pool.start()
    assert messages(pool) == [{"ready": True}]
    for number in range(5):
        worker.send({"number": number})
        assert messages(pool) == [{"number": number}]
        worker.trim_log()
        # Later output is at the beginning, with no hole before it.
        assert worker.log.stat().st_size <= 2000
    assert set(worker.log_tail().split("\n")) <= {"", "more and more"}


@pytest.mark.parametrize(
    ("noise", "count"),
    [
        (b'{"ready": true}\n', 15),
        (b"no newline", 10),
        (b"\xff\x00\x1b[31m\n\n", 7),
    ],
)
def test_what_is_written_between_the_messages_is_told_and_the_worker_not_trusted(
    running, noise, count
):
    pool = running(MEDDLES.replace("{what}", f"os.write(pipe, {noise!r})"))
    pool.start()
    (death,) = messages(pool)
    assert death.cause is Cause.NOISE
    assert death.words == (
        f"it wrote {count} bytes to a descriptor that is not its own: {noise.strip(bytes([10]))!r}"
    )


def test_a_worker_whose_pipe_is_closed_by_others_tells_so(running):
    closing = MEDDLES.replace("{what}", "os.close(pipe)")
    pool = running(closing.replace("channel.send", "time.sleep(9) #"))
    pool.start()
    (death,) = messages(pool)
    assert (death.cause, death.words) == (
        Cause.EXIT,
        "it closed a descriptor that is not its own",
    )


def test_a_message_comes_whole_from_any_pieces():
    reader = MessageReader("mark")
    data = frame("mark", {"a": "x" * 50}) + frame("mark", {"b": [1]})
    pieces = [data[start : start + 7] for start in range(0, len(data), 7)]
    assert [message for piece in pieces for message in reader.feed(piece)] == [
        {"a": "x" * 50},
        {"b": [1]},
    ]
    assert reader.noise_bytes == 0
    # Noise is reported, however it is split, and takes no memory.
    assert [reader.feed(b"junk" * 1000) for _ in range(3)] == [[], [], []]
    assert reader.feed(b"\nmark {broken\nmark 7\n") == []
    assert reader.noise_bytes == 12000 + 12 + 6
    assert len(reader.noise) == 200
    assert reader.feed(frame("mark", {"c": 1})) == [{"c": 1}]


def test_silence_is_counted_by_the_processor_while_a_worker_works(monkeypatch, pool):
    worker = pool.start()
    now = [100.0]
    monkeypatch.setattr(processes.time, "monotonic", lambda: now[0])
    worker.note_processor(1.0)
    worker.reset_silence()
    assert worker.silence() == 0
    # It took these two seconds before its work began.
    worker.note_processor(3.0)
    assert worker.silence() == 0
    # Others had the processor for most of the time.
    now[0] = 130.0
    worker.note_processor(18.0)
    assert worker.silence() == 15
    # Many threads take more than a second in a second.
    worker.note_processor(500.0)
    assert worker.silence() == 30
    worker.reset_silence()
    assert worker.silence() == 0
    worker.note_processor(500.0)
    # It uses the processor now and then, and never ends.
    now[0] = 250.0
    worker.note_processor(500.1)
    assert worker.silence() == 20
    # It sleeps, or the system does not say: then the clock counts.
    worker.reset_silence()
    assert worker.silence() == 0
    now[0] = 280.0
    worker.note_processor(500.1)
    assert worker.silence() == 30
    worker.note_processor(None)
    assert worker.silence() == 30


WAITS = """
import subprocess, sys
from tinyref.workers.processes import Channel
channel = Channel()
channel.send({"ready": True})
subprocess.run([sys.executable, "-c", channel.receive()["program"]])
channel.send({"ended": True})
channel.receive()
"""
# A compiler on a busy machine has the processor for a small part of the time.
STARVED = "import time\nfor _ in range(50):\n    time.sleep(0.05); sum(range(100_000))"
SPINS = "while True: pass"


@pytest.mark.long
@pytest.mark.parametrize("program", [STARVED, SPINS])
def test_what_a_worker_waits_for_counts_by_its_processor_time(running, program):
    pool = running(WAITS, program=program)
    worker = pool.start()
    assert messages(pool) == [{"ready": True}]
    started = time.monotonic()
    worker.limit(Limits(1.0))
    (event,) = messages(pool)
    if program is STARVED:
        assert event == {"ended": True}
        assert time.monotonic() - started > 1.0
    else:
        assert (event.cause, event.words) == (Cause.TIMEOUT, "no end within 1 s")


def test_a_message_that_is_no_json_is_noise():
    reader = MessageReader("mark")
    foreign = [b"[" * 100_000, b"9" * 100_000, b"\xff\xfe", b"{", b"[]", b'"\x1b[2J"']
    for text in foreign:
        assert reader.feed(b"mark " + text + b"\n") == []
    assert reader.feed(frame("mark", {"a": 1})) == [{"a": 1}]
    assert reader.noise_bytes == sum(len(text) + 5 for text in foreign)
