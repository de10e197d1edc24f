"""Check folders of cases: all files are readable, have the right name, and agree.

A folder holds cases (`tinyref.case`), tensor programs (`tinyref.program`) and collections of
kernels (`tinyref.kernels`). All end in `.json`; other files are ignored.
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

# Cases and programs that revealed real bugs, and kernels of the model level.
SHIPPED = (regressions.FOLDER, keep.PROGRAMS, collection.SHIPPED)


@dataclass(frozen=True)
class FileProblem:
    """Problem of one file."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def files_of(folder: Path) -> list[Path]:
    """Return the `.json` files of a folder, in order. Raises `UserError` if it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None


def problems_of(folder: Path, device: str, seconds: float = MAX_SECONDS) -> Iterator[FileProblem]:
    """Yield the problems of the files of a folder, which are judged on `device`.

    Judging a file may take `seconds`. Raises `UserError` if the folder cannot be read, and, if
    there is a case to judge, if the device does not open.
    """
    with Judges(device, seconds) as judges:
        for path in files_of(folder):
            problem = problem_of(path, judges)
            if problem:
                yield FileProblem(path, problem)


class Judges:
    """Judges of cases and of programs on one device; a context manager.

    Each has its own process, which starts when it is first used.
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

    def verdict(self, case: KernelCase | TensorProgram) -> KernelVerdict:
        """Return the verdict with every check."""
        if isinstance(case, TensorProgram):
            return self.programs.verdict(case)
        return self.kernels.verdict(case)


def problem_of(path: Path, judges: Judges) -> str:
    """Describe the problem of one file, or return ""."""
    try:
        case = _case_of(path)
    except UserError as error:
        return str(error).removeprefix(f"{path}: ")
    except Exception as error:  # one bad file must not hide the others
        return f"cannot be read: {type(error).__name__}: {error}"
    if case is None:
        return ""
    verdict = judges.verdict(case)
    if verdict.symptom in DEATHS - {Symptom.HANG}:
        # Earlier cases may have damaged the process: judge this one alone in a new one.
        verdict = judges.verdict(case)
    if verdict.pair is None:
        return ""
    detail = verdict.detail.partition("\n")[0]
    return f"fails on {judges.device}, between {verdict.pair.value}: {detail}"


def _case_of(path: Path) -> KernelCase | TensorProgram | None:
    """Return the case to judge; None for a collection. Raises `UserError` for a bad file."""
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
    expected = hash_in_name(path)
    if expected is not None and expected != content:
        raise UserError(f"its name says {expected}, its content is {content}")
