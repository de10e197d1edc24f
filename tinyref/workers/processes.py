"""Our own processes: start them, exchange messages, enforce limits, kill, and report their end.

Each worker has a pipe in each direction and its own session, so it is killed together with all that
it started. The output of a worker or its device goes to a log, never between the messages. No
process imports from the folder in which it happens to be started.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from tinyref.errors import printable
from tinyref.workers.machine import GARBAGE_THRESHOLD, memory_kills, processor_seconds
from tinyref.workers.messages import EXIT_ORPHANED, Channel, Message, MessageReader, frame

__all__ = ["Channel", "Death", "Limits", "Message", "Pool", "WorkerProcess", "python_command"]

LOG_TAIL = 4000
# A worker may print for days: a log that grows longer than this is emptied.
MAX_LOG_BYTES = 16 << 20
# Time for a worker to exit after its pipe has closed.
LEAVING_SECONDS = 2.0
# Workers send thousands of messages a second: their limits are enforced at this interval.
LIMIT_TICK_SECONDS = 0.1
# The processor time of all workers is read from the system at this interval.
PROCESSOR_TICK_SECONDS = 1.0
# A worker without processor time for this long is asleep: other load never stops it so long.
ASLEEP_SECONDS = 3.0
# A worker may take this many times its seconds by the clock, if it uses the processor.
CLOCK_SHARE = 6.0
# Time between the signal that writes the stack to the log and the one that always kills.
LAST_WORDS_SECONDS = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE")

# Python puts the folder of a script or, with -m, the current folder before its own library; -P
# prevents it. The parent's other import folders come last, so that nothing there hides a module.
_START = (
    f"import gc, sys; gc.set_threshold(*{GARBAGE_THRESHOLD}); "
    "_, module, folders, *words = sys.argv; sys.argv = [module, *words]; "
    f"sys.path += [path for path in folders.split({os.pathsep!r}) if path not in sys.path]; "
    "import runpy; runpy.run_module(module, run_name='__main__', alter_sys=True)"
)


def python_command(module: str, *words: str) -> list[str]:
    """Return the command that runs `module` in a Python with the same import folders as this."""
    folders = dict.fromkeys(os.path.abspath(entry) for entry in sys.path)
    return [sys.executable, "-P", "-c", _START, module, os.pathsep.join(folders), *words]


@dataclass
class Pipes:
    """The parent's ends of the pipes to one worker, and the mark of their messages."""

    reader: int
    writer: int
    mark: str

    def close(self) -> None:
        """Close both pipes."""
        for pipe in (self.reader, self.writer):
            with contextlib.suppress(OSError):
                os.close(pipe)
        self.reader = self.writer = -1


@dataclass(frozen=True)
class Limits:
    """Limits of a worker: seconds until the next message comes, and bytes of memory.

    The seconds are measured as `WorkerProcess.silence` does.
    """

    seconds: float = math.inf
    memory: float = math.inf
    awaited: str = "end"


UNLIMITED = Limits()


class Cause(Enum):
    """The cause of the end of a worker."""

    EXIT = "it exited, or died of a signal"
    OTHERS = "somebody else killed it, perhaps the system for lack of memory"
    NOISE = "it wrote to a descriptor that is not its own"
    TIMEOUT = "it was silent for too long"
    MEMORY = "it held too much memory"
    DISMISSED = "it was no longer needed"


@dataclass(frozen=True)
class Death:
    """The end of a worker: its cause, a description, and the end of its printed output."""

    cause: Cause
    words: str
    log: str = ""

    @property
    def detail(self) -> str:
        """Return the description and the log."""
        return f"{self.words}\n{self.log}".strip()


