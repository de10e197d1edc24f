"""Folders that long runs write to: their names, and before the run whether they can be written."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tinyref.errors import UserError

MIN_FREE_BYTES = 16 << 20


def file_name(text: str) -> str:
    """`text` with a hyphen for whatever is neither a letter nor a digit, to name a folder by."""
    return "".join(letter if letter.isalnum() else "-" for letter in text)


def prepare_folder(folder: Path, name: str) -> None:
    """Makes the folder and proves that it can be written.

    Raises `UserError` naming what it is for, the folder, and what is wrong with it.
    """
    # Runs that share a folder may look at the same time.
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
    """The file that a run writes to was removed or moved, which ends the run."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(
            f"{name}: {path} was removed or moved during the run, which ends: what was done is in "
            "it, if it was moved"
        )


def is_removed(path: Path, before: os.stat_result) -> bool:
    """Return True if the file at `path` is not the one of `before` any more."""
    try:
        return not os.path.samestat(os.stat(path), before)
    except OSError:
        return True


def set_aside(files: Sequence[Path]) -> list[Path]:
    """Renames the files that are there, all alike, to names that are free, and returns these.

    They are NAME.previous.EXT, or with a number where a file of that name exists. Raises
    `UserError` naming a file that cannot be renamed.
    """
    there = [file for file in files if os.path.lexists(file)]
    for number in itertools.count():
        targets = [
            file.with_name(f"{file.stem}.previous{number or ''}{file.suffix}") for file in there
        ]
        if not any(os.path.lexists(target) for target in targets):
            break
    for file, target in zip(there, targets, strict=True):
        try:
            file.replace(target)
        except OSError as error:
            raise UserError(f"folder: cannot keep {file} as {target}: {error.strerror}") from error
    return targets
