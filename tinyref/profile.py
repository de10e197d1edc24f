"""A trace of what this process did and when, which Perfetto and chrome://tracing open.

TINYREF_PROFILE=trace.json writes it when the process ends: schedules, compiles, copies and kernels,
a track for each thread of the host and one for each device. The format is that of Chrome ("Trace
Event Format": complete events and metadata events).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinyref import config
from tinyref.errors import printable

HOST = "host"
# Further events are only counted: viewers cannot hold more.
MAX_EVENTS = 1_000_000


class Trace:
    """The events of one process; {pid} in `path` is replaced by the number of the process."""

    def __init__(self, path: str) -> None:
        self.path = Path(path.replace("{pid}", str(os.getpid())))
        self.started = time.perf_counter()
        self.left_out = 0
        self._events: list[dict[str, Any]] = []
        self._tracks: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(
        self, track: str, kind: str, name: str, end: float, seconds: float, **facts: Any
    ) -> None:
        """Add an event that ended at `end` of time.perf_counter and took `seconds`."""
        with self._lock:
            if len(self._events) >= MAX_EVENTS:
                self.left_out += 1
                return
            self._events.append(
                {
                    **{"ph": "X", "pid": 1, "tid": self._number(track), "cat": kind, "name": name},
                    "ts": round((end - seconds - self.started) * 1e6, 3),
                    "dur": round(seconds * 1e6, 3),
                    "args": facts,
                }
            )

    def _number(self, track: str) -> int:
        return self._tracks.setdefault(track, len(self._tracks) + 1)

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file: the names of the tracks, and the events."""
        named = [("process_name", 0, "tinyref")]
        named += [("thread_name", number, track) for track, number in self._tracks.items()]
        metadata = [
            {"ph": "M", "pid": 1, "tid": number, "name": kind, "args": {"name": name}}
            for kind, number, name in named
        ]
        return {
            "traceEvents": [*metadata, *self._events],
            "displayTimeUnit": "ms",
            "otherData": {"left_out": self.left_out},
        }

    def write(self) -> None:
        """Rewrite the file; if that fails, print the error and go on."""
        try:
            self.path.write_text(json.dumps(self.to_json()), encoding="utf-8")
        except (OSError, ValueError) as error:
            # An invalid path raises ValueError.
            reason = error.strerror if isinstance(error, OSError) else error
            words = printable(f"tinyref: PROFILE: cannot write {self.path}: {reason}")
            print(words, file=sys.stderr)  # noqa: T201  the program has ended


_traces: dict[str, Trace] = {}


def active_trace() -> Trace | None:
    """Return the trace that the flag PROFILE asks for; None if it is empty."""
    path = config.text("PROFILE")
    if not path:
        return None
    if path not in _traces:
        if not _traces:
            atexit.register(write_traces)
            if hasattr(os, "register_at_fork"):
                # A child starts without the events of its parent.
                os.register_at_fork(after_in_child=_traces.clear)
        _traces[path] = Trace(path)
    return _traces[path]


def write_traces() -> None:
    """Write the traces of this process as they are now."""
    for trace in _traces.values():
        trace.write()


@contextlib.contextmanager
def span(kind: str, name: str, **facts: Any) -> Iterator[None]:
    """Record the time of the block on the track of its thread, also if it ends in an error."""
    trace = active_trace()
    if trace is None:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        end = time.perf_counter()
        trace.add(_own_track(), kind, name, end, end - began, **facts)


def _own_track() -> str:
    """Return the track of this thread: events of one track must nest, so threads share none."""
    thread = threading.current_thread()
    return HOST if thread is threading.main_thread() else f"{HOST}, {thread.name}"
