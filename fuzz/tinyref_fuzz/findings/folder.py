"""Folders of cases: are all files readable, rightly named and clean; old ones brought up to date.

A folder holds cases (`tinyref.case`) and collections of kernels (`tinyref.kernels`); both end in
`.json`, and nothing else in the folder is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tinyref.errors import UserError
from tinyref_fuzz.findings.bucket import DEATHS
from tinyref_fuzz.findings.isolated import MAX_SECONDS, IsolatedJudge
from tinyref_fuzz.generate.corpus import collection
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import Case, Symptom
from tinyref_spec.kernel_case.document import content_hash, record_from_json
from tinyref_spec.kernel_case.files import hash_in_name, read_json, save_record
from tinyref_spec.kernel_case.migrate import is_present

# Cases that found real bugs, which the spec suite runs, and kernels of the model level.
SHIPPED = (regressions.FOLDER, collection.SHIPPED)


@dataclass(frozen=True)
class Problem:
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


def problems_of(folder: Path, device: str, seconds: float = MAX_SECONDS) -> Iterator[Problem]:
    """What is wrong with the files of a folder, which are replayed on `device`, one after another.

    Judging a file may take `seconds`. Raises `UserError` for what is no folder, and for a device
    that does not open once there is a case to judge.
    """
    with IsolatedJudge(device, seconds) as judge:
        for path in files_of(folder):
            problem = problem_of(path, judge)
            if problem:
                yield Problem(path, problem)


def problem_of(path: Path, judge: IsolatedJudge) -> str:
    """What is wrong with one file, or nothing."""
    try:
        case = _case_in(path)
    except UserError as error:
        return str(error).removeprefix(f"{path}: ")
    except Exception as error:  # whatever is in one file, the others are looked at
        return f"cannot be read: {type(error).__name__}: {error}"
    if case is None:
        return ""
    verdict = judge.verdict(case)
    if verdict.symptom in DEATHS - {Symptom.HANG}:
        # It may be what the cases before it left in the process: in a new one it is alone.
        verdict = judge.verdict(case)
    if verdict.pair is None:
        return ""
    detail = verdict.detail.partition("\n")[0]
    return f"fails on {judge.device}, between {verdict.pair.value}: {detail}"


def _case_in(path: Path) -> Case | None:
    """The case to judge; None for a collection of kernels. Raises `UserError` for a bad file."""
    data = read_json(path)
    if collection.is_collection(data):
        collection.kernels_from_json(data)
        return None
    case = record_from_json(data).case
    if not is_present(data):
        raise UserError(
            "is of an older version: `tinyref fuzz corpus migrate` brings it up to date"
        )
    wanted = hash_in_name(path)
    if wanted is not None and wanted != content_hash(case):
        raise UserError(f"its name says {wanted}, its content is {content_hash(case)}")
    return case


def migrate_folder(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Rewrites the files of older versions in place; gives the old and the new path of each.

    A file with the hash of its content in its name gets a new name where the hash is another one.
    Each file is there whole at every time. Raises `UserError` for the first that cannot be read.
    """
    for path in files_of(folder):
        data = read_json(path)
        if collection.is_collection(data) or is_present(data):
            continue
        try:
            record = record_from_json(data)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        target = path
        wanted = hash_in_name(path)
        if wanted is not None:
            target = path.with_name(path.name.replace(wanted, content_hash(record.case)))
        save_record(target, record)
        if target != path:
            os.unlink(path)
        yield path, target