@dataclass
class WorkerProcess:
    """One worker, as its parent sees it.

    is_open: it has reported that it is ready.
    limits: its limits now.
    held: its memory in bytes at the last check.
    killed_for: why we killed it; None if we did not.
    closed_pipe: it closed its pipe and went on.
    """

    process: subprocess.Popen[bytes]
    log: Path
    pipes: Pipes
    is_open: bool = False
    limits: Limits = UNLIMITED
    held: int = 0
    killed_for: Cause | None = None
    closed_pipe: bool = False
    _silent_since: float | None = None
    # None if the system does not tell; then only the clock counts.
    _processor: float | None = None
    # Its value at the first reading after the silence began; None until then.
    _processor_before: float | None = None
    _active_at: float = 0.0
    _aborted_at: float | None = None

    def __post_init__(self) -> None:
        self._incoming = MessageReader(self.pipes.mark)

    def fileno(self) -> int:
        return self.pipes.reader

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. A broken pipe is no error here: reading reveals a dead worker."""
        data = frame(self.pipes.mark, message)
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self.pipes.writer, data) :]

    def read(self) -> list[Message] | None:
        """Return the messages that came; None at the end of the pipe."""
        data = os.read(self.fileno(), 1 << 16)
        return self._incoming.feed(data) if data else None

    @property
    def noise(self) -> str:
        """Describe what it or its device wrote between the messages; empty if nothing."""
        if not self._incoming.noise_bytes:
            return ""
        return (
            f"it wrote {self._incoming.noise_bytes} bytes to a descriptor that is not its own: "
            f"{self._incoming.noise!r}"
        )

    def describe_end(self, code: int) -> str:
        """Describe how it ended."""
        if self.noise:
            return self.noise
        if self.killed_for is Cause.TIMEOUT:
            return f"no {self.limits.awaited} within {self.limits.seconds:g} s"
        if self.killed_for is Cause.MEMORY:
            return f"the worker held over {int(self.limits.memory) >> 20} MiB"
        # A worker whose pipe is gone concludes that its parent is gone.
        if self.closed_pipe or (code == EXIT_ORPHANED and not self.killed_for):
            return "it closed a descriptor that is not its own"
        return describe_exit(code)

    def limit(self, limits: Limits) -> None:
        """Set the limits from now on."""
        self.limits = limits
        self.reset_silence()

    def reset_silence(self) -> None:
        """Start to measure the silence of the worker again."""
        self._silent_since = None

    def enforce_limits(self) -> None:
        """Kill the worker if it exceeds its limits, and trim its log."""
        self.trim_log()
        if self._aborted_at is not None:
            if time.monotonic() - self._aborted_at > LAST_WORDS_SECONDS:
                self.kill(Cause.TIMEOUT)
        elif self.killed_for:
            return
        elif self.silence() > self.limits.seconds:
            # This signal writes the stack to the log, to see where the worker hangs.
            self.kill(Cause.TIMEOUT, signal.SIGABRT)
            self._aborted_at = time.monotonic()
        elif self.limits.memory < math.inf:
            self.held = self.memory_bytes()
            if self.held > self.limits.memory:
                self.kill(Cause.MEMORY)

    def note_processor(self, seconds: float | None) -> None:
        """Record the processor time of the worker and its children, as the system reports it."""
        if seconds != self._processor:
            self._active_at = time.monotonic()
        self._processor = seconds
        if self._processor_before is None:
            self._processor_before = seconds

    def silence(self) -> float:
        """Return for how many seconds it has been silent, counted from the first check.

        While it works, its processor time counts, and a share of the clock, so a busy machine is
        not mistaken for a hang. If it sleeps, or its processor time is unknown, the clock counts.
        """
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = self._active_at = now
            # Earlier readings belong to earlier work.
            self._processor_before = None
        clock = now - self._silent_since
        if self._processor is None or now - self._active_at > ASLEEP_SECONDS:
            return clock
        before = self._processor if self._processor_before is None else self._processor_before
        # Several threads may use more than one second of the processor in a second.
        busy = min(self._processor - before, clock)
        return max(busy, clock / CLOCK_SHARE)

    def memory_bytes(self) -> int:
        """Return the memory of the worker in bytes; 0 if the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        except OSError:
            return 0
        return int(fields[1]) * _PAGE if len(fields) > 1 else 0

    def kill(self, cause: Cause, how: signal.Signals = signal.SIGKILL) -> None:
        """Kill the worker and all that it started; its pipe then closes."""
        self.killed_for = self.killed_for or cause
        self.signal_group(how)

    def signal_group(self, how: signal.Signals) -> None:
        """Send a signal to the worker and to all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, how)

    def log_tail(self) -> str:
        """Return the end of the output of the worker or its device."""
        try:
            text = self.log.read_bytes()[-LOG_TAIL:].decode(errors="replace")
        except OSError:
            return ""
        return printable(text.strip())

    def trim_log(self) -> None:
        """Empty the log if it is longer than anybody would read."""
        with contextlib.suppress(OSError):
            if self.log.stat().st_size > MAX_LOG_BYTES:
                os.truncate(self.log, 0)

    def reap(self) -> int:
        """Wait for the process to end, close its pipes, and return its exit code."""
        self.pipes.close()
        code = self.process.wait()
        self.log.unlink(missing_ok=True)
        return code


def describe_exit(code: int) -> str:
    """Describe how a process ended: by the name of the signal or the exit code."""
    if code >= 0:
        return f"the worker left with exit code {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"killed by signal {-code}"
    return f"killed by {number.name} ({signal.strsignal(number)})"


def worker_environment() -> dict[str, str]:
    """Return the environment of workers: ours, but with one thread each, and without search."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    # A search for each kernel would take hours, and results would depend on timing.
    return {**threads, **os.environ, "TINYREF_BEAM": "0"}


W = TypeVar("W", bound=WorkerProcess)


