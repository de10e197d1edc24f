"""Folders for the output of long runs: their names, and a check before the run that they work."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tinyref.errors import UserError

MIN_FREE_BYTES = 16 << 20


def file_name(text: str) -> str:
    """Return `text` with a hyphen for every character that is no letter or digit."""
    return "".join(letter if letter.isalnum() else "-" for letter in text)


def prepare_folder(folder: Path, name: str) -> None:
    """Create the folder and prove that it can be written.

    Raises `UserError` with the purpose of the folder, its path and the problem.
    """
    # Runs that share a folder may probe it at the same time.
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            probe.write_bytes(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise UserError(f"{name}: cannot write to {folder}: {error.strerror or error}") from error
    if free < MIN_FREE_BYTES:
        raise UserError(
            f"{name}: only {free >> 20} MiB are free in {folder}, {MIN_FREE_BYTES >> 20} are needed"
        )


class RemovedError(UserError):
    """An error that ends a run: the file that it writes to was removed or moved."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(
            f"{name}: {path} was removed or moved during the run, which ends; "
            "if it was moved, it contains what was done until then"
        )


def is_removed(path: Path, before: os.stat_result) -> bool:
    """Return True if the file at `path` is no longer the one that `before` describes."""
    try:
        return not os.path.samestat(os.stat(path), before)
    except OSError:
        return True


def set_aside(files: Sequence[Path]) -> list[Path]:
    """Rename the files that exist to free names, and return these.

    The names are NAME.previous.EXT, or with one number for all if any such file exists. Raises
    `UserError` for a file that cannot be renamed.
    """
    existing = [file for file in files if os.path.lexists(file)]
    for number in itertools.count():
        targets = [
            file.with_name(f"{file.stem}.previous{number or ''}{file.suffix}") for file in existing
        ]
        if not any(os.path.lexists(target) for target in targets):
            break
    for file, target in zip(existing, targets, strict=True):
        try:
            file.replace(target)
        except OSError as error:
            raise UserError(
                f"folder: cannot rename {file} to {target}: {error.strerror}"
            ) from error
    return targets
