"""Worker processes of the harness, seen from both sides: start, talk by JSON lines, limit, kill.

The parent gives each worker a pipe each way and its own session, so that a worker is killed with
all that it started. What a worker or its device prints goes to a log, never between the messages.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

LOG_TAIL = 4000
# A worker may print for days: its log begins anew where it is longer.
LOG_MOST_BYTES = 16 << 20
EXIT_ORPHANED = 3
# Between the end of a worker's pipe and the end of the worker.
LEAVING_SECONDS = 2.0
_PR_SET_PDEATHSIG = 1
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Of the memory of a machine, for all workers together.
MEMORY_SHARE = 0.8

Message = dict[str, Any]


@dataclass
class WorkerProcess:
    """One worker as the parent sees it.

    silent_since: when it last had reason to speak. killed_for: why we killed it, empty if we did
    not.
    """

    process: subprocess.Popen[bytes]
    log: Path
    silent_since: float = field(default_factory=time.monotonic)
    killed_for: str = ""
    _unread: bytes = b""
    _waited: float = 0.0

    def fileno(self) -> int:
        assert self.process.stdout is not None, "workers are started with a pipe"
        return self.process.stdout.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """A dead worker shows when it is read from, so a broken pipe is no error here."""
        assert self.process.stdin is not None, "workers are started with a pipe"
        with contextlib.suppress(OSError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def read(self) -> list[Message] | None:
        """The messages that came; None at the end of the pipe."""
        data = os.read(self.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [message for line in lines if (message := _message(line)) is not None]

    def heard(self) -> None:
        """Begins to count the silence of the worker anew."""
        self.silent_since = time.monotonic()
        self._waited = self._waiting_seconds()

    def silence(self) -> float:
        """For how many seconds it has not spoken; those when others had the processor do not count.

        So no machine is so busy that a worker seems to hang.
        """
        return time.monotonic() - self.silent_since - (self._waiting_seconds() - self._waited)

    def _waiting_seconds(self) -> float:
        """How long it was ready to run and did not; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/schedstat").read_text().split()
        except OSError:
            return 0.0
        return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0

    def memory_bytes(self) -> int:
        """What the worker holds in memory now; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        except OSError:
            return 0
        return int(fields[1]) * _PAGE if len(fields) > 1 else 0

    def kill(self, reason: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Ends the worker and all that it started; its pipe then closes."""
        self.killed_for = self.killed_for or reason
        self.signal_group(how)

    def signal_group(self, how: signal.Signals) -> None:
        """Sends a signal to the worker and all that it started, whichever of them still are."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, how)

    def log_tail(self) -> str:
        """The last that the worker or its device printed."""
        try:
            text = self.log.read_bytes()[-LOG_TAIL:].decode(errors="replace")
        except OSError:
            return ""
        return text.strip()

    def trim_log(self) -> None:
        """Drops what the worker printed, where it is more than anybody will read."""
        with contextlib.suppress(OSError):
            if self.log.stat().st_size > LOG_MOST_BYTES:
                os.truncate(self.log, 0)

    def bury(self) -> int:
        """Waits for the process to end, closes its pipes, and returns its exit code."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        code = self.process.wait()
        self.log.unlink(missing_ok=True)
        return code


def _message(line: bytes) -> Message | None:
    """The message of a line; None for what something printed before the worker had its pipes."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def death_in_words(code: int) -> str:
    """How a process ended: the signal by name, or the exit code."""
    if code >= 0:
        return f"the worker left with exit code {code}"
    try:
        found = signal.Signals(-code)
    except ValueError:
        return f"killed by signal {-code}"
    return f"killed by {found.name} ({signal.strsignal(found)})"


def usable_memory() -> int:
    """How many bytes the workers of this machine may hold together."""
    return int(_PAGE * os.sysconf("SC_PHYS_PAGES") * MEMORY_SHARE)


def worker_environment() -> dict[str, str]:
    """What workers get of our environment: many of them with many threads each would be slow."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    # A search for each kernel would take hours, and make a result depend on what was fast.
    return {**threads, **os.environ, "TINYREF_BEAM": "0"}


W = TypeVar("W", bound=WorkerProcess)


class Pool(Generic[W]):
    """The workers of a run, and one place to wait for any of them.

    module: what a worker runs, as of `python -m`. config: the first message to each. make: the
    parent's view of a worker, from its process and its log.
    """

    def __init__(
        self,
        module: str,
        config: Mapping[str, Any],
        make: Callable[[subprocess.Popen[bytes], Path], W],
    ) -> None:
        self._module = module
        self._config = dict(config)
        self._make = make
        self.environment = worker_environment()
        self._selector = selectors.DefaultSelector()
        self._logs = tempfile.TemporaryDirectory(prefix="tinyref-workers-")
        self._started = 0
        self.workers: list[W] = []

    def start(self) -> W:
        """One more worker; it says by a message of its own when it is ready."""
        self._started += 1
        log = Path(self._logs.name) / f"worker-{self._started}.log"
        # To append, so that what follows a log that was trimmed begins at its new end.
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=self.environment,
                start_new_session=True,  # killed as a group; Ctrl-C reaches only the main process
            )
        worker = self._make(process, log)
        worker.send(self._config)
        self._selector.register(worker.fileno(), selectors.EVENT_READ, worker)
        self.workers.append(worker)
        return worker

    def wait(self, seconds: float) -> Sequence[W]:
        """The workers that have something to say, after at most `seconds`."""
        return [key.data for key, _ in self._selector.select(seconds)]

    def said(self, seconds: float) -> Iterator[tuple[W, Message | None]]:
        """What workers say within `seconds`, message by message; None at the end of a pipe."""
        for worker in self.wait(seconds):
            messages = worker.read()
            if messages is None:
                yield worker, None
            else:
                yield from ((worker, message) for message in messages)

    def remove(self, worker: W) -> int:
        """Forgets a worker whose pipe has closed; returns its exit code."""
        # One that leaves by itself is to tell its own exit code, which a signal now would change.
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(LEAVING_SECONDS)
        # It may leave behind what it started.
        worker.signal_group(signal.SIGKILL)
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


class Line:
    """The worker's end of the pipes: the parent's messages in order, and a way to answer.

    To be made before anything else is done: from then on standard output is the log, the worker
    ends with its parent, and a fatal signal leaves the stack in the log.
    """

    def __init__(self) -> None:
        faulthandler.enable()
        _die_with_parent()
        # What device code prints must not look like messages: standard output becomes the log.
        self._out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
        os.dup2(2, 1)
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, message: Mapping[str, Any]) -> None:
        """Tells the parent."""
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()

    def hear(self) -> Message:
        """The next message of the parent; waits for it."""
        return self._messages.get()

    def _listen(self) -> None:
        for line in sys.stdin:
            self._messages.put(json.loads(line))
        os._exit(EXIT_ORPHANED)


def _die_with_parent() -> None:
    # A device call that never lets other threads run would hide the closed pipe from us.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
