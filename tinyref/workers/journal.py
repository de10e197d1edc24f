"""The journal of a run: one SQLite file that survives kill -9 at any moment.

Every result of a worker is stored before it is displayed, and a resumed run continues from there.
One process writes to a journal and holds the lock of its folder meanwhile. Subclasses add the
tables of their results.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from tinyref.errors import UserError, printable
from tinyref.folders import RemovedError, is_removed, set_aside
from tinyref.foreign import json_value
from tinyref.workers.tasks import ChangedError, HarnessError, differences

VERSION = 1
# The member of the configuration that identifies the device of the results.
IDENTITY = "identity"
_CONFIG = "create table config (key text primary key, value text not null) without rowid"


class FileLock:
    """The lock of a file, created if missing, until it is released or the process ends.

    Raises `UserError` with `taken` if another process holds it, and with `option` if the file
    cannot be created.
    """

    def __init__(self, path: Path, option: str, taken: str) -> None:
        try:
            self._held = path.open("ab")
        except OSError as error:
            raise UserError(f"{option}: cannot write to {path.parent}: {error.strerror}") from error
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A process that just ended removes its file, and another may have made a new one.
            is_this = os.path.samestat(os.fstat(self._held.fileno()), path.stat())
        except (BlockingIOError, FileNotFoundError):
            is_this = False
        except OSError as error:
            self._held.close()
            raise UserError(f"{option}: cannot lock {path}: {error.strerror}") from error
        if not is_this:
            self._held.close()
            raise UserError(f"{option}: {taken}")
        self.path = path

    def release(self) -> None:
        """Remove the file while it is still locked, then release the lock."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._held.close()


