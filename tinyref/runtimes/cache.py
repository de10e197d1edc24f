"""Compiled programs on disk: a SQLite file that many processes share and anyone may delete.

A cache is a convenience. Its problems never reach the caller: a damaged file, a full disk, a folder
without write access, a locked file. A damaged cache is rebuilt and an unusable one is bypassed,
with one warning. Its content is loaded and executed, so a cache that others may write to is
unusable too.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sqlite3
import stat
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import platformdirs

from tinyref import config
from tinyref.contract import Backend, BatchCompiler
from tinyref.device import is_ours
from tinyref.errors import DeviceError
from tinyref.sources import source_hash

# Part of the file's name and of every key: a new layout starts a new cache.
SCHEMA = 3

SIZE_LIMIT = 256 * 2**20
# A put over the limit evicts entries down to this part of it, so that not every put evicts.
PART_AFTER_EVICTION = 0.75
LOCK_SECONDS = 2.0
# A hit updates its time only this often: reading should not write.
TOUCH_SECONDS = 3600.0

# Suffixes of the files that SQLite writes next to its file.
_BESIDE = ("-wal", "-shm", "-journal")

T = TypeVar("T")

# SQLite forbids a forked child to close connections of its parent, so the child holds them.
_inherited: list[object] = []

_TABLE = """
CREATE TABLE IF NOT EXISTS programs (
    key TEXT PRIMARY KEY,
    used REAL NOT NULL,
    digest TEXT NOT NULL,
    binary BLOB NOT NULL
)
"""


class CompileCache:
    """Binaries by key, in one SQLite file in `folder`, of at most `size_limit` bytes in total."""

    def __init__(self, folder: Path, size_limit: int = SIZE_LIMIT) -> None:
        self.path = folder / f"programs-{SCHEMA}.sqlite"
        self.size_limit = size_limit
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._bypassed = False

    def get(self, key: str) -> bytes | None:
        """Return the binary of `key`, or None if the cache has none, or a damaged one."""
        return self._guarded(lambda connection: _fetch(connection, key))

    def put(self, key: str, binary: bytes) -> None:
        """Store `binary` under `key`; the least recently used entries go if there is too much."""
        self._guarded(lambda connection: _insert(connection, key, binary, self.size_limit))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._disconnect()

    def _guarded(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run `action`; a damaged file is rebuilt once, any other error bypasses the cache."""
        with self._lock:
            if self._bypassed:
                return None
            for attempt in (1, 2):
                try:
                    return action(self._connect())
                except sqlite3.OperationalError as error:
                    if "locked" in str(error) or "busy" in str(error):
                        return None
                    self._bypass(error)
                    return None
                except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                    # SQLite's message about damaged text may itself be invalid text.
                    self._disconnect()
                    if attempt == 2 or not self._remove(error):
                        self._bypass(error)
                except (OSError, ValueError) as error:
                    # An invalid path raises ValueError.
                    self._bypass(error)
                    return None
        return None

    def _connect(self) -> sqlite3.Connection:
        # A connection must not be used by a forked child: the child opens its own.
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        self._disconnect()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._claim()
        connection = sqlite3.connect(
            self.path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
        except sqlite3.Error:
            connection.close()
            raise
        self._connection = connection
        self._process = os.getpid()
        return connection

    def _claim(self) -> None:
        """Create the file, for us alone, if it is missing. Raises `OSError` if it is not ours."""
        _check_owned(self.path.parent, stat.S_ISDIR, "a folder")
        with contextlib.suppress(FileExistsError):
            # Files that SQLite writes next to it get the same rights.
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        for suffix in ("", *_BESIDE):
            with contextlib.suppress(FileNotFoundError):
                _check_owned(Path(f"{self.path}{suffix}"), stat.S_ISREG, "a file")

    def _disconnect(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        elif self._connection is not None:
            _inherited.append(self._connection)
        self._connection = None

    def _remove(self, error: Exception) -> bool:
        """Delete a damaged file; return False if even that fails."""
        warnings.warn(f"the compile cache {self.path} is rebuilt: {error}", stacklevel=6)
        try:
            for suffix in ("", *_BESIDE):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def _bypass(self, error: Exception) -> None:
        self._disconnect()
        self._bypassed = True
        warnings.warn(f"the compile cache {self.path} is not used: {error}", stacklevel=6)


def _check_owned(path: Path, is_kind: Callable[[int], bool], kind: str) -> None:
    """Raise `OSError` unless `path` is of the right kind and only we may write to it."""
    if not hasattr(os, "geteuid"):
        return
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise OSError(f"{path} is a symbolic link")
    if not is_kind(status.st_mode):
        raise OSError(f"{path} is not {kind}")
    if status.st_uid != os.geteuid():
        raise OSError(f"{path} belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(f"{path} may be written by others: chmod go-w makes it private")


def _fetch(connection: sqlite3.Connection, key: str) -> bytes | None:
    row = connection.execute(
        "SELECT binary, digest, CAST(used AS REAL) FROM programs WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    binary, digest, used = row
    if not isinstance(binary, bytes) or _digest(key, binary) != digest:
        # Loading a damaged object file could crash the process; compiling again cannot.
        connection.execute("DELETE FROM programs WHERE key = ?", (key,))
        return None
    if time.time() - used > TOUCH_SECONDS:
        connection.execute("UPDATE programs SET used = ? WHERE key = ?", (time.time(), key))
    return binary


def _digest(key: str, binary: bytes) -> str:
    """Hash key and binary: the binary of another key is as wrong as a damaged one."""
    return hashlib.sha256(key.encode() + binary).hexdigest()


def _insert(connection: sqlite3.Connection, key: str, binary: bytes, size_limit: int) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO programs (key, used, digest, binary) VALUES (?, ?, ?, ?)",
        (key, time.time(), _digest(key, binary), binary),
    )
    size = _bytes_in_use(connection)
    if size > size_limit:
        _evict(connection, size, int(size_limit * PART_AFTER_EVICTION))


def _bytes_in_use(connection: sqlite3.Connection) -> int:
    """Count the pages of the file: a sum over all entries would read them all at every put."""
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _evict(connection: sqlite3.Connection, size: int, limit: int) -> None:
    """Delete the least recently used entries until at most `limit` bytes remain."""
    oldest = connection.execute("SELECT key, length(binary) FROM programs ORDER BY used").fetchall()
    gone = []
    for key, length in oldest:
        if size <= limit:
            break
        gone.append((key,))
        size -= length
    with connection:
        connection.executemany("DELETE FROM programs WHERE key = ?", gone)


_open: dict[Path, CompileCache] = {}


def _leave_to_parent() -> None:
    """Let a child open its own files: a thread of its parent may hold their locks."""
    _inherited.extend(_open.values())
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def cache_folder() -> Path:
    """Return the folder of compiled programs: the flag CACHE_DIR, or the user's cache folder."""
    chosen = config.text("CACHE_DIR")
    return Path(os.path.expanduser(chosen) or platformdirs.user_cache_dir("tinyref"))


def default_cache() -> CompileCache:
    """Return the cache of the folder that the flags name now."""
    folder = cache_folder()
    cache = _open.get(folder)
    if cache is None:
        cache = _open[folder] = CompileCache(folder)
    return cache


def cache_key(backend: Backend, source: str) -> str:
    """Return the key of a binary: a hash of all that decides it.

    A vendor's backend adds its own sources, because developers do not count versions.
    """
    # The class behind a guard, if there is one.
    sources = _sources_of(backend.__class__)
    parts = json.dumps([SCHEMA, backend.compiler.key, sources, source])
    return hashlib.sha256(parts.encode()).hexdigest()


@functools.cache
def _sources_of(backend: type[Backend]) -> str:
    """Return the hash of the loaded code; it is constant while the process lives."""
    return "" if is_ours(backend.__module__) else source_hash(backend)


# Results of `compile_together` that are not loaded yet, by key.
_compiled_together: dict[str, bytes] = {}


def cached_binary(backend: Backend, source: str) -> bytes | None:
    """Return a binary of `source` from `compile_together`, or else from the disk.

    The disk is used if the flag CACHE is not 0; its errors are never raised.
    """
    if not config.integer("CACHE") and not _compiled_together:
        return None
    key = cache_key(backend, source)
    binary = _compiled_together.pop(key, None)
    if binary is not None or not config.integer("CACHE"):
        return binary
    return default_cache().get(key)


def compile_together(backend: Backend, sources: Sequence[str]) -> int:
    """Compile the sources that no cache has in one call; return their number.

    Sources that fail are left out: a later request for one raises its error. Unused results of an
    earlier call are dropped. Raises as `compile_many` does.
    """
    _compiled_together.clear()
    compiler = backend.compiler
    if not isinstance(compiler, BatchCompiler):
        return 0
    missing = {cache_key(backend, source): source for source in sources}
    if config.integer("CACHE"):
        # If the binary is the source itself, `load` still compiles it.
        missing = {
            key: text
            for key, text in missing.items()
            if default_cache().get(key) in (None, text.encode())
        }
    if not missing:
        return 0
    results = compiler.compile_many(list(missing.values()))
    for key, result in zip(missing, results, strict=True):
        if isinstance(result, DeviceError):
            continue
        _compiled_together[key] = result
        if config.integer("CACHE"):
            default_cache().put(key, result)
    return len(missing)


def recompile(backend: Backend, source: str) -> bytes:
    """Compile `source` now, and replace the entry of the cache.

    Raises `DeviceError` as the compiler does.
    """
    binary = backend.compiler.compile(source)
    if config.integer("CACHE"):
        default_cache().put(cache_key(backend, source), binary)
    return binary
