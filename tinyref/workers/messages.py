"""Messages between a process and its workers: JSON lines that nothing else can be mistaken for.

Device code may write to any descriptor, so each message begins with a mark that only the two ends
know; whatever comes without it is noise, and is reported as that.
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

# A code that programs hardly choose for themselves.
EXIT_ORPHANED = 113
# Of what came between the messages so much is kept, to show.
MAX_NOISE = 200
_PR_SET_PDEATHSIG = 1

Message = dict[str, Any]


class MessageReader:
    """Takes the messages out of what comes through a pipe.

    noise: the beginning of what was no message; noise_bytes: how much there was of it.
    """

    def __init__(self, mark: str) -> None:
        self._start = f"{mark} ".encode()
        self._unread = b""
        self.noise = b""
        self.noise_bytes = 0

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole with these bytes."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        found = [message for line in lines if line and (message := self._message(line)) is not None]
        if not self._unread.startswith(self._start[: len(self._unread)]):
            # It is no beginning of a message, however it goes on.
            self._add_noise(self._unread)
            self._unread = b""
        return found

    def _message(self, line: bytes) -> Message | None:
        if line.startswith(self._start):
            with contextlib.suppress(ValueError, RecursionError):
                found = json.loads(line[len(self._start) :])
                if isinstance(found, dict):
                    return found
        self._add_noise(line)
        return None

    def _add_noise(self, data: bytes) -> None:
        self.noise_bytes += len(data)
        self.noise = (self.noise + data)[:MAX_NOISE]


def frame(mark: str, message: Mapping[str, Any]) -> bytes:
    """The bytes of a message; its leading newline ends whatever else was written before it."""
    return f"\n{mark} {json.dumps(message)}\n".encode()


class Channel:
    """The worker's end of the pipes: the parent's messages in order, and a way to answer.

    To be made before anything else is done: from then on the worker ends with its parent, and a
    fatal signal leaves the stack in the log. One that is `attached` shares the terminal of its
    parent, and takes Ctrl-C from there.
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

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends to the parent; where it is gone, or the pipe to it, the process ends."""
        data = frame(self._mark, message)
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._writer, data) :]
            except OSError:
                os._exit(EXIT_ORPHANED)

    def receive(self) -> Message:
        """The next message of the parent; waits for it."""
        return self._messages.get()

    def _read_all(self, reader: int) -> None:
        incoming = MessageReader(self._mark)
        with contextlib.suppress(OSError):
            while data := os.read(reader, 1 << 16):
                for message in incoming.feed(data):
                    self._messages.put(message)
        os._exit(EXIT_ORPHANED)


def _pipes_and_mark() -> tuple[int, int, str]:
    """The pipes and the mark that the parent gave on the command line."""
    try:
        reader, writer, mark = sys.argv[1:]
        pipes = int(reader), int(writer)
        for pipe in pipes:
            # What a device starts is not to hold them open.
            os.set_inheritable(pipe, False)
    except (ValueError, OSError):
        sys.exit(f"{sys.argv[0]}: a worker, which tinyref starts itself")
    return *pipes, mark


def _die_with_parent() -> None:
    # A device call that never lets other threads run would hide the closed pipe from us.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