class Journal:
    """The stored state of one run; lock its folder first.

    NAME: the name of the file.
    APPLICATION: the number that identifies its format.
    NOUN: the word for such a run.
    TABLES: the tables in addition to `config`; the first has a row as soon as there is a result.
    """

    NAME: ClassVar[str]
    APPLICATION: ClassVar[int]
    NOUN: ClassVar[str] = "run"
    TABLES: ClassVar[Mapping[str, str]]

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._file = path.stat()

    @classmethod
    def lock(cls, folder: Path) -> FileLock:
        """Lock a folder for one run. Raises `UserError` if another run has locked it."""
        taken = f"another {cls.NOUN} is writing to {folder}: give this one its own --out"
        return FileLock(folder / f"{cls.NAME}.lock", "out", taken)

    @classmethod
    def create(cls, folder: Path, config: Mapping[str, Any], pages: Sequence[str] = ()) -> Self:
        """Create a journal; an earlier one and its `pages` are renamed by `set_aside`.

        Raises `UserError` if the folder cannot be written, or if something else has the name.
        """
        path = folder / cls.NAME
        cls._keep_earlier(path, [folder / page for page in pages])
        try:
            connection = connect(path)
            with connection:
                connection.execute("begin")
                connection.execute(f"pragma application_id = {cls.APPLICATION}")
                connection.execute(f"pragma user_version = {VERSION}")
                connection.execute(_CONFIG)
                for name, columns in cls.TABLES.items():
                    connection.execute(f"create table {name} ({columns})")
                _remember(connection, config)
        except sqlite3.Error as error:
            raise UserError(f"out: cannot write {path}: {error}") from error
        return cls(path, connection)

    @classmethod
    def _keep_earlier(cls, path: Path, pages: Sequence[Path]) -> None:
        if not path.exists() or _is_blank(path):
            # The pages of a journal that was removed are still there.
            set_aside(pages)
            return
        earlier = cls.open(path.parent)
        try:
            is_worth_keeping = earlier.has_results()
            earlier.fold()
        finally:
            earlier.close()
        # While another program reads it, these remain, and the new journal would use them.
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        # A journal without results, as when no device opened, must not replace one with results.
        if is_worth_keeping:
            set_aside([path, *pages])
        else:
            path.unlink()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the journal of a folder. Raises `UserError` if it has none that can be read."""
        path = folder / cls.NAME
        if not path.exists():
            raise UserError(f"out: there is no {cls.NOUN} in {folder}")
        try:
            connection = connect(path)
            (application,) = connection.execute("pragma application_id").fetchone()
            (version,) = connection.execute("pragma user_version").fetchone()
            (problem,) = connection.execute("pragma quick_check(1)").fetchone()
            tables = {row[0] for row in connection.execute("select name from sqlite_master")}
        except (sqlite3.Error, ValueError) as error:
            reason = printable(str(error))
            raise UserError(f"out: {path} is damaged or not a journal: {reason}") from error
        refusal = ""
        if application != cls.APPLICATION:
            refusal = f"is not of a {cls.NOUN}"
        elif version != VERSION:
            refusal = f"is of version {version}, this tinyref reads {VERSION}"
        elif problem != "ok":
            refusal = f"is damaged: {problem}"
        elif not {"config", *cls.TABLES} <= tables:
            refusal = "is damaged: it lacks tables"
        if refusal:
            connection.close()
            raise UserError(f"out: {path} {refusal}: choose another --out, or move it away")
        return cls(path, connection)

    def has_results(self) -> bool:
        """Return True if there is any result."""
        with self.reading() as connection:
            table = next(iter(self.TABLES))
            return connection.execute(f"select 1 from {table}").fetchone() is not None

    def fold(self) -> None:
        """Move the log into the one file, also if another program has it open.

        Raises `UserError` if that program reads at this moment.
        """
        with self.reading() as connection:
            is_busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        if is_busy:
            raise UserError(
                f"out: {self.path} is read by another program: end that, or choose another --out"
            )

    def check(self) -> None:
        """Raise `RemovedError` if the file is not where it was."""
        if is_removed(self.path, self._file):
            raise RemovedError("out", self.path)

    def close(self) -> None:
        """Move the log into the one file; nothing is lost without this."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction; inner ones are a part of it.

        Raises `HarnessError` if it cannot be stored, as on a full disk; then nothing of the block
        is stored. Any other error, such as Ctrl-C, stores what the block did before it.
        """
        connection = self._connection
        if connection.in_transaction:
            yield connection
            return
        try:
            connection.execute("begin immediate")
            try:
                yield connection
            except (sqlite3.Error, OSError):
                raise
            except BaseException:
                connection.execute("commit")
                raise
            connection.execute("commit")
        except (sqlite3.Error, OSError) as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("rollback")
            raise HarnessError(f"cannot write {self.path}: {error}") from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Run the block; raise `UserError` if the content of the journal is damaged."""
        try:
            yield self._connection
        except (sqlite3.Error, ValueError, OverflowError) as error:
            reason = printable(str(error))
            raise UserError(f"out: {self.path} is damaged: {reason}") from error

    def config(self) -> dict[str, Any]:
        """Return the configuration that the run was started with."""
        with self.reading() as connection:
            rows = connection.execute("select key, value from config")
            return {text(key): json_value(value) for key, value in rows}

    def remember(self, settings: Mapping[str, Any]) -> None:
        """Add members to the configuration of the run, or replace them."""
        with self.writing() as connection:
            _remember(connection, settings)

    def bind_device(self, identity: Mapping[str, str]) -> None:
        """Store the identity of the device, before its first result.

        Raises `ChangedError` with each difference if the results belong to another state of it.
        """
        known = self.config().get(IDENTITY)
        if known is None and self.has_results():
            raise ChangedError(f"the {self.NOUN} in {self.path.parent} does not name its device")
        if known is None:
            self.remember({IDENTITY: dict(identity)})
        elif not isinstance(known, dict):
            raise ChangedError(f"the {self.NOUN} in {self.path.parent} names no device")
        elif changes := differences(known, identity):
            raise ChangedError(
                f"the {self.NOUN} in {self.path.parent} is of another state of the device "
                f"(then -> now): {'; '.join(changes)}"
            )


def connect(path: Path) -> sqlite3.Connection:
    """Open a file of SQLite so that stored data survive the death of any process."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    # After a power cut the last results may be measured again.
    connection.execute("pragma synchronous = normal")
    return connection


def _is_blank(path: Path) -> bool:
    """Return True for the file of a run that was killed before it created its first table."""
    try:
        with contextlib.closing(connect(path)) as connection:
            return connection.execute("select 1 from sqlite_master").fetchone() is None
    except (sqlite3.Error, UnicodeDecodeError):
        return False


def _remember(connection: sqlite3.Connection, settings: Mapping[str, Any]) -> None:
    rows = [(key, json.dumps(value)) for key, value in settings.items()]
    connection.executemany("insert or replace into config values (?, ?)", rows)


def text(value: object) -> str:
    """Return a text of a journal. Raises `ValueError` for anything else."""
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} where a text is expected")
    return value


def count(value: object) -> int:
    """Return a number of a journal. Raises `ValueError` for anything else."""
    if not isinstance(value, int):
        raise ValueError(f"a {type(value).__name__} where an integer is expected")
    return value
