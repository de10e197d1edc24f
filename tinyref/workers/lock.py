"""One process at a time: a file that is locked for as long as somebody works on what it is of."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from tinyref.errors import UserError


class FileLock:
    """Holds the lock of a file, made where it is missing, until it is released or the process ends.

    Raises `UserError` with `taken` where another one holds it, and with `option` where the file
    cannot be made.
    """

    def __init__(self, path: Path, option: str, taken: str) -> None:
        try:
            self._held = path.open("ab")
        except OSError as error:
            raise UserError(f"{option}: cannot write to {path.parent}: {error.strerror}") from error
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that has just ended takes its file away, and the next may have made another.
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
        """Takes the file away, while it is still held, and lets go of it."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._held.close()
