"""Processes of our own: start, talk by messages, limit, kill, and say how each ended.

The parent gives each worker a pipe each way and its own session, so that a worker is killed with
all that it started. What a worker or its device prints goes to a log, never between the messages.
No process imports from the folder in which it happens to be started.
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
# A worker may print for days: its log begins anew where it is longer.
MAX_LOG_BYTES = 16 << 20
# Between the end of a worker's pipe and the end of the worker.
LEAVING_SECONDS = 2.0
# Workers send thousands of messages a second: their limits are enforced once in so long.
LIMIT_TICK_SECONDS = 0.1
# The processor time of all workers is read from the system once in this many seconds.
PROCESSOR_TICK_SECONDS = 1.0
# A worker without any processor time for this long sleeps: others never keep it away so long.
ASLEEP_SECONDS = 3.0
# By the clock a worker may take this many times its seconds, if it uses the processor now and then.
CLOCK_SHARE = 6.0
# Between the signal that leaves the stack in the log, and the one that nothing survives.
LAST_WORDS_SECONDS = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE")

# Python puts the folder of a script or, with -m, the current one before its own library: -P leaves
# that out. What the parent imports from besides comes last, so that nothing there hides a module.
_START = (
    f"import gc, sys; gc.set_threshold(*{GARBAGE_THRESHOLD}); "
    "_, module, folders, *words = sys.argv; sys.argv = [module, *words]; "
    f"sys.path += [each for each in folders.split({os.pathsep!r}) if each not in sys.path]; "
    "import runpy; runpy.run_module(module, run_name='__main__', alter_sys=True)"
)


def python_command(module: str, *words: str) -> list[str]:
    """The command that runs `module` as a program, in a Python that imports what this one does."""
    folders = dict.fromkeys(os.path.abspath(entry) for entry in sys.path)
    return [sys.executable, "-P", "-c", _START, module, os.pathsep.join(folders), *words]


@dataclass
class Pipes:
    """The parent's ends of the pipes to one worker, and the mark of their messages."""

    reader: int
    writer: int
    mark: str

    def close(self) -> None:
        """Closes both."""
        for pipe in (self.reader, self.writer):
            with contextlib.suppress(OSError):
                os.close(pipe)
        self.reader = self.writer = -1


@dataclass(frozen=True)
class Limits:
    """Limits of a worker: seconds until the next message comes, and bytes of memory.

    The seconds are those of `WorkerProcess.silence`.
    """

    seconds: float = math.inf
    memory: float = math.inf
    awaited: str = "end"


UNLIMITED = Limits()


class Cause(Enum):
    """Why a worker ended."""

    EXIT = "it left, or died of a signal"
    OTHERS = "somebody else killed it, perhaps the system for want of memory"
    NOISE = "it wrote to a descriptor that is not its own"
    TIMEOUT = "it was silent for longer than it may be"
    MEMORY = "it held more than it may"
    DISMISSED = "it was needed no longer"


@dataclass(frozen=True)
class Death:
    """How a worker ended: why, in words, and the end of what it or its device printed."""

    cause: Cause
    words: str
    log: str = ""

    @property
    def detail(self) -> str:
        """The words and the log."""
        return f"{self.words}\n{self.log}".strip()


