"""Read and write files of programs: a program and its verdict, as versioned JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyref import __version__
from tinyref.errors import UserError
from tinyref_fuzz.programs.steps import TensorProgram, program_from_json, program_to_json
from tinyref_spec.kernel_case import Blame, KernelVerdict
from tinyref_spec.kernel_case.document import (
    blame_from_json,
    blame_to_json,
    verdict_from_json,
    verdict_to_json,
)
from tinyref_spec.kernel_case.files import read_json, write_text
from tinyref_spec.kernel_case.members import read_object, read_text, read_word
from tinyref_spec.kernel_case.stable_text import stable_text

SCHEMA = "tinyref.program"
VERSION = 1
_MEMBERS = ("schema", "version", "tinyref", "note", "device", "verdict", "blame", "program")


@dataclass(frozen=True)
class ProgramRecord:
    """A program with its verdict; the members are those of a `CaseRecord`."""

    program: TensorProgram
    note: str = ""
    verdict: KernelVerdict | None = None
    blame: Blame | None = None
    device: str = ""
    written_by: str = __version__


def is_program(data: object) -> bool:
    """Return True if the JSON declares itself a program."""
    return isinstance(data, Mapping) and data.get("schema") == SCHEMA


def record_to_json(record: ProgramRecord) -> dict[str, Any]:
    """Return the record as a dict for `json.dumps`."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "tinyref": record.written_by,
        "note": record.note,
        "device": record.device,
        "verdict": None if record.verdict is None else verdict_to_json(record.verdict),
        "blame": None if record.blame is None else blame_to_json(record.blame),
        "program": program_to_json(record.program),
    }


def record_from_json(data: object) -> ProgramRecord:
    """Return the record that `record_to_json` wrote. Raises `UserError` for other data."""
    top = read_object(data, "program file", _MEMBERS)
    if top["schema"] != SCHEMA or top["version"] != VERSION:
        raise UserError(
            f"program file: schema {top['schema']!r}, version {top['version']!r}: accepted is "
            f"{SCHEMA}, version {VERSION}"
        )
    return ProgramRecord(
        program_from_json(top["program"]),
        read_text(top["note"], "note"),
        None if top["verdict"] is None else verdict_from_json(top["verdict"]),
        None if top["blame"] is None else blame_from_json(top["blame"]),
        read_word(top["device"], "device"),
        read_word(top["tinyref"], "tinyref"),
    )


def load_program(path: Path) -> ProgramRecord:
    """Return the record of a file. Raises `UserError` with the path."""
    data = read_json(path)
    try:
        return record_from_json(data)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def save_program(path: Path, record: ProgramRecord) -> Path:
    """Write a record to a file, or into a folder, named by the hash of its steps; return the path.

    The file is written atomically. Raises `UserError` if that fails.
    """
    target = path / f"program-{record.program.content_hash}.json" if path.is_dir() else path
    write_text(target, stable_text(record_to_json(record)))
    return target
