"""Worker processes as the runner sees them: start, send, read, limit, kill."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOG_TAIL = 4000
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Task:
    """Cases of one row that go to one worker; they share what is compiled for the row."""

    row: str
    cases: list[str]
    attempt: int = 1


@dataclass
class WorkerProcess:
    """One worker: its process, what it works on, and since when.

    case: the case that it has begun and not ended. silent_since: start of that case, or of the
    process before it has opened the device. killed_for: why we killed it, empty if we did not.
    """

    process: subprocess.Popen[bytes]
    log: Path
    opened: Mapping[str, Any] | None = None
    task: Task | None = None
    case: str | None = None
    silent_since: float = field(default_factory=time.monotonic)
    killed_for: str = ""
    _unread: bytes = b""

    @property
    def is_idle(self) -> bool:
        return self.opened is not None and self.task is None and not self.killed_for

    def fileno(self) -> int:
        assert self.process.stdout is not None, "workers are started with a pipe"
        return self.process.stdout.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """A dead worker shows when it is read from, so a broken pipe is no error here."""
        assert self.process.stdin is not None, "workers are started with a pipe"
        with contextlib.suppress(OSError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def begin(self, task: Task) -> None:
        """Gives the worker a task."""
        self.task = task
        self.silent_since = time.monotonic()
        self.send({"row": task.row, "cases": task.cases, "attempt": task.attempt})

    def read(self) -> list[dict[str, Any]] | None:
        """The messages that came; None at the end of the pipe."""
        data = os.read(self.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [json.loads(line) for line in lines if line]

    def memory_bytes(self) -> int:
        """What the worker holds in memory now; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        except OSError:
            return 0
        return int(fields[1]) * _PAGE if len(fields) > 1 else 0

    def kill(self, reason: str) -> None:
        """Ends the worker and all that it started; its pipe then closes."""
        self.killed_for = self.killed_for or reason
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def log_tail(self) -> str:
        """The last that the worker or its device printed."""
        try:
            text = self.log.read_bytes()[-LOG_TAIL:].decode(errors="replace")
        except OSError:
            return ""
        return text.strip()

    def bury(self) -> int:
        """Waits for the process to end, closes its pipes, and returns its exit code."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        code = self.process.wait()
        self.log.unlink(missing_ok=True)
        return code


def death_in_words(code: int) -> str:
    """How a process ended: the signal by name, or the exit code."""
    if code >= 0:
        return f"the worker left with exit code {code}"
    try:
        found = signal.Signals(-code)
    except ValueError:
        return f"killed by signal {-code}"
    return f"killed by {found.name} ({signal.strsignal(found)})"


class Pool:
    """The workers of a run, and one place to wait for any of them."""

    def __init__(self, config: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._environment = dict(environment)
        self._selector = selectors.DefaultSelector()
        self._logs = tempfile.TemporaryDirectory(prefix="tinyref-conform-")
        self._started = 0
        self.workers: list[WorkerProcess] = []

    def start(self) -> WorkerProcess:
        """One more worker; it says by a message when its device is open."""
        self._started += 1
        log = Path(self._logs.name) / f"worker-{self._started}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tinyref_conformance.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=self._environment,
                start_new_session=True,  # killed as a group; Ctrl-C reaches only the main process
            )
        worker = WorkerProcess(process, log)
        worker.send(self._config)
        self._selector.register(worker.fileno(), selectors.EVENT_READ, worker)
        self.workers.append(worker)
        return worker

    def wait(self, seconds: float) -> Sequence[WorkerProcess]:
        """The workers that have something to say, after at most `seconds`."""
        return [key.data for key, _ in self._selector.select(seconds)]

    def remove(self, worker: WorkerProcess) -> int:
        """Forgets a worker whose pipe has closed; returns its exit code."""
        self._selector.unregister(worker.fileno())
        self.workers.remove(worker)
        return worker.bury()

    def close(self) -> None:
        """Kills what is left; nothing of the run stays behind."""
        for worker in list(self.workers):
            worker.kill("the run is over")
            self.remove(worker)
        self._selector.close()
        self._logs.cleanup()
