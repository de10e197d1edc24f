"""Folders of cases: are all files readable, rightly named and clean.

A folder holds cases (`tinyref.case`), tensor programs (`tinyref.program`) and collections of
kernels (`tinyref.kernels`); all end in `.json`, and nothing else in the folder is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tinyref.errors import UserError
from tinyref_fuzz.corpus import keep
from tinyref_fuzz.findings.bucket import DEATHS
from tinyref_fuzz.findings.isolated import MAX_SECONDS, IsolatedJudge
from tinyref_fuzz.generate.corpus import collection
from tinyref_fuzz.programs.isolated import IsolatedProgramJudge
from tinyref_fuzz.programs.record import is_program
from tinyref_fuzz.programs.record import record_from_json as program_from_json
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import KernelCase, KernelVerdict, Symptom
from tinyref_spec.kernel_case.document import content_hash, record_from_json
from tinyref_spec.kernel_case.files import hash_in_name, read_json

# Cases and programs that found real bugs, and kernels of the model level.
SHIPPED = (regressions.FOLDER, keep.PROGRAMS, collection.SHIPPED)


@dataclass(frozen=True)
class FileProblem:
    """What is wrong with one file."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def files_of(folder: Path) -> list[Path]:
    """The files of a folder that end in `.json`, in order. Raises `UserError` for no folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None


def problems_of(folder: Path, device: str, seconds: float = MAX_SECONDS) -> Iterator[FileProblem]:
    """What is wrong with the files of a folder, which are replayed on `device`, one after another.

    Judging a file may take `seconds`. Raises `UserError` for what is no folder, and for a device
    that does not open once there is a case to judge.
    """
    with Judges(device, seconds) as judges:
        for path in files_of(folder):
            problem = problem_of(path, judges)
            if problem:
                yield FileProblem(path, problem)


class Judges:
    """Judges of cases and of programs on one device; a context manager.

    Each has a process of its own, which is started for the first that it judges.
    """

    def __init__(self, device: str, seconds: float) -> None:
        self.device = device
        self.kernels = IsolatedJudge(device, seconds)
        self.programs = IsolatedProgramJudge(device, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kernels.close()
        self.programs.close()

    def verdict(self, found: KernelCase | TensorProgram) -> KernelVerdict:
        """The verdict with every check."""
        if isinstance(found, TensorProgram):
            return self.programs.verdict(found)
        return self.kernels.verdict(found)


def problem_of(path: Path, judges: Judges) -> str:
    """What is wrong with one file, or nothing."""
    try:
        found = _found_in(path)
    except UserError as error:
        return str(error).removeprefix(f"{path}: ")
    except Exception as error:  # whatever is in one file, the others are looked at
        return f"cannot be read: {type(error).__name__}: {error}"
    if found is None:
        return ""
    verdict = judges.verdict(found)
    if verdict.symptom in DEATHS - {Symptom.HANG}:
        # It may be what the cases before it left in the process: in a new one it is alone.
        verdict = judges.verdict(found)
    if verdict.pair is None:
        return ""
    detail = verdict.detail.partition("\n")[0]
    return f"fails on {judges.device}, between {verdict.pair.value}: {detail}"


def _found_in(path: Path) -> KernelCase | TensorProgram | None:
    """What to judge; None for a collection of kernels. Raises `UserError` for a bad file."""
    data = read_json(path)
    if collection.is_collection(data):
        collection.kernels_from_json(data)
        return None
    if is_program(data):
        program = program_from_json(data).program
        _check_name(path, program.content_hash)
        return program
    case = record_from_json(data).case
    _check_name(path, content_hash(case))
    return case


def _check_name(path: Path, content: str) -> None:
    wanted = hash_in_name(path)
    if wanted is not None and wanted != content:
        raise UserError(f"its name says {wanted}, its content is {content}")