class Pool(Generic[W]):
    """The workers of a run, and one way to wait for any of them.

    module: the module that a worker runs, as `python -m` does.
    config: the first message to each worker.
    make: creates the parent's view of a worker from its process, its log and its pipes.
    """

    def __init__(
        self,
        module: str,
        config: Mapping[str, Any],
        make: Callable[[subprocess.Popen[bytes], Path, Pipes], W],
    ) -> None:
        self._module = module
        self._config = dict(config)
        self._make = make
        self.environment = worker_environment()
        self._selector = selectors.DefaultSelector()
        self._logs = tempfile.TemporaryDirectory(prefix="tinyref-workers-")
        self._started = 0
        self._next_check = self._next_reading = 0.0
        self._memory_kills = memory_kills()
        self.workers: list[W] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> W:
        """Start one more worker; it sends a message when it is ready."""
        self._started += 1
        log = Path(self._logs.name) / f"worker-{self._started}.log"
        # Its own folder, since a worker that is killed removes none of its files.
        temporary = _temporary_folder(log)
        temporary.mkdir()
        # Open to append, so that output after a trim begins at the new end.
        with log.open("ab") as file:
            process, pipes = start_process(
                self._module,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**self.environment, "TMPDIR": str(temporary)},
                start_new_session=True,  # killed as a group; Ctrl-C reaches only the main process
            )
        worker = self._make(process, log, pipes)
        worker.send(self._config)
        self._selector.register(worker.fileno(), selectors.EVENT_READ, worker)
        self.workers.append(worker)
        return worker

    def events(self, seconds: float) -> Iterator[tuple[W, Message | Death]]:
        """Yield what workers send within `seconds`, and how they end; then enforce limits."""
        for key, _ in self._selector.select(seconds):
            worker: W = key.data
            messages = worker.read()
            if messages is None:
                yield worker, self.remove(worker)
            elif worker.noise:
                # None of its messages can be trusted any more.
                worker.kill(Cause.NOISE)
            else:
                yield from ((worker, message) for message in messages)
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + LIMIT_TICK_SECONDS
        self._read_processor()
        for worker in self.workers:
            worker.enforce_limits()

    def _read_processor(self) -> None:
        """Tell each worker its processor time; a worker leads a session of its own."""
        if time.monotonic() < self._next_reading:
            return
        self._next_reading = time.monotonic() + PROCESSOR_TICK_SECONDS
        sessions = processor_seconds()
        for worker in self.workers:
            worker.note_processor(sessions.get(worker.process.pid, 0.0) if sessions else None)

    def remove(self, worker: W) -> Death:
        """Remove a worker whose pipe has closed, and return how it ended."""
        # Wait first: a signal now would change the exit code of a worker that is exiting.
        try:
            worker.process.wait(LEAVING_SECONDS)
        except subprocess.TimeoutExpired:
            worker.closed_pipe = not worker.killed_for
        # Processes that it started may still run.
        worker.signal_group(signal.SIGKILL)
        self._selector.unregister(worker.fileno())
        self.workers.remove(worker)
        log = worker.log_tail()
        shutil.rmtree(_temporary_folder(worker.log), ignore_errors=True)
        return self._death(worker, worker.reap(), log)

    def _death(self, worker: W, code: int, log: str) -> Death:
        words = worker.describe_end(code)
        if worker.killed_for or worker.closed_pipe or code != -signal.SIGKILL:
            return Death(worker.killed_for or Cause.EXIT, words, log)
        kills, self._memory_kills = self._memory_kills, memory_kills()
        if self._memory_kills > kills:
            words = f"out of memory: {words} by the system, as it held {worker.held >> 20} MiB"
        return Death(Cause.OTHERS, words, log)

    def close(self) -> None:
        """Kill all workers and remove the files of the run."""
        for worker in list(self.workers):
            worker.kill(Cause.DISMISSED)
            self.remove(worker)
        self._selector.close()
        self._logs.cleanup()


def _temporary_folder(log: Path) -> Path:
    """Return the folder for temporary files of the worker with this log."""
    return log.with_suffix("")


def start_process(module: str, **how: Any) -> tuple[subprocess.Popen[bytes], Pipes]:
    """Start a process that runs `module`, with a pipe in each direction."""
    incoming, outgoing = os.pipe(), os.pipe()
    pipes = Pipes(incoming[0], outgoing[1], secrets.token_hex(8))
    inside = (outgoing[0], incoming[1])
    try:
        command = python_command(module, *map(str, inside), pipes.mark)
        return subprocess.Popen(command, pass_fds=inside, **how), pipes
    except BaseException:
        pipes.close()
        raise
    finally:
        for pipe in inside:
            os.close(pipe)


@dataclass(frozen=True)
class Finished:
    """The end of a process on our terminal.

    answer: its last message; None if it ended without one.
    ending: how it ended, in words.
    code: its exit code; below 0 for a signal.
    """

    answer: Message | None
    ending: str
    code: int


def run_attached(module: str, config: Mapping[str, Any]) -> Finished:
    """Run `module` in a process on our terminal, and wait for its last message.

    It has our whole environment. Whatever the user's code does ends only that process.
    """
    process, pipes = start_process(module)
    worker = WorkerProcess(process, Path(os.devnull), pipes)
    with _signals_for(process):
        worker.send(config)
        answer = None
        while (messages := worker.read()) is not None:
            answer = messages[-1] if messages else answer
        code = process.wait()
    pipes.close()
    return Finished(None if worker.noise else answer, worker.describe_end(code), code)


@contextlib.contextmanager
def _signals_for(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave Ctrl-C to the child on our terminal within the block; ending us ends it too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if process.poll() is None:
            process.kill()
            process.wait()
