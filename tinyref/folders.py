"""Folders that long runs write to: their names, and before the run whether they can be written."""

from __future__ import annotations

import os
import shutil
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
        probe.write_bytes(bytes(4096))
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise UserError(f"{name}: cannot write to {folder}: {error.strerror or error}") from error
    if free < MIN_FREE_BYTES:
        raise UserError(
            f"{name}: only {free >> 20} MiB are free in {folder}, {MIN_FREE_BYTES >> 20} are needed"
        )
