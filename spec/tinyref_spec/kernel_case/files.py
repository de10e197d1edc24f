"""Files of cases: read with a limit, written whole or not at all, named by their content."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tinyref.errors import DeviceError, UserError
from tinyref.foreign import unique_members
from tinyref.runtimes.data_only import replace_file
from tinyref_spec.kernel_case.case import CaseRecord, KernelCase
from tinyref_spec.kernel_case.document import content_hash, record_from_json, record_text

MAX_FILE_BYTES = 1 << 25
_NAMED = re.compile(r".*-([0-9a-f]{12})\.json", re.ASCII | re.DOTALL)


def load_record(path: str | Path) -> CaseRecord:
    """Return the record in a file. Raises `UserError` with the path."""
    data = read_json(path)
    try:
        return record_from_json(data)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def save_record(path: str | Path, record: CaseRecord, stem: str = "case") -> Path:
    """Write a record to the file `path`, or into the folder `path`, and return the file's path.

    The file is written whole or not at all. In a folder its name is `stem-<hash of content>.json`,
    so several processes may write there: the same case has the same name. Raises `UserError` if it
    cannot be written.
    """
    target = Path(path)
    if target.is_dir():
        target /= file_name(stem, record.case)
    write_text(target, record_text(record))
    return target


def read_json(path: str | Path) -> object:
    """Return the JSON of a file: unique keys, no NaN, of limited size. Raises `UserError`."""
    try:
        if not Path(path).is_file():
            raise UserError(f"{path}: no such file")
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UserError(f"{path}: expected at most {MAX_FILE_BYTES} bytes, got more")
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=unique_members, parse_constant=_no_constant
        )
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is no JSON: {error}") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def write_text(path: str | Path, text: str) -> None:
    """Replace the file `path` by one with `text`, or leave it as it was. Raises `UserError`."""
    try:
        replace_file(str(path), [text.encode("utf-8")])
    except DeviceError as error:
        raise UserError(f"{path}: {error.message}") from None


def file_name(stem: str, case: KernelCase) -> str:
    """Return the name of a file in a shared folder: `stem-<hash of its content>.json`."""
    return f"{stem}-{content_hash(case)}.json"


def hash_in_name(path: str | Path) -> str | None:
    """Return the hash in the name of a file, None if it has none."""
    match = _NAMED.fullmatch(Path(path).name)
    return match[1] if match else None
