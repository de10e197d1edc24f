"""The journal: every result on disk before anything else knows it, so that kill -9 loses nothing.

One file of JSON lines in the report folder. Workers append their results to it themselves, one
`write` a line, and the main process reads them back from there: what it has shown is on disk. The
first line binds the journal to device, suite, profile, query and shard, and the one that follows,
when a worker has opened the device, to what it found there: versions, compiler, sources, flags.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tinyref.errors import UserError, printable_json
from tinyref.folders import RemovedError, free_path, is_removed, set_aside
from tinyref.foreign import json_value
from tinyref.runtimes.identity import differences
from tinyref_conformance.records import Record

NAME = "journal.jsonl"
WORKERS_LOCK = "journal.workers"
SCHEMA = 2
FSYNC_SECONDS = 1.0
LAST_BREATH_SECONDS = 10.0


class ChangedError(UserError):
    """What is there to resume is of another run, or of another state of the device."""


class Appender:
    """Appends lines to a journal; each process has its own."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, data: Mapping[str, Any]) -> None:
        """One line in one call, so that lines of several writers never mix.

        The leading newline ends a line that a killed writer left torn.
        """
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        # A vendor's words may hold what UTF-8 does not have.
        line = f"\n{printable_json(text)}\n".encode()
        written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(f"the disk took {written} of {len(line)} bytes")

    def sync(self) -> None:
        """Returns when the lines so far would survive a power loss."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class Journal:
    """The main process's side: binds, locks, reads what workers append, and appends its own.

    identity: what the device was when its first worker opened it; None before that.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity: dict[str, str] | None = None
        self._has_results = False
        self._offset = 0
        self._tail = b""
        self._appender = Appender(path)
        self._synced = time.monotonic()
        self._lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise UserError(f"report: another run is writing to {path.parent}") from error

    def close(self) -> None:
        """Lets go of the lock; what was written stays."""
        with contextlib.suppress(OSError):
            self._appender.sync()
        self._appender.close()
        os.close(self._lock)

    def check(self) -> None:
        """Raise `RemovedError` if the file is not where it was."""
        if is_removed(self.path, os.fstat(self._lock)):
            raise RemovedError("report", self.path)

    def restore(self) -> None:
        """Write all lines to the path again, if the file was removed or moved.

        Raises `UserError` if it cannot be written.
        """
        if not is_removed(self.path, os.fstat(self._lock)):
            return
        try:
            path = free_path(self.path)
            with self._reading() as file:
                path.write_bytes(file.read())
        except OSError as error:
            raise UserError(
                f"report: {self.path} was removed or moved during the run, and cannot be written "
                f"again: {error.strerror or error}"
            ) from error
        if path != self.path:
            raise UserError(
                f"report: {self.path} was replaced during the run: what was measured is in {path}"
            )

    def _reading(self) -> BinaryIO:
        """The file from its beginning, also where it was removed."""
        file = os.fdopen(os.dup(self._lock), "rb")
        file.seek(0)
        return file

    def bind(self, binding: Mapping[str, Any]) -> None:
        """The first line of a new journal."""
        self._appender.write({"journal": SCHEMA, "binding": dict(binding)})
        self._appender.sync()

    def bind_device(self, identity: Mapping[str, str]) -> None:
        """What the device is, before its first result.

        Raises `ChangedError` with each difference where the results that are there are of another.
        """
        if self.identity is None and self._has_results:
            raise ChangedError(f"the run in {self.path.parent} does not say of what device it is")
        if self.identity is None:
            self.identity = dict(identity)
            self._appender.write({"identity": self.identity})
        elif changes := differences(self.identity, identity):
            raise ChangedError(
                f"the results in {self.path.parent} are of another state of the device (then -> "
                f"now): {'; '.join(changes)}"
            )

    def append(self, record: Record) -> None:
        """A result that the main process knows and no worker could write: a crash, a timeout."""
        self._appender.write({"result": record.to_json()})

    def sync(self) -> None:
        """Flushes to the disk, at most once a second. Raises `RemovedError`."""
        if time.monotonic() - self._synced >= FSYNC_SECONDS:
            self.check()
            self._appender.sync()
            self._synced = time.monotonic()

    def read_new(self) -> list[Record]:
        """The results that were appended since the last call; a torn line is left out."""
        records = []
        for data in self._new_lines():
            identity = data.get("identity")
            if isinstance(identity, dict) and all(isinstance(x, str) for x in identity.values()):
                self.identity = identity
            with contextlib.suppress(ValueError):
                records.append(Record.from_json(data.get("result")))
        self._has_results = self._has_results or bool(records)
        return records

    def read_binding(self) -> dict[str, Any] | None:
        """The binding, where the journal has one."""
        for data in self._new_lines(first=True):
            binding = data.get("binding") if data.get("journal") == SCHEMA else None
            return binding if isinstance(binding, dict) else None
        return None

    def _new_lines(self, first: bool = False) -> list[dict[str, Any]]:
        with self._reading() as file:
            file.seek(self._offset)
            data = self._tail + (file.readline() + file.readline() if first else file.read())
            self._offset = file.tell()
        lines = data.split(b"\n")
        self._tail = lines.pop()
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                parsed = json_value(line) if line else None
                if isinstance(parsed, dict):
                    found.append(parsed)
        return found


def hold_as_worker(path: Path) -> int:
    """Says, for as long as this process lives, that a worker may still append to the journal."""
    descriptor = os.open(path.with_name(WORKERS_LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def wait_for_workers(path: Path) -> None:
    """Returns when no worker of an earlier, killed run can append any more.

    Raises `UserError` when one is still alive after a few seconds.
    """
    descriptor = os.open(path.with_name(WORKERS_LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    give_up = time.monotonic() + LAST_BREATH_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > give_up:
                    raise UserError(
                        f"report: a worker of an earlier run still writes to {path.parent}"
                    ) from error
                time.sleep(0.05)
            else:
                return
    finally:
        os.close(descriptor)


def start(
    path: Path,
    binding: Mapping[str, Any],
    resume: bool,
    reports: Sequence[Path] = (),
) -> Journal:
    """A journal ready for this run: a new one, or with `resume` the one that is there.

    A journal that is there and not resumed is kept beside the new one, and so are the `reports`
    that were made of it. Raises `UserError` when the journal to resume is missing, and
    `ChangedError` when it is not a journal or belongs to another run.
    """
    wait_for_workers(path)
    if not resume:
        return _fresh(path, binding, reports)
    if not path.exists():
        raise UserError(f"resume: there is no interrupted run in {path.parent}")
    journal = Journal(path)
    problem = _difference(journal.read_binding(), binding)
    if problem is None:
        return journal
    journal.close()
    raise ChangedError(f"the run in {path.parent} {problem}")


def _fresh(path: Path, binding: Mapping[str, Any], reports: Sequence[Path]) -> Journal:
    journal = Journal(path)
    is_empty = not path.stat().st_size
    # The lock stays with the renamed file, so the check above is for a run that is alive.
    if set_aside([*reports] if is_empty else [path, *reports]) and not is_empty:
        journal.close()
        journal = Journal(path)
    journal.bind(binding)
    return journal


def _difference(found: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> str | None:
    if found is None:
        return "has no readable journal"
    changes = [
        f"{key}: {found.get(key)} -> {value}"
        for key, value in wanted.items()
        if found.get(key) != value
    ]
    return f"is another one (then -> now): {'; '.join(changes)}" if changes else None