@dataclass
class WorkerProcess:
    """One worker as the parent sees it.

    is_open: it has sent that it can work. limits: what it may take now. held: the bytes that it
    held when it was looked at last. killed_for: why we killed it, None if we did not. closed_pipe:
    it closed its pipe, and went on.
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
    # None where the system does not say; then the clock alone counts.
    _processor: float | None = None
    # At the first reading after the silence began; None until then.
    _processor_before: float | None = None
    _active_at: float = 0.0
    _aborted_at: float | None = None

    def __post_init__(self) -> None:
        self._incoming = MessageReader(self.pipes.mark)

    def fileno(self) -> int:
        return self.pipes.reader

    def send(self, message: Mapping[str, Any]) -> None:
        """A dead worker shows when it is read from, so a broken pipe is no error here."""
        data = frame(self.pipes.mark, message)
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self.pipes.writer, data) :]

    def read(self) -> list[Message] | None:
        """The messages that came; None at the end of the pipe."""
        data = os.read(self.fileno(), 1 << 16)
        return self._incoming.feed(data) if data else None

    @property
    def noise(self) -> str:
        """What it or its device wrote between the messages, in words; empty for nothing."""
        if not self._incoming.noise_bytes:
            return ""
        return (
            f"it wrote {self._incoming.noise_bytes} bytes to a descriptor that is not its own: "
            f"{self._incoming.noise!r}"
        )

    def describe_end(self, code: int) -> str:
        """How it ended, in words."""
        if self.noise:
            return self.noise
        if self.killed_for is Cause.TIMEOUT:
            return f"no {self.limits.awaited} within {self.limits.seconds:g} s"
        if self.killed_for is Cause.MEMORY:
            return f"the worker held over {int(self.limits.memory) >> 20} MiB"
        # A worker thinks that we are gone where its pipe is.
        if self.closed_pipe or (code == EXIT_ORPHANED and not self.killed_for):
            return "it closed a descriptor that is not its own"
        return describe_exit(code)

    def limit(self, limits: Limits) -> None:
        """Sets what it may take from now on."""
        self.limits = limits
        self.reset_silence()

    def reset_silence(self) -> None:
        """Begins to count the silence of the worker anew."""
        self._silent_since = None

    def enforce_limits(self) -> None:
        """Kills the worker where it is over its limits, and trims its log."""
        self.trim_log()
        if self._aborted_at is not None:
            if time.monotonic() - self._aborted_at > LAST_WORDS_SECONDS:
                self.kill(Cause.TIMEOUT)
        elif self.killed_for:
            return
        elif self.silence() > self.limits.seconds:
            # With this signal the log gets the stack, which shows where it hangs.
            self.kill(Cause.TIMEOUT, signal.SIGABRT)
            self._aborted_at = time.monotonic()
        elif self.limits.memory < math.inf:
            self.held = self.memory_bytes()
            if self.held > self.limits.memory:
                self.kill(Cause.MEMORY)

    def note_processor(self, seconds: float | None) -> None:
        """Take the processor time of the worker and its children, as the system says it now."""
        if seconds != self._processor:
            self._active_at = time.monotonic()
        self._processor = seconds
        if self._processor_before is None:
            self._processor_before = seconds

    def silence(self) -> float:
        """Return for how many seconds it has been silent, counted from the first look.

        While it works, its processor time counts, and a share of the clock: a busy machine is not
        mistaken for a hang. If it sleeps, or nobody knows its processor time, the clock counts.
        """
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = self._active_at = now
            # What was read before belongs to earlier work.
            self._processor_before = None
        clock = now - self._silent_since
        if self._processor is None or now - self._active_at > ASLEEP_SECONDS:
            return clock
        before = self._processor if self._processor_before is None else self._processor_before
        # Several threads may use more than one second of the processor in a second.
        busy = min(self._processor - before, clock)
        return max(busy, clock / CLOCK_SHARE)

    def memory_bytes(self) -> int:
        """What the worker holds in memory now; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        except OSError:
            return 0
        return int(fields[1]) * _PAGE if len(fields) > 1 else 0

    def kill(self, cause: Cause, how: signal.Signals = signal.SIGKILL) -> None:
        """Ends the worker and all that it started; its pipe then closes."""
        self.killed_for = self.killed_for or cause
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
        return printable(text.strip())

    def trim_log(self) -> None:
        """Drops what the worker printed, where it is more than anybody will read."""
        with contextlib.suppress(OSError):
            if self.log.stat().st_size > MAX_LOG_BYTES:
                os.truncate(self.log, 0)

    def reap(self) -> int:
        """Waits for the process to end, closes its pipes, and returns its exit code."""
        self.pipes.close()
        code = self.process.wait()
        self.log.unlink(missing_ok=True)
        return code


def describe_exit(code: int) -> str:
    """How a process ended: the signal by name, or the exit code."""
    if code >= 0:
        return f"the worker left with exit code {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"killed by signal {-code}"
    return f"killed by {number.name} ({signal.strsignal(number)})"


def worker_environment() -> dict[str, str]:
    """What workers get of our environment: many of them with many threads each would be slow."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    # A search for each kernel would take hours, and make a result depend on what was fast.
    return {**threads, **os.environ, "TINYREF_BEAM": "0"}


W = TypeVar("W", bound=WorkerProcess)


class Pool(Generic[W]):
    """The workers of a run, and one place to wait for any of them.

    module: what a worker runs, as of `python -m`. config: the first message to each. make: the
    parent's view of a worker, from its process, its log and the pipes to it.
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
        """One more worker; it says by a message of its own when it is ready."""
        self._started += 1
        log = Path(self._logs.name) / f"worker-{self._started}.log"
        # Of its own: it is killed, or leaves at once, without taking away what it has there.
        temporary = _temporary_folder(log)
        temporary.mkdir()
        # To append, so that what follows a log that was trimmed begins at its new end.
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
        """What workers send within `seconds`, and how they ended; then enforces their limits."""
        for key, _ in self._selector.select(seconds):
            worker: W = key.data
            messages = worker.read()
            if messages is None:
                yield worker, self.remove(worker)
            elif worker.noise:
                # Nothing that it says is to be trusted any more.
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
        """Forgets a worker whose pipe has closed, and says how it ended."""
        # One that leaves by itself is to give its own exit code, which a signal now would change.
        try:
            worker.process.wait(LEAVING_SECONDS)
        except subprocess.TimeoutExpired:
            worker.closed_pipe = not worker.killed_for
        # It may leave behind what it started.
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
        """Kills what is left; nothing of the run stays behind."""
        for worker in list(self.workers):
            worker.kill(Cause.DISMISSED)
            self.remove(worker)
        self._selector.close()
        self._logs.cleanup()


def _temporary_folder(log: Path) -> Path:
    """Where the worker of a log, and what it starts, has its temporary files."""
    return log.with_suffix("")


def start_process(module: str, **how: Any) -> tuple[subprocess.Popen[bytes], Pipes]:
    """A process that runs `module`, with a pipe each way."""
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
    """What a process on our terminal has come to.

    answer: its last message, None where it ended without one. ending: how it ended, in words.
    code: its exit code, below 0 for a signal.
    """

    answer: Message | None
    ending: str
    code: int


def run_attached(module: str, config: Mapping[str, Any]) -> Finished:
    """Runs `module` in a process that has our terminal, and waits for what it says at its end.

    It has all of our environment. Whatever its user's code does ends that process alone.
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
    """Within it Ctrl-C is for the child, which has the same terminal, and to end us ends it."""
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
