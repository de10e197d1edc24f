"""Messages between a process and its workers: JSON lines that no other output can imitate.

Device code may write to any descriptor, so each message begins with a mark that only the two ends
know. Anything without it is noise and is reported as noise.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

# An exit code that programs rarely use.
EXIT_ORPHANED = 113
# Bytes of the noise between messages that are stored for display.
MAX_NOISE = 200
_PR_SET_PDEATHSIG = 1

Message = dict[str, Any]


class MessageReader:
    """Extracts the messages from the bytes of a pipe.

    noise: the beginning of what was not a message.
    noise_bytes: its length in all.
    """

    def __init__(self, mark: str) -> None:
        self._start = f"{mark} ".encode()
        self._unread = b""
        self.noise = b""
        self.noise_bytes = 0

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that these bytes complete."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        messages = [
            message for line in lines if line and (message := self._message(line)) is not None
        ]
        if not self._unread.startswith(self._start[: len(self._unread)]):
            # However it continues, it is not a message.
            self._add_noise(self._unread)
            self._unread = b""
        return messages

    def _message(self, line: bytes) -> Message | None:
        if line.startswith(self._start):
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(line[len(self._start) :])
                if isinstance(message, dict):
                    return message
        self._add_noise(line)
        return None

    def _add_noise(self, data: bytes) -> None:
        self.noise_bytes += len(data)
        self.noise = (self.noise + data)[:MAX_NOISE]


def frame(mark: str, message: Mapping[str, Any]) -> bytes:
    """Return the bytes of a message; its leading newline ends anything written before it."""
    return f"\n{mark} {json.dumps(message)}\n".encode()


class Channel:
    """The worker's end of the pipes: the parent's messages in order, and a way to answer.

    Create it before anything else: from then on the worker ends with its parent, and a fatal
    signal writes the stack to the log. An `attached` worker shares the terminal of its parent and
    receives Ctrl-C from there.
    """

    def __init__(self, attached: bool = False) -> None:
        reader, self._writer, self._mark = _pipes_and_mark()
        faulthandler.enable()
        _die_with_parent()
        if not attached:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._lock = threading.Lock()
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        threading.Thread(target=self._read_all, args=(reader,), daemon=True).start()

    def send(self, *messages: Mapping[str, Any]) -> None:
        """Send messages to the parent; the process ends if the parent or the pipe is gone."""
        data = b"".join(frame(self._mark, message) for message in messages)
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._writer, data) :]
            except OSError:
                os._exit(EXIT_ORPHANED)

    def receive(self) -> Message:
        """Wait for the next message of the parent and return it."""
        return self._messages.get()

    def _read_all(self, reader: int) -> None:
        incoming = MessageReader(self._mark)
        with contextlib.suppress(OSError):
            while data := os.read(reader, 1 << 16):
                for message in incoming.feed(data):
                    self._messages.put(message)
        os._exit(EXIT_ORPHANED)


def _pipes_and_mark() -> tuple[int, int, str]:
    """Return the pipes and the mark from the command line."""
    try:
        reader, writer, mark = sys.argv[1:]
        pipes = int(reader), int(writer)
        for pipe in pipes:
            # Processes that a device starts must not hold them open.
            os.set_inheritable(pipe, False)
    except (ValueError, OSError):
        sys.exit(f"{sys.argv[0]}: a worker, which tinyref starts itself")
    return *pipes, mark


def _die_with_parent() -> None:
    # If a device call blocks all other threads, ours cannot notice the closed pipe.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
